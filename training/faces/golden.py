"""Golden vectors of a checkpoint, in float32, for the C tests:

    python golden.py CHECKPOINT OUT.safetensors

x: a picture by a formula, H x W x 3 in -1..1; code: its code; noisy, v: the U-Net at time t with that code; up, down: the state
after the way up to noise in 4 second-order steps, and the picture that comes back.
"""
import sys

import torch
from safetensors.torch import save_file

import diffusion
import export

T, STEPS = 300, 4


def main(checkpoint, out):
    net, _ = export.network(checkpoint, "cpu")
    s = net.side
    y, x = torch.meshgrid(torch.arange(s), torch.arange(s), indexing="ij")
    c = torch.arange(3)[:, None, None]
    picture = (0.5 * torch.sin(0.13 * x + 0.7 * c) * torch.cos(0.09 * y - 0.4 * c) + 0.3 * (x + y > s) - 0.1 * c)[None].float()
    noise = torch.sin(12.9898 * x + 78.233 * y + 37.719 * c)[None].float()
    a = float(diffusion.ABAR[T])
    noisy = a ** 0.5 * picture + (1 - a) ** 0.5 * noise
    hwc = lambda t: t[0].permute(1, 2, 0).contiguous()
    with torch.no_grad():
        code = net.encoder(picture)
        v = net(noisy, torch.tensor([T]), code)
        ts, how = diffusion.bent(STEPS), dict(order=2, ends=False)
        up = diffusion.reverse(net, picture, code, ts, **how)
        down = diffusion.sample(net, up, code, ts, **how)
    save_file({"x": hwc(picture), "code": code[0].contiguous(), "noisy": hwc(noisy), "v": hwc(v), "t": torch.tensor([T]),
               "up": hwc(up), "down": hwc(down)}, out)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
