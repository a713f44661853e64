"""Weight files and checkpoints.

    python export.py A.safetensors B.safetensors SHARE OUT.safetensors      weights between A's and B's: SHARE of the latter
"""
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, save, save_file

PART = 15 << 20         # checkpoints are cut into parts of this size


def write(folder, name, net, **about):
    """The shipped file: float16, PyTorch names and shapes, facts in __metadata__."""
    tensors = {k: v.detach().half().cpu().contiguous() for k, v in net.state_dict().items()}
    for k, v in tensors.items():
        if not torch.isfinite(v).all():
            raise ValueError(f"{k} does not fit float16")
    facts = {"model": name, "licence": "CC BY-SA 4.0", "project": "Zenith", **{k: str(v) for k, v in about.items()}}
    if name == "denoise-level":
        facts["input"] = "x[3] in 0..1 (sRGB); level of 255 for each denoiser at 1/8: sqrt((16 h)^2 + 0.35^2)"
    elif name.startswith("denoise"):
        facts["input"] = "x[3] in 0..1 (sRGB), sigma[3] in the same units; pixel-unshuffle 2"
    elif name.startswith("upscale"):
        facts["input"] = "x[3] in 0..1 (sRGB), noise (deviation in the same units), artefacts (1 - JPEG quality/100)"
    elif name.startswith("restore"):
        facts["input"] = ("x[3] in 0..1 (sRGB), pixel-unshuffle 2; noise (deviation in the same units), artefacts (1 - JPEG quality/100), "
                          "blur (deviation in units of 4 pixels); 1 for each of these that is known")
    else:
        facts["input"] = "x[3] in 0..1 (sRGB); 8x smaller latent of about unit variance, clamped 3*tanh(z/3)"
    path = Path(folder) / f"{name}.safetensors"
    part = path.with_suffix(".part")            # who reads the file meanwhile gets a whole one
    save_file(tensors, part, facts)
    part.chmod(0o644)
    return part.replace(path)


def write_checkpoint(folder, name, state):
    raw = save({k: v.cpu().contiguous() for k, v in state.items()})
    for i in range(0, len(raw), PART):
        (Path(folder) / f"{name}.ckpt.{i // PART}").write_bytes(raw[i:i + PART])


def read_checkpoint(folder, name):
    parts = sorted(Path(folder).glob(f"{name}.ckpt.*"), key=lambda p: int(p.suffix[1:]))
    if not parts:
        raise SystemExit(f"no checkpoint of {name} in {folder}")
    return load(b"".join(p.read_bytes() for p in parts))


def between(a, b, share, out):
    with safe_open(a, "pt") as first, safe_open(b, "pt") as second:
        facts = {**second.metadata(), "steps": f"{first.metadata()['steps']} + {second.metadata()['steps']}, {share} between"}
    a, b = load_file(a), load_file(b)
    save_file({k: torch.lerp(v.float(), b[k].float(), float(share)).half().contiguous() for k, v in a.items()}, out, facts)
    Path(out).chmod(0o644)


if __name__ == "__main__":
    between(*sys.argv[1:])
