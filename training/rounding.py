"""How far a denoiser's result moves when everything between its layers is rounded: `swing` is part of the loss of
denoisers.py, so that 16 bits are enough for any picture and any level that it is told.

The same forward twice, once with each tensor times 1 + STEP u, u uniform in -1..1.  Gradients go through both.
"""
import torch
import torch.nn.functional as F

import nets

STEP = 2.0 ** -8            # eight times the rounding of float16: far above that of the training's own numbers

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton:
    @triton.jit
    def rough_kernel(x, y, seed, place, first, n, B: tl.constexpr, STEP: tl.constexpr):
        """y = x times 1 + STEP u, from element `first` on."""
        i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
        v = tl.load(x + i, i < n, 0.0).to(tl.float32)
        u = 2 * tl.rand(tl.load(seed) + place, i) - 1
        tl.store(y + i, v * (1 + tl.where(i >= first, STEP * u, 0.0)), i < n)


class Rough(torch.autograd.Function):
    """The second half of a batch, roughened; the way back is the same product."""
    @staticmethod
    def forward(ctx, x, seed, place):
        ctx.seed, ctx.place = seed, place
        return Rough.product(x, seed, place)

    @staticmethod
    def backward(ctx, g):
        return Rough.product(g.contiguous(memory_format=torch.channels_last), ctx.seed, ctx.place), None, None

    @staticmethod
    def product(x, seed, place):
        y = torch.empty_like(x)
        rough_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, seed, place, x.numel() // 2, x.numel(), 1024, STEP)
        return y


class Rounding:
    """One pass of a network with roughened tensors."""

    def __init__(self, x):
        self.seed = torch.randint(0, 1 << 30, (1,), device=x.device) if x.is_cuda else None
        self.place = 0

    def __call__(self, x):
        if self.seed is None:
            k = len(x) // 2
            return torch.cat([x[:k], x[k:] * (1 + STEP * (2 * torch.rand_like(x[k:]) - 1))])
        self.place += 1 << 20
        return Rough.apply(x.contiguous(memory_format=torch.channels_last), self.seed, self.place)

    def block(self, b, x):
        """nets.Block."""
        norm = lambda v: self(nets.layer_norm(v.float()).to(v.dtype))
        u, v = self(b.dw(self(b.pw1(norm(x))))).chunk(2, 1)
        x = self(x + b.pw2(self(u * v)))
        u, v = self(b.pw3(norm(x))).chunk(2, 1)
        return self(x + b.pw4(self(u * v)))

    def change(self, net, x, s):
        """nets.Denoiser.change."""
        f = self(net.intro(F.pixel_unshuffle(torch.cat([x, s], 1), 2).to(net.intro.weight.dtype)))
        skips = []
        for blocks, down in zip(net.enc, net.down):
            for b in blocks:
                f = self.block(b, f)
            skips.append(f)
            f = self(down(f))
        for b in net.mid:
            f = self.block(b, f)
        for blocks, up, skip in reversed(list(zip(net.dec, net.up, skips))):
            f = self(F.pixel_shuffle(up(f), 2) + skip)
            for b in blocks:
                f = self.block(b, f)
        return F.pixel_shuffle(net.outro(f).float(), 2)


def difficult(clean, noisy, told):
    """The same crops with up to 2.5 times the noise, told as little as a fiftieth of their level; a third as they are."""
    r = torch.rand(3, len(clean), 1, 1, 1, device=clean.device)
    more = torch.where(r[0] < 0.5, 1 + 1.5 * r[1], 1.0)
    less = torch.where(r[2] < 0.67, torch.exp(-4 * r[2] / 0.67), 1.0)
    return clean + more * (noisy - clean), (told * less).clamp(min=0.3 / 255)


def swing(net, clean, noisy, told):
    """log(1 + the square of how far pixels move, in levels of 8 bits), mean over crops; fourth powers, as the largest count."""
    x, s = difficult(clean, noisy, told)
    plain, rough = Rounding(x).change(net, torch.cat([x, x]), torch.cat([s, s])).chunk(2)
    e = 255 * (rough - plain).flatten(1)
    return torch.log1p((e.square().square().mean(1) + 1e-6).sqrt()).mean()
