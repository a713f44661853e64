#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quantised weight files and what their elements are, for tests/unit/test_weights.c.

    python3 tools/golden_blocks.py tests/data/weights        (needs gguf, mlx, safetensors, torch)

blocks.gguf is written by llama.cpp's gguf package, mlx.safetensors by MLX; blocks.safetensors has the values that
they dequantise to, under the same names.  Blocks of 256 elements, which gguf does not make itself, are random bytes with small scales.
"""
import sys
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

ROWS, COLS = 3, 512
MADE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
SCALES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}  # where the fp16 numbers of a block are


def random_blocks(r, kind):
    size = gguf.GGML_QUANT_SIZES[kind][1]
    raw = r.integers(0, 256, (ROWS, COLS // 256, size), dtype=np.uint8)
    for at in SCALES[kind.name]:
        raw[:, :, at:at + 2] = r.normal(0, 0.01, raw.shape[:2]).astype(np.float16)[..., None].view(np.uint8)
    return raw.reshape(ROWS, -1)


def main():
    out = Path(sys.argv[1])
    r = np.random.default_rng(1)
    want = {}
    w = gguf.GGUFWriter(out / "blocks.gguf", "test")
    w.add_string("general.name", "blocks")
    w.add_array("tokenizer.ggml.tokens", ["a", "bc", "\u00e9"])
    for name in MADE + list(SCALES):
        kind = gguf.GGMLQuantizationType[name]
        raw = random_blocks(r, kind) if name in SCALES else gguf.quants.quantize(
            r.normal(0, 1, (ROWS, COLS)).astype(np.float32), kind)
        want[name] = gguf.quants.dequantize(raw, kind).astype(np.float32)
        w.add_tensor(name, raw, raw_dtype=kind)
    for name, kind in (("F16", np.float16), ("F32", np.float32)):
        want[name] = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
        w.add_tensor(name, want[name].astype(kind))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    x = mx.array(r.normal(0, 1, (5, 96)).astype(np.float32))
    q, scales, biases = mx.quantize(x, group_size=32, bits=4)
    want["p.weight"] = np.array(mx.dequantize(q, scales, biases, group_size=32, bits=4))
    save_file({"p.weight": np.array(q), "p.scales": np.array(scales), "p.biases": np.array(biases)}, out / "mlx.safetensors")
    save_file({k: np.ascontiguousarray(v) for k, v in want.items()}, out / "blocks.safetensors")
    for k, v in want.items():
        print(f"{k:10} {v.shape!s:12} rms {np.sqrt((v * v).mean()):.3f}")


main()
