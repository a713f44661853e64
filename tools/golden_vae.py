#!/usr/bin/env python3
"""Golden files of the autoencoders: small networks with random weights, run by their reference implementations.

    python3 tools/golden_vae.py tests/data/golden          the files that tests/models/test_vae.c reads
    python3 tools/golden_vae.py --full flux [--size 256] [--precision fp32 fp16 bf16] [--zenith build/engine/zenith]
                                                           networks of the published sizes, compared, nothing written;
                                                           wan21, wan22 and wan2d likewise

It needs PyTorch and diffusers.  Weights are stored as fp16; the reference computes with the same values in fp32."""
import argparse
import math
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from vae_nets import Wan2d


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
        pool = pool if n <= len(pool) else self.pool["dense"]
        self.at = (self.at * 31 + 17) % (len(pool) - n + 1)
        return pool[self.at:self.at + n].view(shape)


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


def stacked(x):
    """Frames one below the other."""
    return x[0].permute(1, 2, 3, 0).flatten(0, 1).contiguous()


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


# ---- Wan -----------------------------------------------------------------------------------------------------

def wan_original(state, residual):
    """diffusers' names as the published .pth files have them."""
    out = {}
    for k, v in state.items():
        k = {"quant_conv": "conv1", "post_quant_conv": "conv2"}.get(k.rpartition(".")[0], "") + "." + k.rpartition(".")[2] \
            if k.startswith(("quant", "post")) else k
        k = k.replace("mid_block.resnets.0", "middle.0").replace("mid_block.resnets.1", "middle.2")
        k = k.replace("mid_block.attentions.0", "middle.1").replace("norm_out", "head.0").replace("conv_out", "head.2")
        k = k.replace("encoder.conv_in", "encoder.conv1").replace("decoder.conv_in", "decoder.conv1")
        p = k.split(".")
        if p[1] in ("down_blocks", "up_blocks"):
            inner = "downsamples" if p[1] == "down_blocks" else "upsamples"
            last = "2" if inner == "downsamples" else "3"
            if residual:
                j, rest = (last, p[3:]) if p[3] in ("downsampler", "upsampler") else (p[4], p[4:])
                p = [p[0], inner, p[2], inner, j] + rest[1:]
            elif inner == "upsamples":
                j = "3" if p[3] == "upsamplers" else p[4]
                p = [p[0], inner, str(4 * int(p[2]) + int(j))] + p[5:]
            else:
                p[1] = inner
            k = ".".join(p)
        if any(s in k for s in ("samples.", "middle.0", "middle.2")):
            for a, b in ((".norm1.", ".residual.0."), (".conv1.", ".residual.2."), (".norm2.", ".residual.3."),
                         (".conv2.", ".residual.6."), (".conv_shortcut.", ".shortcut.")):
                k = k.replace(a, b)
        out[k] = v
    return out


WAN22 = {  # of the published configuration
    "latents_mean": [
        -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542,
        0.2813, 0.0891, 0.1570, -0.0098, 0.0375, -0.1825, -0.2246, -0.1207, -0.0698, 0.5109, 0.2665,
        -0.2108, -0.2158, 0.2502, -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799,
        -0.1230, -0.0313, -0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.0520, 0.3748, 0.0152,
        0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667],
    "latents_std": [
        0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894,
        1.0901, 0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146,
        0.8986, 0.5659, 0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709,
        0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.0600, 0.3943, 0.5537,
        0.5444, 0.4089, 0.7468, 0.7744]}


