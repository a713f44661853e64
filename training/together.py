"""Train restorers and upscalers side by side on one GPU, in turns of a few steps (--fair: of equal time), for a given time.

    python together.py upscale upscale-small restore --photos DIR... --test KODAK_DIR --state DIR --out DIR --seconds 560 --part 0:0.5

--part: which part of the schedule this call is; a later one, with the same --state, goes on from there, and so does one that broke off.
The learning rate is held, then falls to 0 by the clock, so that --part 0.5:1 ends annealed however fast the machine is; while the program
is stopped (SIGSTOP) the schedule stands still, and what is left of it takes what is left of the time.  A file STATE/seconds with a number
overrides --seconds.  --init NAME=FILE begins a network with weights:
those of its own kind, or a restorer with a denoiser's.
OUT gets NAME.safetensors (averaged weights, float16) and log.txt; STATE what the next call needs.
"""
import argparse
import functools
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

import data
import degrade
import export
import nets
from train import Trainer, phases, share_of_rate

# of each network: the learning rate, and phases (until this share of the schedule, side of a patch of its input, patches)
PLANS = {
    "upscale": dict(lr=2e-3, phases=((0.5, 48, 32), (0.85, 64, 32), (1.0, 96, 16))),
    "upscale-small": dict(lr=2.5e-3, phases=((0.5, 48, 32), (1.0, 64, 32))),
    "restore": dict(lr=1.5e-3, phases=((0.5, 128, 44), (1.0, 192, 26))),
    "restore-mix": dict(lr=1.5e-3, phases=((0.6, 128, 32), (1.0, 192, 20))),
    "tiny-upscale": dict(lr=2e-3, phases=((0.5, 16, 8), (1.0, 24, 8))),
    "tiny-restore": dict(lr=2e-3, phases=((0.5, 32, 12), (1.0, 48, 12))),
    "tiny-restore-mix": dict(lr=2e-3, phases=((0.5, 32, 12), (1.0, 48, 12))),
}
SHARES = {2: 0.45, 3: 0.15, 4: 0.40}        # of an upscaler's batch
WEIGHTS = {2: 1.5, 3: 1.1, 4: 0.85}         # of their errors, which grow with the scale
LUMA = (0.299, 0.587, 0.114)


# ---- losses ----------------------------------------------------------------------------------------------

def upscale_loss(work, crops, worn=0.15):
    """L1 of the colours and of the luma."""
    lows, goals = {}, {}
    for s, x in crops.items():
        small, goals[s] = degrade.low(x, s)
        lows[s] = degrade.worn(small, worn)
    if next(iter(crops.values())).is_cuda:
        import kernels
        made = kernels.upscale(work, lows)
    else:
        made = {s: work(*v, s) for s, v in lows.items()}
    total = sum(len(x) for x in crops.values())
    loss = 0.0
    for s, y in made.items():
        d = y - goals[s]
        luma = LUMA[0] * d[:, 0] + LUMA[1] * d[:, 1] + LUMA[2] * d[:, 2]
        loss = loss + WEIGHTS[s] * len(y) / total * (d.abs().mean() + luma.abs().mean())
    return 10 * loss


def restore_loss(work, x):
    """Root mean square error of each crop, between what a sum of squares and what PSNR weighs; files by what PSNR weighs, nearly."""
    seen, clean, told = degrade.damaged(x)
    weight = degrade.weights(seen, clean)
    if x.is_cuda:
        import kernels
        y = kernels.restore(work, seen, told)
    else:
        y = work(seen, told)
    return 10 * (weight * torch.sqrt((y - clean).square().flatten(1).mean(1) + 1e-7)).mean()


def upscale_batch(crops, side, batch):
    n3, n4 = round(SHARES[3] * batch), round(SHARES[4] * batch)
    samplers = {s: crops.sampler(n, s * (side + 2 * degrade.EDGE), picky=0.85) for s, n in ((2, batch - n3 - n4), (3, n3), (4, n4))}
    return lambda: {s: sample() for s, sample in samplers.items()}


def restore_batch(crops, side, batch):
    """Those that are out of focus, or stay as they are, come from anywhere."""
    n = degrade.counts(batch)
    first = n["clean"] + degrade.soft_files(n)
    samplers = [crops.sampler(k, side + 2 * degrade.REACH, picky=picky) for k, picky in ((first, 0.0), (batch - first, 0.85))]
    return lambda: torch.cat([sample() for sample in samplers])


# ---- what is measured meanwhile ----------------------------------------------------------------------------

def psnr(y, x):
    """Of each picture."""
    return -10 * torch.log10((y.clamp(0, 1) - x).double().square().flatten(1).mean(1))


def y_psnr(y, x, scale):
    """Of the luma of 8-bit pictures without an edge of `scale` pixels, as papers measure it."""
    d = ((y.clamp(0, 1) * 255).round() - (x * 255).round()) / 255
    luma = (65.481 * d[:, 0] + 128.553 * d[:, 1] + 24.966 * d[:, 2])[..., scale:-scale, scale:-scale] / 255
    return -10 * torch.log10(luma.double().square().flatten(1).mean(1))


