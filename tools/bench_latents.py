#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""CPU time of the small autoencoders compared with TAESD's, round trip of one picture: the table of docs/autoencoders.md.

    tools/bench_latents.py [ENCODER[:DECODER]...] [--size 512x512] [--rounds 5] [--threads 1,all] [--zenith PROGRAM]

ENCODER and DECODER are weight files; without one, those of models/.  TAESD (4 channels, random weights) is measured
with them. They alternate, and the minimum of all rounds counts: other processes only add to a time.  On a busy machine
compare CPU time; with several threads it is the sum of all, which wait for each other, so that wall time is shown, too.
"""
import argparse
import json
import subprocess

from quality_latents import ROOT, SHIPPED, Engine, pair_name


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pairs", nargs="*", metavar="ENCODER[:DECODER]")
    p.add_argument("--size", default="512x512")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", default="1,all")
    p.add_argument("--zenith", default=str(ROOT / "build" / "engine" / "zenith"))
    a = p.parse_args()
    engine = Engine(a.zenith, None)
    rows = {"TAESD": [("taesd", "random:"), ("taesd", "random:")]}
    for pair in a.pairs or SHIPPED:
        first, _, second = pair.partition(":")
        rows[pair_name(pair)] = [(engine.family(f), f) for f in (first, second or first)]
    for threads in a.threads.split(","):
        found = {name: [[], []] for name in rows}
        for _ in range(a.rounds):
            for name, halves in rows.items():
                for k, (family, path) in enumerate(halves):
                    said = subprocess.run([a.zenith, "bench", f"{family}-{('encode', 'decode')[k]}", "--weights", path, "--size", a.size,
                                           "--json", *(["--threads", threads] if threads != "all" else [])],
                                          check=True, capture_output=True, text=True).stdout
                    found[name][k].append(json.loads(said))
        least = {name: [[min(r[key] for r in half) for half in halves] for key in ("cpu_ms", "least_ms")] for name, halves in found.items()}
        base = [sum(v) for v in least["TAESD"]]
        print(f"\n| {found['TAESD'][0][0]['threads']} threads, {a.size} | CPU time, ms | times TAESD | wall time, ms | times TAESD |\n|---|---|---|---|---|")
        for name, (cpu, wall) in least.items():
            print(f"| {name} | {cpu[0]:.0f} + {cpu[1]:.0f} | {base[0] / sum(cpu):.2f} | {wall[0]:.0f} + {wall[1]:.0f} | "
                  f"{base[1] / sum(wall):.2f} |", flush=True)


if __name__ == "__main__":
    main()