def wan(out):
    from diffusers import AutoencoderKLWan

    data = {}
    for name, dim, dec, z, residual, size in (("wan21", 6, None, 16, False, (3, 5)), ("wan22", 4, 8, 48, True, (5, 3))):
        model = AutoencoderKLWan(base_dim=dim, decoder_base_dim=dec, z_dim=z, is_residual=residual,
                                 in_channels=12 if residual else 3, out_channels=12 if residual else 3,
                                 patch_size=2 if residual else None, scale_factor_spatial=16 if residual else 8)
        state = randomise(model, 5)
        g = torch.Generator().manual_seed(6)
        f = 16 if residual else 8
        x = torch.rand(1, 3, 1, size[0] * f, size[1] * f, generator=g) * 2 - 1
        latent = torch.randn(1, z, 1, *size, generator=g)
        mean, deviation = (torch.tensor(getattr(model.config, k) if not residual else WAN22[k]).view(1, z, 1, 1, 1)
                           for k in ("latents_mean", "latents_std"))
        with torch.no_grad():
            data[f"{name}.x"] = hwc(x[:, :, 0])
            data[f"{name}.encoded"] = hwc(((model.encode(x).latent_dist.mode() - mean) / deviation)[:, :, 0])
            data[f"{name}.z"] = hwc(latent[:, :, 0])
            data[f"{name}.decoded"] = hwc(model.decode(latent * deviation + mean).sample[:, :, 0])
            video = torch.rand(1, 3, 9, 2 * f, 16 if residual else 24, generator=g) * 2 - 1
            latents = torch.randn(1, z, 3, 2, video.shape[-1] // f, generator=g)
            data[f"video.{name}.x"] = stacked(video)
            data[f"video.{name}.encoded"] = stacked((model.encode(video).latent_dist.mode() - mean) / deviation)
            data[f"video.{name}.z"] = stacked(latents)
            data[f"video.{name}.decoded"] = stacked(model.decode(latents * deviation + mean).sample)
        torch.save(state, out / f"{name}-diffusers.pth")
        torch.save(wan_original(state, residual), out / f"{name}.pth")
    g = torch.Generator().manual_seed(9)
    torch.save(torch.randn(1, 16, 2, 2, 3, generator=g).bfloat16(), out / "wan-latent.pth")
    return data


# ---- the document's 2-D network --------------------------------------------------------------------------------

def wan2d(out):
    data = {}
    for name, act in (("wan2d", F.silu), ("wan2d-before", F.relu)):
        model = Wan2d(mults=(1, 2), blocks=1, act=act)
        state = randomise(model, 7)
        g = torch.Generator().manual_seed(8)
        x, latent = torch.rand(1, 3, 20, 28, generator=g) * 2 - 1, torch.randn(1, 4, 5, 7, generator=g)
        with torch.no_grad():
            data[f"{name}.x"], data[f"{name}.encoded"] = hwc(x), hwc(model.encoder(x))
            data[f"{name}.z"], data[f"{name}.decoded"] = hwc(latent), hwc(model.decoder(latent))
    torch.save({"model_state_dict": state, "config": {"z_channels": 4}, "epoch": 1, "step": 2}, out / "wan2d.pth")
    return data


def golden(out):
    data = {}
    for part in (kl, wan, wan2d):
        data.update(part(out))
    show(data)
    for name, video in (("vae", False), ("vae-video", True)):
        part = {k: v.float().contiguous() for k, v in data.items() if k.startswith("video.") == video}
        save_file(part, out / f"{name}.golden.safetensors")


# ---- full size -------------------------------------------------------------------------------------------------

def full_model(name):
    """The network of the published size, its id, and its two halves on tensors [1, c, h, w]."""
    torch.manual_seed(1)
    if name == "flux":
        from diffusers import AutoencoderKL

        m = AutoencoderKL(block_out_channels=(128, 256, 512, 512), down_block_types=("DownEncoderBlock2D",) * 4,
                          up_block_types=("UpDecoderBlock2D",) * 4, layers_per_block=2, latent_channels=16,
                          use_quant_conv=False, use_post_quant_conv=False).eval()
        return m, "flux-ae", 16, 8, lambda x: m.encode(x).latent_dist.mode(), lambda z: m.decode(z).sample
    if name == "wan2d":
        m = Wan2d().eval()
        return m, "wan2d-vae", 4, 16, m.encoder, m.decoder
    from diffusers import AutoencoderKLWan

    if name == "wan22":
        m = AutoencoderKLWan(base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12,
                             out_channels=12, patch_size=2, scale_factor_spatial=16, latents_mean=WAN22["latents_mean"],
                             latents_std=WAN22["latents_std"]).eval()
    else:
        m = AutoencoderKLWan().eval()
    z, f = (48, 16) if name == "wan22" else (16, 8)
    mean, deviation = (torch.tensor(v).view(1, z, 1, 1, 1) for v in (m.config.latents_mean, m.config.latents_std))
    return (m, "wan-vae", z, f,
            lambda x: ((m.encode(x[:, :, None]).latent_dist.mode() - mean) / deviation)[:, :, 0],
            lambda v: m.decode(v[:, :, None] * deviation + mean).sample[:, :, 0])


def full(name, size, program, precisions, rounds):
    model, id, z, f, encode, decode = full_model(name)
    with tempfile.TemporaryDirectory() as d, torch.no_grad():
        d = Path(d)
        for k, p in model.named_parameters():
            if k.endswith("gamma"):
                p.copy_(1 + 0.1 * torch.randn_like(p))
            elif p.abs().max() == 0:  # starts as 0 in the reference
                p.copy_(0.02 * torch.randn_like(p))
        save_file({k: v.contiguous().clone() for k, v in model.state_dict().items()}, d / "w.safetensors")
        x = torch.rand(1, 3, size, size) * 2 - 1
        latent = torch.randn(1, z, size // f, size // f)
        for what, run, value, a, b in (("encode", encode, x, "x", "z"), ("decode", decode, latent, "z", "x")):
            np.save(d / "in.npy", hwc(value).numpy())
            theirs = []
            for i in range(rounds):
                start = time.process_time()
                want = hwc(run(value))
                theirs.append(time.process_time() - start)
                for p in precisions if i == 0 else ["fp32"]:
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    subprocess.run([program, "run", f"{id}-{what}", "--weights", str(d / "w.safetensors"), "--set",
                                    f"precision={p}", *(["--set", "scale=1"] if id == "flux-ae" else []), "--in", f"{a}={d}/in.npy", "--out", f"{b}={d}/out.npy"], check=True)
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                    error = torch.from_numpy(np.load(d / "out.npy")) - want
                    e = (error.norm() / want.norm()).item()
                    print(f"{id}-{what} ({name}) {size}x{size} {p}: relative error {e:.1e}, {-20 * math.log10(e):.1f} dB; "
                          f"CPU seconds {cpu:.1f} with loading, PyTorch {theirs[-1]:.1f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--full", choices=("flux", "wan21", "wan22", "wan2d"))
    p.add_argument("--size", type=int, default=256)
    p.add_argument("--precision", nargs="*", default=["fp32"])
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--zenith", default="build/engine/zenith")
    p.add_argument("out", nargs="?")
    a = p.parse_args()
    if a.full:
        full(a.full, a.size, a.zenith, a.precision, a.rounds)
    else:
        golden(Path(a.out))


main()
