"""Group norm with scale, shift and SiLU, and the sum of a residual block, for NHWC pictures in 16 bits: Triton kernels
with a hand-written backward. Without CUDA the same functions in plain PyTorch; TRITON_INTERPRET=1 runs the kernels
in Triton's emulator, for the check at the end of this file.

norm(x, bias, A, B, act): xhat = group norm of x + bias[c] (32 groups, eps 1e-5, no affine); act(xhat * A + B), where A and B
are [N,C] or [1,C] float32. Three kernels each way: sums over pixels, what follows from them for each picture, apply.
"""
import os

import torch
import torch.nn.functional as F

EMULATED = os.environ.get("TRITON_INTERPRET") == "1"
if torch.cuda.is_available() or EMULATED:
    import triton
    import triton.language as tl

    @triton.jit
    def _sums_kernel(x, part, HW, K, C, BC: tl.constexpr, BP: tl.constexpr):
        """part[n,k] = (sum, sum of squares) of each channel over the k-th share of the pixels of picture n."""
        n = tl.program_id(0) // K
        k = tl.program_id(0) % K
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        s = tl.zeros((BP, BC), tl.float32)
        q = tl.zeros((BP, BC), tl.float32)
        rows = HW // K
        for i in range(0, rows, BP):
            r = n * HW + k * rows + i + tl.arange(0, BP)
            v = tl.load(x + r[:, None] * C + c[None, :]).to(tl.float32)
            s += v
            q += v * v
        to = part + tl.program_id(0) * (2 * C) + c
        tl.store(to, tl.sum(s, 0))
        tl.store(to + C, tl.sum(q, 0))

    @triton.jit
    def _stats_kernel(part, bias, A, B, an, P, Q, S, M, R, HW, K, C, D, DP: tl.constexpr,
                      BIAS: tl.constexpr):
        """For picture n: means and deviations of the groups, and P, Q with act(x * P + Q) = the result."""
        n = tl.program_id(0)
        g = tl.arange(0, 32)
        d = tl.arange(0, DP)
        c = g[:, None] * D + d[None, :]
        ok = (d < D)[None, :] & (g >= 0)[:, None]
        s = tl.zeros((32, DP), tl.float32)
        q = tl.zeros((32, DP), tl.float32)
        for k in range(K):
            s += tl.load(part + (n * K + k) * (2 * C) + c, ok, 0.0)
            q += tl.load(part + (n * K + k) * (2 * C) + C + c, ok, 0.0)
        b = tl.zeros((32, DP), tl.float32)
        if BIAS:
            b = tl.load(bias + c, ok, 0.0).to(tl.float32)
            q += 2 * b * s + HW * b * b
            s += HW * b
        mean = tl.sum(s, 1) / (D * HW)
        var = tl.sum(q, 1) / (D * HW) - mean * mean
        rstd = tl.rsqrt(tl.maximum(var, 0.0) + 1e-5)
        p = rstd[:, None] * tl.load(A + n * an + c, ok, 0.0)
        tl.store(P + n * C + c, p, ok)
        tl.store(Q + n * C + c, tl.load(B + n * an + c, ok, 0.0) + (b - mean[:, None]) * p, ok)
        tl.store(S + n * C + c, s, ok)
        tl.store(M + n * 32 + g, mean)
        tl.store(R + n * 32 + g, rstd)

    @triton.jit
    def _apply_kernel(x, P, Q, y, HW, K, C, BC: tl.constexpr, BP: tl.constexpr, ACT: tl.constexpr):
        n = tl.program_id(0) // K
        k = tl.program_id(0) % K
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        p = tl.load(P + n * C + c)[None, :]
        q = tl.load(Q + n * C + c)[None, :]
        rows = HW // K
        for i in range(0, rows, BP):
            r = n * HW + k * rows + i + tl.arange(0, BP)
            at = r[:, None] * C + c[None, :]
            u = tl.load(x + at).to(tl.float32) * p + q
            if ACT:
                u = u / (1 + tl.exp(-u))
            tl.store(y + at, u)

    @triton.jit
    def _du(x, dy, p, q, ACT: tl.constexpr):
        d = dy
        if ACT:
            u = x * p + q
            s = 1 / (1 + tl.exp(-u))
            d = dy * s * (1 + u * (1 - s))
        return d

    @triton.jit
    def _back_sums_kernel(x, dy, P, Q, part, HW, K, C, BC: tl.constexpr, BP: tl.constexpr,
                          ACT: tl.constexpr):
        """part[n,k] = sums of du and of du * x, du the gradient before the activation."""
        n = tl.program_id(0) // K
        k = tl.program_id(0) % K
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        p = tl.load(P + n * C + c)[None, :]
        q = tl.load(Q + n * C + c)[None, :]
        s = tl.zeros((BP, BC), tl.float32)
        t = tl.zeros((BP, BC), tl.float32)
        rows = HW // K
        for i in range(0, rows, BP):
            r = n * HW + k * rows + i + tl.arange(0, BP)
            at = r[:, None] * C + c[None, :]
            v = tl.load(x + at).to(tl.float32)
            d = _du(v, tl.load(dy + at).to(tl.float32), p, q, ACT)
            s += d
            t += d * v
        to = part + tl.program_id(0) * (2 * C) + c
        tl.store(to, tl.sum(s, 0))
        tl.store(to + C, tl.sum(t, 0))

    @triton.jit
    def _back_stats_kernel(part, bias, A, an, P, S, M, R, dA, dB, db, K1, K2, HW, K, C, D,
                           DP: tl.constexpr, BIAS: tl.constexpr):
        """For picture n: gradients of A, B and the bias; dx = P du + K2 x + K1."""
        n = tl.program_id(0)
        g = tl.arange(0, 32)
        d = tl.arange(0, DP)
        c = g[:, None] * D + d[None, :]
        ok = (d < D)[None, :] & (g >= 0)[:, None]
        s = tl.zeros((32, DP), tl.float32)
        t = tl.zeros((32, DP), tl.float32)
        for k in range(K):
            s += tl.load(part + (n * K + k) * (2 * C) + c, ok, 0.0)
            t += tl.load(part + (n * K + k) * (2 * C) + C + c, ok, 0.0)
        b = tl.zeros((32, DP), tl.float32)
        if BIAS:
            b = tl.load(bias + c, ok, 0.0).to(tl.float32)
            t += b * s
        mean = tl.load(M + n * 32 + g)
        rstd = tl.load(R + n * 32 + g)
        a = tl.load(A + n * an + c, ok, 0.0)
        da = rstd[:, None] * (t - mean[:, None] * s)
        m1 = tl.sum(a * s, 1) / (D * HW)
        m2 = tl.sum(a * da, 1) / (D * HW)
        k2 = -rstd * rstd * m2
        k1 = -rstd * m1 - k2 * mean
        k1c = k1[:, None] + k2[:, None] * b
        tl.store(dA + n * C + c, da, ok)
        tl.store(dB + n * C + c, s, ok)
        tl.store(K1 + n * C + c, k1c, ok)
        tl.store(K2 + n * C + c, k2[:, None] + b * 0, ok)
        if BIAS:
            p = tl.load(P + n * C + c, ok, 0.0)
            sx = tl.load(S + n * C + c, ok, 0.0)
            tl.store(db + n * C + c, p * s + k2[:, None] * sx + HW * k1[:, None], ok)

    @triton.jit
    def _back_apply_kernel(x, dy, P, Q, K1, K2, dx, HW, K, C, BC: tl.constexpr, BP: tl.constexpr,
                           ACT: tl.constexpr):
        n = tl.program_id(0) // K
        k = tl.program_id(0) % K
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        p = tl.load(P + n * C + c)[None, :]
        q = tl.load(Q + n * C + c)[None, :]
        k1 = tl.load(K1 + n * C + c)[None, :]
        k2 = tl.load(K2 + n * C + c)[None, :]
        rows = HW // K
        for i in range(0, rows, BP):
            r = n * HW + k * rows + i + tl.arange(0, BP)
            at = r[:, None] * C + c[None, :]
            v = tl.load(x + at).to(tl.float32)
            d = _du(v, tl.load(dy + at).to(tl.float32), p, q, ACT)
            tl.store(dx + at, p * d + k2 * v + k1)

    @triton.jit
    def _add_kernel(x, h, bias, y, L, C, BC: tl.constexpr, BP: tl.constexpr):
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        r = tl.program_id(0) * BP + tl.arange(0, BP)
        at = r[:, None] * C + c[None, :]
        ok = (r < L)[:, None] & (c >= 0)[None, :]
        b = tl.load(bias + c).to(tl.float32)[None, :]
        v = tl.load(x + at, ok, 0.0).to(tl.float32) + tl.load(h + at, ok, 0.0).to(tl.float32) + b
        tl.store(y + at, v, ok)

    @triton.jit
    def _column_sum_kernel(x, part, L, G, C, BC: tl.constexpr, BP: tl.constexpr):
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        s = tl.zeros((BP, BC), tl.float32)
        for i in range(tl.program_id(0), tl.cdiv(L, BP), G):
            r = i * BP + tl.arange(0, BP)
            s += tl.load(x + r[:, None] * C + c[None, :], (r < L)[:, None] & (c >= 0)[None, :], 0.0).to(tl.float32)
        tl.store(part + tl.program_id(0) * C + c, tl.sum(s, 0))


