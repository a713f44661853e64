#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes docs/photos.md: real photographs before and after zenith:denoise, at 100 %.

    tools/photos_page.py --clones DIR [--model balanced] [--zenith PROGRAM]

photos_page.tsv lists the pictures: where each comes from, its licence, camera and ISO, the place of the crop, what is to be seen.  DIR has
git clones as training/photos.py wants them.  The denoiser has its default settings and measures the noise itself, in the crop and
MARGIN pixels around it.
"""
import argparse
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "training"))
import photos

SIDE, MARGIN, GAP = 320, 160, 8
HEAD = """# Real photographs

Crops of {count} photographs at 100 %, before (left) and after (right) `zenith:denoise` with its default settings (denoise-{model}, level
measured). They are JPEG files as their authors published them, including any smoothing, sharpening and compression by the camera or the raw
developer. Made by `tools/photos_page.py`; the originals are in the repositories that its list names. Crops have the licence of their original.
"""


def denoised(picture, model, program, folder):
    x, y = Path(folder) / "x.npy", Path(folder) / "y.npy"
    np.save(x, picture.astype(np.float32) / 255)
    subprocess.run([program, "run", f"denoise-{model}", "--in", f"x={x}", "--out", f"y={y}"], check=True, stderr=subprocess.DEVNULL)
    return np.uint8(np.rint(np.clip(np.load(y), 0, 1) * 255))


def both(picture, x, y, run):
    """The crop at x, y, before and after, side by side."""
    top, left = max(0, y - MARGIN), max(0, x - MARGIN)
    part = picture[top:y + SIDE + MARGIN, left:x + SIDE + MARGIN]
    cut = lambda v: v[y - top:y - top + SIDE, x - left:x - left + SIDE]
    return np.concatenate([cut(part), np.full((SIDE, GAP, 3), 255, np.uint8), cut(run(part))], 1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clones", type=Path, required=True)
    p.add_argument("--model", default="balanced", choices=["fast", "balanced", "best"])
    p.add_argument("--zenith", default=str(ROOT / "build" / "engine" / "zenith"), help="the engine's program")
    p.add_argument("--out", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    images = a.out / "images" / "photos"
    images.mkdir(parents=True, exist_ok=True)
    rows = photos.rows(Path(__file__).with_suffix(".tsv"))
    text = [HEAD.format(count=len(rows), model=a.model)]
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            blob = photos.original(row["origin"], a.clones, None)
            if not blob:
                sys.exit(f"not found: {row['origin']}")
            picture = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(blob))).convert("RGB"))
            x, y = map(int, row["place"].split(","))
            made = both(picture, x, y, lambda v: denoised(v, a.model, a.zenith, folder))
            Image.fromarray(made).save(images / f"{row['name']}.jpg", quality=92, subsampling=0, optimize=True)
            text.append(f"## {row['title']}\n\n![before and after](images/photos/{row['name']}.jpg)\n\n{row['seen']}\n\n"
                        f"*{row['author']}, {row['licence']}; {row['camera']}; {row['origin'].split(' (blob')[0]}*\n")
    (a.out / "photos.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
