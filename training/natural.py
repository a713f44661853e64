"""How much a picture looks like a photograph, without a reference: a distance as NIQE (Mittal et al. 2013) defines it, whose statistics
of good photographs are computed from given folders, not those of the published model.

    python natural.py --good SELFEXSR/data/{BSD100,Urban100}/image_SRF_4 --pictures FOLDER...

Contrast-normalised luma; 18 parameters of its distribution and of products of neighbours, at two sizes, of each patch of 96x96 pixels;
good photographs: those patches of a picture whose contrast is at least 0.75 of its largest.  The distance is that of two normal
distributions, over all patches of a picture; smaller is better.  It knows nothing of faithfulness.
"""
import argparse
import functools
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import data

SIDE = 96
SHAPES = np.arange(0.2, 10.001, 0.001)
GAMMA = np.vectorize(math.gamma)
RATIO = GAMMA(2 / SHAPES) ** 2 / (GAMMA(1 / SHAPES) * GAMMA(3 / SHAPES))


@functools.lru_cache(None)
def window():
    t = torch.arange(-3, 4, dtype=torch.float64)
    g = torch.exp(-0.5 * (t / (7 / 6)) ** 2)
    return (g[:, None] * g / g.sum() ** 2)[None, None]


def normalised(y):
    """(luma without its local mean, over its local deviation; that deviation), of y [1,1,H,W] in 0..255."""
    smooth = lambda v: F.conv2d(F.pad(v, (3, 3, 3, 3), mode="replicate"), window())
    mean = smooth(y)
    deviation = (smooth(y * y) - mean * mean).abs().sqrt()
    return (y - mean) / (deviation + 1), deviation


def fitted(v):
    """Shape and the two deviations of an asymmetric generalised normal distribution; nan of a flat place."""
    if not v.any():
        return (math.nan,) * 3
    left, right = v[v < 0], v[v > 0]
    a, b = (np.sqrt((s ** 2).mean()) if len(s) else 1e-6 for s in (left, right))
    g = a / b
    r = np.abs(v).mean() ** 2 / (v ** 2).mean() * (g ** 3 + 1) * (g + 1) / (g ** 2 + 1) ** 2
    shape = SHAPES[np.argmin((RATIO - r) ** 2)]
    scale = math.sqrt(math.gamma(1 / shape) / math.gamma(3 / shape))
    return shape, a * scale, b * scale


def features(v):
    """The 18 of one patch."""
    shape, a, b = fitted(v)
    if math.isnan(shape):
        return [math.nan] * 18
    out = [shape, (a + b) / 2]
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        shape, a, b = fitted(v * np.roll(v, (dy, dx), (0, 1)))
        if math.isnan(shape):
            return [math.nan] * 18
        out += [shape, (b - a) * math.gamma(2 / shape) / math.gamma(1 / shape), a, b]
    return out


def patches(path):
    """(features [N,36], contrast [N]) of a picture's patches, without flat ones."""
    x = data.read(path).double()
    y = (0.299 * x[..., 0] + 0.587 * x[..., 1] + 0.114 * x[..., 2])[None, None]
    h, w = (s // SIDE * SIDE for s in y.shape[2:])
    if not h or not w:
        raise SystemExit(f"{path} is smaller than {SIDE} pixels")
    both, contrast = [], None
    for k in (1, 2):
        v, deviation = normalised(y[..., :h, :w] if k == 1 else F.interpolate(y[..., :h, :w], scale_factor=0.5, mode="bicubic", antialias=True))
        s = SIDE // k
        cut = v[0, 0].unfold(0, s, s).unfold(1, s, s).reshape(-1, s, s).numpy()
        both.append([features(c) for c in cut])
        if k == 1:
            contrast = deviation[0, 0].unfold(0, s, s).unfold(1, s, s).mean((2, 3)).flatten().numpy()
    f = np.concatenate(both, 1)
    fine = np.isfinite(f).all(1)
    return f[fine], contrast[fine]


def statistics(folders):
    rows = []
    for path in pictures(folders):
        f, contrast = patches(path)
        rows.append(f[contrast >= 0.75 * contrast.max()])
    rows = np.concatenate(rows)
    return rows.mean(0), np.cov(rows.T)


def pictures(folders):
    found = data.pictures(folders)
    return [p for p in found if p.stem.endswith("_HR")] or found


def distance(path, mean, cov):
    f, _ = patches(path)
    d = f.mean(0) - mean
    own = np.cov(f.T) if len(f) > 1 else np.zeros_like(cov)
    return math.sqrt(d @ np.linalg.pinv((cov + own) / 2) @ d)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--good", nargs="+", required=True)
    p.add_argument("--pictures", nargs="+", required=True, help="folders, compared by file name")
    p.add_argument("--keep", type=Path, help="file for the statistics of --good; read where it is there")
    a = p.parse_args()
    if a.keep and a.keep.exists():
        mean, cov = (np.load(a.keep)[k] for k in ("mean", "cov"))
    else:
        mean, cov = statistics(a.good)
        if a.keep:
            np.savez(a.keep, mean=mean, cov=cov)
    found = [{q.stem: distance(q, mean, cov) for q in data.pictures([f])} for f in a.pictures]
    print("| picture | " + " | ".join(Path(f).name for f in a.pictures) + " |\n|---|" + "---|" * len(found))
    names = sorted(set.intersection(*(set(f) for f in found)))
    for name in names:
        print(f"| {name} | " + " | ".join(f"{f[name]:.2f}" for f in found) + " |")
    print(f"| mean of {len(names)} | " + " | ".join(f"{np.mean([f[n] for n in names]):.2f}" for f in found) + " |")


if __name__ == "__main__":
    main()
