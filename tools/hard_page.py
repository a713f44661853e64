#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes docs/images/hard.jpg: ten hard cases at 100 %: strong noise added, denoised, with detail 0.5, the original.

    tools/hard_page.py --photos DIR [--model balanced] [--zenith PROGRAM]

DIR has the photographs of training/photos.py; a case that is not there is left out.  Noise is white, clipped in 8 bits; its level is
measured.
"""
import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
W, H, GAP = 240, 150, 4
# file, centre of the crop as shares of the width and height, noise of 255, at two thirds of the size
CASES = [("budgie-011.jpg", 0.62, 0.42, 25), ("budgie-035.jpg", 0.30, 0.25, 25), ("budgie-043.jpg", 0.45, 0.50, 50),
         ("budgie-075.jpg", 0.30, 0.55, 25), ("budgie-107.jpg", 0.72, 0.40, 50), ("budgie-139.jpg", 0.25, 0.50, 25),
         ("budgie-019.jpg", 0.35, 0.60, 50), ("budgie-131.jpg", 0.50, 0.50, 35), (ROOT / "docs/samples/astronaut.png", 0.42, 0.22, 35),
         (ROOT / "docs/samples/chelsea.png", 0.55, 0.45, 35)]


def crop_of(file, x, y):
    p = Image.open(file).convert("RGB")
    p = p.resize((p.width * 2 // 3, p.height * 2 // 3), Image.LANCZOS)
    left, top = (int(min(max(at * size - want / 2, 0), size - want)) for at, size, want in ((x, p.width, W), (y, p.height, H)))
    return np.asarray(p.crop((left, top, left + W, top + H)))


def denoised(noisy, a, folder, *settings):
    x, y = Path(folder) / "x.png", Path(folder) / "y.png"
    Image.fromarray(noisy).save(x)
    sets = [v for s in (f"model={a.model}", *settings) for v in ("--set", s)]
    subprocess.run([a.zenith, "denoise", x, y, *sets], check=True, env={"ZENITH_MODELS": str(ROOT / "models"), **os.environ})
    return np.asarray(Image.open(y).convert("RGB"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--photos", type=Path, required=True)
    p.add_argument("--model", default="balanced", choices=["fast", "balanced", "best"])
    p.add_argument("--zenith", default=str(ROOT / "build" / "engine" / "zenith"), help="the engine's program")
    p.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "hard.jpg")
    a = p.parse_args()
    rng, rows = np.random.default_rng(1), []
    with tempfile.TemporaryDirectory() as folder:
        for file, x, y, sigma in CASES:
            if not (a.photos / file).exists():
                continue
            clean = crop_of(a.photos / file, x, y)
            noisy = np.uint8(np.clip(np.rint(clean + sigma * rng.standard_normal(clean.shape)), 0, 255))
            parts = [noisy, denoised(noisy, a, folder), denoised(noisy, a, folder, "detail=0.5"), clean]
            white = np.full((H, GAP, 3), 255, np.uint8)
            rows += [np.concatenate([v for part in parts for v in (part, white)][:-1], 1)]
    white = np.full((GAP, rows[0].shape[1], 3), 255, np.uint8)
    page = np.concatenate([v for row in rows for v in (row, white)][:-1])
    Image.fromarray(page).save(a.out, quality=88, optimize=True)


if __name__ == "__main__":
    main()
