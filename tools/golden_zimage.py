#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden files of Z-Image's networks, made by transformers' Qwen3 and diffusers' ZImageTransformer2DModel.

    python3 tools/golden_zimage.py tests/data/golden
    python3 tools/golden_zimage.py --wide build/engine/zenith

Writes small networks with random weights under the names of the published files (zimage_text.safetensors,
zimage_dit.safetensors), the transformer once more as single files have it (zimage_single.safetensors: q, k and v in one
tensor, a prefix) and zimage.golden.safetensors: inputs, every block's output, predictions for a latent of odd size with
padding on both sides and for one without, and the result of the scheduler's eight steps.

The second form compares the engine with diffusers on one layer of each kind with the published widths (3840 channels, 30 heads).

Weights are rounded to fp16 before the reference runs; what training initialises with zeros gets random values.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, ZImageTransformer2DModel
from diffusers.models.transformers.transformer_z_image import TimestepEmbedder
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3Model

VOCAB, FEATURES = 120, 40


def randomise(model):
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if p.ndim == 1:
                p.copy_(0.2 * torch.randn(p.shape, generator=g) + (1.0 if "norm" in name or "cap_embedder.0" in name else 0.0))
            elif "pad_token" in name or "embed_tokens" in name:
                p.copy_(torch.randn(p.shape, generator=g))
            else:
                p.copy_(torch.randn(p.shape, generator=g) / p.shape[1] ** 0.5)
            p.copy_(p.half().float())
    return model.eval()


def text_encoder():
    return randomise(Qwen3Model(Qwen3Config(
        vocab_size=VOCAB, hidden_size=FEATURES, intermediate_size=56, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True,
        attention_bias=False, max_position_embeddings=2048)))


def transformer():
    m = ZImageTransformer2DModel(dim=32, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=FEATURES,
                                 in_channels=16, axes_dims=[4, 6, 6], axes_lens=[1536, 512, 512])
    m.t_embedder = TimestepEmbedder(32, mid_size=24)  # 1024 would be most of the file
    return randomise(m)


def rows(x):
    return x.reshape(-1, 1, x.shape[-1]).contiguous()


def hwc(x):
    return x.reshape(x.shape[0], *x.shape[-2:]).permute(1, 2, 0).contiguous()


def single(state):
    out = {}
    for k, v in state.items():
        k = k.replace("all_x_embedder.2-1", "x_embedder").replace("all_final_layer.2-1", "final_layer")
        k = k.replace("to_out.0", "out").replace("norm_q", "q_norm").replace("norm_k", "k_norm")
        if ".to_k." in k or ".to_v." in k:
            continue
        if ".to_q." in k:
            v = torch.cat([v, state[k.replace("to_q", "to_k")], state[k.replace("to_q", "to_v")]])
            k = k.replace("to_q", "qkv")
        out["model.diffusion_model." + k] = v
    return out


def wide(program):
    m = randomise(ZImageTransformer2DModel(n_layers=1, n_refiner_layers=1, axes_lens=[1536, 512, 512]))
    g = torch.Generator().manual_seed(2)
    x, t, cap = torch.randn(16, 1, 14, 18, generator=g), torch.tensor([0.37]), torch.randn(21, 2560, generator=g)
    with tempfile.TemporaryDirectory() as d, torch.no_grad():
        want = hwc(m([x], t, [cap], return_dict=False)[0][0])
        save_file({k: v.half().contiguous() for k, v in m.state_dict().items()}, f"{d}/w.safetensors")
        del m
        for name, v in (("x", hwc(x)), ("t", t), ("cap", rows(cap))):
            np.save(f"{d}/{name}.npy", v.numpy())
        subprocess.run([program, "run", "z-image-dit", "--weights", f"{d}/w.safetensors", "--in", f"x={d}/x.npy", "--in", f"t={d}/t.npy",
                        "--in", f"cap={d}/cap.npy", "--out", f"y={d}/y.npy", "--set", "precision=fp32"], check=True)
        got = torch.from_numpy(np.load(f"{d}/y.npy"))
    print(f"relative error {((got - want).norm() / want.norm()).item():.2e}")


def main():
    if sys.argv[1] == "--wide":
        wide(sys.argv[2])
        return
    out = Path(sys.argv[1])
    g = torch.Generator().manual_seed(2)
    data = {}
    text, dit = text_encoder(), transformer()
    with torch.no_grad():
        for n in (13, 70):
            tokens = torch.randint(0, VOCAB, (1, n), generator=g)
            states = text(input_ids=tokens, output_hidden_states=True).hidden_states
            data[f"tokens{n}"] = tokens.float().reshape(1, 1, -1)
            data[f"cap{n}"] = rows(states[-2])
            if n == 13:
                for i in range(3):
                    data[f"text.layers.{i}"] = states[i + 1].contiguous()
        seen = {}
        for name, part in [*((f"layers.{i}", b) for i, b in enumerate(dit.layers)), ("noise_refiner.0", dit.noise_refiner[0]),
                           ("context_refiner.0", dit.context_refiner[0])]:
            part.register_forward_hook(lambda m, i, o, name=name: seen.__setitem__(name, o))
        # 15 tokens and 13 of the caption: padded; 64 and 32: not.
        for name, h, w, n in (("odd", 6, 10, 13), ("even", 16, 16, 32)):
            x = torch.randn(16, 1, h, w, generator=g)
            cap = torch.randn(n, FEATURES, generator=g) if n != 13 else data["cap13"][:, 0]
            t = torch.tensor([0.37])
            data |= {f"{name}.x": hwc(x), f"{name}.t": t.reshape(1, 1, 1), f"{name}.cap": rows(cap),
                     f"{name}.y": hwc(dit([x], t, [cap], return_dict=False)[0][0])}
            if name == "odd":
                data |= {f"dit.{k}": v.contiguous() for k, v in seen.items()}
        s = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=False)
        s.set_timesteps(sigmas=[1 - i / 8 for i in range(8)])
        x = torch.randn(16, 1, 6, 10, generator=g)
        data["noise"] = hwc(x)
        data["sigmas"] = s.sigmas.reshape(1, 1, -1)
        for t in s.timesteps:
            v = -dit([x], (1000 - t.reshape(1)) / 1000, [data["odd.cap"][:, 0]], return_dict=False)[0][0]
            x = s.step(v, t, x, return_dict=False)[0]
        data["sample8"] = hwc(x)
    half = lambda state: {k: v.half().contiguous() for k, v in state.items()}
    save_file(half({f"model.{k}": v for k, v in text.state_dict().items()}), out / "zimage_text.safetensors")
    save_file(half(dit.state_dict()), out / "zimage_dit.safetensors")
    save_file(half(single(dit.state_dict())), out / "zimage_single.safetensors")
    save_file({k: v.float().contiguous().clone() for k, v in data.items()}, out / "zimage.golden.safetensors")
    for k, v in data.items():
        print(f"{k:24} {tuple(v.shape)!s:18} rms {v.square().mean().sqrt():.3f}")
    print("sigmas", data["sigmas"].flatten().tolist())


main()
