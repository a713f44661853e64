"""Train denoisers in turns on one GPU, from shipped weights, with the noise of cameras and files (shots.py) beside white noise.

    python denoisers.py denoise-fast=../models/denoise-fast.safetensors ... --level ../models/denoise-level.safetensors \\
        --photos DIR... --test KODAK_DIR --out DIR --seconds 540 [--resume]

A term of the loss (rounding.py) keeps results still where tensors are rounded.
Blocks that a file lacks begin as the identity.  The learning rate is held, then falls by the clock, so that a call ends annealed.
OUT gets NAME.safetensors (averaged weights, float16), log.txt and, every minute, checkpoints; --resume goes on from them, with the rest of
the schedule.  Photographs whose names are on `cameras.split`'s list for validation are
left out; pairs of cameras.py made of them are measured on meanwhile.
"""
import argparse
import copy
import functools
import json
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import cameras
import data
import evaluate
import export
import nets
import rounding
import shots
from train import Trainer, flatten, share_of_rate, unflatten

LR = {"denoise-fast": 1.5e-3, "denoise-balanced": 7e-4, "denoise-best": 5e-4, "tiny-denoise": 2e-3}
TURN = {"denoise-best": 5, "denoise-fast": 4}, 3      # steps before the next network's turn: of some, of all others
SIDE, BATCH = 128, 32                           # of a crop, crops
HOLD, POOL, PICKY = 0.3, 2, 0.5
ROUGH, EVERY = 0.3, 8                           # weight of rounding.swing, and of how many crops one is taken for it
SHARE = {"denoise-fast": 0.32}, 0.45          # of the crops that are a camera's: of some networks, of all others


def loss_of(work, x, of, share):
    """Minus PSNR: of each crop of a camera, and of POOL crops of one photograph with other noise together."""
    groups = x.view(POOL, -1, *x.shape[1:])
    k = round(share * groups.shape[1])
    m = shots.MARGIN
    clean, noisy, told = of.sample(groups[:, :k].flatten(0, 1))
    plain = groups[:, k:, :, m:-m, m:-m].flatten(0, 1)
    noisy2, told2 = data.noise(plain, POOL)
    goal, seen, told = torch.cat([clean, plain]), torch.cat([noisy, noisy2]), torch.cat([told, told2])
    if x.is_cuda:
        import kernels
        y = kernels.forward(work, seen, told)
    else:
        y = work(seen, told)
    mse = (y - goal).square().flatten(1).mean(1)
    own, other = mse[:POOL * k], mse[POOL * k:].view(POOL, -1).mean(0)
    moved = rounding.swing(work, goal[::EVERY], seen[::EVERY], told[::EVERY])
    return 10 * (torch.log10(own + 3e-6).sum() + POOL * torch.log10(other + 1e-5).sum()) / len(mse) + ROUGH * moved


# ---- what is measured meanwhile ----------------------------------------------------------------------------

def made(file, seed, side=192):
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    photo = data.read(file).numpy()
    kind = "clean" if seed % 4 == 0 else "camera"
    return cameras.pair(photo, rng, side, kind)


def validation(files, device, jobs, count=48):
    """{kind: (clean, noisy)}: clean pictures, and those of cameras by the strength of their noise."""
    with ProcessPoolExecutor(jobs) as pool:
        pairs = list(pool.map(made, [files[i % len(files)] for i in range(count)], range(900, 900 + count)))
    out = {}
    for clean, noisy, kind in pairs:
        mse = np.mean((clean - noisy) ** 2)
        name = kind if kind == "clean" else "strong" if mse > 10 ** -3.2 else "weak"
        out.setdefault(name, []).append(np.stack([clean, noisy]).transpose(0, 3, 1, 2))
    return {k: torch.from_numpy(np.float32(np.stack(v))).to(device).unbind(1) for k, v in sorted(out.items())}


@torch.no_grad()
def swings(net, noisy, told):
    """How far a pixel moves at most when everything is rounded, in levels, with this level told."""
    x = torch.cat([noisy, noisy])
    plain, rough = rounding.Rounding(x).change(net, x, torch.full_like(x, told / 255)).chunk(2)
    return 255 * (rough - plain).abs().max()


@torch.no_grad()
def scores(net, of, test, kept):
    x, unit = test
    batch = 8 if x.is_cuda else 1
    text = ["/".join(f"{v:.3f}" for v in evaluate.denoiser_scores(net, x, unit, batch=batch))]
    for kind, (clean, noisy) in kept.items():
        e = []
        for a, b in zip(clean.split(batch), noisy.split(batch)):
            said = shots.least(of.level(b), F.avg_pool2d(b, shots.CELL))
            y = ((nets.denoise(net, b, shots.resized(said, b.shape[2:]) / 255)).clamp(0, 1) * 255).round() / 255
            e.append(-10 * torch.log10((y - a).double().square().flatten(1).mean(1) + 1e-6))
        text.append(f"{kind} {torch.cat(e).mean():.2f}")
        if kind == "strong":
            text.append("told " + "/".join(f"{t:g}: {swings(net, noisy[:8], t):.2f}" for t in (1, 4, 8, 15)))
    return ", ".join(text)


