"""Quality of upscalers and restorers on pictures to measure on.

    python measure.py UPSCALE.safetensors --sets SELFEXSR/data [--only Urban100] [--scales 2 4] [--every 10]
    python measure.py RESTORE.safetensors --kodak KODAK24 [--zenith PROGRAM [--filter]]
    python measure.py RESTORE.safetensors --kodak KODAK24 --zenith PROGRAM --document

--sets: the data folder of github.com/jbhuang0604/SelfExSR, with Set14, BSD100 and Urban100, for measuring only.  Pictures are scaled
down as Matlab's imresize does it and rounded to 8 bits; PSNR is that of the luma (ITU-R BT.601, 16..235) of the 8-bit result, without
an edge of `scale` pixels, mean over the pictures.  Urban100's pictures are those of 1024 pixels at every scale, as papers use them.
Restorers: Kodak24, colour, mean over the pictures; JPEG files of Pillow (colours at half size) with nothing told, Gaussian blur of
sigma 1.6 with noise of sigma 2, 8 bits, dust, scratches and stains (degrade.same_dirt, seed 1000 + index) with dust=1, and the clean
pictures.  --filter: as `zenith restore` does it, which finds the quality and whether a picture is blurred, 8 bits.  --document: mean
squared errors of the damages of the second document, on photographs, through the filters that are for them.
"""
import argparse
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import data
import degrade
import evaluate
import nets
from together import psnr, y_psnr

SETS = ("Set14", "BSD100", "Urban100")


def read(path):
    return data.read(path).permute(2, 0, 1)[None].float() / 255


