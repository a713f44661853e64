"""Fine-tune an upscaler to look sharp: against a discriminator that is trained beside it, on small pictures as they come from cameras
and the web (blurred, noisy, stored as JPEG, some of them twice).

    python crisp.py --from upscale.safetensors --features zenith-tae.safetensors --photos DIR... --test KODAK --out DIR --seconds 240

The loss: L1, the L1 of what our autoencoder's first layers see, and a little of what the discriminator says.  It
writes upscale-crisp.safetensors, and the discriminator as judge.safetensors; --from and --judge go on with both.
"""
import argparse
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


class Bounded(nn.Conv2d):
    """A convolution whose matrix has a norm of about GAIN (spectral normalisation, one step of the power iteration at a time).  With a norm
    of 1 its loss stayed at 1.34 for 4000 steps, with 2 at 1.31 after 3000; chance is 1.39."""

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
    """Says for each pixel whether the picture is a photograph: a U-Net (Real-ESRGAN's, narrower)."""

    def __init__(self, c=48):
        super().__init__()
        self.first = nets.conv3(3, c)
        self.down = nn.ModuleList(Bounded(a, b, 4, 2, 1, bias=False) for a, b in ((c, 2 * c), (2 * c, 4 * c), (4 * c, 4 * c)))
        self.up = nn.ModuleList(Bounded(a, b, 3, 1, 1, bias=False) for a, b in ((4 * c, 4 * c), (4 * c, 2 * c), (2 * c, c)))
        self.after = nn.ModuleList(Bounded(c, c, 3, 1, 1, bias=False) for _ in range(2))
        self.last = nets.last_conv(c, 1)

    def forward(self, x):
        act = lambda v: F.leaky_relu(v, 0.2)
        f, skips = act(self.first(4 * x - 2)), []
        for conv in self.down:
            skips.append(f)
            f = act(conv(f))
        for conv in self.up:
            f = act(conv(F.interpolate(f, scale_factor=2))) + skips.pop()
        for conv in self.after:
            f = act(conv(f))
        return self.last(f)


def aged(x, scale):
    """(small picture, goal, told) of crops that are larger by EDGE: a third only made smaller, the others blurred before, noisy and
    stored once or twice.  Of half of these the network is told how bad they are."""
    n = len(x)
    small, goal = degrade.low(x, scale)
    k = n - n // 3
    kernel, _ = degrade.kernels(k, x.device)
    at = torch.arange(-degrade.REACH, degrade.REACH + 1, device=x.device)
    still = ((at[:, None] == 0) & (at[None, :] == 0)).float()
    m = degrade.REACH
    wide = degrade.blurred(F.pad(x[:k], (m, m, m, m), mode="reflect"), torch.where(degrade.flagged(k, x, 0.6), kernel, still))
    e = degrade.EDGE
    y = degrade.smaller(wide, scale)[..., e:-e, e:-e]
    sigma = degrade.uniform(k, x, 0, 14 / 255) * degrade.flagged(k, x, 0.6)
    grey = degrade.flagged(k, x, 0.3)
    noise = torch.randn_like(y)
    y = y + sigma * torch.where(grey, noise[:, :1], noise)
    q = degrade.uniform(k, x, 35, 96)
    first = data.jpeg(y, degrade.uniform(k, x, 40, 95), degrade.flagged(k, x, 0.7), degrade.phase(k, x, 0.0))
    y = torch.where(degrade.flagged(k, x, 0.3), first, y)
    stored = degrade.flagged(k, x, 0.75)
    y = torch.where(stored, data.jpeg(y, q, degrade.flagged(k, x, 0.7), degrade.phase(k, x, 0.0)), (y.clamp(0, 1) * 255).round() / 255)
    told = torch.cat([sigma, torch.where(stored, 1 - q / 100, 0.0)], 1) * degrade.flagged(k, x, 0.5)
    told = torch.cat([told, torch.zeros(n - k, 2, 1, 1, device=x.device)])
    return torch.cat([y, small[k:]]), goal, told.expand(-1, -1, *small.shape[2:])


