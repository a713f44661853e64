"""The denoiser's fast training path: NHWC, 16 bits, small Triton kernels between cuBLAS products.

cuDNN's depthwise backward and PyTorch's channel-wise LayerNorm would take most of a step.
Here a block is one autograd function whose backward is written out. The residual stream is
carried as a pair (x, y) whose value is x + y, so that the addition happens inside the next
normalisation; both halves of the pair have the same gradient.
"""
import os

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

PROGRAMS = 1056         # of kernels that also add something up: 8 for each multiprocessor of an H200


def tuned(*shapes):
    """Try these (BC channels, BP rows, warps) when a kernel meets a new number of channels, a multiple of 16; the emulator
    takes the last."""
    shapes = shapes[-1:] if os.environ.get("TRITON_INTERPRET") else shapes
    configs = [triton.Config(dict(BC=bc, BP=bp), num_warps=w) for bc, bp, w in shapes]

    def fitting(configs, args, **kw):
        return [k for k in configs if {**args, **kw}["C"] % k.kwargs["BC"] == 0]

    return triton.autotune(configs, key=["C"], prune_configs_by=dict(early_config_prune=fitting))


@triton.jit
def add_ln_kernel(x, y, s, u, M, C: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr, ADD: tl.constexpr):
    """s = x + y, u = LN(s); rows of C."""
    r = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.arange(0, BC)
    at = r[:, None] * C + c[None, :]
    ok = (r < M)[:, None] & (c < C)[None, :]
    v = tl.load(x + at, ok, 0.0).to(tl.float32)
    if ADD:
        v += tl.load(y + at, ok, 0.0).to(tl.float32)
        v = v.to(s.dtype.element_ty).to(tl.float32)
        tl.store(s + at, v, ok)
    mean = tl.sum(v, 1) / C
    d = tl.where((c < C)[None, :], v - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(d * d, 1) / C + 1e-6)
    tl.store(u + at, d * rstd[:, None], ok)


