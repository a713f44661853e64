#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tiny Z-Image of make_tiny_zimage.py in the other forms that users have, for tests.

    python3 tools/pack_tiny_zimage.py MODEL OUT q4_0|q8_0|q4_k|mlx4

q4_0, q8_0, q4_k: OUT/z-image.gguf as stable-diffusion.cpp's users have it (one file, q, k and v in one tensor) and
OUT/z-image-text.gguf with llama.cpp's names; rows that are no multiples of 256 are q8_0 in place of q4_k.  mlx4: OUT/transformer and
OUT/text_encoder, 4 bits in groups of 32.  OUT/plain has the same numbers as float32 in the published folders: what reads the packed
files right makes the same picture of both.  Tokenizer and autoencoder are copied.  Nothing but Python is needed.
"""
import array
import json
import shutil
import struct
import sys
from pathlib import Path

GGUF_TYPE = {"f32": 0, "q4_0": 2, "q8_0": 8, "q4_k": 12}
ALIGN = 32


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def q8_0(x):
    d = half(max(map(abs, x)) / 127)
    q = [max(-128, min(127, round(v / d))) if d else 0 for v in x]
    return struct.pack("<e32b", d, *q), [d * v for v in q]


def q4_0(x):
    d = half(max(x, key=abs) / -8)
    q = [max(0, min(15, round(v / d) + 8)) if d else 8 for v in x]
    return struct.pack("<e16B", d, *(q[i] | q[i + 16] << 4 for i in range(16))), [d * (v - 8) for v in q]


def q4_k(x):
    sub = [x[i:i + 32] for i in range(0, 256, 32)]
    low = [max(0.0, -min(s)) for s in sub]
    high = [(max(s) + m) / 15 for s, m in zip(sub, low)]
    d, dmin = half(max(high) / 63), half(max(low) / 63)
    sc = [min(63, round(v / d)) if d else 0 for v in high]
    m = [min(63, round(v / dmin)) if dmin else 0 for v in low]
    q = [[max(0, min(15, round((v + dmin * m[j]) / (d * sc[j])))) if d * sc[j] else 0 for v in s] for j, s in enumerate(sub)]
    packed = [0] * 12
    for j in range(4):
        packed[j] = sc[j] | sc[j + 4] >> 4 << 6
        packed[j + 4] = m[j] | m[j + 4] >> 4 << 6
        packed[j + 8] = sc[j + 4] & 15 | (m[j + 4] & 15) << 4
    nibbles = [a | b << 4 for j in range(0, 8, 2) for a, b in zip(q[j], q[j + 1])]
    return struct.pack("<2e12B128B", d, dmin, *packed, *nibbles), [d * sc[j] * v - dmin * m[j] for j in range(8) for v in q[j]]


def mlx4(x):
    low, high = min(x), max(x)
    d, offset = half((high - low) / 15), half(low)
    q = [max(0, min(15, round((v - offset) / d))) if d else 0 for v in x]
    words = [sum(v << 4 * i for i, v in enumerate(q[at:at + 8])) for at in range(0, 32, 8)]
    return (struct.pack("<4I", *words), struct.pack("<e", d), struct.pack("<e", offset)), [d * v + offset for v in q]


PACK = {"q8_0": (32, q8_0), "q4_0": (32, q4_0), "q4_k": (256, q4_k), "mlx4": (32, mlx4)}


def read(folder):
    """name: (shape, floats), of bf16 files."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        n = struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8:8 + n]).items():
            a, b = t["data_offsets"]
            bits = array.array("H", data[8 + n + a:8 + n + b])
            tensors[name] = (t["shape"], list(struct.unpack(f"<{len(bits)}f", b"".join(b"\0\0" + struct.pack("<H", v) for v in bits))))
    return tensors


def pack(tensors, kind):
    """name: (shape, type, pieces, floats); a matrix is packed, the rest float32."""
    out = {}
    for name, (shape, x) in tensors.items():
        use = kind
        if len(shape) != 2 or "pad_token" in name or shape[1] % 32:
            use = "f32"
        elif kind == "q4_k" and shape[1] % 256:
            use = "q8_0"
        if use == "f32":
            out[name] = (shape, use, [struct.pack(f"<{len(x)}f", *x)], x)
            continue
        size, block = PACK[use]
        done = [block(x[i:i + size]) for i in range(0, len(x), size)]
        out[name] = (shape, use, [p for p, _ in done], [v for _, back in done for v in back])
    return out


