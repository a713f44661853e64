#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tiles change in the large autoencoders (docs/speed/cpu.md): the result in tiles compared with that in one piece;
seams, time, memory.

    tools/vae_tiles.py HALF WxH [--width N] [--memory MIB] [--alone] [--gegl] [--zenith PROGRAM]

HALF is encode or decode, of Wan 2.1 (vae_nets.py), WxH the picture. The weights are random, the layout is the published one;
--width is the first level's width where it is not the published 96. --memory is ZENITH_MEMORY of the run in tiles. Of the
difference between the two, a line shows where steps between neighbouring columns (rows) have a mean over the whole height
(width) that is larger than that of the other columns of the same place in a latent pixel: "step" is the largest such mean
over their median (roundings that a norm has amplified in one pixel make one, too: look whether the column is a tile's edge).
--alone leaves the run in one piece out, and looks for steps in the result itself. --gegl runs the tiles as
zenith:latent-decode (with GEGL_PATH and what else it needs set).
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import vae_nets

ROOT = Path(__file__).resolve().parent.parent
CHANNELS, FACTOR = 16, 8  # of the latent
PLANE = 8  # rows above and below a plane of a latent (docs/latent.md)


def smooth(shape, seed):
    """Noise of several scales: something of every frequency, as pictures have."""
    g = torch.Generator().manual_seed(seed)
    h, w, c = shape
    parts = [torch.nn.functional.interpolate(torch.randn(1, c, -(-h // s) + 1, -(-w // s) + 1, generator=g), size=(h, w), mode="bilinear")
             for s in (1, 4, 16, 64)]
    x = sum(parts)[0].permute(1, 2, 0)
    return (x / x.std()).contiguous().numpy()


def srgb(x):
    """Of linear light: gegl:npy-save writes that, and gegl:tiff-load takes a grey file without a profile for sRGB."""
    return np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 0.0031308) ** (1 / 2.4) - 0.055).astype(np.float32)


def timed(command, memory):
    env = {**os.environ, **({"ZENITH_MEMORY": str(memory)} if memory else {})}
    r = subprocess.run(["/usr/bin/time", "-f", "%e %U %M", *command], env=env, capture_output=True, text=True)
    if r.returncode:
        sys.exit(r.stderr.strip())
    wall, cpu, kib = r.stderr.split()[-3:]
    return f"{float(wall):.0f} s, {float(cpu):.0f} s of CPU time, {int(kib) >> 10} MiB"


def step(d, factor):
    """The largest mean step between columns and rows, over the median of those of the same place in a latent pixel."""
    worst, place = 0, ""
    for axis, name in ((1, "column"), (0, "row")):
        n = d.shape[axis]
        mean = np.array([np.abs(d.take(i, axis) - d.take(i - 1, axis)).mean() for i in range(1, n)])
        for k in range(factor):
            of = mean[(k - 1) % factor::factor]  # of[i]: between column i factor + k - 1 and the next
            ratio = of / max(np.median(of), 1e-30)
            ratio[[0, -1]] = 0  # the edges of the picture
            if ratio.max() > worst:
                worst, place = ratio.max(), f"{name} {int(ratio.argmax()) * factor + (k or factor)}"
    return f"{worst:.2f} ({place})"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("half", choices=("encode", "decode"))
    p.add_argument("size")
    p.add_argument("--width", type=int)
    p.add_argument("--memory", type=int, default=1024)
    p.add_argument("--alone", action="store_true")
    p.add_argument("--gegl", action="store_true")
    p.add_argument("--zenith", default=str(ROOT / "build" / "engine" / "zenith"))
    a = p.parse_args()
    w, h = map(int, a.size.split("x"))
    torch.manual_seed(1)
    net, model = vae_nets.Wan(dim=a.width or 96), "wan-vae"
    decode = a.half == "decode"
    if a.gegl and not decode:
        p.error("--gegl: only decode")
    i, o = ("z", "x") if decode else ("x", "z")
    x = smooth((h // FACTOR, w // FACTOR, CHANNELS), 2) if decode else np.clip(0.4 * smooth((h, w, 3), 2), -1, 1)
    with tempfile.TemporaryDirectory() as d:
        d = Path(d)
        with torch.no_grad():
            for k, v in net.named_parameters():
                if k.endswith("gamma") or ("norm" in k and k.endswith("weight")):
                    v.copy_(1 + 0.1 * torch.randn_like(v))
        save_file({k: v.contiguous() for k, v in net.state_dict().items()}, d / "w.safetensors")
        np.save(d / "in.npy", x)
        run = [a.zenith, "run", f"{model}-{a.half}", "--weights", str(d / "w.safetensors"), "--in", f"{i}={d / 'in.npy'}"]
        tiled = [*run, "--out", f"{o}={d / 'tiled.npy'}"]
        if a.gegl:
            from PIL import Image

            planes = np.pad(x, ((PLANE, PLANE), (0, 0), (0, 0)), mode="edge").transpose(2, 0, 1).reshape(-1, x.shape[1])
            Image.fromarray(srgb(planes)).save(d / "planes.tif")
            tiled = ["gegl", str(d / "planes.tif"), "-o", str(d / "tiled.npy"), "--", "zenith:latent-decode", "planes=true",
                     f"weights={d / 'w.safetensors'}"]
        print(f"{model}-{a.half} {a.size}, width {a.width or 'as published'}", flush=True)
        print(f"tiles, ZENITH_MEMORY={a.memory}: {timed(tiled, a.memory)}", flush=True)
        got = np.load(d / "tiled.npy")
        got = srgb(got) if a.gegl else got
        print(f"step of the result {step(got, FACTOR if decode else 1)}", flush=True)
        if not a.alone:
            print(f"one piece: {timed([*run, '--out', str(o) + '=' + str(d / 'whole.npy')], 64 << 10)}", flush=True)
            want = np.load(d / "whole.npy")
            want = want / 2 + 0.5 if a.gegl else want
            off = got - want
            spread = want.std()
            print(f"difference: relative {np.linalg.norm(off) / np.linalg.norm(want - want.mean()):.1e}, largest {np.abs(off).max() / spread:.1e} "
                  f"deviations; step {step(off, FACTOR if decode else 1)}")


if __name__ == "__main__":
    main()