@triton.jit
def ln_backward_kernel(s, du, d, out, part, M, G, C: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    """out = d + gradient of LN(s) applied to du; part[g] = this program's share of the column sums of (d, out)."""
    c = tl.arange(0, BC)
    sum_d = tl.zeros((BP, BC), tl.float32)
    sum_out = tl.zeros((BP, BC), tl.float32)
    for i in range(tl.program_id(0), tl.cdiv(M, BP), G):
        r = i * BP + tl.arange(0, BP)
        at = r[:, None] * C + c[None, :]
        ok = (r < M)[:, None] & (c < C)[None, :]
        v = tl.load(s + at, ok, 0.0).to(tl.float32)
        g = tl.load(du + at, ok, 0.0).to(tl.float32)
        e = tl.load(d + at, ok, 0.0).to(tl.float32)
        mean = tl.sum(v, 1) / C
        z = tl.where((c < C)[None, :], v - mean[:, None], 0.0)
        rstd = tl.rsqrt(tl.sum(z * z, 1) / C + 1e-6)
        u = z * rstd[:, None]
        gm = tl.sum(g, 1) / C
        gu = tl.sum(g * u, 1) / C
        o = e + tl.where(ok, (g - gm[:, None] - u * gu[:, None]) * rstd[:, None], 0.0)
        tl.store(out + at, o, ok)
        sum_d += e
        sum_out += o
    to = part + tl.program_id(0) * (2 * C) + c
    tl.store(to, tl.sum(sum_d, 0), c < C)
    tl.store(to + C, tl.sum(sum_out, 0), c < C)


@triton.jit
def gate_kernel(q, h, M, C: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = (r < M)[:, None] & (c < C)[None, :]
    at = r[:, None] * (2 * C) + c[None, :]
    a = tl.load(q + at, ok, 0.0).to(tl.float32)
    b = tl.load(q + at + C, ok, 0.0).to(tl.float32)
    tl.store(h + r[:, None] * C + c[None, :], a * b, ok)


@triton.jit
def gate_backward_kernel(q, dh, dq, part, M, G, C: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """dq = (dh * b, dh * a) for the halves a, b of q; part[g] = this program's share of its column sums."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    sum_a = tl.zeros((BP, BC), tl.float32)
    sum_b = tl.zeros((BP, BC), tl.float32)
    for i in range(tl.program_id(1), tl.cdiv(M, BP), G):
        r = i * BP + tl.arange(0, BP)
        ok = (r < M)[:, None]
        at = r[:, None] * (2 * C) + c[None, :]
        a = tl.load(q + at, ok, 0.0).to(tl.float32)
        b = tl.load(q + at + C, ok, 0.0).to(tl.float32)
        g = tl.load(dh + r[:, None] * C + c[None, :], ok, 0.0).to(tl.float32)
        tl.store(dq + at, g * b, ok)
        tl.store(dq + at + C, g * a, ok)
        sum_a += g * b
        sum_b += g * a
    to = part + tl.program_id(1) * (2 * C) + c
    tl.store(to, tl.sum(sum_a, 0))
    tl.store(to + C, tl.sum(sum_b, 0))


@triton.jit
def depthwise_halves(p, w, bias, r, c, M, H, W, C: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """(a, b) = channels c and C + c of the depthwise 3x3 of p [N,H,W,2C] at pixels r; w is [9,2C]."""
    x = r % W
    y = (r // W) % H
    a = tl.zeros((BP, BC), tl.float32) + tl.load(bias + c).to(tl.float32)[None, :]
    b = tl.zeros((BP, BC), tl.float32) + tl.load(bias + C + c).to(tl.float32)[None, :]
    for k in tl.static_range(9):
        dy = k // 3 - 1
        dx = k % 3 - 1
        ok = (r < M) & (y + dy >= 0) & (y + dy < H) & (x + dx >= 0) & (x + dx < W)
        at = (r + dy * W + dx)[:, None] * (2 * C) + c[None, :]
        wa = tl.load(w + k * 2 * C + c).to(tl.float32)
        wb = tl.load(w + k * 2 * C + C + c).to(tl.float32)
        a += wa[None, :] * tl.load(p + at, ok[:, None], 0.0).to(tl.float32)
        b += wb[None, :] * tl.load(p + at + C, ok[:, None], 0.0).to(tl.float32)
    return a, b


@tuned((32, 32, 4), (32, 64, 8), (32, 64, 4), (32, 16, 2), (16, 64, 4))
@triton.jit
def depthwise_gate_kernel(p, w, bias, g, M, H, W, C: tl.constexpr,
                          BP: tl.constexpr, BC: tl.constexpr):
    """g = a * b, the halves of the depthwise 3x3 of p."""
    r = tl.program_id(1) * BP + tl.arange(0, BP)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    a, b = depthwise_halves(p, w, bias, r, c, M, H, W, C, BP, BC)
    tl.store(g + r[:, None] * C + c[None, :], a * b, (r < M)[:, None])


@tuned((32, 32, 4), (32, 64, 8), (32, 64, 4), (32, 16, 2), (16, 64, 4))
@triton.jit
def gate_depthwise_backward_kernel(p, w, bias, dg, dab, M, H, W, C: tl.constexpr,
                                   BP: tl.constexpr, BC: tl.constexpr):
    """dab [N,H,W,2C] = (dg * b, dg * a) with a and b recomputed."""
    r = tl.program_id(1) * BP + tl.arange(0, BP)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    a, b = depthwise_halves(p, w, bias, r, c, M, H, W, C, BP, BC)
    ok = (r < M)[:, None]
    d = tl.load(dg + r[:, None] * C + c[None, :], ok, 0.0).to(tl.float32)
    at = r[:, None] * (2 * C) + c[None, :]
    tl.store(dab + at, d * b, ok)
    tl.store(dab + at + C, d * a, ok)


@tuned((32, 16, 4), (32, 32, 4), (32, 32, 8), (64, 16, 4), (64, 16, 8), (16, 32, 4))
@triton.jit
def depthwise_backward_kernel(p, w, d, dp, part, M, G, H, W, C: tl.constexpr,
                              BP: tl.constexpr, BC: tl.constexpr):
    """dp = transposed depthwise of d; part[g] = this program's share of the gradients of
    (9 taps, bias, and the bias before it: the sum of dp). Both read the same neighbourhood of d:
    dp[i] = sum_k w[k] d[i - o_k] and dw[k] = sum_i p[i] d[i - o_k]."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    g0 = tl.zeros((BP, BC), tl.float32)
    g1 = tl.zeros((BP, BC), tl.float32)
    g2 = tl.zeros((BP, BC), tl.float32)
    g3 = tl.zeros((BP, BC), tl.float32)
    g4 = tl.zeros((BP, BC), tl.float32)
    g5 = tl.zeros((BP, BC), tl.float32)
    g6 = tl.zeros((BP, BC), tl.float32)
    g7 = tl.zeros((BP, BC), tl.float32)
    g8 = tl.zeros((BP, BC), tl.float32)
    gb = tl.zeros((BP, BC), tl.float32)
    gp = tl.zeros((BP, BC), tl.float32)
    for i in range(tl.program_id(1), tl.cdiv(M, BP), G):
        r = i * BP + tl.arange(0, BP)
        x = r % W
        y = (r // W) % H
        inside = (r < M)[:, None]
        v = tl.load(p + r[:, None] * C + c[None, :], inside, 0.0).to(tl.float32)
        acc = tl.zeros((BP, BC), tl.float32)
        for k in tl.static_range(9):
            dy = 1 - k // 3
            dx = 1 - k % 3
            ok = (r < M) & (y + dy >= 0) & (y + dy < H) & (x + dx >= 0) & (x + dx < W)
            e = tl.load(d + (r + dy * W + dx)[:, None] * C + c[None, :], ok[:, None], 0.0).to(tl.float32)
            acc += tl.load(w + k * C + c).to(tl.float32)[None, :] * e
            if k == 0: g0 += v * e
            if k == 1: g1 += v * e
            if k == 2: g2 += v * e
            if k == 3: g3 += v * e
            if k == 4:
                g4 += v * e
                gb += e
            if k == 5: g5 += v * e
            if k == 6: g6 += v * e
            if k == 7: g7 += v * e
            if k == 8: g8 += v * e
        acc = tl.where(inside, acc, 0.0)
        tl.store(dp + r[:, None] * C + c[None, :], acc, inside)
        gp += acc
    o = part + tl.program_id(1) * (11 * C) + c
    tl.store(o, tl.sum(g0, 0))
    tl.store(o + C, tl.sum(g1, 0))
    tl.store(o + 2 * C, tl.sum(g2, 0))
    tl.store(o + 3 * C, tl.sum(g3, 0))
    tl.store(o + 4 * C, tl.sum(g4, 0))
    tl.store(o + 5 * C, tl.sum(g5, 0))
    tl.store(o + 6 * C, tl.sum(g6, 0))
    tl.store(o + 7 * C, tl.sum(g7, 0))
    tl.store(o + 8 * C, tl.sum(g8, 0))
    tl.store(o + 9 * C, tl.sum(gb, 0))
    tl.store(o + 10 * C, tl.sum(gp, 0))


def split(c):
    """Channels per program: the largest power of two up to 64 that divides c."""
    return min(c & -c, 64)


def rows(c):
    """(channels rounded up, rows per program) where a program needs whole rows."""
    bc = triton.next_power_of_2(c)
    return bc, max(2048 // bc, 4)


def add_ln(x, y):
    m, c = x.shape
    bc, bp = rows(c)
    s = torch.empty_like(x) if y is not None else x
    u = torch.empty_like(x)
    add_ln_kernel[(triton.cdiv(m, bp),)](x, y if y is not None else x, s, u, m, c, bc, bp, y is not None)
    return s, u


def ln_backward(s, du, d):
    """d + the gradient of LN; the column sums of d and of the result."""
    m, c = s.shape
    bc, bp = rows(c)
    n = min(triton.cdiv(m, bp), PROGRAMS)
    out = torch.empty_like(s)
    part = torch.empty(n, 2 * c, device=s.device)
    ln_backward_kernel[(n,)](s, du, d, out, part, m, n, c, bc, bp)
    return out, *part.sum(0).to(s.dtype).split(c)


def gate(q):
    m, c = len(q), q.shape[1] // 2
    bc = split(c)
    h = q.new_empty(m, c)
    gate_kernel[(triton.cdiv(m, 2048 // bc), c // bc)](q, h, m, c, 2048 // bc, bc)
    return h


def gate_backward(q, dh):
    """The gradient of q, and its column sums."""
    m, c = dh.shape
    bc = split(c)
    bp = 1024 // bc
    n = min(triton.cdiv(m, bp), max(2 * PROGRAMS * bc // c, 1))
    dq = torch.empty_like(q)
    part = torch.empty(n, 2 * c, device=q.device)
    gate_backward_kernel[(c // bc, n)](q, dh, dq, part, m, n, c, bp, bc)
    return dq, part.sum(0).to(q.dtype)


def per_channels(m, c):
    """The grid of a depthwise kernel: the channels of a pixel one after the other, so that its memory is read at once."""
    return lambda k: (c // k["BC"], triton.cdiv(m, k["BP"]))


def depthwise_gate(p, w, bias, hw):
    m, c = len(p), p.shape[1] // 2
    g = p.new_empty(m, c)
    depthwise_gate_kernel[per_channels(m, c)](p, w, bias, g, m, *hw, c)
    return g


def gate_depthwise_backward(p, w, bias, dg, hw):
    m, c = dg.shape
    dab = torch.empty_like(p)
    gate_depthwise_backward_kernel[per_channels(m, c)](p, w, bias, dg, dab, m, *hw, c)
    return dab


def depthwise_backward(p, w, d, hw):
    """Gradients of p, the depthwise weights [2C,9] and the bias; the column sums of that of p."""
    m, c2 = p.shape
    n = max(2 * PROGRAMS * 32 // c2, 1)
    dp = torch.empty_like(p)
    part = torch.empty(n, 11, c2, device=p.device)
    depthwise_backward_kernel[lambda k: (c2 // k["BC"], n)](p, w, d, dp, part, m, n, *hw, c2)
    total = part.sum(0).to(p.dtype)
    return dp, total[:9].t(), total[9], total[10]


class Aside:
    """Work beside the chain of gradients: the products that give the weights' gradients fill few of the GPU's
    multiprocessors. What it uses must live until join()."""
    stream = None

    def __init__(self, device):
        self.main = None
        if device.type == "cuda":
            Aside.stream = Aside.stream or torch.cuda.Stream()
            self.main = torch.cuda.current_stream()

    def product(self, a, b):
        """a^T b"""
        if not self.main:
            return a.t() @ b
        Aside.stream.wait_stream(self.main)
        with torch.cuda.stream(Aside.stream):
            return a.t() @ b

    def join(self):
        if self.main:
            self.main.wait_stream(Aside.stream)


class BlockFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, hw, w1, b1, wd, bd, w2, b2, w3, b3, w4, b4):
        x0, u = add_ln(x, y)
        p = F.linear(u, w1, b1)
        wd = wd.t().contiguous()        # a thread's channels side by side
        g = depthwise_gate(p, wd, bd, hw)
        x1, v = add_ln(x0, F.linear(g, w2, b2))
        q = F.linear(v, w3, b3)
        h = gate(q)
        ctx.save_for_backward(x0, u, p, g, x1, v, q, h, w1, wd, bd, w2, w3, w4)
        ctx.hw, ctx.pair = hw, y is not None
        return x1, F.linear(h, w4, b4)

    @staticmethod
    def backward(ctx, _, d):
        x0, u, p, g, x1, v, q, h, w1, wd, bd, w2, w3, w4 = ctx.saved_tensors
        d = d.contiguous()
        aside = Aside(d.device)
        gw4 = aside.product(d, h)
        dq, gb3 = gate_backward(q, d @ w4)
        gw3 = aside.product(dq, v)
        d1, gb4, gb2 = ln_backward(x1, dq @ w3, d)
        gw2 = aside.product(d1, g)
        dab = gate_depthwise_backward(p, wd, bd, d1 @ w2, ctx.hw)
        dp, gwd, gbd, gb1 = depthwise_backward(p, wd, dab, ctx.hw)
        gw1 = aside.product(dp, u)
        d0, _, _ = ln_backward(x0, dp @ w1, d1)
        aside.join()
        return d0, d0 if ctx.pair else None, None, gw1, gb1, gwd, gbd, gw2, gb2, gw3, gb3, gw4, gb4


def run_blocks(blocks, f):
    """f: NHWC."""
    n, h, w, c = f.shape
    x, y = f.reshape(-1, c), None
    for b in blocks:
        x, y = BlockFunction.apply(x, y, (h, w), b.pw1.weight.flatten(1), b.pw1.bias, b.dw.weight.flatten(1), b.dw.bias,
                                   b.pw2.weight.flatten(1), b.pw2.bias, b.pw3.weight.flatten(1), b.pw3.bias,
                                   b.pw4.weight.flatten(1), b.pw4.bias)
    return (x + y).view(n, h, w, c)


def run_level(blocks, f):
    """f: NHWC; blocks that have no kernels of their own as they are."""
    if hasattr(blocks[0], "dw"):
        return run_blocks(blocks, f)
    f = f.permute(0, 3, 1, 2)
    for b in blocks:
        f = b(f)
    return f.permute(0, 2, 3, 1).contiguous()


def conv(m, f):
    """A convolution of NHWC through cuDNN's channels_last."""
    return F.conv2d(f.permute(0, 3, 1, 2), m.weight, m.bias, m.stride, m.padding).permute(0, 2, 3, 1).contiguous()


def space_to_depth(f):
    n, h, w, c = f.shape
    return f.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h // 2, w // 2, 4 * c)


def shuffle(f):
    n, h, w, c = f.shape
    return f.view(n, h, w, c // 4, 2, 2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2 * h, 2 * w, c // 4)


def levels(net, f):
    """nets.Levels.levels of NHWC."""
    skips = []
    for l, level in enumerate(net.enc):
        f = run_level(level, f)
        skips.append(f)
        d = net.down[l]
        f = F.linear(space_to_depth(f), d.weight.permute(0, 2, 3, 1).flatten(1), d.bias)
    f = run_level(net.mid, f)
    for l in reversed(range(len(net.dec))):
        f = run_level(net.dec[l], shuffle(F.linear(f, net.up[l].weight.flatten(1))) + skips[l])
    return f


def nhwc(net, x):
    return x.permute(0, 2, 3, 1).to(net.mid[0].pw3.weight.dtype)


def forward(net, x, s):
    """nets.Denoiser.forward for a copy of the network in 16 bits; x and s float32 NCHW."""
    f = conv(net.intro, nhwc(net, F.pixel_unshuffle(torch.cat([x, s], 1), 2)))
    f = conv(net.outro, levels(net, f)).float()
    return x + shuffle(f).permute(0, 3, 1, 2)


def restore(net, x, told):
    """nets.Restorer.forward likewise."""
    f = conv(net.intro, nhwc(net, torch.cat([F.pixel_unshuffle(x, 2), told], 1)))
    f = conv(net.outro, levels(net, f)).float()
    return x + shuffle(f).permute(0, 3, 1, 2)


def upscale(net, lows):
    """nets.Upscaler.forward likewise, of several scales at once: {scale: (x, told)}, all of one size -> {scale: y}."""
    f = levels(net, torch.cat([conv(net.intro[f"x{s}"], nhwc(net, torch.cat(v, 1))) for s, v in lows.items()]))
    out = {}
    for (s, (x, _)), g in zip(lows.items(), f.split([len(x) for x, _ in lows.values()])):
        y = conv(net.outro[f"x{s}"], g).float().permute(0, 3, 1, 2)
        out[s] = F.interpolate(x, scale_factor=s) + F.pixel_shuffle(y, s)
    return out
