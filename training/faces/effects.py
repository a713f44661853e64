"""What edits change: the attribute that they are for, and the others.

    python effects.py EDITS_DIR FACES_DIR JUDGE.safetensors OUT.json

EDITS_DIR: what edits.py made; FACES_DIR, JUDGE: as there. Printed for each attribute: how many faces the judge sees on the other side (and of those that went
up and down), how far its reading moves, and how far the others move on average, in their deviations over all held-out faces: of the nine other sliders, of
all twelve other readings, and of each of them.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch

import data
import edits
import judge as judges


def main(folder, faces_dir, judge, out):
    torch.set_num_threads(1)
    faces_dir = Path(faces_dir)
    net, limit = judges.load(judge, "cpu"), data.limits(faces_dir / "faces128.csv")
    see = lambda x: net(torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))))
    rows, _ = edits.held_out(faces_dir)
    pictures = np.load(faces_dir / "faces.npy", mmap_mode="r")
    spread = torch.cat([net(torch.from_numpy(pictures[rows[k:k + 32]]).float() / 127.5 - 1) for k in range(0, len(rows), 32)]).std(0)
    found = {}
    for _, x, made, side in edits.pictures_of(folder):
        was = see(x[None])[0]
        for name, y in made.items():
            if name in side:
                now = see(y[None])[0]
                i = data.NAMES.index(edits.row_of(name))
                found.setdefault(name, []).append((side[name], bool((now[i] - limit[i]) * side[name] > 0), ((now - was) / spread).numpy()))
    report = {}
    for name, list_ in found.items():
        i = data.NAMES.index(edits.row_of(name))
        up, hit = np.array([f[0] > 0 for f in list_]), np.array([f[1] for f in list_])
        moved = np.stack([f[2] for f in list_])
        others = [j for j in range(len(data.NAMES)) if j != i]
        count = lambda m: f"{int(hit[m].sum())} of {int(m.sum())}"
        report[name] = {"flips": count(up | True), "flips up": count(up), "flips down": count(~up),
                        "moved": float((moved[:, i] * np.where(up, 1, -1)).mean()),
                        "other sliders": float(np.abs(moved[:, [j for j in others if j < len(data.SLIDERS)]]).mean()),
                        "others": float(np.abs(moved[:, others]).mean()),
                        "of each": {data.NAMES[j]: round(float(np.abs(moved[:, j]).mean()), 2) for j in others}}
    Path(out).write_text(json.dumps(report, indent=1))
    for name, r in report.items():
        print(name, json.dumps(r))


if __name__ == "__main__":
    main(*sys.argv[1:])
