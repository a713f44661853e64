"""Strips from one held-out face to another, to be looked at, and how even they are beside blending pixels.

    python strips.py ZENITH FACES_DIR OUT.jpg [--pairs 20] [--between 6] [--steps 10]

ZENITH, FACES_DIR: as edits.py. Codes go along a line, noise along an arc, as zenith:diffae-interpolate does it. OUT.jpg gets a line for each pair, the
photographs at both ends: it shows private people and is not to be published.

Measured: gradient energy, the mean square of the differences of neighbouring pixels. A blend of pixels is half as sharp in the middle, two faces on top of
each other; a face is as sharp as the faces at the ends. Printed are the energy in the middle, of the mean of the ends, and the mean size of the
energy's second difference along the strip. (Of pixels that second difference is 0 for a blend, by definition.)
"""
import argparse
import csv
import json
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


def measures(strip):
    e = np.array([energy(x) for x in strip])
    ends = (e[0] + e[-1]) / 2
    return e[len(e) // 2] / ends, np.abs(np.diff(e / ends, 2)).mean()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("zenith")
    a.add_argument("faces_dir")
    a.add_argument("out")
    a.add_argument("--pairs", type=int, default=20)
    a.add_argument("--between", type=int, default=6)
    a.add_argument("--steps", type=int, default=10)
    a = a.parse_args()
    folder = Path(a.faces_dir)
    split = {r["file"]: r["split"] for r in csv.DictReader(open(folder / "faces128.csv"))}
    rows = [i for i, n in enumerate(json.loads((folder / "faces.json").read_text())) if split[n] == "test"]
    rows = [rows[k * len(rows) // (2 * a.pairs)] for k in range(2 * a.pairs)]                # evenly spread
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
            found.append(measures(made) + measures([(1 - t) * x[0] + t * x[1] for t in ts]))
            sheet.append(np.concatenate([x[0], *made, x[1]], 1))
            Image.fromarray(np.clip(np.concatenate(sheet) * 127.5 + 128, 0, 255).astype(np.uint8)).save(a.out, quality=88)
            print(f"{k // 2 + 1}: energy in the middle {found[-1][0]:.2f}, second difference {found[-1][1]:.3f}; of a blend {found[-1][2]:.2f}, "
                  f"{found[-1][3]:.3f}", flush=True)
    m = np.array(found)
    print(f"mean of {len(m)}: energy in the middle {m[:, 0].mean():.2f}, second difference {m[:, 1].mean():.3f}; of a blend {m[:, 2].mean():.2f}, "
          f"{m[:, 3].mean():.3f}; smaller than a blend's in {int((m[:, 1] < m[:, 3]).sum())}")


main()
