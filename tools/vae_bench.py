#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The autoencoders of docs/vae.md beside PyTorch, in one run: errors, times, memory.

    tools/vae_bench.py ZENITH [--engine cuda] [--only NAME...] [--quick] [--size N]

Networks of the published sizes with random weights (vae_nets.py).  Errors are relative to PyTorch in fp32 (without TF32).
Times on a GPU are device times: PyTorch eager, as a CUDA graph and compiled (max-autotune), fp16 and channels_last; ours in
every precision.  Memory is what PyTorch's allocator had at most, with weights, in eager mode; ours is the bound
that a plan states plus the weights, and, seen from outside, by how much free memory fell while it ran (with the context of the
driver and the kernels).  With --engine cpu, or another name of a CPU engine: wall times with all threads, fp32.
The exit status is 1 if an error is larger than allowed: fp32 1e-4, fp16 and bf16 1e-2, or 1.5 times what PyTorch has in that
precision (random weights amplify roundings); fp8 and int8 are stated in dB."""
import argparse
import copy
import math
import os
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import torch
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import vae_nets  # noqa: E402

NETS = {  # name: class, id, latent channels, scale, (half, size)
    "wan21": (vae_nets.Wan, "wan-vae", 16, 8, (("decode", 512), ("encode", 512))),
    "wan2d": (vae_nets.Wan2d, "wan2d-vae", 4, 16, (("decode", 512), ("encode", 512), ("decode", 1024))),
    "flux": (vae_nets.Kl, "flux-ae", 16, 8, (("decode", 512), ("encode", 512), ("decode", 1024))),
}
MOST = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2, "bf16": 1e-2}


class Half(torch.nn.Module):
    """One half as a module: what is compiled."""

    def __init__(self, net, half):
        super().__init__()
        self.net, self.which = net, half      # a module has a method half()

    def forward(self, x):
        return getattr(self.net, self.which)(x)


class FreeMemory:
    """The least free memory of the GPU while something runs."""

    def __enter__(self):
        self.before = self.least = torch.cuda.mem_get_info()[0]
        self.done = False
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done:
            self.least = min(self.least, torch.cuda.mem_get_info()[0])
            time.sleep(0.001)

    def __exit__(self, *_):
        self.done = True
        self.thread.join()
        self.fell = self.before - self.least


def rounded(net, half, value, precision, want):
    """The error of PyTorch itself with weights of that type, or with all of it on a GPU."""
    type_ = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    if not type_:
        return 0
    net = copy.deepcopy(net)
    if torch.cuda.is_available():
        got = getattr(net.cuda().to(type_), half)(value.cuda().to(type_)).float().cpu()
    else:
        got = getattr(net.to(type_).float(), half)(value)
    return ((got[0].permute(1, 2, 0) - want).norm() / want.norm()).item()


def errors(a, path, id, half, value, want, net):
    """Runs ours in every precision; whether all are good."""
    good = True
    a_in, a_out = ("x", "z") if half == "encode" else ("z", "x")
    with tempfile.TemporaryDirectory() as d:
        np.save(f"{d}/in.npy", value[0].permute(1, 2, 0).contiguous().numpy())
        for p in a.precision:
            r = subprocess.run([a.zenith, "run", f"{id}-{half}", "--weights", path, "--engine", a.engine, "--set", f"precision={p}",
                                *(["--set", "scale=1"] if id == "flux-ae" else []), "--in", f"{a_in}={d}/in.npy", "--out", f"{a_out}={d}/out.npy"], capture_output=True, text=True)
            if r.returncode:
                print(f"  {p}: {r.stderr.strip()}")
                good = False
                continue
            e = torch.from_numpy(np.load(f"{d}/out.npy")) - want
            e = (e.norm() / want.norm()).item()
            theirs = rounded(net, half, value, p, want)
            bad = not e <= max(MOST.get(p, 1), 1.5 * theirs)
            good = good and not bad
            print(f"  {p:5} relative error {e:.1e}, {-20 * math.log10(max(e, 1e-30)):.1f} dB{' TOO LARGE' if bad else ''}"
                  f"{f', PyTorch {theirs:.1e}' if theirs else ''}{'; ' + r.stderr.strip() if r.stderr.strip() else ''}", flush=True)
    return good


def on_gpu(a, path, id, half, size, net, value, weights):
    from bench_gpu import ours, peers

    module = Half(net, half).cuda().half().to(memory_format=torch.channels_last).eval()
    x = value.cuda().half().to(memory_format=torch.channels_last)
    with torch.no_grad():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        module(x)
        torch.cuda.synchronize()
        theirs = torch.cuda.max_memory_allocated()
    try:
        found = peers(module, value, a.quick or size > 512)
    except Exception as e:  # torch.compile on a machine without a compiler
        print(f"  PyTorch: {str(e).splitlines()[0]}; without torch.compile:")
        found = peers(module, value, True)
    module.cpu().float()
    torch.cuda.empty_cache()
    for k, v in found.items():
        print(f"  PyTorch {k:10} fp16 {v:8.3f} ms", flush=True)
    best = min(found.values())
    for p in ("fp8", "fp16", "bf16", "fp32"):
        with FreeMemory() as m:
            r = ours(a.zenith, f"{id}-{half}", f"{size}x{size}", p, "--weights", path)
        if r:
            beside = f" {best / r['device_ms']:5.2f}x PyTorch's best" if p in ("fp8", "fp16") else ""
            beside += f" {found['compiled'] / r['device_ms']:5.2f}x compiled" if "compiled" in found and beside else ""
            bytes_ = r["peak_bytes"] + weights * (4 if p == "fp32" else 2)
            print(f"  Zenith             {p} {r['device_ms']:8.3f} ms{beside} {r['gflops'] / 1e3:7.1f} TFLOP/s; memory "
                  f"{bytes_ / 2**20:.0f} MiB planned with weights, free memory fell by {m.fell / 2**20:.0f}; PyTorch fp16 "
                  f"{theirs / 2**20:.0f}", flush=True)


def on_cpu(a, path, id, half, size, net, value):
    import json

    def median(f):
        f()
        times = []
        while len(times) < 3 or (sum(times) < 3 and len(times) < 30):
            start = time.perf_counter()
            f()
            times.append(time.perf_counter() - start)
        return 1e3 * sorted(times)[len(times) // 2]

    module = Half(net, half).eval()
    ours = json.loads(subprocess.run([a.zenith, "bench", f"{id}-{half}", "--engine", a.engine, "--size", f"{size}x{size}",
                                      "--weights", path, "--json", "--set", "precision=fp32"], check=True,
                                     capture_output=True, text=True).stdout)
    found = {}
    with torch.no_grad():
        found["NCHW"] = median(lambda: module(value))
        last = module.to(memory_format=torch.channels_last)
        found["channels_last"] = median(lambda: last(value.to(memory_format=torch.channels_last)))
        if not a.quick:
            try:
                fast = torch.compile(last)
                found["compiled"] = median(lambda: fast(value.to(memory_format=torch.channels_last)))
            except Exception as e:
                print(f"  PyTorch compiled: {str(e).splitlines()[0]}")
    best = min(found.values())
    print(f"  Zenith {ours['ms']:.0f} ms on {ours['threads']} threads, PyTorch on {torch.get_num_threads()}: "
          + ", ".join(f"{k} {v:.0f} ms" for k, v in found.items()) + f": {best / ours['ms']:.2f}x", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("zenith")
    p.add_argument("--engine", default="cuda")
    p.add_argument("--only", nargs="*", default=list(NETS), choices=list(NETS))
    p.add_argument("--precision", nargs="*")
    p.add_argument("--quick", action="store_true", help="without torch.compile")
    p.add_argument("--size", type=int, help="instead of 512 and 1024")
    p.add_argument("--no-errors", action="store_true")
    p.add_argument("--no-times", action="store_true")
    a = p.parse_args()
    gpu, good = a.engine == "cuda", True
    a.precision = a.precision or (["fp32", "tf32", "fp16", "bf16", "fp8"] if gpu else ["fp32", "fp16", "bf16", "int8"])
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for name in a.only:
        build, id, z, scale, parts = NETS[name]
        torch.manual_seed(1)
        net = build().eval()
        weights = sum(v.numel() for v in net.state_dict().values())
        with tempfile.TemporaryDirectory() as d, torch.no_grad():
            for k, v in net.named_parameters():
                if k.endswith("gamma") or ("norm" in k and k.endswith("weight")):
                    v.copy_(1 + 0.1 * torch.randn_like(v))
            path = f"{d}/w.safetensors"
            save_file({k: v.contiguous() for k, v in net.state_dict().items()}, path)
            for half, size in dict.fromkeys((h, a.size or s) for h, s in parts):
                g = torch.Generator().manual_seed(2)
                value = torch.rand(1, 3, size, size, generator=g) * 2 - 1 if half == "encode" else \
                    torch.randn(1, z, size // scale, size // scale, generator=g)
                print(f"{id}-{half} ({name}) {size}x{size}", flush=True)
                if not a.no_errors:
                    on = "cuda" if gpu else "cpu"
                    want = getattr(net.to(on), half)(value.to(on))[0].permute(1, 2, 0).cpu()
                    net.cpu()
                    good = errors(a, path, id, half, value, want, net) and good
                if not a.no_times and gpu:
                    on_gpu(a, path, id, half, size, build().eval(), value,
                           sum(v.numel() for k, v in net.state_dict().items() if half[:2] in k[:2]) or weights)
                elif not a.no_times:
                    on_cpu(a, path, id, half, size, net, value)
    sys.exit(not good)


if __name__ == "__main__":
    main()
