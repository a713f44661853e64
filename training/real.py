"""Quality on noise of cameras, scalers and files, by its own simulation: it shares nothing with data.py's training
noise, so that networks are not measured on the noise they were trained on.

    python real.py FILE.safetensors... --test KODAK24 [--ffdnet FFDNET.pth] [--zenith PROGRAM]
    python real.py --save PAIRS --test KODAK24 --zenith PROGRAM      what it measures on, for train.py --real PAIRS

  camera      sRGB to linear light, a lens, back through colour matrix and white balance to a sensor's own channels, a
              Bayer mosaic of electrons (Poisson) with read noise (Gaussian), white balance, demosaicing (Malvar, He,
              Cutler 2004), colour matrix, sRGB, 8 bits.  ISO low, mid, high: 2000, 500, 125 electrons at white.
  + JPEG      the same through a JPEG file, chroma at half size
  + half      the same, downscaled by 2 by area
  JPEG        the clean picture through a JPEG file
  grain       film: coarse, most of it shared by the channels, strongest in the middle tones

The reference goes through the same steps without noise and without the file: a denoiser need not undo demosaicing.
Noise is made on whole pictures, and its level measured on them, as the filter does it (by --zenith; without that
program there are no columns for the measured level).  For coarse noise that is more than the RMS on purpose: the
networks need it.  Networks run on the middle 256x256, every third picture, and are measured there.  "best" is the best
of LEVELS for each picture: what a slider can reach.
"""
import argparse
import io
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
import torch.nn.functional as F

import data
import evaluate
import nets

LEVELS = (2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64)
SIDE = 256

# ---- pictures: [H,W,3] arrays, 0..1 ------------------------------------------------------------------------------

GAINS = np.array([2.0, 1.0, 1.6])
MATRIX = np.array([[1.6, -0.5, -0.1], [-0.2, 1.5, -0.3], [0.0, -0.6, 1.6]])     # white-balanced sensor to linear sRGB
LENS = np.pad(np.outer([1, 2, 1], [1, 2, 1]) / 16, 1)        # and low-pass: without it edges have zipper artefacts
NOT_GREEN = np.array([[0, 0, -2, 0, 0], [0, 0, 4, 0, 0], [-2, 4, 8, 4, -2], [0, 0, 4, 0, 0], [0, 0, -2, 0, 0]]) / 16
ALONG_ROW = np.array([[0, 0, 1, 0, 0], [0, -2, 0, -2, 0], [-2, 8, 10, 8, -2], [0, -2, 0, -2, 0], [0, 0, 1, 0, 0]]) / 16
ACROSS = np.array([[0, 0, -3, 0, 0], [0, 4, 0, 4, 0], [-3, 0, 12, 0, -3], [0, 4, 0, 4, 0], [0, 0, -3, 0, 0]]) / 16


def to_linear(v):
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def to_srgb(v):
    v = np.clip(v, 0, 1)
    return np.where(v <= 0.0031308, v * 12.92, 1.055 * v ** (1 / 2.4) - 0.055)


def eight_bits(v):
    return np.clip(np.rint(v * 255), 0, 255) / 255


def filtered(v, kernel):
    v = torch.from_numpy(np.pad(v, 2, mode="reflect"))[None, None]
    return F.conv2d(v, torch.from_numpy(kernel)[None, None])[0, 0].numpy()


def demosaic(raw):
    """Rows R G R G, then G B G B."""
    y, x = np.indices(raw.shape) % 2
    green = np.where(y == x, filtered(raw, NOT_GREEN), raw)
    row, column, across = (filtered(raw, k) for k in (ALONG_ROW, ALONG_ROW.T.copy(), ACROSS))
    even = np.where(y == 0, np.where(x == 0, raw, row), np.where(x == 0, column, across))      # red
    odd = np.where(y == 1, np.where(x == 1, raw, row), np.where(x == 1, column, across))       # blue
    return np.stack([even, green, odd], 2)


