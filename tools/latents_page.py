#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes docs/latent-limits.md: what the shipped autoencoders lose most of, at 100 %.

    tools/latents_page.py --skimage FOLDER [--zenith PROGRAM] [--out docs]

FOLDER is skimage/data of Debian's package python3-skimage (0.19.3): `apt-get download python3-skimage`, then `dpkg-deb
-x`.  For each picture below, the page shows the square of SIDE pixels with the largest loss of `zenith`, in dB; the
pictures come in that order. """
import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from quality_latents import ROOT, Engine, psnr, round_trip, ssim

SIDE, STEP, GAP, SHOWN = 160, 16, 6, 7
NAMES = ("zenith", "zenith-lite", "zenith-tae")
FILES = [str(ROOT / "models" / f"{name}.safetensors") for name in NAMES]
PICTURES = {  # name: (file, licence, what is seen)
    "text": ("text.png", "public domain", ""),
    "gravel": ("gravel.png", "CC0", "Stones keep their outlines; the grain of their surfaces is lost."),
    "grass": ("grass.png", "CC0", "Thin crossing blades: the fine ones merge into broader ones."),
    "brick": ("brick.png", "CC0", ""),
    "camera": ("camera.png", "CC0, by Lav Varshney", "Grass far away, almost noise: weaker, and with a wavy pattern that was not there. The tripod's leg stays sharp."),
    "screenshot": ("gimp.png", "part of a screenshot", "Small symbols on white, a list of brushes in GIMP: spots of one pixel fade, fine grids change their pattern, thin crosses are smeared and get coloured edges."),
    "astronaut": ("astronaut.png", "public domain, NASA", "Small text: letters of 6 pixels on the badge can no longer be read."),
    "chelsea": ("chelsea.png", "CC0, by Stéfan van der Walt", ""),
    "coffee": ("coffee.png", "CC0, by Rachel Michetti", "The grain of wood: its lines stay, the finest of them are lost or joined."),
    "clock": ("clock_motion.png", "public domain, by Stéfan van der Walt", ""),
    "rocket": ("rocket.jpg", "public domain, SpaceX", "A regular grid: struts of one pixel become fainter and break up, thicker ones stay."),
    "hubble": ("hubble_deep_field.jpg", "public domain, NASA", ""),
}
HEAD = """# What the small autoencoders lose

`zenith`, `zenith-lite` and `zenith-tae` store 16 values for every square of 8x8 pixels, which has 192. Small text, fine
texture and grids of one pixel do not fit. These are the squares that `zenith` reproduces worst, of {count} pictures that none of
the three was trained on, at 100 %: the original, `zenith`, `zenith-lite`, `zenith-tae`. Made by `tools/latents_page.py`; the
mean over Kodak24 is in [its card](../models/zenith.md).

| picture | zenith: dB, SSIM | zenith-lite | zenith-tae | its worst square, zenith: dB |
|---|---|---|---|---|
"""
SOURCES = """
## Where the pictures come from

`screenshot` is `docs/images/latents/gimp.png`; all others are from Debian's package `python3-skimage` (0.19.3), folder `skimage/data`, which states their licences: {list}.
"""


def squares(x, y):
    """(dB, left, top) of the square with the largest error."""
    worst = (np.inf, 0, 0)
    for top in range(0, x.shape[0] - SIDE + 1, STEP):
        for left in range(0, x.shape[1] - SIDE + 1, STEP):
            cut = np.s_[top:top + SIDE, left:left + SIDE]
            worst = min(worst, (psnr(y[cut], x[cut]), left, top))
    return worst


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--skimage", type=Path, required=True)
    p.add_argument("--zenith", default=str(ROOT / "build" / "engine" / "zenith"))
    p.add_argument("--out", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    images = a.out / "images" / "latents"
    images.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory() as tmp:
        engine = Engine(a.zenith, Path(tmp))
        for name, (file, _, _) in PICTURES.items():
            path = ROOT / "docs" / "images" / "latents" / file if name == "screenshot" else a.skimage / file
            x = np.asarray(Image.open(path).convert("RGB"), float) / 255
            made = [round_trip(engine, f, "", x)[1] for f in FILES]
            rows.append((squares(x, made[0]), name, x, made))
            print(name, rows[-1][0], flush=True)
    rows.sort(key=lambda r: r[0])
    text = [HEAD.format(count=len(rows))]
    for (db, _, _), name, x, made in rows:
        text.append(f"| {name} | " + " | ".join(f"{psnr(y, x):.2f}, {ssim(y, x):.3f}" for y in made) + f" | {db:.2f} |\n")
    for (db, left, top), name, x, made in rows[:SHOWN]:
        cut = np.s_[top:top + SIDE, left:left + SIDE]
        sheet = []
        for v in (x, *made):
            sheet += [v[cut], np.ones((SIDE, GAP, 3))]
        Image.fromarray(np.uint8(np.rint(255 * np.concatenate(sheet[:-1], 1)))).save(images / f"{name}.webp", quality=90, method=6)
        text.append(f"\n## {name.capitalize()}\n\n![original, zenith, zenith-lite, zenith-tae](images/latents/{name}.webp)\n\n"
                    f"{PICTURES[name][2]}\n")
    text.append(SOURCES.format(list=", ".join(f"`{f}` {licence}" for n, (f, licence, _) in PICTURES.items() if n != "screenshot")))
    (a.out / "latent-limits.md").write_text("".join(text))


if __name__ == "__main__":
    main()
