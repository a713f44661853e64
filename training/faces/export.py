"""Weight files: float16 safetensors whose metadata says how to run them; long ones in parts.

    python export.py join DIR FILE.safetensors         # the parts of a checkpoint as one file
"""
import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load, save

import data
import nets

PART = 15 << 20
NAME = "face-ae.safetensors"


def facts(config, **about):
    c = nets.CONFIGS[config]
    join = lambda v: ",".join(map(str, v))
    return {
        "model": "face-ae", "project": "Zenith", "config": config, "patch": "2", "prediction": "v",
        "schedule": "linear 0.0001 0.02 1000", "image_size": str(c["side"]), "in_channels": "3",
        "attention_resolutions": join(c["attention"]), "encoder_attention_resolutions": join(c["enc_attention"]),
        "head_channels": str(nets.HEAD), "groups": "32", "blocks": str(c["blocks"]),
        "encoder_blocks": str(c["enc_blocks"]), "code": str(nets.CODE), "input": "sRGB in -1..1",
        "attributes": join(data.NAMES), **{k: str(v) for k, v in about.items()},
    }


def pack(net, about):
    tensors = {k: v.detach().half().cpu().contiguous() for k, v in net.state_dict().items()}
    for k, v in tensors.items():
        if not torch.isfinite(v).all():
            raise ValueError(f"{k} does not fit float16")
    return save(tensors, about)


def write(folder, net, config, **about):
    folder = Path(folder)
    raw = pack(net, facts(config, **about))
    for i in range(0, len(raw), PART):
        tmp = folder / "part.tmp"
        tmp.write_bytes(raw[i:i + PART])
        tmp.rename(folder / f"{NAME}.{i // PART}")


def read(path):
    """(tensors, metadata) of a file, or of the parts in a folder."""
    path = Path(path)
    if path.is_dir():
        parts = sorted(path.glob(f"{NAME}.?"))
        if not parts:
            raise SystemExit(f"no {NAME}.0 in {path}")
        raw = b"".join(p.read_bytes() for p in parts)
    else:
        raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return load(raw), json.loads(raw[8:8 + size]).get("__metadata__", {})


def network(path, device, kind=None):
    """The network of a checkpoint, for use."""
    tensors, about = read(path)
    net = nets.build(about["config"], len(about["attributes"].split(",")))
    net.load_state_dict({k: v.float() for k, v in tensors.items()})
    kind = kind or (torch.float16 if device == "cuda" else torch.float32)
    net = net.to(device, kind)
    for p in net.parameters():
        if p.dim() == 4 and device == "cuda":
            p.data = p.data.contiguous(memory_format=torch.channels_last)
    return net.eval().requires_grad_(False), about


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] != "join":
        raise SystemExit(__doc__)
    tensors, about = read(sys.argv[2])
    about = facts(about["config"], steps=about["steps"], pictures=about["pictures"])
    Path(sys.argv[3]).write_bytes(save(tensors, about))
    with safe_open(sys.argv[3], "pt") as f:
        print(f"{len(list(f.keys()))} tensors, {Path(sys.argv[3]).stat().st_size:,} bytes", f.metadata())
