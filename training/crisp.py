"""Fine-tune an upscaler to look sharp: against a discriminator that is trained beside it, on small pictures as they come from cameras
and the web (blurred, noisy, stored as JPEG, some of them twice).

    python crisp.py --from upscale.safetensors --photos DIR... --test KODAK --out DIR --seconds 900

The gradients of five losses at the network's output are scaled to fixed ratios (--weights), so that none of them decides alone: L1, L1 of
4x4 means, the contrast of fine detail around each place (whatever its phase), the discriminator's features, its verdict.
It writes upscale-crisp.safetensors, copies of it on the way, the discriminator as judge.safetensors, and state.pt, from which the same command
goes on.
"""
import argparse
import os
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import data
import degrade
import export
import nets
import together
from train import Trainer

SIDE, COUNTS = 48, {2: 4, 3: 2, 4: 10}
PARTS = ("L1", "means", "contrast", "features", "verdict")


class Bounded(nn.Conv2d):
    """A convolution whose matrix has a norm of about GAIN (spectral normalisation, one step of the power iteration at a time)."""

    GAIN = 2.0

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.register_buffer("u", F.normalize(torch.randn(self.out_channels), dim=0))

    def forward(self, x):
        m = self.weight.flatten(1).float()
        with torch.no_grad():
            v = F.normalize(self.u.float() @ m, dim=0)
            u = F.normalize(m @ v, dim=0)
            self.u.copy_(u)
        return self._conv_forward(x, (self.weight.float() * (self.GAIN / (u @ m @ v))).to(self.weight.dtype), self.bias)


class Discriminator(nn.Module):
    """Says for each pixel whether the picture is a photograph: a U-Net (Real-ESRGAN's, narrower).  It sees the picture and, eight times as
    strong, its finest detail, which is where the two kinds differ: without that its loss stayed at 1.31 for 3000 steps (chance: 1.39)."""

    def __init__(self, c=48):
        super().__init__()
        self.first = nets.conv3(6, c)
        self.down = nn.ModuleList(Bounded(a, b, 4, 2, 1, bias=False) for a, b in ((c, 2 * c), (2 * c, 4 * c), (4 * c, 4 * c)))
        self.up = nn.ModuleList(Bounded(a, b, 3, 1, 1, bias=False) for a, b in ((4 * c, 4 * c), (4 * c, 2 * c), (2 * c, c)))
        self.after = nn.ModuleList(Bounded(c, c, 3, 1, 1, bias=False) for _ in range(2))
        self.last = nets.last_conv(c, 1)

    def forward(self, x):
        """(verdict, features of all levels) of x in float32."""
        act = lambda v: F.leaky_relu(v, 0.2)
        fine = x - F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3, 1)
        both = torch.cat([4 * x - 2, 32 * fine], 1).to(self.last.weight.dtype, memory_format=torch.channels_last)
        f, skips, seen = act(self.first(both)), [], []
        for conv in self.down:
            skips.append(f)
            f = act(conv(f))
            seen.append(f)
        for conv in self.up:
            f = act(conv(F.interpolate(f, scale_factor=2))) + skips.pop()
            seen.append(f)
        for conv in self.after:
            f = act(conv(f))
        return self.last(f).float(), seen


# ---- small pictures ----------------------------------------------------------------------------------------

def softened(y, sigma):
    """y with a Gaussian blur of the deviations sigma [N,1,1,1] in pixels."""
    at = torch.arange(-3, 4, device=y.device, dtype=torch.float32)
    line = torch.exp(-0.5 * (at / sigma) ** 2)
    line = line / line.sum(-1, keepdim=True)                                # [N,1,1,7]
    n, c, h, w = y.shape
    kernel = (line.transpose(2, 3) * line).expand(-1, c, -1, -1).reshape(n * c, 1, 7, 7)
    return F.conv2d(F.pad(y, (3, 3, 3, 3), mode="reflect").view(1, n * c, h + 6, w + 6), kernel, groups=n * c).view(y.shape)


def noisy(y, most, share):
    """y with white noise of up to `most` in this share of the pictures, mostly weak, a third of it grey; and its deviation."""
    k = len(y)
    sigma = most * degrade.uniform(k, y).square() * degrade.flagged(k, y, share)
    e = torch.randn_like(y)
    return y + sigma * torch.where(degrade.flagged(k, y, 0.3), e[:, :1], e), sigma


def stored(y, least, share):
    """y as a JPEG file of at least this quality, in this share of the pictures; and 1 - quality/100."""
    k = len(y)
    q = degrade.uniform(k, y, least, 96)
    file = data.jpeg(y, q, degrade.flagged(k, y, 0.7), degrade.phase(k, y, 0.0))
    chosen = degrade.flagged(k, y, share)
    return torch.where(chosen, file, y), torch.where(chosen, 1 - q / 100, 0.0)


