#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the golden files of the networks that find faces: narrow ones with random weights, run by PyTorch.

    python3 tools/golden_find.py tests/data/golden

find.safetensors holds them; face-detect, face-points and face-mouth.golden.safetensors have an input and its output, H x W x C.
find-spot.safetensors is a detector for tests of the pipeline: it takes a white spot of 15 pixels on black for a face whose frame has a side of
64 pixels and is turned by 20 degrees, and its second network moves every frame by 0.05 units along its own x axis.
"""
import math
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "training" / "faces"))
import find
import lips


def stirred(net):
    """Norms as after some training."""
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_mean.uniform_(-0.2, 0.2)
            m.running_var.uniform_(0.5, 2)
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.uniform_(-0.2, 0.2)
    return net.eval()


def main(folder):
    folder = Path(folder)
    torch.manual_seed(0)
    detector, corrector = stirred(find.Detector((4, 5, 6), 2)), stirred(find.Corrector((4, 5, 6, 7, 8, 5, 9)))
    mouth = find.Corrector((4, 5, 6, 7, 8, 5, 9))
    mouth.head = torch.nn.Conv2d(9, 2 * len(lips.LIPS), 1)
    stirred(mouth)
    find.export(folder / "find.safetensors", detector, corrector, threshold=0.4)
    with safe_open(folder / "find.safetensors", "pt") as f:
        about = f.metadata()
    more = {k: v.detach().half().contiguous() for k, v in find.folded(mouth, "mouth").items()}
    save_file({**load_file(folder / "find.safetensors"), **more}, folder / "find.safetensors", about)
    for net in (detector, corrector, mouth):             # what the file holds: float16, folded
        for i, c in enumerate(net.convs):
            w = find.folded(net, "x")
            c[0].weight.data = w[f"x.conv{i}.weight"].half().float()
            c[1].reset_parameters()
            c[1].bias.data = w[f"x.conv{i}.bias"].half().float()
            c[1].reset_running_stats()
            c[1].eps = 1e-20
        net.head.half().float()
    for name, net, size in (("face-detect", detector, (40, 56)), ("face-points", corrector, (64, 64)), ("face-mouth", mouth, (64, 64))):
        x = torch.rand(1, 3, *size) * 2 - 1
        with torch.no_grad():
            y = net(x)
        y = y if name == "face-detect" else y[:, :, None, None]
        hwc = lambda t: t[0].permute(1, 2, 0).contiguous()
        save_file({"in": hwc(x), "out": hwc(y)}, folder / f"{name}.golden.safetensors")

    t = {f"detect.conv{i}.weight": torch.full((1, 3 if i == 0 else 1, 3, 3), 1 / (27 if i == 0 else 9)) for i in range(3)}
    t.update({f"detect.conv{i}.bias": torch.zeros(1) for i in range(3)})
    head = torch.zeros(7, 1, 1, 1)
    head[0] = 20
    points = find.points_of(torch.tensor([[0., 0., 64., math.radians(20)]]))[0] / find.REACH
    t["detect.head.weight"], t["detect.head.bias"] = head, torch.cat([torch.tensor([-6.]), points.flatten()])
    for i, k in enumerate((3, 3, 3, 3, 3, 3, 4)):
        t[f"points.conv{i}.weight"] = torch.zeros(1, 3 if i == 0 else 1, k, k)
        t[f"points.conv{i}.bias"] = torch.zeros(1)
    t["points.head.weight"] = torch.zeros(7, 1, 1, 1)
    t["points.head.bias"] = torch.tensor([6., 0.05, 0, 0.05, 0, 0.05, 0])
    save_file(t, folder / "find-spot.safetensors", {"model": "zenith-find", "threshold": "0.5"})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
