#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PSNR of zenith:denoise beside what GIMP users have: GEGL's own filters and, where `gmic` is installed, G'MIC.

    tools/quality_peers.py PICTURES [--sigma 15,25,50] [--every 3] [--only gegl]

Every picture becomes an 8-bit PNG with white Gaussian noise, clipped as a file clips it (seeds are fixed); every filter makes a
PNG of it.  Filters that are told no noise level run with several settings, and the one that is best in the mean is shown: more than a
user finds.  Those that take a level get the true one and some multiples of it, likewise; ours gets the true one, and "measured" gets none.
Seconds are of one call, start and files included.  `./run gegl` is used for all of GEGL, so that both run in the same version.
"""
import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent


def gegl(operation, *settings):
    """Commands for one level: a list for each setting to try."""
    def commands(sigma, source, target):
        return [[str(ROOT / "run"), "gegl", source, "-o", target, "--", operation, *s(sigma)] for s in settings]
    return commands


def gmic(command, *settings):
    def commands(sigma, source, target):
        return [["gmic", "v", "-", source, command, s(sigma), "round", "cut", "0,255", "o", target] for s in settings]
    return commands


def times(*factors):
    return [lambda sigma, f=f: f"{f * sigma:g}" for f in factors]


FILTERS = {
    "GIMP, Noise Reduction": gegl("gegl:noise-reduction", *(lambda s, n=n: [f"iterations={n}"] for n in (1, 2, 4, 6, 8, 12, 16))),
    "GEGL, denoise-dct": gegl("gegl:denoise-dct", *(lambda s, v=v: [f"sigma={v(s)}"] for v in times(0.7, 1, 1.4))),
    "G'MIC, denoise": gmic("denoise", *(lambda s, v=v: f"10,{v(s)},5,6" for v in times(0.7, 1, 1.4, 2))),
    "G'MIC, denoise_patchpca": gmic("denoise_patchpca", *(lambda s, v=v: v for v in ("1.3", "1.6", "2"))),   # finds the level itself
    "zenith:denoise, fast": gegl("zenith:denoise", lambda s: ["model=fast", f"sigma={s}"]),
    "zenith:denoise, balanced": gegl("zenith:denoise", lambda s: ["model=balanced", f"sigma={s}"]),
    "zenith:denoise, balanced, measured": gegl("zenith:denoise", lambda s: ["model=balanced"]),
    "zenith:denoise, best": gegl("zenith:denoise", lambda s: ["model=best", f"sigma={s}"]),
}


def psnr(a, b):
    return -10 * np.log10(np.mean((a / 255.0 - b / 255.0) ** 2))


def read(path):
    return np.asarray(Image.open(path).convert("RGB"), float)


def score(commands, sigma, pictures, folder):
    """(PSNR, seconds) in the mean, of the best setting; None where the filter does not run."""
    target, rows = str(folder / "y.png"), []
    for clean, source in pictures:
        row = []
        for command in commands(sigma, str(source), target):
            Path(target).unlink(missing_ok=True)
            began = time.time()
            try:
                subprocess.run(command, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                return None
            row.append((psnr(read(target), clean), time.time() - began))
        rows.append(row)
    return max(map(tuple, np.mean(rows, 0)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pictures")
    p.add_argument("--sigma", default="15,25,50")
    p.add_argument("--every", type=int, default=1, help="every n-th picture")
    p.add_argument("--only", default="", help="filters whose name holds this")
    a = p.parse_args()
    sigmas = [int(s) for s in a.sigma.split(",")]
    files = sorted(f for f in Path(a.pictures).iterdir() if f.suffix in (".png", ".jpg", ".tif"))[::a.every]
    if not files:
        sys.exit(f"no pictures in {a.pictures}")
    print("| | " + " | ".join(map(str, sigmas)) + f" | seconds, {len(files)} pictures |\n|---|" + "---|" * (len(sigmas) + 1))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        sets = []
        for s in sigmas:
            pictures = []
            for i, f in enumerate(files):
                clean, source = read(f), folder / f"{s}-{i}.png"
                noise = np.random.default_rng([s, i]).standard_normal(clean.shape)
                Image.fromarray(np.uint8(np.clip(np.rint(clean + s * noise), 0, 255))).save(source)
                pictures.append((clean, source))
            sets.append(pictures)
        print("| noisy | " + " | ".join(f"{np.mean([psnr(read(f), c) for c, f in x]):.2f}" for x in sets) + " | |", flush=True)
        for name, commands in FILTERS.items():
            if a.only not in name:
                continue
            found = [score(commands, s, x, folder) for s, x in zip(sigmas, sets)]
            if None in found:
                print(f"| {name} | does not run here |", flush=True)
            else:
                print(f"| {name} | " + " | ".join(f"{v[0]:.2f}" for v in found) + f" | {np.mean([v[1] for v in found]):.1f} |", flush=True)


if __name__ == "__main__":
    main()
