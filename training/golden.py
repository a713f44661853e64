"""Golden vectors of shipped files:  python golden.py MODELS_FOLDER OUT_FOLDER

Every network runs in float32 on one small picture given by a formula. Arrays are float32, C order,
H x W x C: x.npy (clean), noisy.npy, <denoiser>.y.npy (of noisy.npy, sigma 25), and for the
autoencoder <name>.z.npy and <name>.y.npy (of x.npy, not clamped).
"""
import sys
from pathlib import Path

import numpy as np
import torch

import evaluate
import nets

H, W, SIGMA = 40, 56, 25


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
    np.save(out / "x.npy", clean)
    np.save(out / "noisy.npy", noisy)
    for path in sorted(Path(models).glob("*.safetensors")):
        name, net = evaluate.load(path)
        with torch.no_grad():
            if name in nets.DENOISERS:
                x = to_nchw(noisy)
                y = net(x, torch.full_like(x, SIGMA / 255))
                print(f"{name}: error {np.abs(noisy - clean).mean():.4f} -> {np.abs(to_hwc(y) - clean).mean():.4f}")
            else:
                z = net.encode(to_nchw(clean))
                y = net.decode(z)
                np.save(out / f"{name}.z.npy", to_hwc(z))
                print(f"{name}: error {np.abs(to_hwc(y) - clean).mean():.4f}")
            np.save(out / f"{name}.y.npy", to_hwc(y))


if __name__ == "__main__":
    main(*sys.argv[1:])