class Pair:
    """The upscaler and its discriminator; each step of the second uses the pictures of the first's."""

    def __init__(self, device, start, judge, features, weights, crops):
        net, other = nets.build("upscale"), Discriminator()
        self.weights = weights                  # of features and adversary, beside the L1
        self.view = nets.build("zenith-tae").encoder.layers[:10].to(device, torch.float16 if device == "cuda" else torch.float32)
        self.view.load_state_dict({k[len("encoder.layers."):]: v for k, v in load_file(features).items()
                                   if k.startswith("encoder.layers.") and int(k.split(".")[2]) < 10})
        self.view.requires_grad_(False)
        for one, file in ((net, start), (other, judge)):
            if file:
                one.load_state_dict({k: v.float() for k, v in load_file(file).items()})
        self.maker = Trainer(net, self.maker_loss, device, average=0.998, kind=torch.float16)
        self.judge = Trainer(other, self.judge_loss, device, average=0.99, kind=torch.float16)
        self.made = {s: torch.zeros(n, 3, s * SIDE, s * SIDE, device=device) for s, n in COUNTS.items()}
        self.real = {s: torch.zeros_like(v) for s, v in self.made.items()}
        self.parts = torch.zeros(3, device=device)
        samplers = {s: crops.sampler(n, s * (SIDE + 2 * degrade.EDGE), picky=0.85) for s, n in COUNTS.items()}
        self.maker.prepare(lambda: {s: sample() for s, sample in samplers.items()})
        self.judge.prepare(lambda: None)

    def seen(self, x):
        """What the autoencoder's first layers make of pictures, at three sizes; of half of them from one pixel on, so that their lattice
        is not always that of the small picture's pixels, where it would leave dots."""
        x, out = x.to(next(self.view.parameters()).dtype), []
        k = len(x) // 2
        f = torch.cat([x[:k, :, :-4, :-4], x[k:, :, 1:-3, 1:-3]])
        for i, layer in enumerate(self.view):
            f = layer(f)
            if i in (1, 5, 9):
                out.append(f.float())
        return out

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
        parts = [0.0, 0.0, 0.0]
        total = sum(COUNTS.values())
        for s, y in ys.items():
            share = COUNTS[s] / total
            self.made[s].copy_(y.detach())
            self.real[s].copy_(goals[s])
            parts[0] = parts[0] + share * (y - goals[s]).abs().mean()
            with torch.no_grad():
                want = self.seen(goals[s])
            parts[1] = parts[1] + share * sum((a - b).abs().mean() / b.abs().mean() for a, b in zip(self.seen(y), want)) / 3
            verdict = self.judge.work(y.to(self.judge.flat.dtype)).float()
            parts[2] = parts[2] + share * F.softplus(-verdict).mean()
        self.parts.copy_(torch.stack([p.detach() for p in parts]))
        return 10 * (parts[0] + self.weights[0] * parts[1] + self.weights[1] * parts[2])

    def save(self, out, steps):
        export.write(out, "upscale-crisp", self.maker.shown, steps=steps)
        save_file({k: v.half().cpu().contiguous() for k, v in self.judge.work.state_dict().items()}, Path(out) / "judge.safetensors")

    def judge_loss(self, work, _):
        loss, total = 0.0, sum(COUNTS.values())
        for s in COUNTS:
            to = self.judge.flat.dtype
            loss = loss + COUNTS[s] / total * (F.softplus(work(self.made[s].to(to)).float()).mean()
                                               + F.softplus(-work(self.real[s].to(to)).float()).mean())
        return loss


def main():
    began = time.time()
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--from", dest="start", required=True)
    p.add_argument("--judge", help="a discriminator to go on with")
    p.add_argument("--weights", nargs=2, type=float, default=(0.1, 0.03), help="of features and discriminator, beside the L1")
    p.add_argument("--features", required=True)
    p.add_argument("--photos", nargs="+", required=True)
    p.add_argument("--test", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--seconds", type=float, required=True)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--limit", type=int)
    p.add_argument("--every", type=float, default=40)
    a = p.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(7)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    Path(a.out).mkdir(parents=True, exist_ok=True)
    crops = data.Crops(a.photos, device, half_share=0.3, limit=a.limit)
    test, _ = data.test_set(a.test, device)
    pair = Pair(device, a.start, a.judge, a.features, a.weights, crops)
    print(f"# ready after {time.time() - began:.0f} s: {together.upscale_scores(pair.maker.shown, test)}", flush=True)
    start = shown = time.time()
    budget = max(1.0, a.seconds - (start - began) - 6)
    steps = 0
    while (spent := (time.time() - start) / budget) < 1:
        rate = a.lr * min(1.0, (steps + 10) / 200) * (1.0 if spent < 0.6 else (1 - spent) / 0.4)
        pair.maker.lr.fill_(rate)
        pair.judge.lr.fill_(rate)
        for _ in range(10 if device == "cuda" else 1):
            pair.maker.go()
            pair.judge.go()
            steps += 1
        loss = pair.judge.mean_loss.item()
        if time.time() - shown > a.every:
            print(f"step {steps} {time.time() - start:.0f} s: L1, features, adversary {pair.parts.tolist()}, judge {loss:.3f}; "
                  f"{together.upscale_scores(pair.maker.shown, test)}", flush=True)
            pair.save(a.out, steps)
            shown = time.time()
    print(f"end step {steps}: {pair.parts.tolist()}, judge {loss:.3f}; {together.upscale_scores(pair.maker.shown, test)}", flush=True)
    pair.save(a.out, steps)


if __name__ == "__main__":
    main()
