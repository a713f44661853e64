#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""attributes.py MOVES MEASURE OUT - the attribute file of the face model; needs no packages.

MOVES: moves.safetensors of moves.py; MEASURE: measure.json of measure.py, with the strengths that it chose; OUT: see docs/scripting.md."""
import json
import math
import struct
import sys

# What users see, and the name of its moves: the order of SLIDERS in moves.py.
SLIDERS = [("smile", "smile"), ("mouth-open", "mouth_open"), ("eyes-open", "eyes_open"), ("age", "age"), ("gender", "male")]


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
    """tensors: name: (type, shape, values)."""
    code = {"F32": "f", "F16": "e"}
    header, at, blobs = {"__metadata__": meta}, 0, []
    for name, (kind, shape, values) in tensors.items():
        blobs.append(struct.pack(f"<{len(values)}{code[kind]}", *values))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def main(moves, measure, out):
    header, tensor = read(moves)
    chosen = json.load(open(measure))["strengths"]
    n, d = header["shift"]["shape"]
    h, cells = header["bias"]["shape"][1], header["mask.bias"]["shape"][0]
    side, a = math.isqrt(cells), len(SLIDERS)
    assert n == 2 * a and side * side == cells, (n, cells)
    strength, guide = [], []
    for _, key in SLIDERS:
        both = [tuple(map(float, chosen[f"{key} {sign}"].split())) for sign in ("+1", "-1")]
        strength += [k for k, _ in both]
        assert both[0][1] == both[1][1], key
        guide.append(both[0][1])
    shift, outer = tensor("shift"), tensor("outer")
    shift = [strength[i // d] * v for i, v in enumerate(shift)]
    outer = [strength[i // (d * h)] * v for i, v in enumerate(outer)]
    step = [math.sqrt(sum(v * v for v in shift[2 * i * d:][:d])) for i in range(a)]
    regions = tensor("regions")
    write(out, {"names": ",".join(name for name, _ in SLIDERS), "model": "zenith-face", "project": "Zenith"}, {
        "directions": ("F32", [a, d], [v / step[i] for i in range(a) for v in shift[2 * i * d:][:d]]),
        "guide": ("F32", [a], guide),
        "mean": ("F32", [d], tensor("mean")),
        "std": ("F32", [d], tensor("std")),
        "step": ("F32", [a], step),
        "move.shift": ("F32", [a, 2, d], shift),
        "move.inner": ("F16", [a, 2, h, d], tensor("inner")),
        "move.bias": ("F32", [a, 2, h], tensor("bias")),
        "move.outer": ("F16", [a, 2, d, h], outer),
        "mask.weight": ("F16", [cells, d], tensor("mask.weight")),
        "mask.bias": ("F32", [cells], tensor("mask.bias")),
        "mask.region": ("F32", [a, side, side], [v for i in range(a) for v in regions[2 * i * cells:][:cells]]),
    })


main(*sys.argv[1:])
