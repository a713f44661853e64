"""Checks the fast path and measures the time of a step.

    python bench.py --photos DIR...           on a GPU: check, timings, profiles
    TRITON_INTERPRET=1 python bench.py --cpu  the check alone, on a small network
"""
import argparse
import copy
import time
import traceback

import torch
import triton

import data
import nets
import train


def both(net, fast, side, device):
    """What the plain and the fast path add to a picture."""
    import kernels
    x, s = (torch.rand(2, 3, side, side, device=device) for _ in range(2))
    if isinstance(net, nets.Denoiser):
        return net(x, s) - x, kernels.forward(fast, x, s) - x
    if isinstance(net, nets.Restorer):
        told = torch.rand(2, net.TOLD, side // 2, side // 2, device=device)
        return net(x, told) - x, kernels.restore(fast, x, told) - x
    lows = {k: (torch.rand(k, 3, side, side, device=device), torch.rand(k, net.TOLD, side, side, device=device)) for k in net.SCALES}
    made = kernels.upscale(fast, lows)
    base = {k: torch.nn.functional.interpolate(v[0], scale_factor=k) for k, v in lows.items()}
    return tuple(torch.cat([(f(k) - base[k]).flatten() for k in lows]) for f in (lambda k: net(*lows[k], k), made.get))


def check(names=("denoise-fast", "denoise-balanced", "denoise-best", "restore", "upscale", "upscale-small"), device="cuda", kind=torch.bfloat16, side=128):
    """The fast path against the float32 modules, forward and gradients."""
    for name in names:
        torch.manual_seed(0)
        net = nets.build(name).to(device)
        with torch.no_grad():
            for p in net.parameters():
                p += 0.02 * torch.randn_like(p)
        fast = copy.deepcopy(net).to(kind)
        a, b = both(net, fast, side, device)
        t = torch.rand_like(a)
        ga = torch.autograd.grad((a * t).sum(), list(net.parameters()))
        gb = torch.autograd.grad((b * t).sum(), list(fast.parameters()))
        far = [(float((p - q.float()).norm() / (p.norm() + 1e-9)), k) for (k, _), p, q in zip(net.named_parameters(), ga, gb)]
        print(f"{name}: forward off by {float(((a - b).norm() / a.norm()).detach()):.2e}, gradients: worst {max(far)}, "
              f"median {sorted(far)[len(far) // 2][0]:.2e}", flush=True)


def depthwise(n=32, side=64, c=32):
    """Depthwise 3x3 and gate, forward and backward: cuDNN against kernels.py."""
    import kernels
    p = torch.randn(n * side * side, 2 * c, device="cuda").bfloat16()
    w = torch.randn(9, 2 * c, device="cuda").bfloat16()
    b = torch.randn(2 * c, device="cuda").bfloat16()
    d = torch.randn(n * side * side, c, device="cuda").bfloat16()
    dab, hw = torch.randn_like(p), (side, side)
    x = p.view(n, side, side, 2 * c).permute(0, 3, 1, 2).detach().requires_grad_()
    k = w.t().reshape(2 * c, 1, 3, 3).detach().requires_grad_()

    def cudnn():
        u, v = torch.nn.functional.conv2d(x, k, b, padding=1, groups=2 * c).chunk(2, 1)
        torch.autograd.grad(u * v, (x, k), d.view(n, side, side, c).permute(0, 3, 1, 2))

    jobs = dict(cudnn=cudnn, forward=lambda: kernels.depthwise_gate(p, w, b, hw),
                gate_backward=lambda: kernels.gate_depthwise_backward(p, w, b, d, hw),
                backward=lambda: kernels.depthwise_backward(p, w, dab, hw), plain_gate_backward=lambda: kernels.gate_backward(p, d),
                ln_backward=lambda: kernels.ln_backward(d, d, d), weight_gradient=lambda: p.t() @ d)
    for k_, f in jobs.items():
        print(f"   depthwise {side}x{side}x{n} C {c} {k_}: {triton.testing.do_bench(f, 5, 30) * 1e3:.0f} us", flush=True)


def speed(name, crops, side, batch, eager=False, profile=False):
    began = time.time()
    args = argparse.Namespace(name=name, seed=0, init=None, pool=1, eager=eager, muon=name in nets.DENOISERS)
    _, t = train.set_up(args)
    t.prepare(crops.sampler(batch, side))
    t.lr.fill_(1e-4)
    torch.cuda.synchronize()
    ready = time.time() - began
    for _ in range(5):
        t.go()
    torch.cuda.synchronize()
    began, n = time.time(), 60
    for _ in range(n):
        t.go()
    torch.cuda.synchronize()
    ms = (time.time() - began) / n * 1e3
    print(f"{name} {side}x{batch} {'eager' if eager else ''}: {ms:.2f} ms a step, {batch * side * side / ms / 1e3:.1f} Mpixel/s, "
          f"loss {t.mean_loss.item():.3f}, set up in {ready:.0f} s, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB", flush=True)
    if profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
            for _ in range(3):
                t.step()
            torch.cuda.synchronize()
        rows = sorted(p.key_averages(), key=lambda e: -e.self_device_time_total)[:22]
        total = sum(e.self_device_time_total for e in p.key_averages())
        for e in rows:
            print(f"   {e.self_device_time_total / total:5.1%} {e.count // 3:4d} x {e.self_device_time_total / e.count:7.1f} us  {e.key[:70]}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--photos", nargs="+")
    p.add_argument("--cpu", action="store_true")
    a = p.parse_args()
    if a.cpu:
        check(["tiny-denoise", "tiny-restore", "tiny-upscale"], "cpu", torch.float32, 32)
        raise SystemExit
    if not a.photos:
        p.error("--photos is needed")
    crops = data.Crops(a.photos, "cuda", limit=60)
    jobs = [(check, (), {}), (depthwise, (), {}), (depthwise, (32, 16, 128), {}),
            (speed, ("denoise-fast", crops, 128, 32), dict(profile=True)),
            (speed, ("denoise-fast", crops, 128, 64), {}),
            (speed, ("denoise-balanced", crops, 128, 32), dict(profile=True)),
            (speed, ("zenith-tae", crops, 128, 32), dict(eager=True)),
            (speed, ("zenith-tae", crops, 128, 32), dict(profile=True))]
    for f, args, kw in jobs:
        try:
            f(*args, **kw)
        except Exception:
            traceback.print_exc()
