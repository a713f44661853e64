#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/weights: files as PyTorch and safetensors themselves write them.

    python3 tools/make_weight_fixtures.py [folder]        (needs torch and safetensors)

In every tensor the i-th element, in C order, is i % 7, minus 3 where the type has a sign; so
tests/unit/test_weights.c can check each element, however the file lays it out."""

import collections
import json
import os
import sys

import safetensors.torch
import torch

UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16,
    "U16": torch.uint16, "I32": torch.int32, "U32": torch.uint32, "I64": torch.int64,
    "U64": torch.uint64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32,
    "F64": torch.float64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}


def filled(*shape, dtype=torch.float32):
    n = 1
    for s in shape:
        n *= s
    x = torch.arange(n) % 7
    if dtype == torch.bool:
        x = x != 0
    elif dtype not in UNSIGNED:
        x = (x - 3).float()
    return x.reshape(shape).to(dtype)


def every_dtype():
    return {name: filled(2, 5, dtype=t) for name, t in DTYPES.items()}


def layouts():
    shared = filled(70)
    wide = torch.full((6, 9), 99.0)
    wide[2:5, 3:7] = filled(3, 4)
    return {
        "transposed": filled(3, 4).t().contiguous().t(),
        "channels_last": filled(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "permuted": filled(2, 3, 4).permute(2, 0, 1).contiguous().permute(1, 2, 0),
        "window": wide[2:5, 3:7],
        "shared": shared, "shared.head": shared[:7].view(7), "shared.tail": shared[7:].view(9, 7),
        "scalar": filled(), "empty": torch.empty(0, 3), "eight": filled(1, 2, 1, 3, 1, 2, 1, 2),
        "expanded": filled(1, 7).expand(4, 7), "half.t": filled(5, 3).half().t().contiguous().t(),
        "parameter": torch.nn.Parameter(filled(4)), "frozen": torch.nn.Parameter(filled(4), False),
    }


def lightning():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4),
                              torch.nn.Linear(4, 2))
    for x in net.state_dict().values():
        x.copy_(filled(*x.shape, dtype=x.dtype))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    sum(p.sum() for p in net.parameters()).backward()
    opt.step()
    for x in net.state_dict().values():
        x.copy_(filled(*x.shape, dtype=x.dtype))
    return {
        "epoch": 3, "global_step": 2**40, "pytorch-lightning_version": "1.4.5", "loss": 0.25,
        "callbacks": {("a", 1): {"best": float("inf"), "seen": {1, 2}, "none": None}},
        "optimizer_states": [opt.state_dict()], "lr_schedulers": [], "state_dict": net.state_dict(),
        "hyper_parameters": {"conf": collections.Counter("abc"), "raw": b"\0\1", "size": torch.Size([1])},
    }


def diffae(golden):
    """The published files of the diffusion autoencoder as its training writes them, of the size of diffae.ckpt: a latent
    network without statistics, the classifier of codes, and the codes of a data set.  Random numbers."""
    full = torch.load(golden, weights_only=False)["state_dict"]
    g = torch.Generator().manual_seed(5)
    code = full["conds_mean"].shape[1]
    latent = {k: v.float() for k, v in full.items() if k.startswith("ema_model.latent_net.")}
    for k in list(latent):  # in the published files a layer's linear_emb is there under two names
        if ".linear_emb." in k:
            latent[k.replace("linear_emb", "cond_layers.1")] = latent[k]
    weight, bias = torch.randn(40, code, generator=g), torch.randn(40, generator=g)
    classifier = {"classifier.weight": weight, "classifier.bias": bias, "ema_classifier.weight": weight * 0 + 9,
                  "ema_classifier.bias": bias * 0 + 9, "conds_mean": full["conds_mean"], "conds_std": full["conds_std"]}
    wrap = {"epoch": 3, "global_step": 17, "pytorch-lightning_version": "1.4.5",
            "callbacks": {torch.nn.Linear: {"best": None}}, "optimizer_states": [{"state": {0: {"step": 1}}}]}
    return {"diffae-latent.ckpt": {**wrap, "state_dict": latent}, "diffae-cls.ckpt": {**wrap, "state_dict": classifier},
            "diffae-latent.pkl": {"conds": torch.randn(6, code, generator=g), "conds_mean": full["conds_mean"][0].clone(),
                                  "conds_std": full["conds_std"][0].clone()}}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "data", "weights")
    shards = os.path.join(folder, "shards")
    os.makedirs(shards, exist_ok=True)
    torch.manual_seed(1)
    torch.save(every_dtype(), os.path.join(folder, "dtypes.pt"))
    torch.save(layouts(), os.path.join(folder, "layouts.pt"))
    torch.save(layouts(), os.path.join(folder, "layouts_protocol4.pt"), pickle_protocol=4)
    torch.save(lightning(), os.path.join(folder, "lightning.ckpt"))
    torch.save(filled(2, 3).bfloat16(), os.path.join(folder, "bare.pt"))
    torch.save({"w": filled(9)}, os.path.join(folder, "legacy.pth"), _use_new_zipfile_serialization=False)
    safetensors.torch.save_file(every_dtype(), os.path.join(folder, "dtypes.safetensors"),
                                {"format": "pt", "made": "by tools/make_weight_fixtures.py"})
    parts = {"s-00001-of-00002.safetensors": {"a.weight": filled(3, 5), "a.bias": filled(3)},
             "s-00002-of-00002.safetensors": {"b.weight": filled(2, 2).half(), "b.n": filled()}}
    for name, part in parts.items():
        safetensors.torch.save_file(part, os.path.join(shards, name))
    index = {"metadata": {"total_size": 84},
             "weight_map": {key: name for name, part in parts.items() for key in part}}
    for name, data in diffae(os.path.join(here, "..", "tests", "data", "golden", "diffae.ckpt")).items():
        torch.save(data, os.path.join(folder, name))
    with open(os.path.join(shards, "s.safetensors.index.json"), "w") as f:
        json.dump(index, f, indent=2, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
