#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden files of the diffusion autoencoder, made by its reference implementation, and a check of the full sizes.

    python3 tools/golden_diffae.py --reference DIFFAE tests/data/golden
    python3 tools/golden_diffae.py --reference DIFFAE --full ffhq128 --zenith build/engine/zenith
    python3 tools/golden_diffae.py --reference DIFFAE --speed ffhq128 --threads 1 --rounds 3
    python3 tools/golden_diffae.py --reference DIFFAE --gpu celeba64 ffhq128 ffhq256

DIFFAE is a checkout of the authors' repository (github.com/phizaz/diffae).  The first form writes a small network with
random weights in the layout of a Lightning checkpoint (diffae.ckpt), and diffae.golden.safetensors with inputs, the
output of every block of one U-Net call, and ten steps of sampling and of reverse.  The second builds a published
configuration with random weights, runs it in PyTorch and in the engine, and prints relative errors and times.  The third
measures a call of the U-Net against PyTorch (oneDNN, channels last), alternating: CPU time of all threads, which other
programs on the machine disturb less than wall time, and wall time.  The fourth does so on a GPU, with PyTorch's
automatic mixed precision (eager, and compiled unless --eager is given), and times 20 steps of sampling from host to
host.

Layers that training initialises with zeros get random weights: zeros would hide errors.
"""
import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu_time import median_ms  # noqa: E402

# image size, base channels, multipliers of the U-Net and of the encoder, attention, size of the code, of the embedding
CONFIGS = {
    "tiny": (16, 8, (1, 1, 2), (1, 1, 2, 2), (8,), 24, 40),
    "celeba64": (64, 64, (1, 2, 4, 8), (1, 2, 4, 8, 8), (16,), 512, 512),
    "ffhq128": (128, 128, (1, 1, 2, 3, 4), (1, 1, 2, 3, 4, 4), (16,), 512, 512),
    "ffhq256": (256, 128, (1, 1, 2, 2, 4, 4), (1, 1, 2, 2, 4, 4, 4), (16,), 512, 512),
}


def make_model(name, latent):
    from model.latentnet import MLPSkipNetConfig
    from model.unet_autoenc import BeatGANsAutoencConfig
    from choices import Activation

    size, ch, mult, enc_mult, attention, code, embed = CONFIGS[name]
    hidden, layers = latent
    net = MLPSkipNetConfig(num_channels=code, skip_layers=tuple(range(1, layers)), num_hid_channels=hidden,
                           num_layers=layers, num_time_emb_channels=64, activation=Activation.silu, use_norm=True,
                           condition_bias=1, last_act=Activation.none, num_time_layers=2, time_last_act=False, dropout=0)
    conf = BeatGANsAutoencConfig(
        image_size=size, in_channels=3, out_channels=3, model_channels=ch, num_res_blocks=2, embed_channels=embed,
        attention_resolutions=attention, channel_mult=mult, dropout=0.1, resblock_updown=True, resnet_two_cond=True, resnet_cond_channels=code,
        resnet_use_zero_module=True, num_heads=1, num_head_channels=-1, use_new_attention_order=False,
        enc_out_channels=code, enc_pool="adaptivenonzero", enc_num_res_block=2, enc_channel_mult=enc_mult,
        latent_net_conf=net)
    model = conf.make_model()
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for k, p in sorted(model.named_parameters()):
            if p.ndim == 1:
                p.copy_(0.2 * torch.randn(p.shape, generator=g) + (1.0 if is_scale(model, k) else 0.0))
            else:
                p.copy_(torch.randn(p.shape, generator=g) * (0.7 / p[0].numel() ** 0.5))
            p.copy_(p.half().float())  # stored as fp16 without loss
    return model.eval()


def is_scale(model, name):
    owner = model.get_submodule(name.rpartition(".")[0])
    return isinstance(owner, (torch.nn.GroupNorm, torch.nn.LayerNorm)) and name.endswith("weight")


def make_sampler(steps, latent=False):
    from choices import GenerativeType, LossType, ModelMeanType, ModelType, ModelVarType
    from diffusion.base import get_named_beta_schedule
    from diffusion.diffusion import SpacedDiffusionBeatGansConfig, space_timesteps

    betas = get_named_beta_schedule("const0.008" if latent else "linear", 1000)
    return SpacedDiffusionBeatGansConfig(
        gen_type=GenerativeType.ddim, betas=betas, model_type=ModelType.autoencoder, model_mean_type=ModelMeanType.eps,
        model_var_type=ModelVarType.fixed_large, loss_type=LossType.mse, rescale_timesteps=False, fp16=False,
        train_pred_xstart_detach=True, use_timesteps=space_timesteps(1000, f"ddim{steps}")).make_sampler()


def hwc(x):
    return x[0].permute(1, 2, 0).contiguous() if x.ndim == 4 else x[0].reshape(1, 1, -1).contiguous()


def record_blocks(model):
    seen, hooks = {}, []

    def add(name, module):
        hooks.append(module.register_forward_hook(lambda m, i, o: seen.__setitem__(name, hwc(o))))

    for kind in ("input_blocks", "output_blocks"):
        for i, b in enumerate(getattr(model, kind)):
            add(f"{kind}.{i}", b)
    add("middle_block", model.middle_block)
    return seen, hooks


def in_one_storage(tensors):
    """The same tensors as views of one: a file of a few hundred storages is mostly zip headers."""
    flat, views, at = torch.cat([v.flatten() for v in tensors.values()]), {}, 0
    for k, v in tensors.items():
        views[k] = flat[at:at + v.numel()].view(v.shape)
        at += v.numel()
    return views


def golden(out):
    model = make_model("tiny", (32, 4))
    size, code = CONFIGS["tiny"][0], CONFIGS["tiny"][5]
    g = torch.Generator().manual_seed(2)
    picture = torch.rand(1, 3, size, size, generator=g) * 2 - 1
    x = torch.randn(1, 3, size, size, generator=g)
    z = torch.randn(1, code, generator=g)
    t = torch.tensor([430])
    data = {"picture": hwc(picture), "x": hwc(x), "z": hwc(z), "t": t.float().reshape(1, 1, 1)}
    with torch.no_grad():
        cond = model.encoder(picture)
        data["cond"] = hwc(cond)
        seen, hooks = record_blocks(model)
        data["eps"] = hwc(model(x=x, t=t, cond=cond).pred)
        for h in hooks:
            h.remove()
        data.update({f"block.{k}": v for k, v in seen.items()})
        data["latent_eps"] = hwc(model.latent_net(z, t).pred)
        s = make_sampler(10)
        data["sample10"] = hwc(s.ddim_sample_loop(model, noise=x, model_kwargs={"cond": cond}))
        data["reverse10"] = hwc(s.ddim_reverse_sample_loop(model, picture, model_kwargs={"cond": cond})["sample"])
        data["latent10"] = hwc(make_sampler(10, True).ddim_sample_loop(model.latent_net, noise=z, clip_denoised=False))
    weights = in_one_storage({k: v.half() for k, v in model.state_dict().items()})
    state = {f"ema_model.{k}": v for k, v in weights.items()}
    state.update({f"model.{k}": torch.zeros(1) for k in list(weights)[:3]})  # training's own weights, not to be used
    state.update(x_T=torch.zeros(1, 3, 2, 2), conds_mean=torch.randn(1, code, generator=g) * 0.1,
                 conds_std=torch.rand(1, code, generator=g) + 0.5)
    torch.save({"epoch": 3, "global_step": 17, "pytorch-lightning_version": "1.4.5", "state_dict": state,
                "optimizer_states": [{"state": {}}], "hyper_parameters": {"name": "tiny"}}, out / "diffae.ckpt")
    save_file({k: v.float().contiguous() for k, v in data.items()}, out / "diffae.golden.safetensors")
    for k, v in data.items():
        print(f"{k:24} {tuple(v.shape)!s:18} rms {v.square().mean().sqrt():.3f}")


def zenith(program, model, weights, folder, inputs, settings=()):
    args = [program, "run", model, "--weights", str(weights)]
    for k, v in inputs.items():
        np.save(folder / f"{k}.npy", v.numpy())
        args += ["--in", f"{k}={folder / k}.npy"]
    for s in settings:
        args += ["--set", s]
    name = {"diffae-encode": "cond", "diffae-unet": "eps", "diffae-latent-net": "eps"}[model]
    subprocess.run(args + ["--out", f"{name}={folder}/out.npy"], check=True)
    return torch.from_numpy(np.load(folder / "out.npy"))


def full(name, program):
    model = make_model(name, (2048, 10))
    size, code = CONFIGS[name][0], CONFIGS[name][5]
    g = torch.Generator().manual_seed(2)
    x = torch.randn(1, 3, size, size, generator=g)
    picture = torch.rand(1, 3, size, size, generator=g) * 2 - 1
    z, t = torch.randn(1, code, generator=g), torch.tensor([430])
    with tempfile.TemporaryDirectory() as d, torch.no_grad():
        d = Path(d)
        save_file({k: v.contiguous().clone() for k, v in model.state_dict().items()}, d / "w.safetensors")
        for what, run, inputs in (
                ("diffae-encode", lambda: model.encoder(picture), {"x": hwc(picture)}),
                ("diffae-unet", lambda: model(x=x, t=t, cond=z).pred,
                 {"x": hwc(x), "t": t.float(), "cond": z[0]}),
                ("diffae-latent-net", lambda: model.latent_net(z, t).pred, {"z": z[0], "t": t.float()})):
            start = time.time()
            want = hwc(run()).flatten()
            ours = zenith(program, what, d / "w.safetensors", d, inputs).flatten()
            print(f"{name} {what:18} relative error {((ours - want).norm() / want.norm()).item():.2e}, "
                  f"largest {((ours - want).abs().max() / want.abs().max()).item():.2e}; "
                  f"PyTorch took {time.time() - start:.2f} s in all")


def cpu_of(command):
    """CPU and wall seconds of a program."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.time() - start