@torch.no_grad()
def upscale_scores(net, x):
    out = []
    for s in (2, 3, 4):
        x_s = x[..., :x.shape[-2] // s * s, :x.shape[-1] // s * s]
        out.append(f"x{s} {y_psnr(nets.upscale(net, degrade.smaller(x_s, s), s), x_s, s).mean():.3f}")
    return " ".join(out)


dirty_test = functools.lru_cache(1)(degrade.same_dirt)


@torch.no_grad()
def restore_scores(net, x):
    n, dev, out = len(x), x.device, []
    one = lambda v: torch.full((n, 1, 1, 1), v, device=dev)

    def gain(name, seen, told=None):
        out.append(f"{name} {(psnr(nets.restore(net, seen, told), x) - psnr(seen, x)).mean():+.3f}")

    for q in (10, 20, 40):                      # told what the filter tells
        gain(f"q{q}", data.jpeg(x, one(float(q)), one(1.0) > 0, torch.zeros(n, 2, dtype=torch.long, device=dev)),
             torch.tensor([0, 1 - q / 100, 0, 0, 1, 1, 0]))
    at = torch.arange(-degrade.REACH, degrade.REACH + 1, device=dev).float()
    k = torch.exp(-0.5 * (at / 1.6) ** 2)
    k = (k[:, None] * k / k.sum() ** 2).expand(n, 1, -1, -1)
    m = degrade.REACH
    soft = degrade.blurred(torch.nn.functional.pad(x, (m, m, m, m), mode="reflect"), k)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).to(dev)
    gain("blur", ((soft + noise * (2 / 255)).clamp(0, 1) * 255).round() / 255)
    seek = torch.tensor([0.0] * 6 + [1])
    gain("dirt", dirty_test(x), seek)
    for name, told in (("clean", None), ("clean, dirt sought", seek)):
        clean = psnr(nets.restore(net, x, told), x)
        out.append(f"{name} {clean.mean():.2f} (least {clean.min():.2f})")
    return " ".join(out)


# ---- the schedule ----------------------------------------------------------------------------------------

class Clock:
    """Which share of the schedule is done.  A second spent is its part of the seconds left; one in which the program was stopped is not."""

    LONGEST = 3.0           # a turn that took longer was interrupted

    def __init__(self, done, last, began, seconds, file):
        self.done, self.last, self.began, self.seconds, self.file = done, last, began, seconds, file
        self.seen = time.time()

    def tick(self):
        now = time.time()
        spent = min(now - self.seen, self.LONGEST)
        seconds = float(self.file.read_text()) if self.file.exists() else self.seconds
        left = max(self.began + seconds - now, 0.0)
        self.done += (self.last - self.done) * spent / (left + spent + 1e-9)
        self.seen = now
        return left > 0

    def skip(self):
        """What was done since the last tick is not training."""
        self.seen = time.time()


# ---- the run -------------------------------------------------------------------------------------------

class Run:
    """A network in training."""

    def __init__(self, name, crops, device, init, state, first, rate=1.0, eager=False, hold=0.35, plan=None):
        self.name, self.crops, self.state, self.spent = name, crops, Path(state) / f"{name}.pt", 0.0
        self.plan = {**PLANS[name], "lr": rate * PLANS[name]["lr"]}
        if plan:
            self.plan["phases"] = [(until, side, batch) for side, batch, until in phases(plan)]
        self.scores = upscale_scores if name in nets.UPSCALERS else restore_scores
        self.batch = upscale_batch if name in nets.UPSCALERS else restore_batch
        net = nets.build(name)
        if init:
            weights = load_file(init)
            if name in nets.RESTORERS and weights["intro.weight"].shape[1] == 24:
                net.from_denoiser(weights)
            else:
                net.load_state_dict({k: v.float() for k, v in weights.items()})
        loss = upscale_loss if name in nets.UPSCALERS else restore_loss
        self.trainer = Trainer(net, loss, device, muon=True, kind=torch.float16)
        self.done, self.eager, self.hold = 0.0, eager, hold
        if self.state.exists():
            state = torch.load(self.state)
            self.done = float(state.pop("done", 0.0))
            state["ema"] = state["master"] + state.pop("lag").float()
            self.trainer.restore(state)
        self.first, self.phase = self.trainer.steps, -1
        self.enter(max(first, self.done))

    def enter(self, done):
        """The phase that this share of the schedule is in; True: a new one."""
        plan = self.plan["phases"]
        phase = next((i for i, p in enumerate(plan) if done < p[0]), len(plan) - 1)
        if phase == self.phase:
            return False
        self.phase = phase
        sample = self.batch(self.crops, *plan[phase][1:])
        if self.eager:
            self.trainer.sample, self.trainer.go = sample, self.trainer.step
        else:
            self.trainer.prepare(sample)
        return True

    def go(self, done, steps):
        """Some steps."""
        began, self.done = time.time(), done
        warm = min(1.0, (self.trainer.steps - self.first + 20) / 400)
        self.trainer.lr.fill_(self.plan["lr"] * warm * share_of_rate(done, self.hold) + 1e-7)
        for _ in range(steps):
            self.trainer.go()
            self.trainer.steps += 1
        self.trainer.mean_loss.item()               # waits for the device
        self.spent += time.time() - began

    def report(self, test, since):
        return (f"{self.name} step {self.trainer.steps} {since:.0f} s, {self.spent:.0f} of its own, {(self.trainer.steps - self.first) / max(self.spent, 1e-3):.1f}/s "
                f"loss {self.trainer.mean_loss.item():.4f} scale {self.trainer.scale.item():.0f} {self.scores(self.trainer.shown, test)}")

    def save(self, out):
        state = self.trainer.state()
        state["lag"] = (state.pop("ema") - state["master"]).bfloat16()
        state["done"] = torch.tensor(self.done, dtype=torch.float64)
        part = self.state.with_suffix(".part")          # whatever interrupts this, there is a whole one
        torch.save({k: v.cpu() for k, v in state.items()}, part)
        part.replace(self.state)
        return export.write(out, self.name, self.trainer.shown, steps=self.trainer.steps)


