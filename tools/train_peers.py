#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One training step of conv-baseline-ae (base 32, one picture of 128x128) by PyTorch on this CPU, in seconds.

    python3 tools/train_peers.py [threads]

Two forms of the same network: convolutions as one would write them, and matrix products on patches, which some
builds of PyTorch run far faster.  `zenith bench zenith-prune` prints ours.
"""
import sys
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


def main():
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    x = torch.randn(1, 3, 128, 128)
    for net, steps in ((Products(), 5), (Convolutions(), 2)):
        opt = torch.optim.Adam(net.parameters(), 1e-3)
        for step in range(steps):
            t = [time.time()]
            loss = F.mse_loss(net(x), x)
            t.append(time.time())
            opt.zero_grad()
            loss.backward()
            t.append(time.time())
            opt.step()
            t.append(time.time())
        d = [b - a for a, b in zip(t, t[1:])]
        print(f"PyTorch {torch.__version__}, {type(net).__name__.lower()}: forward {d[0]:.3f}, backward {d[1]:.3f}, "
              f"Adam {d[2]:.3f}, step {sum(d):.3f}", flush=True)


if __name__ == "__main__":
    main()
