#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the golden files of the Zenith family: small networks with random weights, run by PyTorch in double.

    python3 tools/golden_zenith.py tests/data/golden

Written from the descriptions (docs/zenith.md, the heads of engine/models/zenith/), not from the code, in the plainest
form: transforms are products with explicit Hadamard matrices, gates are written out per pixel.  Each case is CASE.safetensors (half precision or 8-bit floats,
which the reference then uses) and CASE.golden.safetensors with the input and the output, H x W x C.
"""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(7)
D = torch.float64


def hadamard(n):
    h = torch.ones(1, 1, dtype=D)
    while h.shape[0] < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    return h


class Store:
    """Draws parameters, rounds them to what is stored, and keeps them by name."""

    def __init__(self):
        self.t = {}

    def new(self, name, shape, scale=1.0, mean=0.0, dtype=torch.float16):
        v = (mean + scale * torch.randn(shape)).to(dtype)
        self.t[name] = v
        return v.to(D)

    def conv(self, name, cout, cin, k, gain=1.0, dtype=torch.float16):
        w = self.new(name + ".weight", (cout, cin, k, k), (gain / (cin * k * k)) ** 0.5, dtype=dtype)
        b = self.new(name + ".bias", (cout,), 0.1)
        return w, b


def write(out, case, s, x, y, meta=None):
    hwc = lambda t: t[0].permute(1, 2, 0).float().contiguous()
    save_file({k: v.contiguous() for k, v in s.t.items()}, out / f"{case}.safetensors", metadata=meta)
    save_file({"in": hwc(x), "out": hwc(y)}, out / f"{case}.golden.safetensors")
    size = (out / f"{case}.safetensors").stat().st_size
    print(f"{case}: {size} bytes, output {tuple(y.shape)}, |y| up to {y.abs().max():.3f}")


# ---- the first document ------------------------------------------------------------------------------------


def mix_axis(x, gate, axis, window, shift):
    """x along an axis: cut into windows that begin at -shift; outside is zero."""
    n, size = gate.shape[0], x.shape[axis]
    h = hadamard(n)
    y = torch.zeros_like(x)
    for start in range(-shift, size, n):
        piece = []
        for i in range(start, start + n):
            piece.append(x.select(axis, i) if 0 <= i < size else torch.zeros_like(x.select(axis, 0)))
        v = torch.stack(piece, 0)  # n, N, C, other
        v = torch.tensordot(h, v, ([1], [0]))
        g = gate / n
        v = v * (g[:, None, :, None] if g.dim() == 2 else g[:, None, None, None])
        v = torch.tensordot(h, v, ([1], [0]))
        for i in range(start, start + n):
            if 0 <= i < size:
                y.select(axis, i).copy_(v[i - start])
    assert window or (shift == 0 and size == n)
    return y


def zl_block(s, name, c, sides, act, ext, index):
    inner = c // 4
    wc, bc = s.conv(f"{name}.compress", inner, c // 4, 1)
    we, be = s.conv(f"{name}.expand", c, inner // 4, 1)
    shape = lambda n: (n, inner) if ext else (n,)
    gh = s.new(f"{name}.gate_h", shape(sides[0]), 0.5, 1.0)
    gv = s.new(f"{name}.gate_v", shape(sides[1]), 0.5, 1.0)
    if ext:
        nw, nb = s.new(f"{name}.norm.weight", (c,), 0.2, 1.0), s.new(f"{name}.norm.bias", (c,), 0.2)

    def run(x):
        u = x
        if ext:
            u = F.layer_norm(u.permute(0, 2, 3, 1), (c,), nw, nb, 1e-6).permute(0, 3, 1, 2)
        u = F.conv2d(u, wc, bc, groups=4)
        half = ext and index % 2
        u = mix_axis(u, gh, 3, ext, gh.shape[0] // 2 if half else 0)
        u = mix_axis(u, gv, 2, ext, gv.shape[0] // 2 if half else 0)
        return x + F.conv2d(act(u), we, be, groups=4)

    return run


def vanilla_block(s, name, c, act):
    a, b = s.conv(f"{name}.conv1", c, c, 3), s.conv(f"{name}.conv2", c, c, 3)
    return lambda x: x + F.conv2d(act(F.conv2d(x, *a, padding=1)), *b, padding=1)


def spectral_layer(s, name, cin, cout):
    p = 1
    while p < max(cin, cout):
        p *= 2
    scale = s.new(f"{name}.scale", (4, p), p ** -0.5)
    perm = torch.stack([torch.arange(p)] + [torch.randperm(p) for _ in range(3)]).to(torch.int32)
    s.t[f"{name}.perm"] = perm
    bias = s.new(f"{name}.bias", (cout,), 0.1)
    h = hadamard(p)

    def run(x):
        v = F.pad(x.permute(0, 2, 3, 1), (0, p - cin))
        for k in range(4):
            v = (v[..., perm[k].long()] * scale[k]) @ h
        return v[..., :cout].permute(0, 3, 1, 2) + bias[:, None, None]

    return run


def autoencoder(s, family, decoder, base, side, z=4, act=lambda v: v, ext=False):
    names = ["dec.in", "dec.up1", "dec.up2", "dec.out"] if decoder else ["enc.stem", "enc.down1", "enc.down2", "enc.out"]
    widths = [4 * base, 2 * base, base, 3] if decoder else [base, 2 * base, 4 * base, z]
    shuffled = family in ("lite", "spectral")
    c, steps = (z if decoder else 3), []
    w, h = side
    for i, (name, width) in enumerate(zip(names, widths)):
        gather = shuffled and not decoder and i > 0
        spread = shuffled and decoder and i < 3
        cin, cout = (4 * c if gather else c), (4 * width if spread else width)
        if family == "spectral":
            f = spectral_layer(s, name, cin, cout)
        elif shuffled:
            f = (lambda wb: lambda x: F.conv2d(x, *wb))(s.conv(name, cout, cin, 1))
        elif decoder:
            k = 1 if i == 0 else 3
            wb = s.conv(name, cout, cin, k)
            f = (lambda wb, up: lambda x: F.conv2d(F.interpolate(x, scale_factor=2) if up else x, *wb,
                                                   padding=1 if up else 0))(wb, i > 0)
        else:
            f = (lambda wb, st: lambda x: F.conv2d(x, *wb, padding=1, stride=st))(s.conv(name, cout, cin, 3),
                                                                                1 if i == 0 else 2)
        if decoder and (spread or (not shuffled and i > 0)):
            w, h = 2 * w, 2 * h
        elif not decoder and i > 0:
            w, h = w // 2, h // 2
        c = width
        block = None
        if i < 3:
            bname = f"{'dec' if decoder else 'enc'}.block{i + 1}"
            sides = (8, 4) if ext else (w, h)
            block = vanilla_block(s, bname, c, act) if family == "vanilla" else zl_block(s, bname, c, sides, act, ext, i)
        steps.append((gather, f, spread, block, i))

    def run(x):
        for gather, f, spread, block, i in steps:
            x = f(F.pixel_unshuffle(x, 2) if gather else x)
            x = act(x) if i < 3 else x
            x = F.pixel_shuffle(x, 2) if spread else x
            x = block(x) if block else x
        return x

    return run


# ---- the second document -------------------------------------------------------------------------------------


def zenith_block(s, name, c, slm):
    f8 = torch.float8_e4m3fn
    eyes = s.new(f"{name}.eyes.weight", (c, 1, 3, 3), 0.4, dtype=f8)
    scale = s.new(f"{name}.spectral_scale", (c,), 0.3 / c, 1.0 / c)
    mixer = s.new(f"{name}.mixer", (3, c), 0.5, dtype=f8)
    gn_w, gn_b = s.new(f"{name}.norm.weight", (c,), 0.3, 1.0), s.new(f"{name}.norm.bias", (c,), 0.3)
    if slm:
        sw, sb = s.new(f"{name}.slm.weight", (c, 5), 0.6, dtype=f8), s.new(f"{name}.slm.bias", (c,), 0.5)
    h = hadamard(c)

    def run(x, mask):
        v = F.conv2d(x, eyes, padding=1, groups=c)
        if mask is not None:
            v = v * mask
        v = v.permute(0, 2, 3, 1) @ h
        if slm:
            e0 = v.abs()
            e = e0
            for _ in range(3):
                win = F.pad(e, (2, 2)).unfold(-1, 5, 1)  # ..., c, 5
                mag = torch.sqrt((win ** 2).sum(-1) / 5 + 1e-10)
                cos = (win * sw).sum(-1) / (mag * torch.sqrt((sw ** 2).sum(-1) + 1e-8) + 1e-6)
                g = torch.sigmoid(torch.clamp(cos * torch.sqrt(mag + 1e-10) + sb, min=0))
                e = e0 * g
            v = v * g
        v = F.pad(v * scale, (1, 1))
        v = mixer[0] * v[..., :-2] + mixer[1] * v[..., 1:-1] + mixer[2] * v[..., 2:]
        v = torch.relu(v @ h).permute(0, 3, 1, 2)
        return F.group_norm(v, 32 if c % 32 == 0 else 1, gn_w, gn_b, 1e-5)

    return run


def zenith_ae(s, base, slm, residual):
    stem = s.conv("stem", base, 3, 2)
    blocks = [zenith_block(s, "block1", 16 * base, False)]
    gates = []
    for i in (1, 2):
        c = 256 * base
        gates.append((s.new(f"gate{i}.scale", (c // 8,), 0.2, 1.0), s.new(f"gate{i}.bias", (c // 8,), 2.0, -5.0)))
        blocks.append(zenith_block(s, f"block{i + 1}", c, slm))
    last = s.conv("out", 3, base // 4, 3)

    def run(x):
        v = F.pixel_unshuffle(F.conv2d(x, *stem, stride=2), 4)
        keep = v if residual else 0
        v = F.pixel_unshuffle(keep + blocks[0](v, None), 4)
        for (scale, bias), block in zip(gates, blocks[1:]):
            n, c, h, w = v.shape
            e = v.abs().reshape(n, c // 8, 8, h, w).sum(2)
            mask = (e * scale[:, None, None] + bias[:, None, None] > 0).to(D).repeat_interleave(8, 1)
            print(f"  a gate lets {mask.mean():.2f} through")
            keep = v if residual else 0
            v = keep + block(v * mask, mask)
        for r in (4, 4, 2):
            v = F.pixel_shuffle(v, r)
        return F.conv2d(v, *last, padding=1) + (x if residual else 0)

    return run


def conv_baseline(s, base):
    f8 = torch.float8_e4m3fn
    down = [s.conv("down1", base, 3, 2), s.conv("down2", 16 * base, base, 4, 4, f8),
            s.conv("down3", 256 * base, 16 * base, 4, 4, f8)]
    up = [s.conv("up1", 256 * base, 256 * base, 1, 4, f8), s.conv("up2", 16 * base, 16 * base, 1, 2),
          s.conv("up3", 12, base, 1, 2)]

    def run(x):
        for wb, st in zip(down, (2, 4, 4)):
            x = torch.relu(F.conv2d(x, *wb, stride=st))
        for i, (wb, r) in enumerate(zip(up, (4, 4, 2))):
            x = F.pixel_shuffle(F.conv2d(x, *wb), r)
            x = torch.relu(x) if i < 2 else x
        return x

    return run


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    image = lambda h, w: torch.rand(1, 3, h, w).to(D)
    latent = lambda h, w: torch.randn(1, 4, h, w).float().to(D)
    for family, base, case in [("zenith", 16, "zenith-taesd"), ("lite", 16, "zenith-lite"),
                               ("spectral", 16, "zenith-spectral"), ("vanilla", 4, "zenith-vanilla")]:
        s, x = Store(), image(16, 32)
        write(out, case + "-encode", s, x, autoencoder(s, family, False, base, (32, 16))(x))
        s, x = Store(), latent(2, 4)
        write(out, case + "-decode", s, x, autoencoder(s, family, True, base, (4, 2))(x))
    # The extensions: ReLU, layer norm, gates per channel, shifted windows, a size that is no power of two.
    meta = {"activation": "relu", "window": "shifted"}
    s, x = Store(), image(24, 40)
    write(out, "zenith-lite-extended-encode", s, x, autoencoder(s, "lite", False, 16, (40, 24), act=torch.relu, ext=True)(x), meta)
    s, x = Store(), latent(3, 5)
    write(out, "zenith-lite-extended-decode", s, x, autoencoder(s, "lite", True, 16, (5, 3), act=torch.relu, ext=True)(x), meta)
    s, x = Store(), image(32, 64)
    write(out, "zenith-ae", s, x, zenith_ae(s, 4, False, False)(x))
    s, x = Store(), image(64, 32)
    write(out, "zenith-prune", s, x, zenith_ae(s, 4, True, False)(x))
    s, x = Store(), image(64, 32)
    write(out, "zenith-prune-residual", s, x, zenith_ae(s, 4, True, True)(x), {"residual": "1"})
    s, x = Store(), image(32, 64)
    write(out, "zenith-conv-baseline", s, x, conv_baseline(s, 1)(x))


if __name__ == "__main__":
    main()
