#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Zenith's CUDA engine compared with PyTorch on one GPU, in one run.

    tools/bench_gpu.py ZENITH [--quick]

Prints a table: what the chip does at best (a copy, a large matrix product), TAESD with 4 latent channels at 512x512
(random weights) in PyTorch (eager, CUDA graph, torch.compile; channels_last, fp16) and here in every precision,
then our own networks.  Times are device times, without transfers, unless "in all" is given.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from golden import decoder, encoder  # noqa: E402
from gpu_time import graph, median_ms  # noqa: E402


def ceilings():
    a = torch.randn(1 << 29, device="cuda")
    b = torch.empty_like(a)
    ms = median_ms(lambda: b.copy_(a), 20)
    print(f"copy of 2 GiB: {2 * a.numel() * 4 / ms / 1e9:.2f} TB/s")
    del a, b
    for n in (4096, 8192):
        a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
        ms = median_ms(lambda: a @ b, 20)
        print(f"PyTorch matrix product {n}^3 fp16: {2 * n ** 3 / ms / 1e9:.0f} TFLOP/s")
    x = torch.randn(1, 128, 256, 256, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last)
    conv = torch.nn.Conv2d(128, 128, 3, padding=1).cuda().half().to(memory_format=torch.channels_last)
    with torch.no_grad():
        ms = median_ms(graph(lambda: conv(x)))
    print(f"PyTorch conv 3x3 128>128 @256x256 fp16: {2 * 256 * 256 * 128 * 128 * 9 / ms / 1e9:.0f} TFLOP/s")


def to_gpu(net, type_=torch.float16):
    return net.cuda().to(type_).to(memory_format=torch.channels_last)


def eager(net, x):
    """Milliseconds of a network and its input that are on the GPU: eager, and as a CUDA graph."""
    with torch.no_grad():
        return {"eager": median_ms(lambda: net(x)), "graph": median_ms(graph(lambda: net(x)))}


def compiled(net, x):
    with torch.no_grad():
        fast = torch.compile(net, mode="max-autotune")
        return {"compiled": median_ms(lambda: fast(x))}


def ours(zenith, model, size, precision, *more, engine="cuda", timeout=None):
    out = subprocess.run([zenith, "bench", model, "--engine", engine, "--size", size, "--set", f"precision={precision}",
                          "--json", *more], capture_output=True, text=True, timeout=timeout)
    if out.returncode:
        print(f"  {model} {precision}: {out.stderr.strip()}")
        return None
    return json.loads(out.stdout)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("zenith")
    p.add_argument("--quick", action="store_true", help="without torch.compile")
    a = p.parse_args()
    torch.backends.cudnn.benchmark = True
    ceilings()
    for half, build, shape in (("encode", encoder, (1, 3, 512, 512)), ("decode", decoder, (1, 4, 64, 64))):
        torch.manual_seed(0)
        net = build(4, 64)
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "taesd.safetensors")
            save_file({k: v.contiguous() for k, v in net.state_dict().items()}, path)
            print(f"taesd-{half} 512x512")
            net, x = to_gpu(net).eval(), to_gpu(torch.rand(shape))
            found = {**eager(net, x), **({} if a.quick else compiled(net, x))}
            best = min(found.values())
            for k, v in found.items():
                print(f"  PyTorch {k:10} fp16 {v:8.3f} ms")
            for precision in ("fp8", "fp16", "bf16", "tf32", "fp32"):  # fp8: TAESD's 64 channels stay fp16
                r = ours(a.zenith, f"taesd-{half}", "512x512", precision, "--weights", path)
                if r:
                    print(f"  Zenith             {precision} {r['device_ms']:8.3f} ms {best / r['device_ms']:6.2f}x PyTorch's best"
                          f" {r['gflops'] / 1e3:8.1f} TFLOP/s, {100 * r['gflops'] / r['peak_gflops']:.0f} % of the FMA or mma.sync peak"
                          f"; in all {r['ms']:.2f} ms")
    for model, size in (("denoise-fast", "6000x4000"), ("denoise-balanced", "6000x4000"), ("denoise-best", "6000x4000"),
                        ("denoise-balanced", "1024x1024"),
                        ("zenith-lite-encode", "512x512"), ("zenith-lite-decode", "512x512"),
                        ("zenith-taesd-decode", "512x512"), ("zenith-spectral-decode", "512x512"),
                        ("vanilla-taesd-decode", "512x512"), ("conv-baseline-ae", "2048x2048")):
        for precision in ("fp8", "fp16", "fp32"):
            r = ours(a.zenith, model, size, precision)
            if r:
                print(f"{model} {size} {precision}: device {r['device_ms']:.3f} ms, in all {r['ms']:.2f} ms, "
                      f"{r['gflops'] / 1e3:.1f} TFLOP/s")


if __name__ == "__main__":
    main()
