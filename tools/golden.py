#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the golden files of tests/models: small networks with random weights, run by PyTorch.

    python3 tools/golden.py tests/data/golden

Each case is a weight file as users have them (.pth of torch.save, or .safetensors with diffusers' names) and a
CASE.golden.safetensors with the input and the output, H x W x C.  The networks are the real ones with fewer
channels; the engine reads widths from the file.
"""
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file


def conv(i, o, **kw):
    return nn.Conv2d(i, o, 3, padding=1, **kw)


class Clamp(nn.Module):
    def forward(self, x):
        return torch.tanh(x / 3) * 3


class Block(nn.Module):
    def __init__(self, c, pooled=False):
        super().__init__()
        self.conv = nn.Sequential(conv(c, c), nn.ReLU(), conv(c, c), nn.ReLU(), conv(c, c))
        self.pool = None
        if pooled:
            self.pool = nn.Sequential(
                nn.Conv2d(c, 4 * c, 1, bias=False), nn.GroupNorm(4, 4 * c), nn.ReLU(),
                nn.Conv2d(4 * c, c, 1, bias=False))

    def forward(self, x):
        if self.pool is not None:
            x = x + self.pool(x)
        return F.relu(self.conv(x) + x)


def encoder(z, c, pooled=False):
    low = [Block(c, pooled) for _ in range(3)]
    return nn.Sequential(
        conv(3, c), Block(c),
        conv(c, c, stride=2, bias=False), Block(c), Block(c), Block(c),
        conv(c, c, stride=2, bias=False), Block(c), Block(c), Block(c),
        conv(c, c, stride=2, bias=False), *low, conv(c, z))


def decoder(z, c, pooled=False):
    low = [Block(c, pooled) for _ in range(3)]
    return nn.Sequential(
        Clamp(), conv(z, c), nn.ReLU(), *low,
        nn.Upsample(scale_factor=2), conv(c, c, bias=False), Block(c), Block(c), Block(c),
        nn.Upsample(scale_factor=2), conv(c, c, bias=False), Block(c), Block(c), Block(c),
        nn.Upsample(scale_factor=2), conv(c, c, bias=False), Block(c), conv(c, 3))


def encoder32(z, c):
    layers = [conv(3, c // 2, stride=2), nn.ReLU(), conv(c // 2, c, stride=2), nn.ReLU(), Block(c)]
    for _ in range(3):
        layers += [conv(c, c, stride=2, bias=False), Block(c), Block(c), Block(c)]
    return nn.Sequential(*layers, conv(c, z))


def decoder32(z, c):
    layers = [Clamp(), conv(z, 4 * c), nn.ReLU(), Block(4 * c), Block(4 * c), Block(4 * c)]
    for a, b, n in [(4 * c, 2 * c, 3), (2 * c, c, 3), (c, c, 3), (c, c, 3), (c, c, 1)]:
        layers += [nn.Upsample(scale_factor=2), conv(a, b, bias=False)] + [Block(b) for _ in range(n)]
    return nn.Sequential(*layers, conv(c, 3))


class LayerNorm(nn.Module):
    def forward(self, x):
        m = x.mean(1, keepdim=True)
        v = (x - m).pow(2).mean(1, keepdim=True)
        return (x - m) / torch.sqrt(v + 1e-6)


class Gated(nn.Module):
    """The denoiser's block, as the shipped files store it (layer norm without parameters)."""

    def __init__(self, c):
        super().__init__()
        self.pw1, self.dw = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c)
        self.pw2, self.pw3, self.pw4 = nn.Conv2d(c, c, 1), nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1)
        self.norm = LayerNorm()

    def forward(self, x):
        a, b = self.dw(self.pw1(self.norm(x))).chunk(2, 1)
        x = x + self.pw2(a * b)
        a, b = self.pw3(self.norm(x)).chunk(2, 1)
        return x + self.pw4(a * b)


class UNet(nn.Module):
    """What is between intro and outro of the denoisers, of restore and of upscale."""

    def __init__(self, intro, outro, widths=(8, 12, 16), enc=(1, 2), mid=2, dec=(2, 1)):
        super().__init__()
        self.intro = intro(widths[0])
        self.outro = outro(widths[0])
        self.enc = nn.ModuleList(nn.Sequential(*[Gated(c) for _ in range(n)]) for c, n in zip(widths, enc))
        self.dec = nn.ModuleList(nn.Sequential(*[Gated(c) for _ in range(n)]) for c, n in zip(widths, dec))
        self.mid = nn.Sequential(*[Gated(widths[-1]) for _ in range(mid)])
        pairs = list(zip(widths, widths[1:]))
        self.down = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(nn.Conv2d(b, 4 * a, 1, bias=False) for a, b in pairs)

    def level(self, x, i=0):
        if i == len(self.enc):
            return self.mid(x)
        x = self.enc[i](x)
        low = self.level(self.down[i](x), i + 1)
        return self.dec[i](x + F.pixel_shuffle(self.up[i](low), 2))


