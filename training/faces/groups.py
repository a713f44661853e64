"""Edits, and reconstruction, compared between age groups and genders: is the model worse for some people than for
others?

    python groups.py EDITS_DIR FACES_DIR JUDGE.safetensors OUT.json

EDITS_DIR: what edits.py made, with --reconstruct if that is wanted, too; FACES_DIR, JUDGE: as there. Edits are those of zenith:diffae-manipulate: amount 1
away from the side on which the judge sees the face. The groups are FairFace's labels; 50 years and more are one.
"""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch

import data
import diffusion
import edits
import judge as judges

AGES = {"20-29": "20-29", "30-39": "30-39", "40-49": "40-49", "50-59": "50 and more", "60-69": "50 and more", "70+": "50 and more"}


def main(folder, faces_dir, judge, out):
    torch.set_num_threads(1)
    table = Path(faces_dir) / "faces128.csv"
    rows = {Path(r["file"]).stem: r for r in csv.DictReader(open(table))}
    net, limit = judges.load(judge, "cpu"), data.limits(table)
    tensor = lambda x: torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1)))[None]
    found = {}
    for name, x, made, side in edits.pictures_of(folder):
        seen = {}
        for n, y in made.items():
            if n in side:
                i = data.NAMES.index(edits.row_of(n))
                seen[n] = float((net(tensor(y))[0, i] - limit[i]) * side[n] > 0)
            else:
                seen[f"{n}, dB"], seen[f"{n}, SSIM"] = diffusion.psnr(tensor(y), tensor(x)), diffusion.ssim(tensor(y), tensor(x))
        for group in (AGES[rows[name]["age_group"]], rows[name]["gender"], "all"):
            found.setdefault(group, []).append(seen)
    report = {g: {"faces": len(v), **{n: round(float(np.mean([f[n] for f in v])), 3) for n in v[0]}} for g, v in sorted(found.items())}
    Path(out).write_text(json.dumps(report, indent=1))
    for group, r in report.items():
        print(group, json.dumps(r))


if __name__ == "__main__":
    main(*sys.argv[1:])
