"""Does an edited face stay the same person? dlib's face recognition network is the judge: nobody here trained it, and it is never shipped.

    pip install dlib-bin face_recognition_models numpy            # in an environment of its own; only for measuring
    python identity.py ZENITH FACES_DIR OUT.json [--faces 40] [--steps 12]

ZENITH: the built program; it finds zenith-face and its attributes by ZENITH_MODELS. FACES_DIR: faces.npy and faces.json (data.py decode) and faces128.csv.
Each held-out face is reconstructed, and edited with amount 1 away from its own side of the mean, as zenith:diffae-manipulate does it. Two faces are one
person for the judge if their descriptors are closer than 0.6. Pairs of different faces show that the judge can tell people apart in such crops.
OUT.json grows face by face; a second call goes on.
"""
import argparse
import csv
import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ATTRIBUTES = ["smile", "mouth-open", "eyes-open", "age", "gender"]
LIMIT = 0.6


class Judge:
    def __init__(self):
        import dlib
        import face_recognition_models as files
        self.dlib = dlib
        self.finder = dlib.get_frontal_face_detector()
        self.points = dlib.shape_predictor(files.pose_predictor_five_point_model_location())
        self.net = dlib.face_recognition_model_v1(files.face_recognition_model_location())

    def box(self, x):
        """Where dlib's own detector sees the face of an aligned picture; where it sees none, the usual place. And whether it saw it."""
        found = self.finder(self.widen(x), 1)
        return (max(found, key=lambda r: r.area()), True) if found else (self.dlib.rectangle(9 + 64, 14 + 64, 119 + 64, 124 + 64), False)

    @staticmethod
    def widen(x):
        x = np.clip((x + 1) * 127.5 + 0.5, 0, 255).astype(np.uint8)
        return np.ascontiguousarray(np.pad(x, ((64, 64), (64, 64), (0, 0)), mode="edge"))

    def describe(self, x, box):
        w = self.widen(x)
        return np.array(self.net.compute_face_descriptor(w, self.points(w, box)))


def attributes_of(path):
    """name: (shift in codes at amount 1, guidance at amount 1), and the statistics of codes."""
    raw = Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    get = lambda n: np.frombuffer(raw[8 + size:][slice(*header[n]["data_offsets"])], "<f4").reshape(header[n]["shape"])
    names = header["__metadata__"]["names"].split(",")
    d, std = get("directions"), get("std")
    return {n: (d[i], d[i] * std * get("step")[i], float(get("guide")[i])) for i, n in enumerate(names)}, get("mean"), std


class Engine:
    def __init__(self, program, folder, steps):
        self.program, self.folder, self.steps = program, Path(folder), steps

    def run(self, model, out, settings=(), **inputs):
        args = [self.program, "run", model]
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

    def draw(self, noise, codes, code, guide):
        n = len(codes)
        settings = [f"steps={self.steps}"] + ([f"guide={guide}"] if guide != 1 else [])
        more = {"cond0": np.repeat(code, n, 0)} if guide != 1 else {}
        y = self.run("diffae-sample", "x", settings, xT=np.concatenate([noise] * n), cond=codes, **more)
        return np.split(y, n)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("zenith")
    a.add_argument("faces_dir")
    a.add_argument("out")
    a.add_argument("--faces", type=int, default=40)
    a.add_argument("--steps", type=int, default=12)
    a = a.parse_args()
    folder, out = Path(a.faces_dir), Path(a.out)
    split = {r["file"]: r["split"] for r in csv.DictReader(open(folder / "faces128.csv"))}
    names = json.loads((folder / "faces.json").read_text())
    rows = [i for i, n in enumerate(names) if split[n] == "test"]
    rows = [rows[k * len(rows) // a.faces] for k in range(a.faces)]                  # evenly spread
    pictures = np.load(folder / "faces.npy", mmap_mode="r")
    done = json.loads(out.read_text())["faces"] if out.exists() else {}
    table, mean, std = attributes_of(Path(os.environ["ZENITH_MODELS"].split(":")[0]) / "zenith-face.attributes.safetensors")
    judge = Judge()
    with tempfile.TemporaryDirectory() as tmp:
        engine = Engine(a.zenith, tmp, a.steps)
        for row in rows:
            if names[row] in done:
                continue
            x = pictures[row].transpose(1, 2, 0).astype(np.float32) / 127.5 - 1
            code = engine.encode(x)
            noise = engine.noise(x, code)
            made = {"reconstruction": engine.draw(noise, code, code, 1)[0]}
            for guide in sorted({table[n][2] for n in ATTRIBUTES}):
                group = [n for n in ATTRIBUTES if table[n][2] == guide]
                codes = []
                for n in group:
                    along = float(((code[0, 0] - mean) / std) @ table[n][0])
                    codes.append(code[0] + (-1 if along > 0 else 1) * table[n][1])
                made.update(zip(group, engine.draw(noise, np.stack(codes), code, guide)))
            box, seen = judge.box(x)
            base = judge.describe(x, box)
            done[names[row]] = {"seen": seen, "descriptor": base.round(6).tolist(),
                                **{n: float(np.linalg.norm(judge.describe(y, box) - base)) for n, y in made.items()}}
            report(out, done, a.steps)
    print(report(out, done, a.steps))


def report(out, done, steps):
    d = np.array([f["descriptor"] for f in done.values()])
    pairs = np.linalg.norm(d[:, None] - d[None], axis=2)[np.triu_indices(len(d), 1)]
    summary = {"n": len(done), "steps": steps, "found by dlib": sum(f["seen"] for f in done.values())}
    for n in ["reconstruction"] + ATTRIBUTES:
        v = np.array([f[n] for f in done.values()])
        summary[n] = {"below 0.6": float((v < LIMIT).mean()), "median": float(np.median(v)), "largest": float(v.max())}
    if len(pairs):
        summary["different faces"] = {"below 0.6": float((pairs < LIMIT).mean()), "median": float(np.median(pairs))}
    tmp = out.with_suffix(".tmp")
    tmp.write_text(json.dumps({"summary": summary, "faces": done}))
    tmp.rename(out)
    return json.dumps(summary, indent=1)


if __name__ == "__main__":
    main()
