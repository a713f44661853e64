"""What the fast denoiser should be made of: networks of the same layout and about the same cost, trained for the same
number of steps on the same crops.

    python compare.py --photos DIR... --test KODAK24_DIR [--steps 1500]

  gated      the shipped kind of network: 1x1 convolutions and a depthwise 3x3, gated
  windows    a Zenith network: the depthwise 3x3 becomes two Walsh-Hadamard gates, H diag(g) H along rows and along
             columns in windows of 16, shifted by 8 in every second block; a gate per channel and sequency
  channels   a Zenith network: the 1x1 convolutions become Walsh-Hadamard mixers of the channels, rounds of
             v <- H (d * v[perm]), which cost c log c additions instead of c^2 products; twice as wide
  both       windows and channels

An addition of a transform is counted like a multiply-add of a convolution. The reach of each is printed too: tiles are
exact, so a tile is computed with that much around it.

    python compare.py --reach        the reach alone, no GPU needed
"""
import argparse
import math
import time

import torch
from torch import nn
import torch.nn.functional as F

import data
import nets
import train

ROUNDS, WINDOW = 2, 16
PLAN = dict(widths=(32, 64, 128), enc=(4, 3), mid=5, dec=(6, 6))     # denoise-fast as it was when this was measured


def hadamard(n):
    h = torch.ones(1, 1)
    while len(h) < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h