# ---- the run -------------------------------------------------------------------------------------------

class Run:
    def __init__(self, name, weights, crops, estimator, device, state=None):
        self.name = name
        net = nets.build(name)
        self.grown = nets.begin_from(net, load_file(weights))
        self.of = shots.Shots(estimator, name if name in nets.LEVEL_FOR else nets.LEVEL_FOR[0])
        self.began = flatten(net)
        self.trainer = Trainer(net, functools.partial(loss_of, of=self.of, share=SHARE[0].get(name, SHARE[1])), device, muon=True, kind=torch.float16)
        if state:
            self.trainer.restore(state)
        self.trainer.prepare(crops.sampler(BATCH, SIDE + 2 * shots.MARGIN, POOL, PICKY))

    def file(self, out, way):
        """way: from the weights that it began with, 0, to its own, 1."""
        net = copy.deepcopy(self.trainer.shown)
        unflatten(net, torch.lerp(self.began.to(self.trainer.ema), self.trainer.ema, way))
        export.write(out, self.name, net, steps=self.trainer.steps)

    def go(self, done):
        warm = min(1.0, (self.trainer.steps + 20) / 300)
        self.trainer.lr.fill_(LR[self.name] * warm * share_of_rate(done, HOLD) + 1e-7)
        for _ in range(TURN[0].get(self.name, TURN[1]) if self.trainer.cuda else 1):
            self.trainer.go()
            self.trainer.steps += 1


def photographs(folders):
    """(to train with, to measure on)"""
    files = data.pictures(folders)
    kept = {p.stem for p in cameras.split(files, True)}
    return [f for f in files if f.stem not in kept], [f for f in files if f.stem in kept]


def main():
    began = time.time()
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("nets", nargs="+", metavar="NAME=FILE")
    p.add_argument("--level", required=True)
    p.add_argument("--photos", nargs="+", required=True)
    p.add_argument("--test", required=True, help="folder of pictures of one size, kept out of training")
    p.add_argument("--out", required=True)
    p.add_argument("--seconds", type=float, required=True, help="of the whole program")
    p.add_argument("--rate", type=float, default=1.0, help="factor of the learning rates")
    p.add_argument("--way", type=float, default=1.0, help="how far the files are on the way from the first weights to the last ones")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--every", type=float, default=90, help="seconds between reports")
    p.add_argument("--keep", type=float, default=60, help="seconds between checkpoints")
    p.add_argument("--jobs", type=int, default=4)
    p.add_argument("--limit", type=int)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    for name in LR:
        LR[name] *= a.rate
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(a.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    log = open(out / "log.txt", "a")

    def say(text):
        print(text, flush=True)
        print(text, file=log, flush=True)

    mark = out / "done.json"
    resumed = a.resume and mark.exists()
    first = json.loads(mark.read_text()) if resumed else 0.0
    train, keep = photographs(a.photos)
    kept = validation(keep, device, a.jobs, 48 if device == "cuda" else 4)
    crops = data.Crops(train[:a.limit], device, half_share=0.25, smaller_share=0.25)
    test = data.test_set(a.test, device)
    estimator = evaluate.load(a.level)[1].to(device)
    say(f"# {crops.count} photographs, {len(keep)} kept out ({', '.join(f'{k} {len(v[0])}' for k, v in kept.items())}), "
        f"read after {time.time() - began:.0f} s")
    runs = []
    for name, file in (n.split("=", 1) for n in a.nets):
        r = Run(name, file, crops, estimator, device, export.read_checkpoint(out, name) if resumed else None)
        runs.append(r)
        say(f"# {name}: {r.trainer.master.numel():,} parameters, {nets.macs_per_pixel(r.trainer.shown):,.0f} multiply-adds a pixel, "
            f"{len(r.grown)} new blocks, from {first:.2f} of the schedule on, before: {scores(r.trainer.shown, r.of, test, kept)}, ready after {time.time() - began:.0f} s")
    start = shown = kept_at = time.time()
    budget = max(1.0, a.seconds - (start - began) - (5 + 4 * len(runs)))

    def report(word=""):
        for r in runs:
            t = time.time() - start
            say(f"{word}{r.name} step {r.trainer.steps} {t:.0f} s {r.trainer.steps / t:.1f}/s loss {r.trainer.mean_loss.item():.4f} "
                f"scale {r.trainer.scale.item():.0f} {scores(r.trainer.shown, r.of, test, kept)}")

    def save(done):
        for r in runs:
            export.write_checkpoint(out, r.name, r.trainer.state())
            r.file(out, a.way)
        mark.write_text(json.dumps(done))

    while (spent := (time.time() - start) / budget) < 1:
        done = first + (1 - first) * spent
        for r in runs:
            r.go(done)
        runs[0].trainer.mean_loss.item()            # waits for the device
        if time.time() - kept_at > a.keep:
            save(done)
            kept_at = time.time()
        if time.time() - shown > a.every:
            report()
            shown = time.time()
    save(1.0)
    report("end ")
    if device == "cuda":
        say(f"# {torch.cuda.max_memory_reserved() / 2 ** 30:.1f} GiB reserved, {time.time() - began:.0f} s in all")


if __name__ == "__main__":
    main()
