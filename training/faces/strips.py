"""Strips from one held-out face to another, for visual inspection, and how even they are compared with blending pixels.

    python strips.py ZENITH FACES_DIR OUT.jpg [--pairs 20] [--between 6] [--steps 20] [--plain] [--shuffle SEED]

ZENITH: the built program; FACES_DIR: what data.py decode made, with faces128.csv beside it. Codes go along a line, noise along an arc, and the contrast of fine structure is levelled, as zenith:diffae-interpolate does it;
--plain leaves it as it was drawn. OUT.jpg gets a line for each pair, the photographs at both ends: it shows private people and is not to be published.
--shuffle: other pairs, of faces that the evenly spread ones do not have.

Measured: gradient energy, the mean square of the differences of neighbouring pixels. A blend of pixels is half as sharp in the middle, two faces on top of
each other; a face is as sharp as the faces at the ends. Printed are the energy in the middle, of the mean of the ends, and the mean size of the
energy's second difference along the strip. (Of pixels that second difference is 0 for a blend, by definition.) Levelling contrast levels what is measured;
so the codes that the encoder sees in the strip are measured, too: their second difference and how far they are from the line between the ends' codes, of its length.
"""
import argparse
import csv
import json
import random
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from edits import Engine


def slerp(a, b, t):
    u = np.arccos(np.clip((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))
    return (np.sin((1 - t) * u) * a + np.sin(t * u) * b) / np.sin(u)


def energy(x):
    return float(np.square(np.diff(x, axis=0)).mean() + np.square(np.diff(x, axis=1)).mean())


def mean_twice(x, radius):
    for axis in (1, 0, 1, 0):
        n, k = x.shape[axis], np.arange(-radius, radius + 1)
        x = np.take(x, np.clip(np.arange(n)[:, None] + k, 0, n - 1), axis).mean(axis + 1)
    return x


def level_contrast(drawn, first, second, t):
    """zn_face_level_contrast of face_contrast.c."""
    out, fine, flat = drawn.copy(), [first, second, drawn], 4 * 2.5e-6                      # pictures are -1..1 here
    for radius in (1, 4):
        coarse = [mean_twice(x, radius) for x in (first, second, drawn)]
        band = [f - c for f, c in zip(fine, coarse)]
        a, b, m = (mean_twice(np.square(x).mean(2), 8) for x in band)
        gain = np.sqrt(((1 - t) * a + t * b + flat) / (m + flat)).clip(0.4, 1.5)
        out += (1 - (2 * t - 1) ** 4) * (gain[..., None] - 1) * band[2]
        fine = coarse
    return out


def measures(strip):
    e = np.array([energy(x) for x in strip])
    ends = (e[0] + e[-1]) / 2
    return e[len(e) // 2] / ends, np.abs(np.diff(e / ends, 2)).mean()


def code_measures(engine, strip, ts):
    c = np.stack([engine.encode(np.clip(x, -1, 1)).ravel() for x in strip])
    line = np.stack([(1 - t) * c[0] + t * c[-1] for t in ts])
    size = lambda x: np.linalg.norm(x, axis=1).mean() / np.linalg.norm(c[-1] - c[0])
    return size(np.diff(c, 2, axis=0)), size((c - line)[1:-1])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("zenith")
    a.add_argument("faces_dir")
    a.add_argument("out")
    a.add_argument("--pairs", type=int, default=20)
    a.add_argument("--between", type=int, default=6)
    a.add_argument("--steps", type=int, default=20)
    a.add_argument("--plain", action="store_true")
    a.add_argument("--shuffle", type=int)
    a = a.parse_args()
    folder = Path(a.faces_dir)
    split = {r["file"]: r["split"] for r in csv.DictReader(open(folder / "faces128.csv"))}
    rows = [i for i, n in enumerate(json.loads((folder / "faces.json").read_text())) if split[n] == "test"]
    spread = [rows[k * len(rows) // (2 * a.pairs)] for k in range(2 * a.pairs)]              # evenly
    others = sorted(set(rows) - set(spread))
    random.Random(a.shuffle).shuffle(others)
    rows = spread if a.shuffle is None else others[:2 * a.pairs]
    pictures = np.load(folder / "faces.npy", mmap_mode="r")
    ts = np.linspace(0, 1, a.between + 2)
    found, sheet = [], []
    with tempfile.TemporaryDirectory() as tmp:
        engine = Engine(a.zenith, tmp, a.steps)
        for k in range(0, len(rows), 2):
            x = [pictures[r].transpose(1, 2, 0).astype(np.float32) / 127.5 - 1 for r in rows[k:k + 2]]
            code = [engine.encode(v) for v in x]
            noise = [engine.noise(v, c) for v, c in zip(x, code)]
            made = engine.run("diffae-sample", "x", [f"steps={a.steps}"], xT=np.concatenate([slerp(*noise, t) for t in ts]),
                              cond=np.concatenate([(1 - t) * code[0] + t * code[1] for t in ts]))
            made = np.split(made, len(ts))
            if not a.plain:
                made = [level_contrast(m, *x, t) for m, t in zip(made, ts)]
            blend = [(1 - t) * x[0] + t * x[1] for t in ts]
            found.append([v for s in (made, blend) for v in measures(s) + code_measures(engine, s, ts)])
            sheet.append(np.concatenate([x[0], *made, x[1]], 1))
            Image.fromarray(np.clip(np.concatenate(sheet) * 127.5 + 128, 0, 255).astype(np.uint8)).save(a.out, quality=88)
            print(f"{k // 2 + 1}: {text(found[-1])}", flush=True)
    m = np.array(found)
    print(f"mean of {len(m)}: {text(m.mean(0))}; smaller than a blend's in {int((m[:, 1] < m[:, 5]).sum())}")


def text(v):
    half = lambda v: f"energy in the middle {v[0]:.2f}, second difference {v[1]:.3f}, of codes {v[2]:.3f}, off the line {v[3]:.3f}"
    return f"{half(v[:4])}; of a blend: {half(v[4:])}"


main()