class Gates(nn.Module):
    """y = H diag(g) H x in windows along w, then along h."""

    def __init__(self, c, shift):
        super().__init__()
        self.shift = shift
        self.gate = nn.Parameter(1 / WINDOW + torch.randn(2, c, WINDOW) * 0.25 / WINDOW)
        self.bias = nn.Parameter(torch.zeros(c))
        self.register_buffer("h", hadamard(WINDOW), persistent=False)

    def along_w(self, x, gate):
        n, c, h, w = x.shape
        right = -(w + self.shift) % WINDOW
        v = F.pad(x, (self.shift, right)).reshape(n, c, h, -1, WINDOW)
        t = self.h.to(x.dtype)
        v = ((v @ t) * gate[:, None, None]) @ t
        return v.reshape(n, c, h, -1)[..., self.shift:self.shift + w]

    def forward(self, x):
        y = self.along_w(x, self.gate[0])
        y = self.along_w(y.mT, self.gate[1]).mT
        return y + self.bias[:, None, None]

    def spread(self, iv):
        """nets.receptive_field's intervals: a pixel depends on its window, on both axes."""
        lo = [max((i + self.shift) // WINDOW * WINDOW - self.shift, 0) for i in range(len(iv))]
        return [(iv[a][0], iv[min((i + self.shift) // WINDOW * WINDOW - self.shift + WINDOW, len(iv)) - 1][1])
                for i, a in enumerate(lo)]

    def adds(self):
        return self.gate.shape[1] * 2 * (2 * math.log2(WINDOW) + 1)


class Mixer(nn.Module):
    """i to o channels by ROUNDS of a diagonal, a fixed permutation and a Walsh-Hadamard transform."""

    def __init__(self, i, o, gain=1.0):
        super().__init__()
        self.n, self.o = max(i, o), o
        assert self.n & (self.n - 1) == 0
        self.d = nn.Parameter(torch.sign(torch.randn(ROUNDS, self.n)) * (1 + 0.1 * torch.randn(ROUNDS, self.n)))
        self.gain = nn.Parameter(torch.full((o,), float(gain) * (self.n / i) ** 0.5))
        self.bias = nn.Parameter(torch.zeros(o))
        self.register_buffer("h", hadamard(self.n), persistent=False)
        self.register_buffer("perm", torch.stack([torch.randperm(self.n) for _ in range(ROUNDS)]), persistent=False)

    def forward(self, x):
        v = F.pad(x, (0, 0, 0, 0, 0, self.n - x.shape[1]))
        for d, p in zip(self.d, self.perm):
            # the permutation and the diagonal as part of the matrix: the same numbers, one product
            back = torch.argsort(p)
            v = F.conv2d(v, (self.h[:, back] * (d[back] * self.n ** -0.5))[:, :, None, None])
        return v[:, :self.o] * self.gain[:, None, None] + self.bias[:, None, None]

    def adds(self):
        return ROUNDS * self.n * (math.log2(self.n) + 1)


class Block(nets.Block):
    def __init__(self, c, windows, channels, shift):
        super().__init__(c)
        if windows:
            self.dw = Gates(2 * c, shift)
            self.spread = self.dw.spread
        if channels:
            self.pw1, self.pw3 = Mixer(c, 2 * c), Mixer(c, 2 * c)
            self.pw2, self.pw4 = Mixer(c, c, 0.1), Mixer(c, c, 0.1)


def network(windows, channels, plan=PLAN):
    plan = dict(plan)
    if channels:
        plan["widths"] = tuple(2 * w for w in plan["widths"])
    net = nets.Denoiser(**plan)
    if windows or channels:
        for level in [*net.enc, net.mid, *net.dec]:
            for i, b in enumerate(level):
                level[i] = Block(b.pw1.in_channels, windows, channels, WINDOW // 2 * (i % 2))
    return net


def cost(net):
    """Multiply-adds and additions per pixel of the picture."""
    total, hooks, side = [nets.macs_per_pixel(net)], [], 64

    def count(m, _, out):
        total[0] += m.adds() * out.shape[-1] * out.shape[-2] / side ** 2

    for m in net.modules():
        if hasattr(m, "adds"):
            hooks.append(m.register_forward_hook(count))
    x = torch.zeros(1, 3, side, side)
    with torch.no_grad():
        net(x, x)
    for h in hooks:
        h.remove()
    return total[0]


def plain_loss(work, x):
    noisy, sigma = data.noise(x)
    kind = next(work.parameters()).dtype
    y = noisy + work.change(noisy.to(kind), sigma.to(kind)).float()
    return 10 * torch.log10((y - x).square().flatten(1).mean(1) + 1e-5).mean()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--reach", action="store_true")
    p.add_argument("--photos", nargs="+")
    p.add_argument("--test")
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--only", default="gated,windows,channels,both")
    p.add_argument("--limit", type=int)
    a = p.parse_args()
    if a.reach:
        for blocks, plan in ((24, PLAN), (13, nets.DENOISERS["denoise-fast"])):
            for name in ("gated", "windows"):
                reach = max(nets.receptive_field(network(name == "windows", False, plan), 6144, 256))
                print(f"{name}, {blocks} blocks: {reach} pixels; a tile of 576 computes {((576 + 2 * reach) / 576) ** 2:.2f} times that")
        return
    if not (a.photos and a.test):
        p.error("--photos and --test are needed")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    crops = data.Crops(a.photos, device, limit=a.limit)
    test = data.test_set(a.test, device)
    for name in a.only.split(","):
        torch.manual_seed(1)
        net = network(name in ("windows", "both"), name in ("channels", "both"))
        work = cost(net)
        shipped = name == "gated" and device == "cuda"
        t = train.Trainer(net, train.denoiser_loss if shipped else plain_loss, device, average=0.995, muon=True)
        t.prepare(crops.sampler(a.batch, 128 if device == "cuda" else 64))
        start = time.time()
        for i in range(a.steps):
            t.lr.fill_(a.lr * min(1, (i + 1) / 200) * 0.5 * (1 + math.cos(math.pi * i / a.steps)) + 1e-7)
            t.go()
            if i % 50 == 0:
                t.mean_loss.item()      # no more than 50 steps ahead
        loss = t.mean_loss.item()
        print(f"{name:9} {work:7,.0f} a pixel, {t.master.numel():9,} parameters, {a.steps} steps in {time.time() - start:.0f} s, "
              f"loss {loss:.3f}, {train.score(t.shown, 'denoise-fast', test)}", flush=True)


if __name__ == "__main__":
    main()