def camera(picture, rng, electrons, read=2.5):
    """As the header says; rng None leaves the noise out."""
    light = np.stack([filtered(c, LENS) for c in to_linear(picture).transpose(2, 0, 1)], 2)
    sensor = np.clip(light @ np.linalg.inv(MATRIX).T, 0, None) / GAINS
    y, x = np.indices(sensor.shape[:2]) % 2
    place = y + x                                       # 0 R, 1 G, 2 B
    raw = np.take_along_axis(sensor, place[..., None], 2)[..., 0]
    if rng is not None:
        raw = (rng.poisson(raw * electrons) + read * rng.standard_normal(raw.shape)) / electrons
    return eight_bits(to_srgb(demosaic(np.minimum(raw, 1) * GAINS[place]) @ MATRIX.T))


def grain(picture, rng, level=14 / 255):
    if rng is None:
        return picture
    own, shared = rng.standard_normal(picture.shape), rng.standard_normal((*picture.shape[:2], 1))
    n = np.sqrt(0.3) * own + np.sqrt(0.7) * shared
    k = np.exp(-np.arange(-2, 3) ** 2 / (2 * 0.8 ** 2))
    k = np.outer(k, k)
    n = np.stack([filtered(n[..., c], k / np.sqrt((k * k).sum())) for c in range(3)], 2)
    grey = picture @ [[0.2126], [0.7152], [0.0722]]
    return eight_bits(picture + level * n * (0.3 + 0.7 * 4 * grey * (1 - grey)))


def file(picture, quality):
    f = io.BytesIO()
    Image.fromarray(np.uint8(np.rint(picture * 255))).save(f, "JPEG", quality=quality, subsampling=2)
    return np.asarray(Image.open(f).convert("RGB")) / 255


def half(picture):
    h, w = picture.shape[0] // 2, picture.shape[1] // 2
    return eight_bits(picture[:2 * h, :2 * w].reshape(h, 2, w, 2, 3).mean((1, 3)))


LOW, MID, HIGH = (lambda p, r, e=e: camera(p, r, e) for e in (2000, 500, 125))
PLAIN = lambda p, r: p
# name: what makes the noise, JPEG quality, downscaled
CONDITIONS = {
    "camera, ISO low": (LOW, None, False),
    "camera, ISO mid": (MID, None, False),
    "camera, ISO high": (HIGH, None, False),
    "ISO mid, JPEG 90": (MID, 90, False),
    "ISO high, JPEG 75": (HIGH, 75, False),
    "ISO high, half size": (HIGH, None, True),
    "film grain": (grain, None, False),
    "JPEG 50": (PLAIN, 50, False),
    "JPEG 30": (PLAIN, 30, False),
}


def pair(picture, name, seed):
    """(clean, noisy)"""
    make, quality, small = CONDITIONS[name]
    clean, noisy = make(picture, None), make(picture, np.random.default_rng(seed))
    if small:
        clean, noisy = half(clean), half(noisy)
    return clean, file(noisy, quality) if quality else noisy


# ---- the measured level ----------------------------------------------------------------------------------------------

class Engine:
    """The shipped program, which also measures the level."""

    def __init__(self, program, folder, threads):
        self.program, self.folder, self.threads = program, Path(folder), str(threads)
        # a denoiser made up to add its noise map to the picture tells the level that it was given
        one = torch.eye(12)
        into, out = torch.zeros(12, 24, 3, 3), torch.zeros(12, 12, 3, 3)
        into[:, 12:, 1, 1] = out[..., 1, 1] = one
        w = {"intro.weight": into, "intro.bias": torch.zeros(12), "outro.weight": out, "outro.bias": torch.zeros(12)}
        w |= {f"mid.0.{k}": torch.zeros_like(v) for k, v in nets.Block(12).state_dict().items()}
        self.tell = self.folder / "tell.safetensors"
        save_file(w, self.tell)

    def run(self, weights, picture, level=(0, 0, 0)):
        x, y = self.folder / "x.npy", self.folder / "y.npy"
        np.save(x, picture.astype(np.float32))
        told = [w for k, v in zip(("sigma", "sigma-g", "sigma-b"), level) for w in ("--set", f"{k}={v:.4f}")]
        subprocess.run([self.program, "run", "denoise-fast", "--weights", weights, "--threads", self.threads, *told,
                        "--in", f"x={x}", "--out", f"y={y}"], check=True, stderr=subprocess.DEVNULL)
        return np.load(y).astype(float)

    def level(self, picture):
        return (self.run(self.tell, picture) - picture.astype(np.float32)).mean((0, 1)) * 255


