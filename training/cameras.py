"""Simulated pairs of clean and noisy patches, as from cameras, scanners and files: for estimate.py and train.py
--cameras.

    python cameras.py OUT.safetensors --photos DIR... --count 1500 [--side 128] [--seed 1] [--jobs 16] [--validation]

  photograph  scaled to a size at which it is clean, or larger (soft, as a whole picture of a camera is)
  camera      exposure, lens, colour matrix and white balance to a sensor's own channels, a Bayer mosaic of electrons (Poisson)
              with read and row noise, black level and clipping, demosaicing (bilinear, gradient-corrected, edge-aware), white
              balance, colour matrix, denoising in the camera, tone curve, sharpening.  The denoising leaves noise that is coarse: of
              up to 2.5 pixels in lightness and 7 in colours, with some of the fine noise, and more of it at edges.
  after it    resizing to 0.4 .. 2.2 times the size, sharpening, a JPEG file (chroma at full or half size), 8 bits
  other kinds white noise, film grain, JPEG files without noise, clean pictures
  parts       one patch in four has a part that is clean, blurred, grey, or already denoised

The clean patch goes through the same steps without noise and without the file. real.py, which measures quality, has its
own simulation of a camera: networks are not measured on the noise they were trained on.  Every eighth photograph, by
name, is kept for validation.
"""
import argparse
import io
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file

import data
import real

MARGIN = 16
KINDS = ("camera", "white", "grain", "JPEG", "clean")
SHARES = (0.6, 0.16, 0.08, 0.08, 0.08)
VALIDATION = 8                                  # every so many photographs


def split(files, validation):
    return [f for i, f in enumerate(files) if (i % VALIDATION == 3) == validation]


# ---- filters on [H,W,C] ------------------------------------------------------------------------------------------

def planes(v):
    return torch.from_numpy(np.ascontiguousarray(v.transpose(2, 0, 1), dtype=np.float32))[None]


def pixels(x):
    return x[0].numpy().transpose(1, 2, 0)


def gauss(v, sigma):
    """Gaussian blur, mirrored at the edge."""
    if sigma <= 0:
        return v
    r = max(1, int(np.ceil(3 * sigma)))
    k = torch.exp(-torch.arange(-r, r + 1.0).square() / (2 * sigma ** 2))
    k = (k / k.sum()).expand(v.shape[2], 1, -1)
    x = F.pad(planes(v), (r, r, r, r), mode="reflect")
    x = F.conv2d(F.conv2d(x, k[:, :, None], groups=v.shape[2]), k[..., None], groups=v.shape[2])
    return pixels(x)


def scaled(v, factor):
    """factor > 1: larger."""
    size = [max(8, round(n * factor)) for n in v.shape[:2]]
    return pixels(F.interpolate(planes(v), size=size, mode="bicubic", antialias=True))


def bilateral(v, width, radius=2):
    """Of one channel [H,W]."""
    p = np.pad(v, radius, mode="reflect")
    h, w = v.shape
    total, weight = np.zeros_like(v), np.zeros_like(v)
    for dy in range(2 * radius + 1):
        for dx in range(2 * radius + 1):
            q = p[dy:dy + h, dx:dx + w]
            k = np.exp(-((q - v) / width) ** 2 / 2 - ((dy - radius) ** 2 + (dx - radius) ** 2) / (2 * radius ** 2))
            total += k * q
            weight += k
    return total / weight


def sharpened(v, amount, radius):
    return v + amount * (v - gauss(v, radius)) if amount else v


def spread(v, kernel):
    return real.filtered(v.astype(np.float64), kernel)


CROSS = np.pad(np.array([[0, 1, 0], [1, 4, 1], [0, 1, 0]]) / 4, 1)
SQUARE = np.pad(np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 4, 1)
ROW5 = np.zeros((5, 5))
ROW5[2] = [-1, 2, 2, 2, -1]
ROW5 /= 4
STEP1, STEP2 = np.zeros((5, 5)), np.zeros((5, 5))
STEP1[2, 1], STEP1[2, 3] = -1, 1
STEP2[2] = [-1, 0, 2, 0, -1]