def speed(name, program, threads, rounds):
    model = make_model(name, (2048, 10)).to(memory_format=torch.channels_last)
    size, code = CONFIGS[name][0], CONFIGS[name][5]
    torch.set_num_threads(threads)
    x = torch.randn(1, 3, size, size).to(memory_format=torch.channels_last)
    z, t, ours, theirs = torch.randn(1, code), torch.tensor([430]), [], []
    with tempfile.TemporaryDirectory() as d, torch.inference_mode():
        d = Path(d)
        save_file({k: v.contiguous().clone() for k, v in model.state_dict().items()}, d / "w.safetensors")
        np.save(d / "x.npy", hwc(x).numpy())
        np.save(d / "cond.npy", z[0].numpy())
        model(x=x, t=t, cond=z)
        for _ in range(rounds):
            cpu, wall = time.process_time(), time.time()
            model(x=x, t=t, cond=z)
            theirs.append((time.process_time() - cpu, time.time() - wall))
            few, many = (cpu_of([program, "run", "diffae-sample", "--weights", str(d / "w.safetensors"), "--threads",
                                 str(threads), "--set", f"steps={n}", "--set", "order=1", "--in", f"xT={d}/x.npy", "--in",
                                 f"cond={d}/cond.npy", "--out", f"x={d}/y.npy"]) for n in (2, 5))
            ours.append(((many[0] - few[0]) / 3, (many[1] - few[1]) / 3))
            print(f"  PyTorch {theirs[-1][0]:.2f} s CPU, {theirs[-1][1]:.2f} s; Zenith {ours[-1][0]:.2f} s CPU, "
                  f"{ours[-1][1]:.2f} s", flush=True)
    a, b = (statistics.median(v[0] for v in r) for r in (ours, theirs))
    print(f"{name}, {threads} threads, median CPU time of a U-Net call: Zenith {a:.2f} s, PyTorch {b:.2f} s: {b / a:.2f} times")


