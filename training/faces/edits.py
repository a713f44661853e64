"""Edits of held-out faces as zenith:diffae-manipulate makes them by default, for the programs that judge them.

    ZENITH_MODELS=MODELS python edits.py ZENITH FACES_DIR JUDGE.safetensors OUT_DIR [--faces 200] [--attributes smile,age] [--also FILE]

ZENITH: the built program; FACES_DIR: what data.py decode made, with faces128.csv beside it; JUDGE: the network that eval.py trained. Each face is edited with
amount 1 away from the side on which the judge sees it. OUT_DIR/FACE.npz holds the picture `x`, each edit under its attribute's name with its side under
`side NAME`, and with --reconstruct what zenith:diffae-reconstruct makes; they show private people and are not to be published. --also: another attribute file, whose edits are made too. Faces are drawn without
replacement from a shuffled list, so any first N of them are a fair sample; --first K leaves out K. A second call goes on; several may run at once.
"""
import argparse
import csv
import json
import os
import random
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

STEPS, GUIDED, RECONSTRUCTION = 10, 0.8, 20                # the defaults of the operations and of face_codes.c
ROW = {"mouth-open": "mouth_open", "eyes-open": "eyes_open", "gender": "male", "head-turn": "yaw", "glasses": "sunglasses"}      # in data.NAMES


def row_of(name):
    """The judge's reading of an attribute; what follows a + tells candidates apart."""
    name = name.split("+")[0]
    return ROW.get(name, name)


def attributes_of(path):
    """name: (unit direction, shift in codes at amount 1, guidance at amount 1), and the statistics of codes."""
    raw = Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    get = lambda n: np.frombuffer(raw[8 + size:][slice(*header[n]["data_offsets"])], "<f4").reshape(header[n]["shape"])
    names = header["__metadata__"]["names"].split(",")
    d, std = get("directions"), get("std")
    return {n: (d[i], d[i] * std * get("step")[i], float(get("guide")[i])) for i, n in enumerate(names)}, get("mean"), std


def shipped():
    return Path(os.environ["ZENITH_MODELS"].split(":")[0]) / "zenith-face.attributes.safetensors"


def held_out(folder):
    """Numbers of the held-out faces in faces.npy, shuffled, and all names."""
    split = {r["file"]: r["split"] for r in csv.DictReader(open(folder / "faces128.csv"))}
    names = json.loads((folder / "faces.json").read_text())
    rows = [i for i, n in enumerate(names) if split[n] == "test"]
    random.Random(0).shuffle(rows)
    return rows, names


def pictures_of(folder):
    """Of each face that edits.py has finished: name, picture, edits by name, sides by name."""
    for file in sorted(Path(folder).glob("*.npz")):
        if file.stat().st_size and not file.name.endswith(".tmp.npz"):
            with np.load(file) as f:
                made = {n: f[n] for n in f.files if f[n].shape == f["x"].shape and n != "x"}
                yield file.stem, f["x"], made, {n: float(f[f"side {n}"]) for n in made if f"side {n}" in f.files}


class Engine:
    def __init__(self, program, folder, steps=STEPS, threads=None):
        self.program, self.folder, self.steps = program, Path(folder), steps
        self.more = ["--threads", str(threads)] if threads else []

    def run(self, model, out, settings=(), **inputs):
        args = [self.program, "run", model, *self.more]
        for k, v in inputs.items():
            np.save(self.folder / f"{k}.npy", np.ascontiguousarray(v, dtype="<f4"))
            args += ["--in", f"{k}={self.folder / k}.npy"]
        for s in settings:
            args += ["--set", s]
        subprocess.run(args + ["--out", f"{out}={self.folder / out}.npy"], check=True)
        return np.load(self.folder / f"{out}.npy")

    def encode(self, x):
        return self.run("diffae-encode", "cond", x=x).reshape(1, 1, -1)

    def noise(self, x, code):
        return self.run("diffae-reverse", "xT", [f"steps={self.steps}"], x=x, cond=code)

    def draw(self, noise, codes):
        """Pictures from one noise, without guidance."""
        n = len(codes)
        return np.split(self.run("diffae-sample", "x", [f"steps={self.steps}"], xT=np.concatenate([noise] * n), cond=codes), n)

    def way_up(self, x, code):
        """The noise of x and, below it, what each step down needs to lead back."""
        stack = np.concatenate([x, np.zeros((self.steps * x.shape[0],) + x.shape[1:], x.dtype)])
        return self.run("diffae-sample", "x", [f"steps={self.steps}", "path=1", "reverse=1"], xT=stack, cond=code)

    def edit(self, up, code, to, guide):
        """The face of way_up() with another code."""
        settings = [f"steps={self.steps}", "path=1", f"guide={guide}", f"guided={GUIDED}"]
        return self.run("diffae-sample", "x", settings, xT=up, cond=to, cond0=code)[:up.shape[1]]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("zenith")
    a.add_argument("faces_dir")
    a.add_argument("judge")
    a.add_argument("out")
    a.add_argument("--faces", type=int, default=200)
    a.add_argument("--first", type=int, default=0)
    a.add_argument("--attributes", default="smile,mouth-open,eyes-open,age,gender")
    a.add_argument("--also")
    a.add_argument("--reconstruct", action="store_true", help="the reconstruction too")
    a.add_argument("--threads", type=int)
    a = a.parse_args()
    import torch

    import data
    import judge as judges
    torch.set_num_threads(1)
    folder, out = Path(a.faces_dir), Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    judge, limit = judges.load(a.judge, "cpu"), data.limits(folder / "faces128.csv")
    table = attributes_of(shipped())[0]
    chosen = {n: table[n] for n in a.attributes.split(",") if n}
    if a.also:
        chosen.update(attributes_of(a.also)[0])
    rows, names = held_out(folder)
    pictures = np.load(folder / "faces.npy", mmap_mode="r")
    with tempfile.TemporaryDirectory() as tmp:
        engine = Engine(a.zenith, tmp, threads=a.threads)
        for row in rows[a.first:a.first + a.faces]:
            file = out / f"{Path(names[row]).stem}.npz"
            try:
                file.open("x").close()          # it is being made by this call
            except FileExistsError:
                continue
            x = pictures[row].transpose(1, 2, 0).astype(np.float32) / 127.5 - 1
            was = judge(torch.from_numpy(x.transpose(2, 0, 1).copy())[None])[0]
            code = engine.encode(x)
            made = {"x": x}
            if a.reconstruct:
                own = Engine(a.zenith, tmp, RECONSTRUCTION, a.threads)
                made["reconstruction"] = own.draw(own.noise(x, code), code)[0]
            up = engine.way_up(x, code) if chosen else None
            for n, (_, shift, guide) in chosen.items():
                i = data.NAMES.index(row_of(n))
                side = -1.0 if was[i] > limit[i] else 1.0
                made[n] = engine.edit(up, code, code + np.float32(side) * shift, guide)
                made[f"side {n}"] = np.float32(side)
            np.savez(out / f"{tmp.split('/')[-1]}.tmp.npz", **made)
            (out / f"{tmp.split('/')[-1]}.tmp.npz").rename(file)


if __name__ == "__main__":
    main()
