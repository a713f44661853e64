"""The estimator of the noise level, denoise-level: a small network that predicts the best level for the denoisers.

    python cameras.py TRAIN.safetensors --photos PHOTOS             clean and noisy patches (cameras.py)
    python estimate.py tables TRAIN.safetensors --models ../models --network denoise-fast --count 400 [--zenith PROGRAM]
    python estimate.py train TRAIN.safetensors... --out DIR --minutes 20 [--check VAL.safetensors]

  tables  A denoiser is run on each noisy patch with FACTORS of the true level: its map is the local root mean square of the
          error, smoothed, for each channel. What is kept is its squared error in blocks of 8x8, for each factor and channel. So
          the error that a level leads to is read from a table, and training the estimator end to end costs no denoiser.
  train   Loss: the denoisers' log-MSE by the tables, where there are any; the logarithm of the local RMS itself for an output of its
          own, which is not shipped, and, under white noise, for all outputs; and for each denoiser that of a multiple of the local RMS, which a
          line through the tables says: coarse noise needs a higher level than fine noise of the same deviation. Each
          batch is augmented (`View`), and its white noise is new: without this the estimator overfits.
"""
import argparse
import math
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import evaluate
import export
import nets

FACTORS = 0.5 * 1.4 ** torch.arange(7.0)        # 0.5 .. 3.8
FLOOR = nets.Level.FLOOR
SEEN = math.log(0.8)                            # it does not matter how far below this a level is
CELL = 8


def local_level(clean, noisy):
    """[N,3,H,W] of 255 -> the RMS of the error around each pixel."""
    k = torch.exp(-torch.arange(-18, 19.0, device=clean.device).square() / (2 * 6.0 ** 2))
    k = (k / k.sum()).expand(3, 1, -1)
    e = F.pad((clean.float() - noisy.float()).square(), (18, 18, 18, 18), mode="reflect")
    return F.conv2d(F.conv2d(e, k[:, :, None], groups=3), k[..., None], groups=3).sqrt().clamp(min=FLOOR)


def cells(v):
    return F.avg_pool2d(v, CELL)


def grid(clean, noisy, device):
    """Of many patches: their local level in cells, [N,3,H/8,W/8]."""
    return torch.cat([cells(local_level(a.to(device), b.to(device)).square()).sqrt() for a, b in zip(clean.split(64), noisy.split(64))])


# ---- tables ------------------------------------------------------------------------------------------------------

def by_program(program, weights, network, folder):
    """The engine's program, faster than PyTorch on a CPU."""
    x, m, y = (Path(folder) / k for k in ("x.npy", "m.npy", "y.npy"))
    pixels = lambda v: np.ascontiguousarray(v.permute(1, 2, 0).numpy(), dtype=np.float32)

    def one(noisy, level):
        np.save(x, pixels(noisy))
        np.save(m, pixels(level))
        subprocess.run([program, "run", network, "--weights", weights, "--threads", "1", "--in", f"x={x}", "--in", f"map={m}",
                        "--out", f"y={y}"], check=True, stderr=subprocess.DEVNULL)
        return torch.from_numpy(np.load(y)).permute(2, 0, 1)
    return lambda noisy, maps: torch.stack([one(*v) for v in zip(noisy, maps)])


def tables(a):
    """FILE.safetensors -> FILE.NETWORK.tables: index [K], error [K,3,H/8,W/8,factors] in 0..1 squared."""
    device = "cuda" if torch.cuda.is_available() and not a.zenith else "cpu"
    d = load_file(a.files[0])
    n = min(a.count, len(d["clean"]))
    weights = Path(a.models) / f"{a.network}.safetensors"
    out = Path(a.files[0]).with_suffix(f".{a.network}.tables")
    errors, done = [], 0
    began = shown = time.time()

    def keep():
        save_file(dict(index=torch.arange(done), error=torch.cat(errors)), f"{out}.part")
        Path(f"{out}.part").rename(out)

    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        run = by_program(a.zenith, weights, a.network, folder) if a.zenith else evaluate.load(weights)[1].to(device)
        while done < n:
            clean, noisy = (d[k][done:min(done + (16 if device == "cuda" else 1), n)].to(device) / 255 for k in ("clean", "noisy"))
            level = local_level(255 * clean, 255 * noisy) / 255
            made = [run(noisy, level * f).clamp(0, 1) for f in FACTORS]
            errors.append(torch.stack([cells((y - clean).square()) for y in made], 4).cpu())
            done += len(clean)
            if time.time() - shown > 60:
                keep()
                shown = time.time()
                print(f"{done} of {n}, {shown - began:.0f} s", flush=True)
    keep()
    print(f"{done} of {n}, {time.time() - began:.0f} s, end", flush=True)


# ---- training ----------------------------------------------------------------------------------------------------

