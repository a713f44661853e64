#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the golden files of the small autoencoders: each kind of block with random weights, run by PyTorch in double.

    python3 tools/golden_latent.py tests/data/golden

The networks are those that training/latent_nets.py trains. Each case is latent-KIND.safetensors (half precision, which the
reference then uses) and latent-KIND-HALF.golden.safetensors with the input and the output, H x W x C; for the view of a latent, too.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "training"))

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import latent_nets
import nets

torch.manual_seed(25)
out = Path(sys.argv[1])
hwc = lambda t: t[0].permute(1, 2, 0).float().contiguous()
for kind, name in (("gated", "tiny-latent"), ("mix", "tiny-latent-mix"), ("plain", "tiny-latent-plain"), ("pool", "tiny-latent-pool")):
    net = nets.build(name).double()
    with torch.no_grad():
        for p in net.parameters():          # what begins at 0 would hide a mistake
            p.add_(0.05 * torch.randn_like(p))
            p.copy_(p.half())
        x, z = torch.rand(1, 3, 40, 72).double(), torch.randn(1, 4, 7, 13).double()
        net.view.weight.copy_((0.1 * torch.randn_like(net.view.weight)).half())
        net.view.bias.copy_(torch.tensor([0.5, 0.4, 0.6]).half())
        colours = torch.einsum("oc,nchw->nohw", net.view.weight, z) + net.view.bias[:, None, None]
        shown = F.interpolate((2 * colours - 1).clamp(-1, 1), scale_factor=8)
        pairs = {"encoder": (x, net.encode(x)), "decoder": (z, net.decode(z)), "view": (z, shown)}
    save_file({k: v.half().contiguous() for k, v in net.state_dict().items()}, out / f"latent-{kind}.safetensors",
              metadata={"model": "golden"})
    for half, (i, o) in pairs.items():
        save_file({"in": hwc(i), "out": hwc(o)}, out / f"latent-{kind}-{half}.golden.safetensors")
        print(f"latent-{kind}-{half}: output {tuple(o.shape)}, up to {o.abs().max():.2f}")
