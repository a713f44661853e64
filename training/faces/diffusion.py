"""The noise schedule and deterministic sampling, both ways."""
import math

import torch

STEPS = 1000
ABAR = torch.cumprod(1 - torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64), 0)


def times(n):
    """The official spacing: multiples of a stride."""
    stride = next((i for i in range(1, STEPS + 1) if -(-STEPS // i) == n), None)
    if stride is None:
        raise ValueError(f"no stride gives {n} steps")
    return list(range(0, STEPS, stride))


def bent(n, power=2.0, last=STEPS - 1):
    """Denser where there is little noise: t_k = last (k / (n - 1))^power, without repeats."""
    t = [round(last * (k / (n - 1)) ** power) for k in range(n)]
    for k in range(1, n):
        t[k] = max(t[k], t[k - 1] + 1)
    return t


def x0_of(net, x, t, code, base=None, scale=1.0):
    """The clean picture that the network sees in x, clipped. With base: v(base) + scale (v(code) - v(base))."""
    a, s = float(ABAR[t] ** 0.5), float((1 - ABAR[t]) ** 0.5)
    at = torch.full((len(x),), t, device=x.device)
    v = net(x, at, code)
    if base is not None:
        v0 = net(x, at, base)
        v = v0 + scale * (v - v0)
    return (a * x - s * v).clamp(-1, 1)


@torch.no_grad()
def walk(net, x, code, ts, up, order=1, ends=True, base=None, scale=1.0):
    """DDIM along ts: up = from the picture to noise. ends: the official last and first steps (the noise end is A = 0, which
    the way down reads as A of the last time); without them the noise end is the state at the last time itself,
    one evaluation less on the way up. order 2: the multistep correction of DPM-Solver++."""
    path = list(ts) if up else list(reversed(ts))
    if up and not ends:
        path, last = path[:-1], path[-1]
    before = None
    for k, t in enumerate(path):
        A = float(ABAR[t])
        if k + 1 < len(path):
            to = float(ABAR[path[k + 1]])
        elif up:
            to = 0.0 if ends else float(ABAR[last])
        else:
            to = 1.0
        x0 = x0_of(net, x, t, code, base, scale)
        eps = (x - A ** 0.5 * x0) / (1 - A) ** 0.5
        d = x0
        if order == 2 and 0 < to < 1:
            lam = lambda v: 0.5 * torch.log(torch.tensor(v / (1 - v), dtype=torch.float64)).item()
            h = lam(to) - lam(A)
            if before is not None:
                d = x0 + (x0 - before[0]) * (h / (2 * before[1]))
            before = (x0, h)
            # sigma' / sigma x + (alpha' - sigma' alpha / sigma) d
            r = ((1 - to) / (1 - A)) ** 0.5
            x = r * x + (to ** 0.5 - r * A ** 0.5) * d
        else:
            x = to ** 0.5 * x0 + (1 - to) ** 0.5 * eps
    return x


def reverse(net, x, code, ts, **how):
    return walk(net, x, code, ts, True, **how)


def sample(net, x, code, ts, **how):
    return walk(net, x, code, ts, False, **how)


# ---- edits along the encoding path, as the engine makes them (engine/pipeline/diffae.c) ----

def steps_of(path, order_ends=1.0):
    """Second-order updates along these times: (t, m0, m1, m2) with x' = m0 x + m1 x0 + m2 (x0 of the step before)."""
    lam = lambda v: 0.5 * math.log(v / (1 - v))
    out, before = [], None
    for k, t in enumerate(path):
        A = float(ABAR[t])
        to = float(ABAR[path[k + 1]]) if k + 1 < len(path) else order_ends
        if to == 1:
            out.append((t, 0.0, 1.0, 0.0))
            break
        h = lam(to) - lam(A)
        r = ((1 - to) / (1 - A)) ** 0.5
        c = to ** 0.5 - r * A ** 0.5
        q = h / (2 * before) if before is not None else 0.0
        out.append((t, r, c * (1 + q), -c * q))
        before = h
    return out


@torch.no_grad()
def way_up(net, x, code, ts):
    """States at the times ts, from the picture to noise, and the clean picture that the network sees in each."""
    states, seen = [x], []
    for t, m0, m1, m2 in steps_of(ts)[:-1]:
        seen.append(x0_of(net, states[-1], t, code))
        states.append(m0 * states[-1] + m1 * seen[-1] + (m2 * seen[-2] if m2 else 0))
    seen.append(x0_of(net, states[-1], ts[-1], code))
    return states, seen


def edit(net, up, code, to, ts, guide, guided=0.8):
    """The face of way_up() with another code. Corrections lead back to the picture itself where the code is the same. Gradients flow."""
    states, seen = up
    x, before, n = states[-1], None, len(ts)
    n_guided = math.ceil(guided * n - 1e-6)
    for i, (t, m0, m1, m2) in enumerate(steps_of(list(reversed(ts)))):
        j = n - 1 - i
        x0 = x0_of(net, x, t, to, code, guide) if i < n_guided else x0_of(net, x, t, to)
        base = m0 * states[j] + m1 * seen[j] + (m2 * seen[j + 1] if m2 else 0)
        x = m0 * x + m1 * x0 + (m2 * before if m2 else 0) + states[max(j - 1, 0)] - base
        before = x0
    return x


def slerp(a, b, u):
    cos = ((a * b).sum() / (a.norm() * b.norm())).clamp(-1, 1)
    th = torch.acos(cos)
    return (torch.sin((1 - u) * th) * a + torch.sin(u * th) * b) / torch.sin(th)


def psnr(a, b):
    """Mean over pictures in -1..1."""
    return float((-10 * torch.log10(((a - b) / 2).square().flatten(1).mean(1) + 1e-10)).mean())


def ssim(a, b):
    a, b = (a.double() + 1) / 2, (b.double() + 1) / 2
    g = torch.exp(-(torch.arange(11, device=a.device, dtype=a.dtype) - 5) ** 2 / 4.5)
    g = g / g.sum()
    w = (g[:, None] * g)[None, None].expand(3, 1, 11, 11)
    f = lambda v: torch.nn.functional.conv2d(v, w, groups=3)
    ma, mb = f(a), f(b)
    va, vb, c = f(a * a) - ma * ma, f(b * b) - mb * mb, f(a * b) - ma * mb
    return float((((2 * ma * mb + 1e-4) * (2 * c + 9e-4)) / ((ma ** 2 + mb ** 2 + 1e-4) * (va + vb + 9e-4))).mean())