def originals(folder, name, scale, every):
    folder = Path(folder) / name / f"image_SRF_{4 if name == 'Urban100' else scale}"
    for path in sorted(folder.glob("*_HR.png"))[::every]:
        x = read(path)
        yield x[..., :x.shape[2] // scale * scale, :x.shape[3] // scale * scale]


def bicubic(x, scale):
    return F.interpolate(x, scale_factor=scale, mode="bicubic", antialias=True)


def runner(a, name, net):
    """A function of a picture and, of an upscaler, the scale: the engine's program where --zenith names it, else PyTorch."""
    if not a.zenith:
        return lambda x, scale=None, dust=0: nets.upscale(net, x, scale) if scale else nets.restore(net, x, torch.tensor([0.0] * 6 + [dust]))
    if a.filter:
        return lambda x, dust=0: filtered(a, "restore", x, f"dust={dust}")
    folder = tempfile.mkdtemp()

    def run(x, scale=None, dust=0):
        np.save(f"{folder}/x.npy", x[0].permute(1, 2, 0).numpy())
        told = ["--set", f"dust={dust}"] if dust else []
        subprocess.run([a.zenith, "run", f"{name}-x{scale}" if scale else name, "--weights", a.file, "--set", "precision=fp32", *told,
                        "--in", f"x={folder}/x.npy", "--out", f"y={folder}/y.npy"], check=True, capture_output=True)
        return torch.from_numpy(np.load(f"{folder}/y.npy")).permute(2, 0, 1)[None]

    return run


def filtered(a, command, x, *settings):
    """A picture through `zenith COMMAND`, whose networks are those beside the given file, to 8 bits."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x[0].permute(1, 2, 0).numpy())
        subprocess.run([a.zenith, command, f"{folder}/x.npy", f"{folder}/y.npy", *settings], check=True, capture_output=True,
                       env={**os.environ, "ZENITH_MODELS": str(Path(a.file).resolve().parent)})
        y = torch.from_numpy(np.load(f"{folder}/y.npy")).permute(2, 0, 1)[None]
    return (y.clamp(0, 1) * 255).round() / 255


def of_sets(run, a):
    print("| set | scale | bicubic | network |\n|---|---|---|---|")
    for name in a.only or SETS:
        for scale in a.scales:
            both = []
            for x in originals(a.sets, name, scale, a.every):
                small = degrade.smaller(x, scale)
                both.append([y_psnr(y, x, scale).item() for y in (bicubic(small, scale), run(small, scale))])
                print(name, scale, len(both), *np.mean(both, 0).round(3), file=sys.stderr, flush=True)
            if both:
                print(f"| {name} | {scale} | " + " | ".join(f"{v:.3f}" for v in np.mean(both, 0)) + " |", flush=True)


def in_file(x, quality):
    out = io.BytesIO()
    Image.fromarray((x[0].permute(1, 2, 0) * 255).round().byte().numpy()).save(out, "JPEG", quality=quality)
    return read(out)


def soft(x, k):
    m = degrade.REACH
    t = torch.arange(-m, m + 1).float()
    g = torch.exp(-0.5 * (t / 1.6) ** 2)
    y = degrade.blurred(F.pad(x, (m, m, m, m), mode="reflect"), (g[:, None] * g / g.sum() ** 2)[None, None])
    y = y + 2 / 255 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1000 + k))
    return (y.clamp(0, 1) * 255).round() / 255


def of_kodak(run, a):
    kinds = {f"JPEG, quality {q}": lambda x, k, q=q: in_file(x, q) for q in (10, 20, 40)}
    kinds["blur 1.6, noise 2"] = soft
    kinds["dirt"] = kinds["dirt, dust=1"] = lambda x, k: degrade.same_dirt(x, 1000 + k)
    kinds["clean"] = kinds["clean, dust=1"] = lambda x, k: x
    pictures = [read(p) for p in data.pictures([a.kodak])[::a.every]]
    print("| damage | before | after | gain | least |\n|---|---|---|---|---|")
    for name, make in kinds.items():
        both = []
        for k, x in enumerate(pictures):
            seen = make(x, k)
            both.append([psnr(y, x).item() for y in (seen, run(seen, dust=int(name.endswith("dust=1"))))])
            print(name, len(both), *np.mean(both, 0).round(3), file=sys.stderr, flush=True)
        before, after = np.mean(both, 0)
        print(f"| {name} | {before:.2f} | {after:.2f} | {after - before:+.2f} | {np.min(both, 0)[1]:.2f} |", flush=True)


def of_document(a):
    """Gaussian noise of 0.3, a twentieth of the pixels black or white, a mean of 3x3; in 8 bits, as files have it."""
    pictures = [read(p) for p in data.pictures([a.kodak])[::a.every]]
    rng = lambda k: torch.Generator().manual_seed(1000 + k)

    def shot(x, k):
        r = torch.rand(1, 1, *x.shape[2:], generator=rng(k))
        return torch.where(r < 0.025, 0.0, torch.where(r > 0.975, 1.0, x))

    kinds = {"Gaussian noise 0.3": (lambda x, k: x + 0.3 * torch.randn(x.shape, generator=rng(k)), ("denoise", "model=best")),
             "shot noise 5 %": (shot, ("restore", "dust=1")),
             "box blur 3x3": (lambda x, k: F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3, 1), ("restore",))}
    print("| damage | filter | MSE before | after | |\n|---|---|---|---|---|")
    for name, (make, how) in kinds.items():
        both = []
        for k, x in enumerate(pictures):
            seen = (make(x, k).clamp(0, 1) * 255).round() / 255
            both.append([(y - x).square().mean().item() for y in (seen, filtered(a, how[0], seen, *how[1:]))])
        before, after = np.mean(both, 0)
        print(f"| {name} | {' '.join(how)} | {before:.5f} | {after:.5f} | {before / after:.1f}x |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("--sets")
    p.add_argument("--kodak")
    p.add_argument("--only", nargs="+", choices=SETS)
    p.add_argument("--scales", nargs="+", type=int, default=[2, 3, 4], choices=[2, 3, 4])
    p.add_argument("--zenith", metavar="PROGRAM", help="compute with the engine (build/engine/zenith)")
    p.add_argument("--filter", action="store_true", help="with --zenith: the filter, not the network alone")
    p.add_argument("--document", action="store_true", help="with --zenith: the damages of the second document")
    p.add_argument("--every", type=int, default=1, help="use one of so many pictures")
    a = p.parse_args()
    name, net = evaluate.load(a.file)
    print(f"{name}: {sum(p.numel() for p in net.parameters()):,} parameters, {nets.macs_per_pixel(net):,.0f} multiply-adds a pixel of the result")
    if isinstance(net, nets.Upscaler) and a.sets:
        of_sets(runner(a, name, net), a)
    elif isinstance(net, nets.Restorer) and a.kodak and a.document:
        of_document(a)
    elif isinstance(net, nets.Restorer) and a.kodak:
        of_kodak(runner(a, name, net), a)
    else:
        p.error("an upscaler needs --sets, a restorer --kodak")


if __name__ == "__main__":
    main()