def gpu(names, program, eager):
    """Calls of the U-Net on a GPU: all networks are compiled first, then the two programs are timed one after the other."""
    torch.backends.cudnn.benchmark = True
    nets = {}
    with tempfile.TemporaryDirectory() as d, torch.inference_mode(), torch.autocast("cuda", torch.float16):
        d = Path(d)
        for name in names:
            model = make_model(name, (2048, 10))
            save_file({k: v.contiguous().clone() for k, v in model.state_dict().items()}, d / f"{name}.safetensors")
            size, code = CONFIGS[name][0], CONFIGS[name][5]
            model = model.cuda().to(memory_format=torch.channels_last)
            inputs = dict(x=torch.randn(1, 3, size, size).cuda().to(memory_format=torch.channels_last), t=torch.tensor([430]).cuda(),
                          cond=torch.randn(1, code).cuda())
            fast = None if eager else torch.compile(model, dynamic=False)
            if fast is not None:          # the truth of a compiled module is its length
                fast(**inputs)
            nets[name] = model, fast, inputs
        for name, (model, fast, inputs) in nets.items():
            times = {"eager": median_ms(lambda: model(**inputs), 40)}
            if fast is not None:          # the truth of a compiled module is its length
                times["compiled"] = median_ms(lambda: fast(**inputs), 40)
            side = CONFIGS[name][0]
            for precision in ("fp16", "bf16", "tf32", "fp32"):
                out = subprocess.run([program, "bench", "diffae-unet", "--engine", "cuda", "--weights", str(d / f"{name}.safetensors"), "--size",
                                      f"{side}x{side}", "--set", f"precision={precision}", "--json"], capture_output=True, text=True)
                if out.returncode:
                    print(f"  {name} {precision}: {out.stderr.strip()}")
                    continue
                ms = json.loads(out.stdout)["device_ms"]
                print(f"{name} {precision}: a call {ms:.3f} ms; PyTorch " + ", ".join(f"{k} {v:.2f} ms ({v / ms:.2f} times)" for k, v in times.items()), flush=True)
            out = subprocess.run([program, "bench", "diffae-sample", "--engine", "cuda", "--weights", str(d / f"{name}.safetensors"), "--size",
                                  f"{side}x{side}", "--set", "precision=fp16", "--set", "steps=20", "--json"], capture_output=True, text=True)
            print(f"{name} fp16: 20 steps {json.loads(out.stdout)['ms']:.1f} ms" if not out.returncode else out.stderr.strip(), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--reference", required=True)
    p.add_argument("--full", choices=CONFIGS)
    p.add_argument("--speed", choices=CONFIGS)
    p.add_argument("--gpu", nargs="+", choices=CONFIGS)
    p.add_argument("--eager", action="store_true", help="with --gpu: without torch.compile")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--zenith", default="build/engine/zenith")
    p.add_argument("out", nargs="?")
    a = p.parse_args()
    sys.path.insert(0, a.reference)
    if a.gpu:
        gpu(a.gpu, a.zenith, a.eager)
    elif a.speed:
        speed(a.speed, a.zenith, a.threads, a.rounds)
    elif a.full:
        full(a.full, a.zenith)
    else:
        golden(Path(a.out))


main()