class Patches:
    def __init__(self, files, device):
        d = [load_file(f) for f in files]
        self.clean, self.noisy, self.kind = (torch.cat([v[k] for v in d]) for k in ("clean", "noisy", "kind"))
        self.level = grid(self.clean, self.noisy, device).log()
        n, at = len(self.clean), 0
        side = self.clean.shape[-1] // CELL
        self.where = torch.full((len(nets.LEVEL_FOR), n), -1)
        self.error = []
        for f, v in zip(files, d):
            for k, name in enumerate(nets.LEVEL_FOR):
                t = Path(f).with_suffix(f".{name}.tables")
                if not t.exists():
                    continue
                t = load_file(t)
                start = sum(len(e) for e in self.error)
                self.where[k, t["index"] + at] = torch.arange(len(t["index"])) + start
                self.error.append(t["error"])
            at += len(v["clean"])
        self.coarse = torch.cat([coarseness(a, b) for a, b in zip(self.clean.split(64), self.noisy.split(64))])
        self.error = torch.cat(self.error or [torch.zeros(1, 3, side, side, len(FACTORS))])
        self.factor = torch.zeros(len(nets.LEVEL_FOR), n)       # logarithm of the multiple of the RMS
        for k in range(len(nets.LEVEL_FOR)):
            have = self.where[k] >= 0
            if have.sum() > 20:
                line = wanted(self.error[self.where[k, have]].float(), self.coarse[have])
                self.factor[k] = (self.coarse @ line).clamp(math.log(0.7), math.log(3))
                print(f"# {nets.LEVEL_FOR[k]}: {line.tolist()}, multiples {self.factor[k].exp().quantile(torch.tensor([0.1, 0.5, 0.9])).tolist()}")
        for k in ("where", "error", "factor"):
            setattr(self, k, getattr(self, k).to(device))
        self.with_table = [(w >= 0).nonzero()[:, 0] for w in self.where]

    def views(self, device):
        """Where the pictures lie while they are drawn from."""
        self.clean, self.noisy = self.clean.to(device), self.noisy.to(device)


def white_levels(n, generator):
    """[n,3,1,1]: most of them small, most of them the same for the channels."""
    u = torch.rand(3, n, 1, 1, 1, generator=generator)
    sigma = torch.where(u[0] < 0.75, torch.exp(math.log(0.3) + u[1] * math.log(250)), 75 * u[1])
    own = 0.5 + torch.rand(n, 3, 1, 1, generator=generator)
    return sigma * torch.where(u[2] < 0.7, torch.ones_like(own), own)


class View:
    """Augmentation of a batch: rotated and mirrored, red and blue exchanged, with less contrast around some grey. The
    noise level and the errors in tables go with it; a denoiser with the right level does nearly the same at any
    contrast."""

    def __init__(self, generator, n):
        u = torch.rand(6, generator=generator)
        self.turned, self.mirrored, self.exchanged = u[0] < 0.5, u[1:3] < 0.5, u[3] < 0.5
        v = torch.rand(3, n, 1, 1, 1, generator=generator)
        self.gain = torch.where(v[0] < 0.5, torch.ones_like(v[0]), 0.5 + 0.5 * v[1])
        self.grey = v[2]

    def place(self, v):
        """[N,3,H,W,...] with the same pixels, channels and cells elsewhere."""
        if self.turned:
            v = v.transpose(2, 3)
        flips = [d for d, m in zip((2, 3), self.mirrored) if m]
        v = v.flip(flips) if flips else v
        return v.flip(1) if self.exchanged else v

    def picture(self, v):
        """[N,3,H,W] of 255 -> in 0..1."""
        gain, grey = self.gain.to(v.device), self.grey.to(v.device)
        return grey + gain * (self.place(v.float()) / 255 - grey)

    def level(self, v):
        """Of a logarithm of the level, in cells."""
        return self.place(v) + self.gain.log().to(v.device)


def coarseness(clean, noisy):
    """[N,K]: features that predict the best multiple of the RMS for a denoiser: 1, how alike neighbouring errors are in
    lightness and in colour, the logarithm of the RMS."""
    e = noisy.float() - clean.float()
    e = e - e.mean((2, 3), keepdim=True)
    grey = e.mean(1, keepdim=True)
    like = lambda v: ((v[..., 1:] * v[..., :-1]).flatten(1).mean(1) + (v[..., 1:, :] * v[..., :-1, :]).flatten(1).mean(1)) / (
        2 * v.square().flatten(1).mean(1) + 1e-3)
    a, b, r = like(grey), like(e - grey), e.square().flatten(1).mean(1).sqrt().clamp(min=FLOOR).log()
    return torch.stack([torch.ones_like(a), a, b, a * a, r, a * r], 1)


