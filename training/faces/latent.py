"""Train the latent network on the codes of the training faces.

    python latent.py --codes codes.safetensors --out latent.safetensors [--minutes 1]

Normalised codes, betas constant 0.008 as the official latent DPM, but v-prediction: at the noisy end an error of the noise would
be multiplied by 50 (a first network, trained on the noise for 25 s, made codes of deviation 1.5 instead of 1). Writes float16 weights named latent_net.*
with the codes' mean and deviation (conds_mean, conds_std).
"""
import argparse
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save

import nets

STEPS = 1000
ABAR = torch.cumprod(torch.full((STEPS,), 1 - 0.008, dtype=torch.float64), 0)


@torch.no_grad()
def sample(net, n, steps=200, seed=0, device="cpu"):
    """Normalised codes by DDIM."""
    x = torch.randn(n, nets.CODE, generator=torch.Generator().manual_seed(seed)).to(device)
    ts = list(range(0, STEPS, STEPS // steps))
    for k in reversed(range(len(ts))):
        A, to = float(ABAR[ts[k]]), float(ABAR[ts[k - 1]]) if k else 1.0
        v = net(x, torch.full((n,), ts[k], device=device))
        x0, e = A ** 0.5 * x - (1 - A) ** 0.5 * v, (1 - A) ** 0.5 * x + A ** 0.5 * v
        x = to ** 0.5 * x0 + (1 - to) ** 0.5 * e
    return x


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--codes", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, default=1)
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--lr", type=float, default=1e-3)
    a = p.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    codes = {k: v.float().to(device) for k, v in load_file(a.codes).items()}
    mean, std = codes["train"].mean(0), codes["train"].std(0)
    x, held = (codes["train"] - mean) / std, (codes["test"] - mean) / std
    net = nets.MLPSkipNet().to(device)
    ema = [p.detach().clone() for p in net.parameters()]
    opt = torch.optim.AdamW(net.parameters(), a.lr, weight_decay=0.01)
    abar = ABAR.float().to(device)

    def loss(x, g=None):
        t = torch.randint(STEPS, (len(x),), device=device, generator=g)
        A = abar[t][:, None]
        e = torch.randn(x.shape, device=device, generator=g)
        return F.mse_loss(net(A.sqrt() * x + (1 - A).sqrt() * e, t), A.sqrt() * e - (1 - A).sqrt() * x)

    start, steps = time.time(), 0
    while (done := (time.time() - start) / (60 * a.minutes)) < 1:
        for g in opt.param_groups:
            g["lr"] = a.lr * min(1, (steps + 1) / 200) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        l = loss(x[torch.randint(len(x), (a.batch,), device=device)])
        opt.zero_grad()
        l.backward()
        opt.step()
        steps += 1
        with torch.no_grad():
            torch._foreach_lerp_(ema, list(net.parameters()), 1 - min(0.999, (1 + steps) / (10 + steps)))
        if steps % 2000 == 0:
            print(f"step {steps} {time.time() - start:.0f} s loss {float(l.detach()):.4f}", flush=True)
    with torch.no_grad():
        for p_, e in zip(net.parameters(), ema):
            p_.copy_(e)
        g = torch.Generator(device).manual_seed(1)
        print(f"end {steps} steps: held-out loss {float(loss(held.repeat(8, 1), g)):.4f}, "
              f"training codes {float(loss(x[:len(held)].repeat(8, 1), g)):.4f}")
        s = sample(net, 512, device=device)
        print(f"samples: deviation {float(s.std()):.3f}, distance to the nearest training code {float(torch.cdist(s, x).min(1).values.mean()):.2f}, "
              f"of held-out codes {float(torch.cdist(held, x).min(1).values.mean()):.2f}")
    tensors = {f"latent_net.{k}": v.half().cpu().contiguous() for k, v in net.state_dict().items()}
    tensors |= {"conds_mean": mean.cpu(), "conds_std": std.cpu()}
    Path(a.out).write_bytes(save(tensors, {"model": "face-latent", "latent_schedule": "const 0.008 1000", "latent_prediction": "v", "steps": str(steps)}))


if __name__ == "__main__":
    main()
