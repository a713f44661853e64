#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One training step of conv-baseline-ae (base 32, one picture of 128x128, Adam), Zenith and PyTorch alternating.

    python3 tools/train_peers.py [--zenith PROGRAM] [--rounds N] [THREADS...]     by default 1, and all cores

PyTorch runs two forms of the same network: matrix products on patches, and convolutions as one would write them
(--convolutions), which some builds of PyTorch run far slower.  The minimum of all steps counts.
"""
import argparse
import os
import re
import subprocess
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

B = 32
STRIDES = (2, 4, 4)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, B, 2, 2), nn.Conv2d(B, 16 * B, 4, 4), nn.Conv2d(16 * B, 256 * B, 4, 4)])
        self.up = nn.ModuleList([nn.Conv2d(256 * B, 256 * B, 1), nn.Conv2d(16 * B, 16 * B, 1), nn.Conv2d(B, 12, 1)])

    def forward(self, x):
        for conv in self.down:
            x = F.relu(conv(x))
        for i, (conv, r) in enumerate(zip(self.up, (4, 4, 2))):
            x = F.pixel_shuffle(conv(x), r)
            x = F.relu(x) if i < 2 else x
        return x


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Linear(12, B), nn.Linear(16 * B, 16 * B), nn.Linear(256 * B, 256 * B)])
        self.up = nn.ModuleList([nn.Linear(256 * B, 256 * B), nn.Linear(16 * B, 16 * B), nn.Linear(B, 12)])

    def forward(self, x):
        for lin, s in zip(self.down, STRIDES):
            x = F.relu(lin(F.pixel_unshuffle(x, s).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        for i, (lin, r) in enumerate(zip(self.up, (4, 4, 2))):
            x = F.pixel_shuffle(lin(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), r)
            x = F.relu(x) if i < 2 else x
        return x


def torch_step(net, x, opt):
    t = [time.time()]
    loss = F.mse_loss(net(x), x)
    t.append(time.time())
    opt.zero_grad()
    loss.backward()
    t.append(time.time())
    opt.step()
    t.append(time.time())
    return [b - a for a, b in zip(t, t[1:])]


def torch_turn(nets, x, steps):
    """name -> the least time of forward, backward, Adam, and of a whole step."""
    out = {}
    for name, (net, opt) in nets.items():
        d = [torch_step(net, x, opt) for _ in range(steps)]
        out[name] = [min(v) for v in zip(*d)] + [min(sum(v) for v in d)]
    return out


def zenith_turn(program, threads):
    text = subprocess.run([program, "bench", "zenith-prune", "--set", "table=1", "--threads", str(threads)], check=True,
                          capture_output=True, text=True).stdout
    return [float(v) for v in re.search(r"forward ([\d.]+), backward ([\d.]+), Adam ([\d.]+), step ([\d.]+)", text).groups()]


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    a = argparse.ArgumentParser()
    a.add_argument("--zenith", default=os.path.join(root, "build/engine/zenith"))
    a.add_argument("--rounds", type=int, default=2)
    a.add_argument("--convolutions", action="store_true")
    a.add_argument("threads", type=int, nargs="*")
    o = a.parse_args()
    x = torch.randn(1, 3, 128, 128)
    for threads in o.threads or [1, os.cpu_count()]:
        torch.set_num_threads(threads)
        kinds = [Products, Convolutions] if o.convolutions else [Products]
        nets = {f"PyTorch {torch.__version__}, {k.__name__.lower()}": k() for k in kinds}
        nets = {name: (net, torch.optim.Adam(net.parameters(), 1e-3)) for name, net in nets.items()}
        best = {}
        for _ in range(o.rounds):
            for name, d in {**torch_turn(nets, x, 4), "Zenith": zenith_turn(o.zenith, threads)}.items():
                best[name] = [min(p, q) for p, q in zip(best.get(name, d), d)]
        for name, d in best.items():
            print(f"{threads} threads, {name}: forward {d[0]:.3f}, backward {d[1]:.3f}, Adam {d[2]:.3f}, step {d[3]:.3f} s, "
                  f"{d[3] / best['Zenith'][3]:.2f} of Zenith's", flush=True)


if __name__ == "__main__":
    main()