# ---- networks and scores --------------------------------------------------------------------------------------------

def planes(picture):
    return torch.from_numpy(picture.astype(np.float32)).permute(2, 0, 1)[None].contiguous()


def picture_of(x):
    return x[0].permute(1, 2, 0).double().numpy()


def ours(path, engine):
    if engine:
        return Path(path).stem, lambda picture, level: engine.run(path, picture, np.maximum(level, 0.01))  # 0: measured
    name, net = evaluate.load(path)

    def run(picture, level):
        x = planes(picture)
        return picture_of(nets.denoise(net, x, torch.tensor(level).float().view(1, 3, 1, 1).expand_as(x) / 255))
    return name, run


def ffdnet(path):
    w = list(torch.load(path).values())

    @torch.no_grad()
    def run(picture, level):
        h, width = picture.shape[:2]
        f = F.pixel_unshuffle(F.pad(planes(picture), (0, width % 2, 0, h % 2), mode="replicate"), 2)
        rms = float(np.sqrt(np.mean(np.square(level))))         # it takes one level for the three channels
        f = torch.cat([f, torch.full_like(f[:, :1], rms / 255)], 1)
        for i in range(0, len(w), 2):
            f = F.conv2d(f if i == 0 else F.relu(f), w[i], w[i + 1], padding=1)
        return picture_of(F.pixel_shuffle(f, 2)[..., :h, :width])
    return "FFDNet", run


def dncnn(path):
    """Blind: it takes no level."""
    w = list(torch.load(path).values())

    @torch.no_grad()
    def run(picture, level=None):
        f = x = planes(picture)
        for i in range(0, len(w), 2):
            f = F.conv2d(f if i == 0 else F.relu(f), w[i], w[i + 1], padding=1)
        return picture_of(x - f)
    return "DnCNN", run


def psnr(a, b):
    return float(-10 * np.log10(np.mean((np.clip(a, 0, 1) - b) ** 2)))


def ssim(a, b):
    """Of lightness, Gaussian windows of deviation 1.5 (Wang 2004)."""
    k = torch.exp(-torch.arange(-5.0, 6).square() / 4.5).double()
    k = (k[:, None] * k / k.sum() ** 2)[None, None]
    a, b = (torch.from_numpy(np.clip(v, 0, 1) @ np.array([0.299, 0.587, 0.114]))[None, None] for v in (a, b))
    m = lambda v: F.conv2d(v, k)
    ma, mb = m(a), m(b)
    va, vb, ab = m(a * a) - ma * ma, m(b * b) - mb * mb, m(a * b) - ma * mb
    c, d = 0.01 ** 2, 0.03 ** 2
    return float(((2 * ma * mb + c) * (2 * ab + d) / ((ma * ma + mb * mb + c) * (va + vb + d))).mean())