def aged(x, scale):
    """(small picture, goal, told) of crops that are larger by EDGE: a quarter only made smaller, the others damaged twice, as Real-ESRGAN
    does it: blur, smaller, noise, file; then blur, noise, file.  Of half of these the network is told how bad they are."""
    n, e, m = len(x), degrade.EDGE, degrade.REACH
    small, goal = degrade.low(x, scale)
    k = n - n // 4
    kernel, _ = degrade.kernels(k, x.device)
    at = torch.arange(-m, m + 1, device=x.device)
    still = ((at[:, None] == 0) & (at[None, :] == 0)).float()
    y = degrade.blurred(F.pad(x[:k], (m, m, m, m), mode="reflect"), torch.where(degrade.flagged(k, x, 0.5), kernel, still))
    y = torch.where(degrade.flagged(k, x, 0.6), degrade.smaller(y, scale), F.avg_pool2d(y, scale))[..., e:-e, e:-e]
    y, first = noisy(y, 25 / 255, 0.5)
    y, coarse = stored(y, 35, 0.4)
    y = torch.where(degrade.flagged(k, x, 0.4), softened(y, degrade.uniform(k, x, 0.25, 1.1)), y)
    y, second = noisy(y, 12 / 255, 0.4)
    y, last = stored(y, 35, 0.7)
    y = (y.clamp(0, 1) * 255).round() / 255
    told = torch.cat([torch.maximum(first, second), torch.maximum(coarse, last)], 1) * degrade.flagged(k, x, 0.5)
    told = torch.cat([told, torch.zeros(n - k, 2, 1, 1, device=x.device)])
    return torch.cat([y, small[k:]]), goal, told.expand(-1, -1, *small.shape[2:])


# ---- losses --------------------------------------------------------------------------------------------------

def sharpened(x, gain=0.5):
    """Unsharp mask of x, as L1 and contrast are to see it; weak differences, which may be noise, are left."""
    d = x - softened(x, torch.full((len(x), 1, 1, 1), 1.6, device=x.device))
    return (x + gain * d * (d.abs() / (d.abs() + 4 / 255))).clamp(0, 1)


def contrast(x):
    """The deviation of fine detail in 8x8 pixels, every 4, for two sizes and seven filters of the luma."""
    y = 0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]
    out = []
    for _ in range(2):
        right, down, cross = y[..., 1:-1, 1:] - y[..., 1:-1, :-1], y[..., 1:, 1:-1] - y[..., :-1, 1:-1], y[..., 1:, 1:] - y[..., :-1, :-1]
        other = y[..., 1:, :-1] - y[..., :-1, 1:]
        mixed = y[..., 1:, 1:] - y[..., 1:, :-1] - y[..., :-1, 1:] + y[..., :-1, :-1]
        bands = [right[..., 1:], down[..., 1:, :], cross[..., 1:, 1:], other[..., 1:, 1:], mixed[..., 1:, 1:],
                 right[..., 1:] - right[..., :-1], down[..., 1:, :] - down[..., :-1, :]]
        out.append((F.avg_pool2d(torch.cat(bands, 1).square(), 8, 4) + (1 / 255) ** 2).sqrt())
        y = F.avg_pool2d(y, 2)
    return out