def _nhwc(x):
    return x.contiguous(memory_format=torch.channels_last)


def _tile(c, hw):
    """(channels, pixels) of a tile, and the shares of a picture's pixels."""
    bc = 64 if c % 64 == 0 else 32
    bp = min(4096 // bc, hw)
    return bc, bp, max(1, min(8, hw // (4 * bp)))


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias, A, B, act):
        x = _nhwc(x)
        A, B = A.contiguous(), B.contiguous()
        n, c, h, w = x.shape
        hw = h * w
        bc, bp, k = _tile(c, hw)
        d = c // 32
        f = lambda *s: torch.empty(*s, device=x.device, dtype=torch.float32)
        part, P, Q, S, M, R = f(n, k, 2, c), f(n, c), f(n, c), f(n, c), f(n, 32), f(n, 32)
        an = c if len(A) > 1 else 0
        has = bias is not None
        _sums_kernel[(n * k, c // bc)](x, part, hw, k, c, bc, bp)
        _stats_kernel[(n,)](part, bias if has else A, A, B, an, P, Q, S, M, R, hw, k, c, d, triton.next_power_of_2(d), has,
                            num_warps=1)
        y = torch.empty_like(x)
        _apply_kernel[(n * k, c // bc)](x, P, Q, y, hw, k, c, bc, bp, act)
        ctx.save_for_backward(x, bias, A, P, Q, S, M, R)
        ctx.shape, ctx.act, ctx.an = (n, c, hw, bc, bp, k, d), act, an
        return y

    @staticmethod
    def backward(ctx, dy):
        x, bias, A, P, Q, S, M, R = ctx.saved_tensors
        n, c, hw, bc, bp, k, d = ctx.shape
        dy = _nhwc(dy)
        f = lambda *s: torch.empty(*s, device=x.device, dtype=torch.float32)
        part, dA, dB, db, K1, K2 = f(n, k, 2, c), f(n, c), f(n, c), f(n, c), f(n, c), f(n, c)
        has = bias is not None
        _back_sums_kernel[(n * k, c // bc)](x, dy, P, Q, part, hw, k, c, bc, bp, ctx.act)
        _back_stats_kernel[(n,)](part, bias if has else A, A, ctx.an, P, S, M, R, dA, dB, db, K1, K2, hw, k, c, d,
                                 triton.next_power_of_2(d), has, num_warps=1)
        dx = torch.empty_like(x)
        _back_apply_kernel[(n * k, c // bc)](x, dy, P, Q, K1, K2, dx, hw, k, c, bc, bp, ctx.act)
        if not ctx.an:
            dA, dB = dA.sum(0, keepdim=True), dB.sum(0, keepdim=True)
        return dx, db.sum(0).to(bias.dtype) if has else None, dA, dB, None


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, h, bias):
        x, h = _nhwc(x), _nhwc(h)
        c = x.shape[1]
        rows = x.numel() // c
        bc = 64 if c % 64 == 0 else 32
        y = torch.empty_like(x)
        _add_kernel[(triton.cdiv(rows, 4096 // bc), c // bc)](x, h, bias, y, rows, c, bc, 4096 // bc)
        ctx.kind = bias.dtype
        return y

    @staticmethod
    def backward(ctx, d):
        d = _nhwc(d)
        c = d.shape[1]
        rows = d.numel() // c
        bc = 64 if c % 64 == 0 else 32
        g = min(triton.cdiv(rows, 4096 // bc), max(1056 * bc // c, 1))
        part = torch.empty(g, c, device=d.device, dtype=torch.float32)
        _column_sum_kernel[(g, c // bc)](d, part, rows, g, c, bc, 4096 // bc)
        return d, d, part.sum(0).to(ctx.kind)


def plain_norm(x, bias, A, B, act):
    x = x if bias is None else x + bias[:, None, None]
    y = F.group_norm(x.float(), 32, eps=1e-5) * A[:, :, None, None] + B[:, :, None, None]
    return (F.silu(y) if act else y).to(x.dtype)


def norm(x, bias, A, B, act):
    return _Norm.apply(x, bias, A, B, act) if x.is_cuda or EMULATED else plain_norm(x, bias, A, B, act)


def add(x, h, bias):
    """x + h + bias[c]"""
    return _Add.apply(x, h, bias) if x.is_cuda or EMULATED else x + h + bias[:, None, None]


def _spread(x, scale):
    n, c, h, w = x.shape
    x = (x * scale if scale != 1 else x).permute(0, 2, 3, 1)[:, :, None, :, None]
    return x.expand(n, h, 2, w, 2, c).reshape(n, 2 * h, 2 * w, c).permute(0, 3, 1, 2)


class _Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return F.avg_pool2d(x, 2)

    @staticmethod
    def backward(ctx, d):
        return _spread(d, 0.25)


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return _spread(x, 1)

    @staticmethod
    def backward(ctx, d):
        return F.avg_pool2d(_nhwc(d), 2) * 4


def half(x):
    """2x2 means. PyTorch's own backward for NHWC is slow."""
    return _Half.apply(x)


def double(x):
    """Nearest, twice the size."""
    return _Double.apply(x)


def check(device):
    """The kernels against plain PyTorch in float64 (on CUDA in float32): the worst relative error of results and gradients."""
    torch.manual_seed(0)
    worst = 0.0
    for n, c, s, per, act, has in ((3, 64, 16, True, True, True), (2, 96, 8, True, True, True), (2, 320, 4, False, True, False),
                                   (2, 192, 16, False, False, False), (2, 32, 32, True, True, True)):
        x, h = (torch.randn(n, c, s, s, device=device) * 2 + 1 for _ in range(2))
        A, B = (torch.randn(n if per else 1, c, device=device) for _ in range(2))
        bias, dy = torch.randn(c, device=device), torch.randn(n, c, s, s, device=device)
        got = []
        for fast in (True, False):
            kind = torch.float32 if fast else torch.float64
            v = [i.to(kind).requires_grad_() for i in (x, h, bias, A, B)]
            cb = v[2] if has else None
            f = _Norm.apply if fast else plain_norm64
            y = f(v[0], cb, v[3], v[4], act)
            y = _Add.apply(y, v[1], v[2]) if fast else y + v[1] + v[2][:, None, None]
            got.append([y.detach(), *torch.autograd.grad((y * dy.to(kind)).sum(), v)])
        for a, b in zip(*got):
            worst = max(worst, float((a.double() - b).norm() / b.norm()))
    return worst


def plain_norm64(x, bias, A, B, act):
    x = x if bias is None else x + bias[:, None, None]
    y = F.group_norm(x, 32, eps=1e-5) * A[:, :, None, None] + B[:, :, None, None]
    return F.silu(y) if act else y


if __name__ == "__main__":
    error = check("cuda" if torch.cuda.is_available() else "cpu")
    print(f"worst relative error {error:.1e}")
    raise SystemExit(error > 1e-4)
