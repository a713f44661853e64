"""The face autoencoder: U-Net, semantic encoder, attribute head and latent network, with the names of the official DiffAE.

What differs from the official one is said by the file's metadata (see export.py): the picture enters as 2x2 patches
(pixel_unshuffle), the output is v, attention has heads of 64 channels, and the time embedding has 128 channels.
Widths and the number of blocks follow from the tensors' names and shapes.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

import kernels

CODE = 512
HEAD = 64           # channels of an attention head

CONFIGS = {
    # widths at S/2, S/4, ...; residual blocks a level; the same of the encoder; time embedding; attention at these sides
    "face": dict(side=128, widths=(64, 128, 192, 192), blocks=1, enc_widths=(64, 96, 128, 192, 320), enc_blocks=2,
                 time=128, attention=(16, 8), enc_attention=(16,)),
    "tiny": dict(side=128, widths=(32, 32, 64, 64), blocks=1, enc_widths=(32, 32, 32, 64, 64), enc_blocks=1,
                 time=32, attention=(16, 8), enc_attention=(16,)),
}


def group_norm(c):
    return nn.GroupNorm(32, c)


def zero(m):
    nn.init.zeros_(m.weight)
    nn.init.zeros_(m.bias)
    return m


def time_features(t, d):
    """cos first."""
    half = d // 2
    f = torch.exp(torch.arange(half, device=t.device, dtype=torch.float32) * (-math.log(10000) / half))
    a = t[:, None].float() * f
    return torch.cat([a.cos(), a.sin()], 1)


def conv1(m, x):
    """A 1x1 convolution without its bias, as a product of NHWC rows."""
    return F.linear(x.permute(0, 2, 3, 1), m.weight.flatten(1)).permute(0, 3, 1, 2)


class ResBlock(nn.Module):
    """With a condition: two convolutions, the second norm scaled and shifted by time, scaled by the code.
    Without (encoder): one convolution."""

    def __init__(self, i, o, time=0, resample=None):
        super().__init__()
        self.resample = resample
        self.in_layers = nn.Sequential(group_norm(i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1))
        if time:
            self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(time, 2 * o))
            self.cond_emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(CODE, o))
            self.out_layers = nn.Sequential(group_norm(o), nn.SiLU(), nn.Identity(), zero(nn.Conv2d(o, o, 3, padding=1)))
        self.skip_connection = nn.Identity() if i == o else nn.Conv2d(i, o, 1)

    def forward(self, x, ab=None):
        norm, _, conv = self.in_layers
        h = kernels.norm(x, None, norm.weight.float()[None], norm.bias.float()[None], True)
        if self.resample == "down":
            h, x = kernels.half(h), kernels.half(x)
        elif self.resample == "up":
            h, x = kernels.double(h), kernels.double(x)
        h = F.conv2d(h, conv.weight, padding=1)
        bias = conv.bias
        if ab is not None:
            h = kernels.norm(h, conv.bias, *ab, True)       # the bias of the convolution is added there
            conv = self.out_layers[3]
            h, bias = F.conv2d(h, conv.weight, padding=1), conv.bias
        if isinstance(self.skip_connection, nn.Conv2d):
            x, bias = conv1(self.skip_connection, x), bias + self.skip_connection.bias
        return kernels.add(x, h, bias)


class AttentionBlock(nn.Module):
    """Head-major rows of qkv: each head owns HEAD rows of q, then k, then v."""

    def __init__(self, c):
        super().__init__()
        self.norm = group_norm(c)
        self.qkv = nn.Conv1d(c, 3 * c, 1)
        self.proj_out = zero(nn.Conv1d(c, c, 1))

    def forward(self, x, ab=None):
        n, c, h, w = x.shape
        d = min(HEAD, c)
        y = kernels.norm(x, None, self.norm.weight.float()[None], self.norm.bias.float()[None], False)
        y = F.linear(y.permute(0, 2, 3, 1).reshape(n, h * w, c), self.qkv.weight[:, :, 0], self.qkv.bias)
        q, k, v = y.view(n, h * w, c // d, 3, d).permute(3, 0, 2, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h, w, c)
        return kernels.add(x, F.linear(a, self.proj_out.weight[:, :, 0]).permute(0, 3, 1, 2), self.proj_out.bias)


class TimeEmbed(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.time_embed = nn.Sequential(nn.Linear(c, d), nn.SiLU(), nn.Linear(d, d))


class Encoder(nn.Module):
    def __init__(self, side, widths, blocks, attention):
        super().__init__()
        p = widths[0]
        self.input_blocks = nn.ModuleList([nn.ModuleList([nn.Conv2d(12, p, 3, padding=1)])])
        for l, c in enumerate(widths):
            for _ in range(blocks):
                self.input_blocks.append(nn.ModuleList([ResBlock(p, c)]))
                p = c
                if side >> l + 1 in attention:
                    self.input_blocks[-1].append(AttentionBlock(c))
            if l + 1 < len(widths):
                self.input_blocks.append(nn.ModuleList([ResBlock(p, p, resample="down")]))
        self.middle_block = nn.ModuleList([ResBlock(p, p), AttentionBlock(p), ResBlock(p, p)])
        self.out = nn.ModuleDict({"0": group_norm(p), "3": nn.Conv2d(p, CODE, 1)})

    def forward(self, x):
        """x: [N,3,S,S] in -1..1 -> codes [N,512], float32."""
        conv = self.input_blocks[0][0]
        h = F.conv2d(patches(x, conv.weight.dtype), conv.weight, conv.bias, padding=1)
        for b in [*self.input_blocks[1:], self.middle_block]:
            for m in b:
                h = m(h)
        norm, last = self.out["0"], self.out["3"]
        h = kernels.norm(h, None, norm.weight.float()[None], norm.bias.float()[None], True).float().mean((2, 3))
        return F.linear(h, last.weight.flatten(1).float(), last.bias.float())


def patches(x, kind):
    x = F.pixel_unshuffle(x, 2).to(kind)
    return x.contiguous(memory_format=torch.channels_last) if x.is_cuda else x


class Autoencoder(nn.Module):
    def __init__(self, side, widths, blocks, enc_widths, enc_blocks, time, attention, enc_attention, attributes):
        super().__init__()
        self.side, self.attention, self.enc_attention = side, attention, enc_attention
        p = widths[0]
        self.time_embed = TimeEmbed(p, time)
        self.input_blocks = nn.ModuleList([nn.ModuleList([nn.Conv2d(12, p, 3, padding=1)])])
        self.levels = [[p]]                     # widths of the lateral outputs of each level
        for l, c in enumerate(widths):
            for _ in range(blocks):
                self.input_blocks.append(nn.ModuleList([ResBlock(p, c, time)]))
                p = c
                if side >> l + 1 in attention:
                    self.input_blocks[-1].append(AttentionBlock(c))
                self.levels[l].append(p)
            if l + 1 < len(widths):
                self.input_blocks.append(nn.ModuleList([ResBlock(p, p, time, "down")]))
                self.levels.append([p])
        self.middle_block = nn.ModuleList([ResBlock(p, p, time), AttentionBlock(p), ResBlock(p, p, time)])
        self.output_blocks = nn.ModuleList()
        for l in reversed(range(len(widths))):
            for i in range(blocks + 1):
                b = nn.ModuleList([ResBlock(p + self.levels[l][-1 - i], widths[l], time)])
                p = widths[l]
                if side >> l + 1 in attention:
                    b.append(AttentionBlock(p))
                if l and i == blocks:
                    b.append(ResBlock(p, p, time, "up"))
                self.output_blocks.append(b)
        self.out = nn.ModuleDict({"0": group_norm(p), "2": zero(nn.Conv2d(p, 12, 3, padding=1))})
        self.encoder = Encoder(side, enc_widths, enc_blocks, enc_attention)
        self.aux = nn.Linear(CODE, attributes)
        self.conditioned = [m for m in self.modules() if isinstance(m, ResBlock) and hasattr(m, "out_layers")]

    def modulation(self, t, code):
        """The scale and shift of every block's second norm: [(A, B)], each [N,C] float32. The linear layers of all
        blocks are one product."""
        kind = self.aux.weight.dtype
        first, _, last = self.time_embed.time_embed
        e = last(F.silu(first(time_features(t, first.in_features).to(kind))))
        e, z = F.silu(e), F.silu(code).to(kind)
        cat = lambda parts: torch.cat(parts)
        lin = [b.emb_layers[1] for b in self.conditioned]
        con = [b.cond_emb_layers[1] for b in self.conditioned]
        gns = [b.out_layers[0] for b in self.conditioned]
        c = [g.num_channels for g in gns]
        a = F.linear(e, cat([l.weight[:k] for l, k in zip(lin, c)]), cat([l.bias[:k] for l, k in zip(lin, c)])).float()
        b = F.linear(e, cat([l.weight[k:] for l, k in zip(lin, c)]), cat([l.bias[k:] for l, k in zip(lin, c)])).float()
        s = F.linear(z, cat([l.weight for l in con]), cat([l.bias for l in con])).float()
        w, o = cat([g.weight for g in gns]).float(), cat([g.bias for g in gns]).float()
        A = (w * (1 + a) * (1 + s)).split(c, 1)
        B = ((o * (1 + a) + b) * (1 + s)).split(c, 1)
        return {m: ab for m, ab in zip(self.conditioned, zip(A, B))}

    def forward(self, x, t, code):
        """x: noisy pictures [N,3,S,S] float32; t: 0..999; code [N,512] -> v, float32."""
        ab = self.modulation(t, code)
        conv = self.input_blocks[0][0]
        h = F.conv2d(patches(x, conv.weight.dtype), conv.weight, conv.bias, padding=1)
        stacks, block = [[h]], iter(self.input_blocks[1:])
        for l, level in enumerate(self.levels):
            if l:
                h = self.run(next(block), h, ab)
                stacks.append([h])
            for _ in level[1:]:
                h = self.run(next(block), h, ab)
                stacks[l].append(h)
        h = self.run(self.middle_block, h, ab)
        block = iter(self.output_blocks)
        for stack in reversed(stacks):
            while stack:
                h = self.run(next(block), torch.cat([h, stack.pop()], 1), ab)
        norm, conv = self.out["0"], self.out["2"]
        h = kernels.norm(h, None, norm.weight.float()[None], norm.bias.float()[None], True)
        return F.pixel_shuffle(F.conv2d(h, conv.weight, padding=1).float() + conv.bias.float()[:, None, None], 2)

    @staticmethod
    def run(block, h, ab):
        for m in block:
            h = m(h, ab.get(m))
        return h


def build(name, attributes):
    return Autoencoder(**CONFIGS[name], attributes=attributes)


# ---- the latent network --------------------------------------------------------------------------

class MLPLayer(nn.Module):
    def __init__(self, i, o, time, last):
        super().__init__()
        self.linear = nn.Linear(i, o)
        if not last:
            self.linear_emb = nn.Linear(time, o)
            self.norm = nn.LayerNorm(o)

    def forward(self, h, c):
        y = self.linear(h)
        if not hasattr(self, "norm"):
            return y
        return F.silu(self.norm(y * (1 + self.linear_emb(F.silu(c)))))


class MLPSkipNet(nn.Module):
    """Noise of a noisy, normalised code; every layer but the first also gets the input."""

    def __init__(self, hidden=384, layers=4, time=128, features=64):
        super().__init__()
        self.features = features
        self.time_embed = nn.Sequential(nn.Linear(features, time), nn.SiLU(), nn.Linear(time, time))
        ins = [CODE] + [hidden + CODE] * (layers - 1)
        outs = [hidden] * (layers - 1) + [CODE]
        self.layers = nn.ModuleList(MLPLayer(i, o, time, k + 1 == layers) for k, (i, o) in enumerate(zip(ins, outs)))

    def forward(self, x, t):
        c = self.time_embed(time_features(t, self.features))
        h = x
        for i, l in enumerate(self.layers):
            h = l(torch.cat([h, x], 1) if i else h, c)
        return h
