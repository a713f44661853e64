#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What autoencoders keep of pictures, through the C engine: PSNR, SSIM, 8-bit storage, statistics of the latents.

    tools/quality_latents.py FOLDER [ENCODER[:DECODER]...] [--zenith PROGRAM] [--worst FILE.png] [--every N]

`./run bench latents` calls it.  FOLDER holds the pictures (Kodak24).  ENCODER and DECODER are weight files; without the second the first
has both halves; without any, those of models/ are taken.  Output is clamped to 0..1.  SSIM: mean over windows of an 11x11 Gaussian of deviation 1.5 and over the channels, as Wang et al. 2004.
"8 bits": PSNR with the latent stored as round(255 (z / 6 + 0.5)), clamped.  --worst writes the picture that each loses most of, and
what is left of it, side by side; --every N takes every N-th picture.
"""
import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = [str(ROOT / "models" / f"{name}.safetensors") for name in ("zenith", "zenith-lite", "zenith-tae", "zenith-f2")]


def psnr(a, b):
    return -10 * np.log10(np.mean((a - b) ** 2))


def blur(x, taps):
    """Gaussian window of both axes, only where it fits."""
    for axis in (0, 1):
        n = x.shape[axis] - len(taps) + 1
        x = sum(t * x.take(range(i, i + n), axis) for i, t in enumerate(taps))
    return x


def ssim(a, b):
    taps = np.exp(-0.5 * ((np.arange(11) - 5) / 1.5) ** 2)
    taps /= taps.sum()
    ma, mb = blur(a, taps), blur(b, taps)
    va, vb, cov = blur(a * a, taps) - ma ** 2, blur(b * b, taps) - mb ** 2, blur(a * b, taps) - ma * mb
    c1, c2 = 0.01 ** 2, 0.03 ** 2
    return np.mean((2 * ma * mb + c1) * (2 * cov + c2) / ((ma ** 2 + mb ** 2 + c1) * (va + vb + c2)))


def pair_name(pair):
    return " > ".join(Path(f).stem for f in pair.split(":"))


class Engine:
    def __init__(self, program, folder):
        self.program, self.folder, self.ids = program, folder, {}

    def family(self, path):
        if path not in self.ids:
            said = subprocess.run([self.program, "info", path], check=True, capture_output=True, text=True).stdout
            self.ids[path] = said.strip().splitlines()[-1].rsplit("(", 1)[1].rstrip(")").rsplit("-", 1)[0]
        return self.ids[path]

    def run(self, half, path, array):
        i, o = ("x", "z") if half == "encode" else ("z", "x")
        np.save(self.folder / "in.npy", array.astype(np.float32))
        subprocess.run([self.program, "run", f"{self.family(path)}-{half}", "--weights", path, "--in", f"{i}={self.folder / 'in.npy'}",
                        "--out", f"{o}={self.folder / 'out.npy'}"], check=True, capture_output=True)
        return np.load(self.folder / "out.npy").astype(float)


def round_trip(engine, encoder, decoder, x):
    """(latent, picture, function that decodes other latents) of a picture x, whose sides are mirrored to multiples of 8."""
    h, w = x.shape[:2]
    z = engine.run("encode", encoder, np.pad(x, ((0, -h % 8), (0, -w % 8), (0, 0)), mode="reflect"))
    decode = lambda v: np.clip(engine.run("decode", decoder or encoder, v)[:h, :w], 0, 1)
    return z, decode(z), decode


def measure(engine, pair, pictures):
    encoder, _, decoder = pair.partition(":")
    rows, z_all = [], []
    for path in pictures:
        x = np.asarray(Image.open(path).convert("RGB"), float) / 255
        z, y, decode = round_trip(engine, encoder, decoder, x)
        stored = (np.round(255 * np.clip(z / 6 + 0.5, 0, 1)) / 255 - 0.5) * 6
        rows.append((psnr(y, x), ssim(y, x), psnr(decode(stored), x), path, x, y))
        z_all.append(z.reshape(-1, z.shape[-1]))
    z = np.concatenate(z_all)
    return rows, z


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("pairs", nargs="*", metavar="ENCODER[:DECODER]")
    p.add_argument("--zenith", default=str(ROOT / "build" / "engine" / "zenith"))
    p.add_argument("--worst")
    p.add_argument("--every", type=int, default=1)
    a = p.parse_args()
    pictures = sorted(Path(a.folder).glob("*.png"))[::a.every]
    if not pictures:
        raise SystemExit(f"there is no PNG picture in {a.folder}")
    strips = []
    print("| encoder > decoder | PSNR | SSIM | 8 bits | worst | latent mean, deviation, least and most of a channel | over 3 |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as tmp:
        engine = Engine(a.zenith, Path(tmp))
        for pair in a.pairs or SHIPPED:
            rows, z = measure(engine, pair, pictures)
            mean = lambda k: np.mean([r[k] for r in rows])
            worst = min(rows, key=lambda r: r[0])
            dev = z.std(0)
            print(f"| {pair_name(pair)} | {mean(0):.2f} | {mean(1):.4f} | {mean(2):.2f} | {worst[3].stem} {worst[0]:.2f} | "
                  f"{z.mean():.2f}, {z.std():.2f}, {dev.min():.2f}, {dev.max():.2f} | {100 * np.mean(abs(z) > 3):.2f} % |", flush=True)
            strips.append(np.concatenate([worst[4], worst[5]], 1))
    if a.worst:
        Image.fromarray((255 * np.concatenate(strips) + 0.5).astype(np.uint8)).save(a.worst)


if __name__ == "__main__":
    main()