class Pair:
    """The upscaler and its discriminator; each step of the second uses the pictures of the first's."""

    def __init__(self, device, start, judge, weights, crops):
        net, other = nets.build("upscale"), Discriminator()
        for one, file in ((net, start), (other, judge)):
            if file:
                one.load_state_dict({k: v.float() for k, v in load_file(file).items()})
        self.weights = weights
        self.maker = Trainer(net, self.maker_loss, device, average=0.998, kind=torch.float16)
        self.judge = Trainer(other, self.judge_loss, device, average=0.99, kind=torch.float16)
        self.made = {s: torch.zeros(n, 3, s * SIDE, s * SIDE, device=device) for s, n in COUNTS.items()}
        self.real = {s: torch.zeros_like(v) for s, v in self.made.items()}
        self.parts = torch.zeros(len(PARTS), device=device)
        self.ramp = torch.zeros((), device=device)              # of what the discriminator says: 0 while it knows nothing
        samplers = {s: crops.sampler(n, s * (SIDE + 2 * degrade.EDGE), picky=0.85) for s, n in COUNTS.items()}
        self.maker.prepare(lambda: {s: sample() for s, sample in samplers.items()})
        self.judge.prepare(lambda: None)

    def gradient(self, y, goal):
        """Of the losses of y, in the ratios of their weights: each as large, in the root mean square, as that of L1, 1."""
        y = y.detach().requires_grad_()
        with torch.no_grad():
            sharp = sharpened(goal)
            deviation = contrast(sharp)
            _, wanted = self.judge.work(goal)
        d = y - sharp
        verdict, seen = self.judge.work(y)
        losses = (d.abs().sum(), F.avg_pool2d(d, 4).abs().sum() * 16,
                  sum((a - b).abs().sum() for a, b in zip(contrast(y), deviation)),
                  sum((a.float() - b.float()).abs().sum() / a.shape[1] for a, b in zip(seen, wanted)), F.softplus(-verdict).sum())
        total = 0.0
        for i, (loss, weight) in enumerate(zip(losses, self.weights)):
            g, = torch.autograd.grad(loss, y, retain_graph=i < len(losses) - 1)
            g = g / (g.square().mean().sqrt() + 1e-8)
            total = total + weight * (g if i < 3 else self.ramp * g)
        return total, torch.stack([v.detach() / y.numel() for v in losses])

    def maker_loss(self, work, crops):
        lows, goals = {}, {}
        for s, x in crops.items():
            small, goals[s], told = aged(x, s)
            lows[s] = small, told
        if next(iter(goals.values())).is_cuda:
            import kernels
            ys = kernels.upscale(work, lows)
        else:
            ys = {s: work(*v, s) for s, v in lows.items()}
        loss, parts, total = 0.0, 0.0, sum(y.numel() for y in ys.values())
        for s, y in ys.items():
            self.made[s].copy_(y.detach())
            self.real[s].copy_(goals[s])
            g, part = self.gradient(y, goals[s])
            loss = loss + (y * g).sum() * (10 / total)
            parts = parts + part * (y.numel() / total)
        self.parts.copy_(parts)
        return loss

    def judge_loss(self, work, _):
        loss, total = 0.0, sum(COUNTS.values())
        for s in COUNTS:
            loss = loss + COUNTS[s] / total * (F.softplus(work(self.made[s])[0]).mean() + F.softplus(-work(self.real[s])[0]).mean())
        return loss

    # ---- files ----

    def save(self, out, steps, done, copy=None):
        """copy: also as a file of its own."""
        path = export.write(out, "upscale-crisp", self.maker.shown, steps=steps)
        if copy:
            (Path(out) / f"crisp-{copy}.safetensors").write_bytes(path.read_bytes())
        save_file({k: v.half().cpu().contiguous() for k, v in self.judge.work.state_dict().items()}, Path(out) / "judge.safetensors")
        buffers = {k: v.cpu() for k, v in self.judge.work.named_buffers()}
        torch.save(dict(maker=self.maker.state(), judge=self.judge.state(), buffers=buffers, steps=steps, done=done), Path(out) / "state.new")
        os.replace(Path(out) / "state.new", Path(out) / "state.pt")

    def resume(self, path, device):
        state = torch.load(path, map_location=device)
        self.maker.restore(state["maker"])
        self.judge.restore(state["judge"])
        for name, v in self.judge.work.named_buffers():
            v.copy_(state["buffers"][name])
        return state["steps"], state["done"]


def main():
    began = time.time()
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--from", dest="start", required=True)
    p.add_argument("--judge", help="a discriminator to go on with")
    p.add_argument("--weights", nargs=len(PARTS), type=float, default=(0.3, 0.3, 0.5, 0.7, 1.0), help="of " + ", ".join(PARTS))
    p.add_argument("--photos", nargs="+", required=True)
    p.add_argument("--test", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--seconds", type=float, required=True, help="of this call; what is left of the schedule ends with it")
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--halves", type=float, default=0.8, help="share of crops from photographs at half their size, which are sharper")
    p.add_argument("--limit", type=int)
    p.add_argument("--every", type=float, default=40)
    a = p.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(7)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    crops = data.Crops(a.photos, device, half_share=a.halves, limit=a.limit)
    test, _ = data.test_set(a.test, device)
    pair = Pair(device, a.start, a.judge, a.weights, crops)
    steps, first = pair.resume(out / "state.pt", device) if (out / "state.pt").exists() else (0, 0.0)
    print(f"# ready after {time.time() - began:.0f} s, step {steps}, {first:.2f} done: {together.upscale_scores(pair.maker.shown, test)}", flush=True)
    start = shown = time.time()
    budget = max(1.0, a.seconds - (start - began) - 8)
    copies = [c for c in (0.5, 0.7, 0.85) if c > first]
    done = first
    while done < 1:
        rate = a.lr * min(1.0, (steps + 10) / 200) * (1.0 if done < 0.6 else (1 - done) / 0.4)
        pair.maker.lr.fill_(rate)
        pair.judge.lr.fill_(rate)
        pair.ramp.fill_(min(1.0, steps / 300))
        for _ in range(10 if device == "cuda" else 1):
            pair.maker.go()
            pair.judge.go()
            steps += 1
        loss = pair.judge.mean_loss.item()                      # waits for the device
        done = min(1.0, first + (1 - first) * (time.time() - start) / budget)
        copy = f"{int(100 * copies.pop(0))}" if copies and done >= copies[0] else None
        if copy or done >= 1 or time.time() - shown > a.every:
            parts = ", ".join(f"{n} {v:.4f}" for n, v in zip(PARTS, pair.parts.tolist()))
            print(f"{'end ' if done >= 1 else ''}step {steps} {time.time() - start:.0f} s {done:.2f}: {parts}, judge {loss:.3f}; "
                  f"scale {pair.maker.scale.item():.0f} {pair.judge.scale.item():.0f}; {together.upscale_scores(pair.maker.shown, test)}", flush=True)
            pair.save(out, steps, done, copy)
            shown = time.time()


if __name__ == "__main__":
    main()