class Denoiser(UNet):
    def __init__(self):
        super().__init__(lambda c: conv(24, c), lambda c: conv(c, 12))

    def forward(self, x, sigma=25.0):
        s = torch.full_like(x, sigma / 255)
        h = self.intro(F.pixel_unshuffle(torch.cat([x, s], 1), 2))
        return x + F.pixel_shuffle(self.outro(self.level(h)), 2)


class Restorer(UNet):
    """told: noise, artefacts, blur, whether each is known, and how much dirt to remove."""

    def __init__(self, told):
        super().__init__(lambda c: conv(19, c), lambda c: conv(c, 12))
        self.told = torch.tensor(told).view(1, 7, 1, 1)

    def forward(self, x):
        h, w = x.shape[2:]
        x = F.pad(x, (0, -w % 8, 0, -h % 8), mode="reflect")
        f = F.pixel_unshuffle(x, 2)
        f = self.intro(torch.cat([f, self.told.expand(-1, -1, *f.shape[2:])], 1))
        return (x + F.pixel_shuffle(self.outro(self.level(f)), 2))[..., :h, :w]


class Upscaler(UNet):
    """told: noise and artefacts."""

    def __init__(self, scale, told):
        each = lambda make: nn.ModuleDict({f"x{s}": make(s) for s in (2, 3, 4)})
        super().__init__(lambda c: each(lambda s: conv(5, c)), lambda c: each(lambda s: conv(c, 3 * s * s)), (8, 12), (2,), 2, (1,))
        self.scale, self.told = scale, torch.tensor(told).view(1, 2, 1, 1)

    def forward(self, x):
        s, (h, w) = self.scale, x.shape[2:]
        x = F.pad(x, (0, -w % 2, 0, -h % 2), mode="reflect")
        f = self.intro[f"x{s}"](torch.cat([x, self.told.expand(-1, -1, *x.shape[2:])], 1))
        y = F.interpolate(x, scale_factor=s) + F.pixel_shuffle(self.outro[f"x{s}"](self.level(f)), s)
        return y[..., :h * s, :w * s]


def write(out, name, net, x, suffix, prefix="", shift=0, meta=None, gain=1.3):
    net = net.eval()
    for m in net.modules():  # PyTorch's own initial weights let the signal die; these keep it near 1
        if isinstance(m, nn.Conv2d):
            nn.init.normal_(m.weight, 0, (gain / m.weight[0].numel()) ** 0.5)
            if m.bias is not None:
                nn.init.normal_(m.bias, 0, 0.1)
        if isinstance(m, nn.GroupNorm):
            nn.init.normal_(m.weight, 1, 0.2)
            nn.init.normal_(m.bias, 0, 0.2)
    for p in net.parameters():  # what is stored is half precision; the reference runs on what is stored
        p.data = p.data.half().float()
    with torch.no_grad():
        y = net(x)
    state = {}
    for k, v in net.state_dict().items():
        if shift:
            i, rest = k.split(".", 1)
            k = f"{int(i) - shift}.{rest}"
        state[prefix + k] = v.half().contiguous()
    path = out / (name + suffix)
    if suffix == ".pth":
        torch.save(state, path)
    else:
        save_file(state, path, metadata=meta)
    hwc = lambda t: t[0].permute(1, 2, 0).contiguous()
    save_file({"in": hwc(x), "out": hwc(y)}, out / (name + ".golden.safetensors"))
    print(f"{path.name}: {path.stat().st_size} bytes, output {tuple(y.shape)}, |y| up to {y.abs().max():.3f}")


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    image = lambda h, w: torch.rand(1, 3, h, w)
    write(out, "taesd_encoder", encoder(4, 8), image(24, 40), ".pth")
    write(out, "taesd_decoder", decoder(4, 8), torch.randn(1, 4, 5, 3), ".pth")
    write(out, "taef1_encoder", encoder(16, 8), image(19, 29), ".safetensors", "encoder.layers.")
    write(out, "taef1_decoder", decoder(16, 8), 2 * torch.randn(1, 16, 3, 4), ".safetensors", "decoder.layers.", 1)
    write(out, "taef2_encoder", encoder(32, 8, True), image(32, 24), ".pth")
    write(out, "taef2_decoder", decoder(32, 8, True), torch.randn(1, 32, 4, 3), ".pth")
    write(out, "taesana_encoder", encoder32(32, 8), image(64, 40), ".pth")
    write(out, "taesana_decoder", decoder32(32, 4), torch.randn(1, 32, 2, 1), ".pth")
    write(out, "denoise", Denoiser(), image(24, 40), ".safetensors", meta={"model": "golden"}, gain=0.4)
    write(out, "restore", Restorer([0.0, 0.0, 1.5 / 4, 0.0, 0.0, 1.0, 0.0]), image(21, 37), ".safetensors", gain=0.4)
    write(out, "restore-dust", Restorer([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.75]), image(24, 16), ".safetensors", gain=0.4)
    for scale, told in ((2, [0.0, 0.6]), (3, [9 / 255, 0.0]), (4, [0.0, 0.0])):
        write(out, f"upscale-x{scale}", Upscaler(scale, told), image(13, 18), ".safetensors", gain=0.4)


if __name__ == "__main__":
    main()
