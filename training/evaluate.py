"""Kodak24 quality of a shipped file, in float32:  python evaluate.py FILE.safetensors KODAK24_FOLDER [SIGMA...]"""
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file

import data
import nets

SIGMAS = (15, 25, 50)


def psnr(a, b):
    """Mean over pictures, output clamped."""
    mse = (a.clamp(0, 1) - b).double().square().flatten(1).mean(1)
    return (-10 * torch.log10(mse)).mean().item()


@torch.no_grad()
def denoiser_scores(net, x, unit, sigmas=SIGMAS, batch=6):
    out = []
    for s in sigmas:
        y = [nets.denoise(net, a + u * (s / 255), torch.full_like(a, s / 255))
             for a, u in zip(x.split(batch), unit.split(batch))]
        out.append(psnr(torch.cat(y), x))
    return out


@torch.no_grad()
def real_scores(net, pairs, batch=6):
    """Of the pairs that real.py --save has written: {condition: PSNR at the measured level}."""
    out = {}
    for name in (k[:-len(": clean")] for k in pairs if k.endswith(": clean")):
        clean, noisy, level = (pairs[f"{name}: {k}"].float() / 255 for k in ("clean", "noisy", "level"))
        y = [nets.denoise(net, x, s.view(-1, 3, 1, 1).expand_as(x)) for x, s in zip(noisy.split(batch), level.split(batch))]
        out[name] = psnr(torch.cat(y), clean)
    return out


@torch.no_grad()
def autoencoder_scores(net, x, batch=6):
    """Round trip PSNR; mean, deviation and largest magnitude of the latents."""
    z = [net.encode(nets.pad8(a)) for a in x.split(batch)]
    y = torch.cat([net.decode(a) for a in z])[..., :x.shape[-2], :x.shape[-1]]
    z = torch.cat(z)
    return psnr(y, x), z.mean().item(), z.std().item(), z.abs().max().item()


@torch.no_grad()
def family_scores(family, x, batch=6):
    """{(encoder, decoder): PSNR} of all pairs."""
    h, w = x.shape[-2:]
    return {(e, d): psnr(torch.cat([b.decode(a.encode(nets.pad8(i)))[..., :h, :w] for i in x.split(batch)]), x)
            for e, a in family.members.items() for d, b in family.members.items()}


@torch.no_grad()
def student_scores(net, teacher, x, batch=6):
    """PSNR of: the teacher's round trip; its latents through our decoder; our latents through its decoder; our round trip."""
    halves = [(teacher.encode, teacher.decode), (teacher.encode, net.decode), (net.encode, teacher.decode), (net.encode, net.decode)]
    h, w = x.shape[-2:]
    return [psnr(torch.cat([decode(encode(nets.pad8(a)))[..., :h, :w] for a in x.split(batch)]), x) for encode, decode in halves]


def load(path):
    """The network of a shipped file, float32."""
    with safe_open(path, "pt") as f:
        name = f.metadata()["model"]
    weights = load_file(path)
    if any(k.endswith(".scales") for k in weights):
        sys.exit(f"{path} holds integers: zenith convert {path} OUT --type fp32 first")
    weights = {k: v.float() for k, v in weights.items()}
    if name == "denoise-level":
        net = nets.Level(len(weights["join.bias"]), len(weights["down.bias"]))
    else:
        net = nets.Denoiser(**nets.plan_of(weights)) if name in nets.DENOISERS else nets.build(name)
    net.eval()
    net.load_state_dict(weights)
    return name, net


if __name__ == "__main__":
    torch.backends.cudnn.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name, net = load(sys.argv[1])
    print(f"{name}: {sum(p.numel() for p in net.parameters()):,} parameters, "
          f"{nets.macs_per_pixel(net):,.0f} multiply-adds per pixel, receptive field {nets.receptive_field(net)}")
    net = net.to(device)
    x, unit = data.test_set(sys.argv[2], device)
    batch = 6 if device == "cuda" else 1
    if name in nets.DENOISERS:
        levels = [float(v) for v in sys.argv[3:]] or SIGMAS
        for s, v in zip(levels, denoiser_scores(net, x, unit, levels, batch)):
            print(f"sigma {s:g}: {v:.3f} dB")
    else:
        print("round trip %.3f dB; latent mean %.3f, deviation %.3f, largest magnitude %.2f" % autoencoder_scores(net, x, batch))
        for k in (0, 4, 8, 12, 16, 20):
            if k < len(x):
                i = x[k:k + 1, :, :496, :496]
                print(f"picture {k + 1}, upper left 496x496: {psnr(nets.round_trip(net, i), i):.2f} dB", flush=True)
