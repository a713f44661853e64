"""Golden vectors of shipped files:  python golden.py ../models ../tests/data/golden

Every network runs in float32 on one small picture given by a formula; each file holds "in" and "out", H x W x C.
The denoisers get the noisy picture, of a size that is no multiple of 8, and sigma 25; restorers, told nothing, and upscalers the clean
one; an autoencoder's halves are two files, outputs not clamped.
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import evaluate
import nets

H, W, SIGMA = 40, 56, 25
SCALES = {"upscale": 2, "upscale-crisp": 4, "upscale-small": 4}


def picture():
    """Smooth waves and one hard edge; and the same with noise from a small generator."""
    y, x, c = np.meshgrid(np.arange(H), np.arange(W), np.arange(3), indexing="ij")
    clean = 0.5 + 0.25 * np.sin(0.31 * x + 0.7 * c) * np.cos(0.23 * y - 0.4 * c) + 0.15 * (x + y > 50) - 0.05 * c
    state, unit = 12345, np.empty(H * W * 3)
    for i in range(unit.size):                  # sum of 12 uniform numbers: nearly normal
        total = 0.0
        for _ in range(12):
            state = (state * 1664525 + 1013904223) % 2**32
            total += state / 2**32
        unit[i] = total - 6
    noisy = clean + SIGMA / 255 * unit.reshape(H, W, 3)
    return clean.astype(np.float32), noisy.astype(np.float32)


def to_nchw(a):
    return torch.from_numpy(a).permute(2, 0, 1)[None]


def to_hwc(t):
    return np.ascontiguousarray(t[0].permute(1, 2, 0).numpy())


def main(models, out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    clean, noisy = picture()

    def write(name, x, y):
        save_file({"in": torch.from_numpy(x), "out": torch.from_numpy(y)}, out / f"{name}.golden.safetensors")

    for path in [p for p in sorted(Path(models).glob("*.safetensors")) if not p.name.startswith(("zenith-face", "zenith-find"))]:
        name, net = evaluate.load(path)
        with torch.no_grad():
            if name == "denoise-level":
                x = to_nchw(noisy)[..., :H - 3, :W - 3]
                y = to_hwc(net(F.pad(x, (0, -x.shape[3] % 16, 0, -x.shape[2] % 16), mode="reflect")))
                write(f"shipped-{name}", to_hwc(x), np.ascontiguousarray(y[:-(-(H - 3) // 8), :-(-(W - 3) // 8)]))
                continue
            if name in nets.UPSCALERS or name in nets.RESTORERS:
                x = to_nchw(clean)[..., :H - 3, :W - 3]
                y = to_hwc(nets.restore(net, x) if name in nets.RESTORERS else nets.upscale(net, x, SCALES[name]))
                write(f"shipped-{name}", to_hwc(x), y)
                continue
            if name in nets.DENOISERS:
                x = to_nchw(noisy)[..., :H - 3, :W - 3]
                y = to_hwc(nets.denoise(net, x, torch.full_like(x, SIGMA / 255)))
                write(f"shipped-{name}", to_hwc(x), y)
            else:
                z = net.encode(to_nchw(clean))
                y = to_hwc(net.decode(z))
                write(f"shipped-{name}-encoder", clean, to_hwc(z))
                write(f"shipped-{name}-decoder", to_hwc(z), y)
        print(f"{name}: error {np.abs(y - clean[:y.shape[0], :y.shape[1]]).mean():.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