def wanted(tables, features):
    """The line through the best multiples of the patches [K,3,h,w,factors], as logarithms. Patches on which the level
    has little effect count little."""
    at = torch.linspace(math.log(FACTORS[0]), math.log(FACTORS[-1]), 61)
    by = tables.flatten(1, 3).mean(1)
    curve = 10 * torch.log10(error_at(by[:, None].expand(-1, 61, -1), torch.zeros(1), at.expand(len(by), -1)) + 1e-5)
    best = at[curve.argmin(1)]
    weight = (curve.mean(1) - curve.amin(1)).clamp(max=3).sqrt()
    a = features * weight[:, None]
    return torch.linalg.solve(a.T @ a + 0.3 * torch.eye(a.shape[1]), a.T @ (best * weight))


def error_at(table, level, said):
    """The squared error by the table [...,factors] for the true level and what was said, both logarithms: a cubic through the
    logarithms of four neighbours (Catmull-Rom), for errors grow fast below the true level and slowly above it. Beyond the table's ends
    the error goes on growing."""
    last = len(FACTORS) - 1
    p = (said - level - math.log(FACTORS[0])) / math.log(FACTORS[1] / FACTORS[0])
    q = p.clamp(0, last - 1e-4)
    i = q.detach().floor().long()
    a, b, c, d = (table.gather(-1, (i + k).clamp(0, last)[..., None])[..., 0].clamp(min=1e-7).log() for k in (-1, 0, 1, 2))
    t = q - i
    y = b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
    return y.exp() * (1 + 0.5 * (p - q).abs())


def table_loss(error, level, said):
    """Mean of minus PSNR, the patches' channels and cells taken together."""
    e = error_at(error, level, said)
    return 10 * torch.log10(e.flatten(1).mean(1) + 1e-5).mean()