def demosaic(raw, how):
    """Rows R G R G, then G B G B."""
    if how == "gradient-corrected":
        return real.demosaic(raw)
    y, x = np.indices(raw.shape) % 2
    is_green = y != x
    if how == "bilinear":
        green = spread(raw * is_green, CROSS)
        differing = 0
    else:                                       # edge-aware: along the direction of the smaller gradient (Hamilton, Adams 1997)
        across = np.abs(spread(raw, STEP1)) + np.abs(spread(raw, STEP2))
        down = np.abs(spread(raw, STEP1.T.copy())) + np.abs(spread(raw, STEP2.T.copy()))
        row, column = spread(raw, ROW5), spread(raw, ROW5.T.copy())
        green = np.where(across < down, row, np.where(down < across, column, (row + column) / 2))
        green = differing = np.where(is_green, raw, green)
    red = spread((raw - differing) * ((y == 0) & (x == 0)), SQUARE) + differing
    blue = spread((raw - differing) * ((y == 1) & (x == 1)), SQUARE) + differing
    return np.stack([red, green, blue], 2)


# ---- the camera --------------------------------------------------------------------------------------------------

YCC = np.array(data._YCC)


class Camera:
    """A random one; shoot() with and without noise."""

    def __init__(self, rng):
        u = rng.uniform
        between = lambda a, b: np.exp(u(np.log(a), np.log(b)))
        m = u(-0.6, 0.15, (3, 3)) * (1 - np.eye(3))
        self.matrix = m + np.diag(1 - m.sum(1))
        self.inverse = np.linalg.inv(self.matrix)
        self.gains = np.array([u(1.2, 2.4), 1, u(1.2, 2.4)])
        self.exposure = between(0.35, 1.3)
        self.lens = u(0.3, 0.8)
        self.how = rng.choice(["bilinear", "gradient-corrected", "edge-aware"])
        # denoising: of lightness and colours, a blur's radius and what it leaves of the finest noise, how much colour noise is left at
        # all; then a bilateral filter
        self.blur, self.left = (0.0, 0.0), (1.0, 1.0)
        if u() < 0.7:
            self.blur = between(0.3, 2.5) if u() < 0.75 else 0, between(0.5, 7) if u() < 0.85 else 0
            self.left = tuple(u(0, 0.6) if u() < 0.6 else 0 for _ in range(2))
        self.colour = u(0.2, 1) if u() < 0.5 else 1
        self.at_edges, self.edge = u(0, 1), between(0.5, 4)
        self.smooth = u(0.1, 0.8) if u() < 0.35 else 0
        self.width = u(0.02, 0.1)
        # a camera denoises more where there is more noise
        self.electrons = max(30, between(200, 40000) / (1 + 3 * self.blur[0] ** 2 * (1 - self.left[0]) ** 2))
        self.read = u(0.5, 5)
        self.row = u(0.1, 0.5) * self.read if u() < 0.15 else 0
        self.black = u() < 0.5
        self.curve = u(-0.15, 0.6)
        self.sharpen = u(0.1, 1.6) if u() < 0.55 else 0
        self.radius = between(0.5, 2)

    def expose(self, picture, rng):
        """(clean, noisy) in linear light, of white balance and colours as they shall be."""
        light = gauss(real.to_linear(np.clip(picture, 0, 1)) * self.exposure, self.lens).astype(np.float64)
        sensor = np.clip(light @ self.inverse.T, 0, None) / self.gains
        y, x = np.indices(sensor.shape[:2]) % 2
        place = y + x
        raw = np.take_along_axis(sensor, place[..., None], 2)[..., 0]
        n = self.read * rng.standard_normal(raw.shape) + self.row * rng.standard_normal((len(raw), 1))
        noisy = (rng.poisson(raw * self.electrons) + n) / self.electrons
        noisy = np.maximum(noisy, 0) if self.black else noisy
        return [demosaic(np.minimum(v, 1) * self.gains[place], self.how) @ self.matrix.T for v in (raw, noisy)]

    def denoise(self, clean, noisy):
        """A good filter keeps the picture and leaves coarse noise; at edges it leaves more of it."""
        ycc, noise = clean @ YCC.T, (noisy - clean) @ YCC.T
        if any(self.blur):
            soft = np.concatenate([gauss(noise[..., :1], self.blur[0]), gauss(noise[..., 1:], self.blur[1])], 2)
            soft += np.array([self.left[0], self.left[1], self.left[1]]) * (noise - soft)
            soft[..., 1:] *= self.colour
            detail = gauss(np.square(ycc[..., :1] - gauss(ycc[..., :1], 2)), 1.5)
            strong = detail / (detail + self.edge * np.mean(np.square(noise[..., 0])) + 1e-12)
            noise = soft + self.at_edges * strong * (noise - soft)
        both = [ycc, ycc + noise]
        if self.smooth:
            for v in both:
                grey = np.sqrt(np.clip(v[..., 0], 0, None))     # the width of an edge in nearly perceptual units
                v[..., 0] += self.smooth * (bilateral(grey, self.width) ** 2 - grey ** 2)
        return [v @ np.linalg.inv(YCC).T for v in both]

    def finish(self, v):
        v = real.to_srgb(v)
        v = v + self.curve * v * (1 - v) * (2 * v - 1)
        return np.clip(sharpened(v, self.sharpen, self.radius), 0, 1)

    def shoot(self, picture, rng):
        """(clean, noisy)"""
        return [self.finish(v) for v in self.denoise(*self.expose(picture, rng))]


