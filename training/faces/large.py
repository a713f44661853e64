"""Edits of large faces at 100 %: pages of crops, and how fine a changed place is beside the skin around it.

    python large.py OUT PICTURE... --after ZENITH [--before ZENITH] [--edit "smile=1"]... [--least 400] [--most 40] [--jobs 2]

ZENITH: built programs, of the state to look at and of one to compare with; ZENITH_MODELS: their weights. Each edit is made of each of --most portraits
whose largest face has a frame of at least --least pixels; OUT gets page-N.jpg, a line for each portrait and one of the edits in turn: photograph, before,
after, at 100 % around the place that changes most. The pages show people: do not publish them.

Measured, printed and in OUT/large.json, is what becomes of structure finer than 1/128 of the frame, in three octaves, where the coarser structure of the
photograph is gone by more than half (by regression of the change on it, in the first of the programs):
- fineness: log2 of its root mean square there, of that of the face around the place (medians). The photograph has values of its own, as lips are no skin.
- ghost: its correlation with that of the photograph, whose lips or lids are no longer there. 1: they are still seen; 0: nothing of them is.
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
    """log2 of the ratio of each octave inside to that around, of the medians."""
    e = [blur(np.square(band), size / 64) for band in octaves(x, size)]
    return [float(np.log2(np.median(v[inside]) / np.median(v[around])) / 2) for v in e]


def ghost(x, photo, inside, size):
    return [float(np.corrcoef(a[inside], b[inside])[0, 1]) for a, b in zip(octaves(x, size), octaves(photo, size))]


def regions(photo, edited, size):
    """Where the photograph's structure is gone, the face around that, and the place of the largest change."""
    fine, coarse = size / 128, size / 40
    seen, change = blur(photo, fine), blur(edited - photo, fine)
    s, d = seen - blur(seen, coarse), change - blur(change, coarse)
    near = lambda m, r: blur(m.astype(float), size * r) > 1e-3
    inside = -blur(s * d, coarse) / (blur(s * s, coarse) + 6) > 0.5
    around = near(inside, 1 / 16) & ~near(inside, 1 / 48)
    y, x = np.unravel_index(blur(np.abs(change), CROP / 6).argmax(), change.shape)
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
        row = {"picture": Path(path).name, "edit": edit, "frame": round(size), "gone": round(float(inside.mean()), 3)}
        for name, v in made.items():
            row[name] = fineness(light(v), inside, around, size) + ghost(light(v), light(x[box]), inside, size)
        rows.append(row)
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
    for name in ["photo", *a.programs]:
        for edit in [None, *a.edit]:
            v = np.array([r[name] for r in rows if edit in (None, r["edit"])])
            if len(v):
                print(f"{name:8s} {edit or 'all':14s} fineness {v.mean(0)[:3].round(2)}, ghost {v.mean(0)[3:].round(2)}, {len(v)} edits")
    (out / "large.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
