#!/usr/bin/env python3
"""Golden files of the autoencoders: small networks with random weights, run by their reference implementations.

    python3 tools/golden_vae.py tests/data/golden          the files that tests/models/test_vae.c reads

It needs PyTorch and diffusers.  Weights are stored as fp16; the reference computes with the same values in fp32."""
import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file


class Pools:
    """Random tensors that are views of a few short storages, so that files stay small: fp16, as in the file."""

    def __init__(self, seed, most):
        g = torch.Generator().manual_seed(seed)
        self.at = 0
        self.pool = {"dense": 0.06 * torch.randn(most + 997, generator=g), "point": 0.2 * torch.randn(9973, generator=g),
                     "vector": 0.2 * torch.randn(997, generator=g), "scale": 1 + 0.2 * torch.randn(997, generator=g)}
        self.pool = {k: v.half() for k, v in self.pool.items()}

    def take(self, kind, shape):
        pool, n = self.pool[kind], torch.Size(shape).numel()
        kind = pool if n <= len(pool) else self.pool["dense"]
        self.at = (self.at * 31 + 17) % (len(kind) - n + 1)
        return kind[self.at:self.at + n].view(shape)


def randomise(model, seed):
    """Puts random values into every parameter, also into those that start as 0.  Returns the state dict for the file."""
    most = max(p.numel() for p in model.parameters())
    pools, state = Pools(seed, most), {}
    with torch.no_grad():
        for k, p in model.named_parameters():
            if p.numel() == max(p.shape):
                owner = model.get_submodule(k.rpartition(".")[0])
                scale = k.endswith("gamma") or (isinstance(owner, torch.nn.GroupNorm) and k.endswith("weight"))
                v = pools.take("scale" if scale else "vector", p.shape)
            else:
                v = pools.take("point" if p[0, 0].numel() == 1 else "dense", p.shape)
            p.copy_(v.float())
            state[k] = v
    model.eval()
    return state


def hwc(x):
    return x[0].permute(1, 2, 0).contiguous()


def show(data):
    for k, v in data.items():
        print(f"{k:28} {tuple(v.shape)!s:18} rms {v.square().mean().sqrt():.3f}")


# ---- AutoencoderKL -------------------------------------------------------------------------------------------

def kl_original(state):
    """diffusers' names as the original code has them."""
    levels = 1 + max(int(k.split(".")[2]) for k in state if k.startswith("decoder.up_blocks."))
    out = {}
    for k, v in state.items():
        for i in range(levels):
            k = k.replace(f"encoder.down_blocks.{i}.", f"encoder.down.{i}.")
            k = k.replace(f"decoder.up_blocks.{i}.", f"decoder.up.{levels - 1 - i}.")
        k = k.replace(".resnets.", ".block.") if ".mid_block." not in k else k
        k = k.replace("mid_block.resnets.0", "mid.block_1").replace("mid_block.resnets.1", "mid.block_2")
        k = k.replace("mid_block.attentions.0.group_norm", "mid.attn_1.norm")
        for a, b in (("to_q", "q"), ("to_k", "k"), ("to_v", "v"), ("to_out.0", "proj_out")):
            if f"attentions.0.{a}." in k:
                k = k.replace(f"mid_block.attentions.0.{a}", f"mid.attn_1.{b}")
                v = v[:, :, None, None] if v.ndim == 2 else v
        k = k.replace("downsamplers.0.conv", "downsample.conv").replace("upsamplers.0.conv", "upsample.conv")
        k = k.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")
        out[k] = v
    return out


def kl(out):
    from diffusers import AutoencoderKL

    data = {}
    for name, widths, z, quant, size in (("flux", (32, 64, 64), 6, False, (5, 7)), ("sd", (32, 32), 4, True, (9, 6))):
        n = len(widths)
        model = AutoencoderKL(block_out_channels=widths, down_block_types=("DownEncoderBlock2D",) * n,
                              up_block_types=("UpDecoderBlock2D",) * n, layers_per_block=1, latent_channels=z,
                              norm_num_groups=32, use_quant_conv=quant, use_post_quant_conv=quant)
        state = randomise(model, 3)
        g = torch.Generator().manual_seed(4)
        f = 2 ** (n - 1)
        x = torch.rand(1, 3, size[0] * f, size[1] * f, generator=g) * 2 - 1
        latent = torch.randn(1, z, *size, generator=g)
        with torch.no_grad():
            data[f"kl-{name}.x"] = hwc(x)
            data[f"kl-{name}.encoded"] = hwc(model.encode(x).latent_dist.mode())
            data[f"kl-{name}.z"] = hwc(latent)
            data[f"kl-{name}.decoded"] = hwc(model.decode(latent).sample)
        if name == "sd":  # as in a checkpoint of Stable Diffusion
            state = {f"first_stage_model.{k}": v for k, v in kl_original(state).items()}
            state["model.diffusion_model.out.2.bias"] = torch.zeros(4)
            torch.save({"state_dict": state, "global_step": 1}, out / "kl-sd.ckpt")
        else:
            torch.save(state, out / "kl-flux.pth")
            torch.save(kl_original(state), out / "kl-flux-original.pth")
    return data


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    out = Path(p.parse_args().out)
    data = {}
    for part in (kl,):
        data.update(part(out))
    show(data)
    save_file({k: v.float().contiguous() for k, v in data.items()}, out / "vae.golden.safetensors")


main()