# ---- other kinds -------------------------------------------------------------------------------------------------

def white(picture, rng):
    sigma = rng.uniform(0.5, 60) * (rng.uniform(0.4, 1.6, 3) if rng.uniform() < 0.3 else np.ones(3)) / 255
    return picture + sigma * rng.standard_normal(picture.shape)


def grain(picture, rng):
    shared = rng.uniform(0, 0.9)
    n = np.sqrt(1 - shared) * rng.standard_normal(picture.shape) + np.sqrt(shared) * rng.standard_normal((*picture.shape[:2], 1))
    n = gauss(n, rng.uniform(0.3, 2))
    grey = picture @ [[0.2126], [0.7152], [0.0722]]
    return picture + rng.uniform(1, 25) / 255 * n / n.std() * (0.3 + 0.7 * 4 * grey * (1 - grey))


def stored(v, quality, subsampling):
    f = io.BytesIO()
    Image.fromarray(np.uint8(np.rint(np.clip(v, 0, 1) * 255))).save(f, "JPEG", quality=quality, subsampling=subsampling)
    return np.asarray(Image.open(f).convert("RGB")) / 255


def part(clean, noisy, rng):
    """A part of both is replaced: what was pasted, blurred, framed or denoised before."""
    h, w = clean.shape[:2]
    how = rng.choice(["clean", "blurred", "grey", "denoised"])
    if how == "clean":
        a, b = clean, clean
    elif how == "blurred":
        s = rng.uniform(1.5, 5)
        a, b = gauss(clean, s), gauss(noisy, s)
    elif how == "grey":
        a = b = np.full_like(clean, 1) * rng.uniform(0, 1, 3 if rng.uniform() < 0.3 else 1)
    else:
        a, b = clean, clean + rng.uniform(0.05, 0.25) * (noisy - clean)
    if rng.uniform() < 0.3:                     # a border
        mask = np.zeros((h, w, 1))
        n = rng.integers(8, 48)
        side = rng.integers(4)
        mask[(slice(0, n), slice(h - n, h), slice(None), slice(None))[side],
             (slice(None), slice(None), slice(0, n), slice(w - n, w))[side]] = 1
    else:
        y, x = np.indices((h, w))
        cy, cx = rng.uniform(0, h), rng.uniform(0, w)
        ry, rx = rng.uniform(16, 80, 2)
        d = np.maximum(abs(y - cy) / ry, abs(x - cx) / rx) if rng.uniform() < 0.5 else np.hypot((y - cy) / ry, (x - cx) / rx)
        mask = np.clip((1 - d) * rng.choice([2, 50]) , 0, 1)[..., None]
    return clean + mask * (a - clean), noisy + mask * (b - noisy)