def batch_loss(net, p, size, generator, pull, told):
    """Patches with tables, any patches, and white noise."""
    heads = len(nets.LEVEL_FOR)
    dev = p.level.device
    r = lambda n, m: torch.randint(n, (m,), generator=generator).to(dev)
    take = [r(len(p.level), size)]
    for k in range(heads):
        if len(p.with_table[k]):
            take.append(p.with_table[k][r(len(p.with_table[k]), size // 2)])
    take = torch.cat(take)
    fresh = r(len(p.clean), size // 2)
    view = View(generator, len(take))
    sigma = white_levels(len(fresh), generator).to(dev)
    clean = p.clean[fresh].float()
    x = torch.cat([view.picture(p.noisy[take]), (clean + sigma * torch.randn_like(clean)) / 255])
    said = nets.Level.level(net(x)).log()
    said, white = said[:len(take)], said[len(take):]
    level = view.level(p.level[take])
    near = lambda a, b: F.smooth_l1_loss(a.clamp(min=SEEN), b.clamp(min=SEEN), beta=0.3)
    loss = near(said[:, 3 * heads:], level)
    true = sigma.clamp(min=FLOOR).log().expand(-1, 3, *white.shape[2:]).repeat(1, heads + 1, 1, 1)
    loss = loss + near(white, true)
    parts = {"log level": loss.item()}
    for k, name in enumerate(nets.LEVEL_FOR):
        mine = said[:, 3 * k:3 * k + 3]
        have = p.where[k, take] >= 0
        loss = loss + pull * near(mine, level + p.factor[k, take][:, None, None, None])
        if have.any():
            table = view.place(p.error[p.where[k, take[have]]].float())
            t = table_loss(table, level[have], mine[have])
            floor = 10 * torch.log10(table.flatten(1, 3).mean(1).amin(-1) + 1e-5).mean()
            parts[name] = (t - floor).item()            # above the best single factor of each patch
            loss = loss + told * (t - floor)
    return loss, parts


@torch.no_grad()
def check(net, p):
    """On held-out patches: error of the log level, and the loss in dB against the best factor for each patch."""
    net.eval()
    out = {}
    dev = p.level.device
    of = lambda pictures: torch.cat([nets.Level.level(net(x.to(dev).float() / 255)).log() for x in pictures.split(64)])
    said = of(p.noisy)
    heads = len(nets.LEVEL_FOR)
    for k, name in enumerate(nets.LEVEL_FOR):
        have = p.where[k] >= 0
        if have.any():
            table = p.error[p.where[k, have]]
            t = table_loss(table, p.level[have], said[have][:, 3 * k:3 * k + 3])
            by = table.flatten(1, 3).mean(1)
            out[name] = (t - 10 * torch.log10(by.amin(-1) + 1e-5).mean()).item()
            out[f"{name} at the RMS"] = (10 * torch.log10(by[:, 2] + 1e-5) - 10 * torch.log10(by.amin(-1) + 1e-5)).mean().item()
    if said.shape[1] > 3 * heads:
        off = lambda a, b: (a.clamp(min=SEEN) - b.clamp(min=SEEN)).abs().mean().item()
        out["log level"] = off(said[:, 3 * heads:], p.level)
        g = torch.Generator().manual_seed(1)
        sigma = white_levels(len(p.clean), g)
        white = of(p.clean.cpu().float() + sigma * torch.randn(p.clean.shape, generator=g))
        true = sigma.to(dev).clamp(min=FLOOR).log()
        out["white"] = off(white[:, 3 * heads:], true)
    net.train()
    return out


def train(a):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(a.seed)
    generator = torch.Generator().manual_seed(a.seed)
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    net, average = (nets.Level(*a.width, heads=len(nets.LEVEL_FOR) + 1).to(device) for _ in range(2))
    adam = torch.optim.AdamW(net.parameters(), a.lr, betas=(0.9, 0.98), weight_decay=a.decay)
    steps, spent = 0, 0.0
    state = out / "denoise-level.ckpt"
    if a.resume and state.exists():
        s = torch.load(state)
        net.load_state_dict(s["average" if a.again else "net"]), average.load_state_dict(s["average"])
        if not a.again:
            adam.load_state_dict(s["adam"])
        steps, spent = s["steps"], (0.0 if a.again else s["spent"])
    else:
        average.load_state_dict(net.state_dict())
    patches = Patches(a.files, device)
    held = Patches([a.check], device) if a.check else None
    patches.views(device)
    have = ", ".join(f"{len(patches.with_table[k])} tables of {n}" for k, n in enumerate(nets.LEVEL_FOR))
    print(f"# {len(patches.clean)} patches, {have}; {nets.macs_per_pixel(net):.0f} multiply-adds a pixel", flush=True)
    last = shown = time.time()
    mean = {}

    def keep():
        torch.save(dict(net=net.state_dict(), average=average.state_dict(), adam=adam.state_dict(), steps=steps, spent=spent),
                   f"{state}.part")
        Path(f"{state}.part").rename(state)
        write(out, average, steps)

    while spent < 60 * a.minutes:
        now = time.time()
        spent, last = spent + min(now - last, 10), now
        done = min(1, spent / (60 * a.minutes))
        for g in adam.param_groups:
            g["lr"] = a.lr * min(1, (steps + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * max(0, done - 0.3) / 0.7)))
        loss, parts = batch_loss(net, patches, a.batch, generator, a.pull, a.told)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        adam.step()
        steps += 1
        with torch.no_grad():
            for p, q in zip(average.parameters(), net.parameters()):
                p.lerp_(q, max(0.02, 1 / (steps + 1)))
        for k, v in parts.items():
            mean[k] = v if k not in mean else 0.97 * mean[k] + 0.03 * v
        if time.time() - shown > a.every:
            shown = time.time()
            show = lambda d: ", ".join(f"{k} {v:.3f}" for k, v in d.items())
            print(f"step {steps} {spent:.0f} s: {show(mean)}" + (f" | kept out: {show(check(average, held))}" if held else ""), flush=True)
            keep()
    keep()
    if held:
        print(f"end step {steps}: {check(average, held)}", flush=True)


def write(folder, net, steps):
    """What ships: without the output for the RMS."""
    n = 3 * len(nets.LEVEL_FOR)
    short = nets.Level(net.join.out_channels, net.down.out_channels)
    w = dict(net.state_dict())
    w["head.weight"], w["head.bias"] = w["head.weight"][:n], w["head.bias"][:n]
    short.load_state_dict(w)
    return export.write(folder, "denoise-level", short, steps=steps)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["tables", "train"])
    p.add_argument("files", nargs="+")
    p.add_argument("--zenith", help="tables: the engine's program, instead of PyTorch")
    p.add_argument("--models", help="tables: the folder of the denoisers")
    p.add_argument("--network", choices=nets.LEVEL_FOR)
    p.add_argument("--count", type=int, default=400, help="tables: of so many patches")
    p.add_argument("--out", help="train: folder of the weights and the checkpoint")
    p.add_argument("--check", help="train: patches kept out")
    p.add_argument("--minutes", type=float, default=20)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--every", type=float, default=60, help="seconds between lines and checkpoints")
    p.add_argument("--pull", type=float, default=0.3, help="how much the line through the tables counts")
    p.add_argument("--told", type=float, default=0.1, help="how much the tables themselves count")
    p.add_argument("--width", type=int, nargs=2, default=(48, 80), help="channels at 1/8 and at 1/16")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--again", action="store_true", help="with --resume: a new schedule from these weights")
    p.add_argument("--decay", type=float, default=0.02, help="of the weights")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    (tables if a.what == "tables" else train)(a)


if __name__ == "__main__":
    main()
