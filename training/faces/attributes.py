#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""attributes.py DIRECTIONS AUTOENCODER OUT - the attribute file of the face model; needs no packages.

DIRECTIONS: safetensors with `directions` [A][D] (of any length, in normalised codes), `mean` and `std` [D], as eval.py makes them;
AUTOENCODER: the weight file whose metadata `attributes` names their rows.  OUT: see docs/diffae.md."""
import json
import math
import struct
import sys

# What users see: name, the row that it is made of, its sign, and the guidance at amount 1.
SLIDERS = [
    ("smile", "smile", 1, 3),
    ("mouth-open", "mouth_open", 1, 3),
    ("eyes-open", "eyes_open", 1, 3),
    ("age", "age", 1, 3),
    ("gender", "male", 1, 2),
    ("head-turn", "yaw", 1, 3),
    ("glasses", "sunglasses", 1, 3),
    ("brightness", "brightness", 1, 1.5),
    ("warmth", "warmth", 1, 1.5),
    ("contrast", "contrast", 1, 1.5),
]
SHIFT = 0.3  # of sqrt(D), at amount 1


def read(path):
    """The header, and a function that reads a float32 tensor of this file as a list."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])

    def tensor(name):
        info = header[name]
        a, b = info["data_offsets"]
        assert info["dtype"] == "F32", name
        return list(struct.unpack(f"<{(b - a) // 4}f", data[8 + size + a:8 + size + b]))
    return header, tensor


def write(path, meta, tensors):
    header, at = {"__metadata__": meta}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(values)]}
        at += 4 * len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            f.write(struct.pack(f"<{len(values)}f", *values))


def main(directions, autoencoder, out):
    header, tensor = read(directions)
    rows = read(autoencoder)[0]["__metadata__"]["attributes"].split(",")
    n, d = header["directions"]["shape"]
    assert n == len(rows), (n, rows)
    every = tensor("directions")
    chosen = []
    for _, row, sign, _ in SLIDERS:
        v = every[rows.index(row) * d:][:d]
        length = math.sqrt(sum(x * x for x in v))
        chosen += [sign * x / length for x in v]
    write(out, {"names": ",".join(s[0] for s in SLIDERS), "model": "zenith-face", "project": "Zenith"}, {
        "directions": ([len(SLIDERS), d], chosen),
        "guide": ([len(SLIDERS)], [float(s[3]) for s in SLIDERS]),
        "mean": ([d], tensor("mean")),
        "std": ([d], tensor("std")),
        "step": ([len(SLIDERS)], [SHIFT * math.sqrt(d)] * len(SLIDERS)),
    })


main(*sys.argv[1:])