def source(photo, rng, side):
    """A piece of a photograph [H,W,3] bytes at a random scale, in 0..1."""
    factor = np.exp(rng.uniform(np.log(0.33), np.log(1.6)))
    need = int(np.ceil(side / factor)) + 2
    need = min(need, *photo.shape[:2])
    factor = side / (need - 2)
    y, x = rng.integers(photo.shape[0] - need + 1), rng.integers(photo.shape[1] - need + 1)
    v = scaled(photo[y:y + need, x:x + need] / 255, factor)
    v = gauss(v, 0.5) if factor > 0.8 else v
    return np.clip(v[:side, :side], 0, 1)


def pair(photo, rng, side, kind=None):
    """(clean, noisy, kind) [side,side,3] in 0..1 from a photograph of bytes."""
    kind = kind or rng.choice(KINDS, p=SHARES)
    resize = np.exp(rng.uniform(np.log(0.4), np.log(2.2))) if kind in ("camera", "white") and rng.uniform() < 0.35 else 1
    clean = source(photo, rng, int((side + 2 * MARGIN) / resize) + 2)
    if kind == "camera":
        clean, noisy = Camera(rng).shoot(clean, rng)
    elif kind == "white":
        noisy = white(clean, rng)
    elif kind == "grain":
        noisy = grain(clean, rng)
    else:
        noisy = clean
    if resize != 1:
        amount, radius = rng.uniform(0.1, 1) if rng.uniform() < 0.4 else 0, rng.uniform(0.5, 1.2)
        clean, noisy = (np.clip(sharpened(scaled(v, resize), amount, radius), 0, 1) for v in (clean, noisy))
    y, x = rng.integers(MARGIN // 2, MARGIN, 2)     # any phase of the mosaic and of the file's blocks
    if kind == "JPEG" or (kind in ("camera", "grain") and rng.uniform() < 0.6):
        quality = int(rng.uniform(75, 98) if rng.uniform() < 0.7 and kind != "JPEG" else rng.uniform(30, 90))
        noisy = stored(noisy, quality, int(rng.choice([0, 2])))
    clean, noisy = (v[y:y + side, x:x + side] for v in (clean, noisy))
    if rng.uniform() < 0.25:
        clean, noisy = part(clean, noisy, rng)
    return real.eight_bits(clean), real.eight_bits(noisy), kind


def of_photo(file, count, side, seed):
    """Patches of one photograph: [count,3,side,side] bytes, clean and noisy, and kinds as numbers."""
    rng = np.random.default_rng(seed)
    photo = data.read(file).numpy()
    made = [pair(photo, rng, side) for _ in range(count)]
    byte = lambda v: np.uint8(np.rint(v * 255)).transpose(2, 0, 1)
    return [byte(m[0]) for m in made], [byte(m[1]) for m in made], [KINDS.index(m[2]) for m in made]


def make(files, count, side, seed, jobs):
    """The same for all, in random order."""
    each = -(-count // len(files))
    tasks = [(f, each, side, [seed, i]) for i, f in enumerate(files)]
    torch.set_num_threads(1)
    if jobs > 1:
        with ProcessPoolExecutor(jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            made = list(pool.map(of_photo, *zip(*tasks)))
    else:
        made = [of_photo(*t) for t in tasks]
    order = np.random.default_rng(seed).permutation(each * len(files))[:count]
    pick = lambda k: torch.from_numpy(np.array([v for m in made for v in m[k]])[order])
    return dict(clean=pick(0), noisy=pick(1), kind=pick(2))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--photos", nargs="+", required=True)
    p.add_argument("--count", type=int, default=1500)
    p.add_argument("--side", type=int, default=128)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=1, help="processes")
    p.add_argument("--validation", action="store_true", help="of the photographs that are kept out of training")
    a = p.parse_args()
    save_file(make(split(data.pictures(a.photos), a.validation), a.count, a.side, a.seed, a.jobs), a.out)


if __name__ == "__main__":
    main()