def save_safetensors(path, tensors):
    """tensors: name: (shape, dtype, bytes)."""
    head, at = {}, 0
    for name, (shape, dtype, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def save_gguf(path, tensors, architecture):
    string = lambda s: struct.pack("<Q", len(s.encode())) + s.encode()
    infos, blobs, at = b"", b"", 0
    for name, (shape, kind, pieces, _) in tensors.items():
        data = b"".join(pieces)
        dims = shape[::-1]
        infos += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, GGUF_TYPE[kind], at)
        blobs += data + b"\0" * (-len(data) % ALIGN)
        at = len(blobs)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1) + string("general.architecture") + struct.pack("<I", 8) + string(architecture)
    head += infos
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + b"\0" * (-len(head) % ALIGN) + blobs)


def renamed(tensors, pairs):
    out = {}
    for name, t in tensors.items():
        for a, b in pairs:
            name = name.replace(a, b)
        out[name] = t
    return out


def single_file(tensors):
    """The transformer as ComfyUI and stable-diffusion.cpp have it; rows of q, k and v follow each other."""
    tensors = renamed(tensors, (("all_x_embedder.2-1", "x_embedder"), ("all_final_layer.2-1", "final_layer"), ("to_out.0", "out"),
                                ("norm_q", "q_norm"), ("norm_k", "k_norm")))
    out = {}
    for name, (shape, kind, pieces, x) in tensors.items():
        if ".to_k." in name or ".to_v." in name:
            continue
        if ".to_q." in name:
            others = [tensors[name.replace("to_q", o)] for o in ("to_k", "to_v")]
            pieces = pieces + others[0][2] + others[1][2]
            shape, name = [3 * shape[0], shape[1]], name.replace("to_q", "qkv")
        out[f"model.diffusion_model.{name}"] = (shape, kind, pieces, x)
    return out


LLAMA = (("model.embed_tokens", "token_embd"), ("model.layers.", "blk."), ("input_layernorm", "attn_norm"),
         ("post_attention_layernorm", "ffn_norm"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
         ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"), ("self_attn.q_norm", "attn_q_norm"),
         ("self_attn.k_norm", "attn_k_norm"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
         ("model.norm", "output_norm"))
MLX = (("all_x_embedder.2-1", "x_embedder"), ("all_final_layer.2-1.linear", "final_layer.linear"),
       ("all_final_layer.2-1.adaLN_modulation.1", "final_layer.adaLN_modulation.layers.1"), ("t_embedder.mlp.0", "t_embedder.linear1"),
       ("t_embedder.mlp.2", "t_embedder.linear2"), ("cap_embedder.", "cap_embedder.layers."), ("to_out.0", "to_out"),
       ("adaLN_modulation.0", "adaLN_modulation"))


def save_mlx(path, tensors):
    out = {}
    for name, (shape, kind, pieces, _) in tensors.items():
        if kind == "f32":
            out[name] = (shape, "F32", pieces[0])
            continue
        stem = name[:-len("weight")]
        out[name] = ([shape[0], shape[1] // 8], "U32", b"".join(p[0] for p in pieces))
        for i, part in ((1, "scales"), (2, "biases")):
            out[stem + part] = ([shape[0], shape[1] // 32], "F16", b"".join(p[i] for p in pieces))
    save_safetensors(path, out)


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in PACK:
        sys.exit(__doc__)
    model, out, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    for to in (out, out / "plain"):
        shutil.copytree(model / "tokenizer", to / "tokenizer", dirs_exist_ok=True)
        shutil.copytree(model / "vae", to / "vae", dirs_exist_ok=True)
    for part in ("transformer", "text_encoder"):
        tensors = pack(read(model / part), kind)
        plain = {n: (shape, "F32", struct.pack(f"<{len(x)}f", *x)) for n, (shape, _, _, x) in tensors.items()}
        save_safetensors(out / "plain" / part / "model.safetensors", plain)
        if kind == "mlx4":
            save_mlx(out / part / "model.safetensors", renamed(tensors, MLX) if part == "transformer" else tensors)
        elif part == "transformer":
            save_gguf(out / "z-image.gguf", single_file(tensors), "z_image")
        else:
            save_gguf(out / "z-image-text.gguf", renamed(tensors, LLAMA), "qwen3")


main()