def main():
    began = time.time()
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="+", choices=PLANS)
    p.add_argument("--photos", nargs="+", required=True)
    p.add_argument("--test", required=True, help="folder of pictures of one size, kept out of training")
    p.add_argument("--state", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--seconds", type=float, required=True, help="of the whole program")
    p.add_argument("--part", default="0:1")
    p.add_argument("--init", action="append", default=[], metavar="NAME=FILE")
    p.add_argument("--rate", type=float, default=1.0, help="times the plans' learning rates; less to go on from trained weights")
    p.add_argument("--hold", type=float, default=0.35, help="share of the schedule before the learning rate falls")
    p.add_argument("--halves", type=float, default=0.3, help="share of crops from photographs at half their size, which have no artefacts of their own")
    p.add_argument("--phases", help="instead of the plans': SIDExBATCH:SHARE,...")
    p.add_argument("--fair", action="store_true", help="turns of equal time, to compare networks")
    p.add_argument("--eager", action="store_true", help="no CUDA graphs")
    p.add_argument("--every", type=float, default=100, help="seconds between reports")
    p.add_argument("--limit", type=int, help="use only so many photographs")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(a.seed + round(1000 * float(a.part.split(":")[0])))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for folder in (a.out, a.state):
        Path(folder).mkdir(parents=True, exist_ok=True)
    log = open(Path(a.out) / "log.txt", "a")

    def say(text):
        print(text, flush=True)
        print(text, file=log, flush=True)

    first, last = map(float, a.part.split(":"))
    crops = data.Crops(a.photos, device, half_share=a.halves, limit=a.limit)
    test, _ = data.test_set(a.test, device)
    say(f"# {crops.count} photographs, {crops.buffer.numel() / 3e6:.0f} Mpixel with the halves, read after {time.time() - began:.0f} s")
    init = dict(i.split("=", 1) for i in a.init)
    runs = [Run(name, crops, device, init.get(name), a.state, first, a.rate, a.eager, a.hold, a.phases) for name in a.names]
    for r in runs:
        say(f"# {r.name}: {r.trainer.master.numel():,} parameters, {nets.macs_per_pixel(r.trainer.shown):,.0f} multiply-adds a pixel, part {a.part}, "
            f"{r.plan}, from step {r.first}, before: {r.scores(r.trainer.shown, test)}, ready after {time.time() - began:.0f} s")

    start = shown = time.time()
    seconds = a.seconds - (6 + 3 * len(runs))                  # the rest is for the last report
    clock = Clock(max([first, *(r.done for r in runs)]), last, began, seconds, Path(a.state) / "seconds")
    while clock.tick():
        for r in runs:
            if r.enter(clock.done):
                say(f"# {r.name}: phase {r.plan['phases'][r.phase]} from step {r.trainer.steps}, {time.time() - start:.0f} s")
        for r in [min(runs, key=lambda r: r.spent)] if a.fair else runs:
            r.go(clock.done, 5 if device == "cuda" else 1)
        if time.time() - shown > a.every:
            clock.tick()
            for r in runs:
                say(f"{100 * clock.done:.1f} % " + r.report(test, time.time() - start))
                r.save(a.out)
            clock.skip()
            shown = time.time()
    for r in runs:
        say("end " + r.report(test, time.time() - start))
        r.save(a.out)
    if device == "cuda":
        say(f"# {torch.cuda.max_memory_reserved() / 2 ** 30:.1f} GiB reserved, {time.time() - began:.0f} s in all")


if __name__ == "__main__":
    main()
