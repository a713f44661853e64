#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A tiny Z-Image with random weights, for tests: the folders and names of the published one, in less than a megabyte.

    python3 tools/make_tiny_zimage.py DIR [LAYERS [WIDTH]]

Writes DIR/tokenizer, text_encoder, transformer (two shards and their index) and vae.  Its pictures have no meaning;
another prompt, seed or number of steps makes another one.  LAYERS: of the text encoder, which has one more in its file, and of
the transformer; from the third on they are copies of the first two.  WIDTH: of both; a multiple of 32.  Of a large tensor, values
repeat.  Nothing but Python is needed.
"""
import json
import random
import shutil
import struct
import sys
from pathlib import Path

VOCAB, FEATURES, WIDTH, HEAD, LATENT, VAE = 561, 32, 32, 16, 16, 32
PATTERN = 1 << 16  # values of a tensor before they repeat
SOURCE = Path(__file__).resolve().parent.parent


class Network:
    """Tensors in bfloat16, in the order in which they are stated."""

    def __init__(self, seed):
        self.random, self.tensors = random.Random(seed), {}

    def add(self, name, *shape, mean=0.0, deviation=None):
        n, fan_in = 1, 1
        for i, s in enumerate(shape):
            n *= s
            fan_in *= s if i else 1
        if deviation is None:
            deviation = fan_in**-0.5 if len(shape) > 1 else 0.1
        gauss = self.random.gauss
        bits = (struct.unpack("<I", struct.pack("<f", gauss(mean, deviation)))[0] >> 16 for _ in range(min(n, PATTERN)))
        data = b"".join(struct.pack("<H", b) for b in bits)
        self.tensors[name] = (list(shape), n, data)

    def linear(self, name, cin, cout, bias=False):
        self.add(f"{name}.weight", cout, cin)
        if bias:
            self.add(f"{name}.bias", cout)

    def conv(self, name, cin, cout, side=3):
        self.add(f"{name}.weight", cout, cin, side, side)
        self.add(f"{name}.bias", cout)

    def norm(self, name, c, bias=False):
        self.add(f"{name}.weight", c, mean=1.0)
        if bias:
            self.add(f"{name}.bias", c)


def save(path, tensors):
    head, at = {}, 0
    for name, (shape, n, _) in tensors.items():
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * n]}
        at += 2 * n
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, n, data in tensors.values():
            f.write((data * (2 * n // len(data) + 1))[:2 * n])


def repeat(tensors, prefix, n):
    """Layers 2 .. n-1: copies of layers 0 and 1."""
    for i in range(2, n):
        for name in [t for t in tensors if t.startswith(f"{prefix}{i % 2}.")]:
            tensors[name.replace(f"{prefix}{i % 2}.", f"{prefix}{i}.", 1)] = tensors[name]
    return tensors


def text_encoder(layers):
    n, feed = Network(1), FEATURES // 2 * 3
    n.add("model.embed_tokens.weight", VOCAB, FEATURES, deviation=1.0)
    for i in range(3):
        p = f"model.layers.{i}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            n.norm(f"{p}.{norm}", FEATURES)
        for part, cout in (("q", 4 * HEAD), ("k", 2 * HEAD), ("v", 2 * HEAD)):
            n.linear(f"{p}.self_attn.{part}_proj", FEATURES, cout)
        n.linear(f"{p}.self_attn.o_proj", 4 * HEAD, FEATURES)
        n.norm(f"{p}.self_attn.q_norm", HEAD)
        n.norm(f"{p}.self_attn.k_norm", HEAD)
        for part, cin, cout in (("gate", FEATURES, feed), ("up", FEATURES, feed), ("down", feed, FEATURES)):
            n.linear(f"{p}.mlp.{part}_proj", cin, cout)
    n.norm("model.norm", FEATURES)
    return repeat(n.tensors, "model.layers.", layers + 1) if layers > 2 else n.tensors


def block(n, p, modulated):
    feed = WIDTH // 2 * 3
    for norm in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
        n.norm(f"{p}.{norm}", WIDTH)
    for part in ("to_q", "to_k", "to_v", "to_out.0"):
        n.linear(f"{p}.attention.{part}", WIDTH, WIDTH)
    n.norm(f"{p}.attention.norm_q", HEAD)
    n.norm(f"{p}.attention.norm_k", HEAD)
    for part, cin, cout in (("w1", WIDTH, feed), ("w2", feed, WIDTH), ("w3", WIDTH, feed)):
        n.linear(f"{p}.feed_forward.{part}", cin, cout)
    if modulated:
        n.linear(f"{p}.adaLN_modulation.0", 32, 4 * WIDTH, bias=True)


def transformer(layers):
    n = Network(2)
    n.linear("t_embedder.mlp.0", 32, 24, bias=True)
    n.linear("t_embedder.mlp.2", 24, 32, bias=True)
    n.linear("all_x_embedder.2-1", 4 * LATENT, WIDTH, bias=True)
    n.norm("cap_embedder.0", FEATURES)
    n.linear("cap_embedder.1", FEATURES, WIDTH, bias=True)
    n.add("x_pad_token", 1, WIDTH, deviation=1.0)
    n.add("cap_pad_token", 1, WIDTH, deviation=1.0)
    block(n, "noise_refiner.0", True)
    block(n, "context_refiner.0", False)
    for i in range(2):
        block(n, f"layers.{i}", True)
    n.linear("all_final_layer.2-1.adaLN_modulation.1", 32, WIDTH, bias=True)
    n.linear("all_final_layer.2-1.linear", WIDTH, 4 * LATENT, bias=True)
    return repeat(n.tensors, "layers.", layers)


def residual(n, p):
    for i in (1, 2):
        n.norm(f"{p}.norm{i}", VAE, bias=True)
        n.conv(f"{p}.conv{i}", VAE, VAE)


def half(n, side, first, last):
    n.conv(f"{side}.conv_in", first, VAE)
    for i in (0, 1):
        residual(n, f"{side}.mid_block.resnets.{i}")
    n.norm(f"{side}.mid_block.attentions.0.group_norm", VAE, bias=True)
    for part in ("to_q", "to_k", "to_v", "to_out.0"):
        n.linear(f"{side}.mid_block.attentions.0.{part}", VAE, VAE, bias=True)
    blocks, resample = ("up_blocks", "upsamplers") if side == "decoder" else ("down_blocks", "downsamplers")
    for i in range(4):
        residual(n, f"{side}.{blocks}.{i}.resnets.0")
        if i < 3:
            n.conv(f"{side}.{blocks}.{i}.{resample}.0.conv", VAE, VAE)
    n.norm(f"{side}.conv_norm_out", VAE, bias=True)
    n.conv(f"{side}.conv_out", VAE, last)


def autoencoder():
    n = Network(3)
    half(n, "encoder", 3, 2 * LATENT)
    half(n, "decoder", LATENT, 3)
    return n.tensors


def main():
    global FEATURES, WIDTH
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    out, layers = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2
    FEATURES = WIDTH = int(sys.argv[3]) if len(sys.argv) > 3 else 32
    (out / "tokenizer").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SOURCE / "tests/data/text/tokenizer.json", out / "tokenizer/tokenizer.json")
    save(out / "text_encoder/model.safetensors", text_encoder(layers))
    save(out / "vae/diffusion_pytorch_model.safetensors", autoencoder())
    tensors = list(transformer(layers).items())
    shards = (dict(tensors[:len(tensors) // 2]), dict(tensors[len(tensors) // 2:]))
    names = [f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for name, shard in zip(names, shards):
        save(out / "transformer" / name, shard)
    index = {"metadata": {}, "weight_map": {t: name for name, shard in zip(names, shards) for t in shard}}
    (out / "transformer/diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(index))


main()
