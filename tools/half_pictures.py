#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far half precision is from float32 on real pictures: at most one 8-bit level and 0.02 dB, or the exit status is 1.

half_pictures.py ZENITH MODEL PRECISION SIDE PICTURE...     MODEL: a denoiser, or FILE of a tiny autoencoder
Each picture is cut to SIDE x SIDE pixels in its middle; a denoiser gets noise of 10, 25 or 50."""
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image


def run(zenith, model, precision, x, sigma, folder):
    def one(name, inputs, outputs, extra):
        files = [f"{folder}/{inputs}.npy", f"{folder}/{outputs}.npy"]
        subprocess.run([zenith, "run", name, "--set", f"precision={precision}", "--in", f"{inputs[0]}={files[0]}", "--out",
                        f"{outputs[0]}={files[1]}", *extra], check=True, stdout=subprocess.DEVNULL)
        return np.load(files[1])

    np.save(f"{folder}/x.npy", x)
    if model.startswith("denoise-"):
        return one(model, "x", "y", ["--set", f"sigma={sigma}"])
    one("taesd-encode", "x", "z", ["--weights", model])
    return one("taesd-decode", "z", "x2", ["--weights", model])


def main():
    zenith, model, precision, side, files = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]
    worst = loss = 0
    with tempfile.TemporaryDirectory() as folder:
        for i, file in enumerate(files):
            picture = Image.open(file).convert("RGB")
            left, top = (picture.width - side) // 2, (picture.height - side) // 2
            clean = np.asarray(picture.crop((left, top, left + side, top + side)), np.float32) / 255
            sigma = (10, 25, 50)[i % 3]
            noise = np.random.default_rng(i).normal(0, sigma / 255, clean.shape).astype(np.float32)
            x = np.clip(clean + noise, 0, 1) if model.startswith("denoise-") else clean
            full, half = (run(zenith, model, p, x, sigma, folder) for p in ("fp32", precision))
            psnr = [-10 * np.log10(np.mean((y - clean) ** 2)) for y in (full, half)]
            worst, loss = max(worst, 255 * np.abs(full - half).max()), max(loss, abs(psnr[0] - psnr[1]))
    print(f"{model}, {precision}, {len(files)} pictures: {worst:.3f} levels, {loss:.4f} dB")
    return int(worst > 1 or loss > 0.02)


if __name__ == "__main__":
    sys.exit(main())