def middle(v):
    y, x = (max(0, n - SIDE) // 2 for n in v.shape[:2])
    return v[y:y + SIDE, x:x + SIDE]


def climb(score, start):
    """The best place of LEVELS; the score rises towards it from both sides, nearly."""
    known = {}

    def at(i):
        if i not in known:
            known[i] = score(LEVELS[i]) if 0 <= i < len(LEVELS) else -np.inf
        return known[i]

    i = int(np.argmin(np.abs(np.log(np.array(LEVELS) / max(start, LEVELS[0])))))
    while True:
        j = max((i, i - 1, i + 1), key=at)
        if j == i:
            return LEVELS[i], known[i]
        i = j


def measure(run, clean, noisy, level, factors):
    """Of one picture: PSNR at factors of the measured level, SSIM at the first; PSNR at the best level, and that."""
    row = []
    if level is not None:
        out = [run(noisy, level * f) for f in factors]
        row += [psnr(o, clean) for o in out] + [ssim(out[0], clean)]
    true = 255 * 10 ** (-psnr(noisy, clean) / 20)
    s, best = climb(lambda v: psnr(run(noisy, np.full(3, v)), clean), true)
    return row + [best, s]


def pairs(files, number, name, engine):
    """Of each picture the middle, clean and noisy, and the level that the engine finds in the whole."""
    for i, f in enumerate(files):
        clean, noisy = pair(data.read(f).numpy() / 255, name, [number, i])
        yield middle(clean), middle(noisy), engine.level(noisy) if engine else None


def save(path, files, conditions, engine):
    out = {}
    byte = lambda v: (planes(eight_bits(v))[0] * 255).round().byte()
    for number, name in conditions:
        clean, noisy, level = zip(*pairs(files, number, name, engine))
        out |= {f"{name}: clean": torch.stack([byte(v) for v in clean]), f"{name}: noisy": torch.stack([byte(v) for v in noisy]),
                f"{name}: level": torch.from_numpy(np.stack(level)).float()}
    save_file(out, path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="*")
    p.add_argument("--test", required=True)
    p.add_argument("--ffdnet")
    p.add_argument("--zenith", help="the engine's program: runs our networks, faster, and measures the level")
    p.add_argument("--factors", default="1", help="of the measured level, to see if another is better")
    p.add_argument("--every", type=int, default=3, help="every n-th picture")
    p.add_argument("--only", help="conditions whose name holds this")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--save", help="write clean and noisy pictures and measured levels instead of a table")
    a = p.parse_args()
    if not (a.zenith if a.save else a.files):
        p.error("--save needs --zenith" if a.save else "which networks?")
    torch.set_num_threads(a.threads)
    factors = [float(v) for v in a.factors.split(",")]
    files = data.pictures([a.test])[::a.every]
    conditions = [(i, c) for i, c in enumerate(CONDITIONS) if not a.only or a.only in c]
    auto = [f"measured x {f:g}" for f in factors] + ["SSIM at x 1"] if a.zenith else []
    head = ["noise", "noisy: PSNR, SSIM", "its RMS", "measured", "network", *auto, "best", "its level"]
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(a.zenith, folder, a.threads) if a.zenith else None
        if a.save:
            save(a.save, files, conditions, engine)
            return
        print("| " + " | ".join(head) + " |")
        print("|---" * len(head) + "|", flush=True)
        runs = dict([ours(f, engine) for f in a.files] + ([ffdnet(a.ffdnet)] if a.ffdnet else []))
        for number, name in conditions:
            of, rows = [], {k: [] for k in runs}
            for clean, noisy, level in pairs(files, number, name, engine):
                base = psnr(noisy, clean)
                found = np.nan if level is None else level.mean()
                of.append([base, ssim(noisy, clean), 255 * 10 ** (-base / 20), found])
                for k, run in runs.items():
                    rows[k].append(measure(run, clean, noisy, level, factors))
            v = np.mean(of, 0)
            for k, r in rows.items():
                r = np.mean(r, 0)
                cells = [f"{x:.2f}" for x in r[:len(factors)]] + [f"{r[len(factors)]:.4f}"] if a.zenith else []
                print(f"| {name} | {v[0]:.2f}, {v[1]:.4f} | {v[2]:.1f} | {v[3]:.1f} | {k} | "
                      + " | ".join(cells + [f"{r[-2]:.2f}", f"{r[-1]:.1f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
