#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A tiny Z-Image with made-up weights, for tests: the folders and names of the published one, in less than a megabyte.

    python3 tools/make_tiny_zimage.py DIR

Writes DIR/tokenizer, text_encoder, transformer (two shards and their index) and vae.  Prompts become pictures of no meaning;
another prompt, seed or number of steps makes another one.  Nothing but Python is needed.
"""
import json
import random
import shutil
import struct
import sys
from pathlib import Path

VOCAB, FEATURES, WIDTH, HEAD, LATENT, VAE = 561, 32, 32, 16, 16, 32
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
        bits = (struct.unpack("<I", struct.pack("<f", gauss(mean, deviation)))[0] >> 16 for _ in range(n))
        self.tensors[name] = (list(shape), b"".join(struct.pack("<H", b) for b in bits))

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
    for name, (shape, data) in tensors.items():
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(d for _, d in tensors.values()))


def text_encoder():
    n = Network(1)
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
        for part, cin, cout in (("gate", FEATURES, 48), ("up", FEATURES, 48), ("down", 48, FEATURES)):
            n.linear(f"{p}.mlp.{part}_proj", cin, cout)
    n.norm("model.norm", FEATURES)
    return n.tensors


def block(n, p, modulated):
    for norm in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
        n.norm(f"{p}.{norm}", WIDTH)
    for part in ("to_q", "to_k", "to_v", "to_out.0"):
        n.linear(f"{p}.attention.{part}", WIDTH, WIDTH)
    n.norm(f"{p}.attention.norm_q", HEAD)
    n.norm(f"{p}.attention.norm_k", HEAD)
    for part, cin, cout in (("w1", WIDTH, 48), ("w2", 48, WIDTH), ("w3", WIDTH, 48)):
        n.linear(f"{p}.feed_forward.{part}", cin, cout)
    if modulated:
        n.linear(f"{p}.adaLN_modulation.0", 32, 4 * WIDTH, bias=True)


def transformer():
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
    return n.tensors


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
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    (out / "tokenizer").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SOURCE / "tests/data/text/tokenizer.json", out / "tokenizer/tokenizer.json")
    save(out / "text_encoder/model.safetensors", text_encoder())
    save(out / "vae/diffusion_pytorch_model.safetensors", autoencoder())
    tensors = list(transformer().items())
    shards = (dict(tensors[:len(tensors) // 2]), dict(tensors[len(tensors) // 2:]))
    names = [f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for name, shard in zip(names, shards):
        save(out / "transformer" / name, shard)
    index = {"metadata": {}, "weight_map": {t: name for name, shard in zip(names, shards) for t in shard}}
    (out / "transformer/diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(index))


main()
