"""Edits of large faces at 100 %: pages of crops, and how fine a changed place is beside the skin around it.

    python large.py OUT PICTURE... --after ZENITH [--before ZENITH] [--edit "smile=1"]... [--least 400] [--most 40] [--jobs 2]

ZENITH: built programs, of the state to look at and of one to compare with; ZENITH_MODELS: their weights. Each edit is made of each of --most portraits
whose largest face has a frame of at least --least pixels; OUT gets page-N.jpg, a line for each portrait and one of the edits in turn: photograph, before,
after, at 100 % around the place that changes most. The pages show people: do not publish them.

The measure is printed and in OUT/large.json. Where the lightness, smoothed over 1/128 of the frame, changes by more than 8 levels, the root mean square of each
of three octaves (finer than 1/512, 1/256 and 1/128 of the frame, but at least 1.4 pixels) is compared with that of the face around the place: log2 of the ratio of the medians. 0: as
fine as the skin around it; -1: half of it is missing. The photograph has values of its own, as lips are no skin: a change that cannot be seen is near them.
"""
import argparse
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

CROP = 360


def blur(x, sigma):
    """Three box filters of radius r, whose deviation is sqrt(r (r + 1))."""
    r = max(1, round((np.sqrt(1 + 4 * sigma ** 2) - 1) / 2))
    for axis in (0, 1, 0, 1, 0, 1):
        p = np.pad(x, [(r + 1, r) if a == axis else (0, 0) for a in (0, 1)], mode="edge").cumsum(axis, dtype=np.float64)
        n = p.shape[axis]
        x = (np.take(p, range(2 * r + 1, n), axis) - np.take(p, range(n - 2 * r - 1), axis)) / (2 * r + 1)
    return x


def light(x):
    return x @ np.array([0.299, 0.587, 0.114]) * 255


def octaves(x, size):
    s = [blur(x, max(size / 512, 1.4) * 2 ** k) for k in range(3)]
    return [x - s[0], s[0] - s[1], s[1] - s[2]]


def face_of(zenith, path):
    run = subprocess.run([zenith, "find", path], capture_output=True, text=True)
    found = re.search(r"x=(\S+) y=(\S+) size=(\S+)", run.stdout)
    return [float(v) for v in found.groups()] if found else None


def fineness(x, inside, around, size):
    """log2 of the ratio of an octave inside to that around, of the medians."""
    out = []
    for band in octaves(x, size):
        e = blur(np.square(band), size / 64)
        out.append(float(np.log2(np.median(e[inside]) / np.median(e[around])) / 2))
    return out


def regions(photo, edited, size):
    change = np.abs(blur(edited - photo, size / 128))
    near = lambda m, r: blur(m.astype(float), size * r) > 1e-3
    inside = change > 8
    around = near(inside, 1 / 16) & ~near(inside, 1 / 48)
    y, x = np.unravel_index(blur(change, CROP / 6).argmax(), change.shape)
    return inside, around, x, y


def portrait(job):
    """The edits of one: a list of rows, and a line of crops for each."""
    a, number, path = job
    x = np.asarray(Image.open(path).convert("RGB"), np.float32) / 255
    files = {name: str(Path(a.out) / f"{number}-{name}.npy") for name in ("photo", "before", "after")}
    np.save(files["photo"], x)
    face = face_of(a.after, files["photo"])
    rows, lines = [], []
    for edit in a.edit if face and face[2] >= a.least else []:
        cx, cy, size = face
        box = np.s_[max(int(cy - size / 2), 0):int(cy + size / 2), max(int(cx - size / 2), 0):int(cx + size / 2)]
        made = {"photo": x[box]}
        for name in a.programs:
            subprocess.run([a.programs[name], "face", files["photo"], files[name], *edit.split()], check=True, capture_output=True)
            made[name] = np.load(files[name])[box]
        inside, around, px, py = regions(light(x[box]), light(made[next(iter(a.programs))]), size)
        if inside.sum() < 100 or around.sum() < 100:
            continue
        rows.append({"picture": Path(path).name, "edit": edit, "frame": round(size)} |
                    {name: fineness(light(v), inside, around, size) for name, v in made.items()})
        py, px = (int(np.clip(p - CROP // 2, 0, max(n - CROP, 0))) for p, n in zip((py, px), inside.shape))
        line = Image.new("RGB", (CROP * len(made), CROP))
        for k, v in enumerate(made.values()):
            line.paste(Image.fromarray((v[py:py + CROP, px:px + CROP] * 255).round().astype(np.uint8)), (k * CROP, 0))
        lines.append(line)
    for f in files.values():
        Path(f).unlink(missing_ok=True)
    return rows, lines


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("picture", nargs="+")
    p.add_argument("--before")
    p.add_argument("--after", required=True)
    p.add_argument("--edit", action="append")
    p.add_argument("--least", type=float, default=400)
    p.add_argument("--most", type=int, default=40)
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--lines", type=int, default=5, help="of a page")
    a = p.parse_args()
    a.edit = a.edit or ["smile=1", "smile=-1", "age=1", "eyes-open=-1"]
    a.programs = {name: program for name, program in (("before", a.before), ("after", a.after)) if program}
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    rows, lines = [], []
    with ThreadPoolExecutor(a.jobs) as pool:
        for r, l in pool.map(portrait, [(a, k, f) for k, f in enumerate(a.picture)]):
            if r and len(lines) < a.most:
                rows += r
                lines.append(l[len(lines) % len(l)])
                print(json.dumps(r[(len(lines) - 1) % len(r)]), flush=True)
    for k in range(0, len(lines), a.lines):
        page = Image.new("RGB", (lines[0].width, CROP * len(lines[k:k + a.lines])))
        for j, line in enumerate(lines[k:k + a.lines]):
            page.paste(line, (0, j * CROP))
        page.save(out / f"page-{k // a.lines}.jpg", quality=92)
    photo = np.array([r["photo"] for r in rows])
    for name in ["photo", *a.programs]:
        v = np.array([r[name] for r in rows])
        print(f"{name:8s} {v.mean(0).round(2)}, from the photograph {np.abs(v - photo).mean(0).round(2)}; {len(rows)} edits of {len(lines)} portraits")
        for edit in a.edit:
            pick = [r["edit"] == edit for r in rows]
            print(f"    {edit:14s} {v[pick].mean(0).round(2)}, from the photograph {np.abs(v - photo)[pick].mean(0).round(2)}")
    (out / "large.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
