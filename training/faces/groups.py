"""Reconstruction and edits side by side for age groups and genders: does the model serve some people worse than others?

    python groups.py ZENITH FACES_DIR JUDGE.safetensors OUT.json [--each 12]

ZENITH, FACES_DIR, JUDGE: as for edits.py. The same number of held-out faces of each age group (50 and more are one) and
gender, in turn: OUT.json grows face by face, and a second call goes on. Edits are those of zenith:diffae-manipulate: amount 1 away from the side
on which the judge sees the face. The groups are FairFace's labels.
"""
import argparse
import csv
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

import data
import diffusion
import edits
import judge as judges

ATTRIBUTES = {"smile": "smile", "age": "age"}                # of the attribute file: of data.py
AGES = {"20-29": "20-29", "30-39": "30-39", "40-49": "40-49", "50-59": "50 and more", "60-69": "50 and more", "70+": "50 and more"}


def summary(done):
    keys = sorted({f["years"] for f in done.values()}) + sorted({f["gender"] for f in done.values()}) + ["all"]
    out = {}
    for key in keys:
        group = [f for f in done.values() if key in (f["years"], f["gender"], "all")]
        out[key] = {"n": len(group), "psnr": float(np.mean([f["psnr"] for f in group])), "ssim": float(np.mean([f["ssim"] for f in group])),
                    **{f"{n} flips": float(np.mean([f[n] for f in group])) for n in ATTRIBUTES}}
    return out


def main():
    a = argparse.ArgumentParser()
    a.add_argument("zenith")
    a.add_argument("faces_dir")
    a.add_argument("judge")
    a.add_argument("out")
    a.add_argument("--each", type=int, default=12)
    a = a.parse_args()
    torch.set_num_threads(1)
    folder, out = Path(a.faces_dir), Path(a.out)
    faces = data.Faces(folder, folder / "faces128.csv", "cpu")
    groups = {}
    for i in faces.of("test").tolist():
        r = faces.rows[i]
        groups.setdefault((AGES[r["age_group"]], r["gender"]), []).append(i)
    rows = [g[k * len(g) // a.each] for k in range(a.each) for g in groups.values() if k < len(g)]
    table = edits.attributes_of(edits.shipped())[0]
    judge = judges.load(a.judge, "cpu")
    limit = data.limits(folder / "faces128.csv")
    tensor = lambda x: torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1)))[None]
    done = json.loads(out.read_text())["faces"] if out.exists() else {}
    with tempfile.TemporaryDirectory() as tmp:
        engine = edits.Engine(a.zenith, tmp)
        again = edits.Engine(a.zenith, tmp, edits.RECONSTRUCTION)
        for row in rows:
            r = faces.rows[row]
            if r["file"] in done:
                continue
            x = faces.get(torch.tensor([row]))
            picture = x[0].permute(1, 2, 0).numpy()
            code = engine.encode(picture)
            made = tensor(again.draw(again.noise(picture, code), code)[0])
            up = engine.way_up(picture, code)
            was = judge(x)[0]
            f = {"years": AGES[r["age_group"]], "gender": r["gender"], "psnr": diffusion.psnr(made, x), "ssim": diffusion.ssim(made, x)}
            for name, ours in ATTRIBUTES.items():
                i = data.NAMES.index(ours)
                side = -1.0 if was[i] > limit[i] else 1.0
                y = engine.edit(up, code, code + side * table[name][1], table[name][2])
                f[name] = bool((judge(tensor(y))[0, i] - limit[i]) * side > 0)
            done[r["file"]] = f
            tmp_file = out.with_suffix(".tmp")
            tmp_file.write_text(json.dumps({"summary": summary(done), "faces": done}))
            tmp_file.rename(out)
    print(json.dumps(summary(done), indent=1))


if __name__ == "__main__":
    main()
