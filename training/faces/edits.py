"""The engine's networks for programs that measure, and files of linear directions."""
import json
import struct
import subprocess
from pathlib import Path

import numpy as np

STEPS = 10                # of zenith:diffae-manipulate
ROW = {"mouth-open": "mouth_open", "eyes-open": "eyes_open", "gender": "male", "head-turn": "yaw", "glasses": "sunglasses"}      # in data.NAMES


def row_of(name):
    """The judge's reading of an attribute."""
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
