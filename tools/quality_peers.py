#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PSNR of the denoisers, FFDNet, DnCNN and, with --gimp, other filters for GIMP.  `./run bench quality` calls it.

    tools/quality_peers.py [FOLDER...] [--sigma 15,25,50] [--every 3] [--only fast] [--zenith PROGRAM] [--data FOLDER] [--gimp]

A FOLDER holds test pictures, or pairs NAME_real.png (noisy) and NAME_mean.png (clean).  Without one, those of Kodak24, CBSD68,
McMaster, Urban100, validation and CC that are found in ../shared/data/testsets are taken.

  pictures   white Gaussian noise is added, not clipped; one seed for each picture.  Networks get the true level; rows
             "measured" use the filter's own estimate.  DnCNN takes no level.
  pairs      are used as they are: 8 bits, no given level.  FFDNet, which needs one, gets the best of SIGMAS for each
             picture, which a user does not know; so do our rows "best level".  The last column is the smallest gain on
             a picture: below 0 it got worse.
  --gimp     GEGL's own filters, through `./run gegl`, and G'MIC where `gmic` is installed, from PNG to PNG: noise is clipped in 8 bits
             then, for ours too, which run as zenith:denoise.  Of filters that are told no level, or take a strength, several settings
             are run, and the one that is best in the mean is shown: more than a user finds.

FFDNet and DnCNN need PyTorch and their published weights in ../shared/data/weights.  If something does not run, its row
says why.
"""
import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
SETS = ("Kodak24", "CBSD68", "McMaster", "Urban100", "validation", "CC")
OURS = ("fast", "balanced", "best")
SIGMAS = (3, 5, 8, 12, 16, 22, 30)


def psnr(a, b):
    return -10 * np.log10(np.mean((np.clip(a, 0, 1) - b) ** 2))


def read(path):
    return np.asarray(Image.open(path).convert("RGB"), float) / 255


# ---- networks: functions of a picture and a level of 255 (None: measured) ------------------------------------------------

def ours(name, program, folder):
    def run(picture, sigma):
        x, y = folder / "x.npy", folder / "y.npy"
        np.save(x, picture.astype(np.float32))
        told = ["--set", f"sigma={sigma}"] if sigma else []
        subprocess.run([program, "run", f"denoise-{name}", *told, "--in", f"x={x}", "--out", f"y={y}"], check=True,
                       capture_output=True)
        return np.load(y).astype(float)
    return run


def published(data):
    """FFDNet and DnCNN, or why not."""
    sys.path.insert(0, str(ROOT / "training"))
    try:
        import real
    except ImportError as e:
        return {"FFDNet": str(e), "DnCNN": str(e)}
    out = {}
    for name, make, file in (("FFDNet", real.ffdnet, "ffdnet_color.pth"), ("DnCNN", real.dncnn, "dncnn_color_blind.pth")):
        path = data / "weights" / file
        if path.exists():
            run = make(path)[1]
            out[name] = lambda picture, sigma, run=run: run(picture, np.full(3, sigma or 0))
        else:
            out[name] = f"{path.name} is not in {path.parent}"
    return out


# ---- tables --------------------------------------------------------------------------------------------------------------

def line(name, cells):
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def row(name, score, columns):
    """score() gives the cells, or fails with a reason."""
    try:
        line(name, score())
    except (OSError, subprocess.CalledProcessError) as e:
        said = getattr(e, "stderr", b"") or str(e).encode()
        line(name, [f"does not run here: {said.decode(errors='replace').strip().splitlines()[-1][:120]}"] + [""] * (columns - 1))


def white_table(files, sigmas, runs):
    sets = {s: [] for s in sigmas}
    for i, f in enumerate(files):
        clean = read(f)
        unit = np.random.default_rng(1000 + i).standard_normal(clean.shape)
        for s in sigmas:
            sets[s].append((clean, clean + unit * s / 255))
    line(f"{len(files)} pictures", [*map(str, sigmas), "mean", "seconds"])
    print("|---" * (len(sigmas) + 3) + "|")

    def score(run, told):
        began = time.time()
        found = [np.mean([psnr(run(noisy, s if told else None), clean) for clean, noisy in sets[s]]) for s in sigmas]
        return [f"{v:.2f}" for v in (*found, np.mean(found))] + [f"{(time.time() - began) / len(files) / len(sigmas):.1f}"]
    for name, (run, told) in runs.items():
        row(name, lambda: score(run, told), len(sigmas) + 2)


def pairs_table(pairs, runs):
    sets = [(read(clean), read(noisy)) for clean, noisy in pairs]
    base = np.array([psnr(n, c) for c, n in sets])
    line(f"{len(sets)} pairs", ["PSNR", "least gain"])
    print("|---|---|---|")
    line("noisy", [f"{base.mean():.2f}", ""])

    def score(run, best):
        found = [max(psnr(run(n, s), c) for s in (SIGMAS if best else (None,))) for c, n in sets]
        return [f"{np.mean(found):.2f}", f"{np.min(found - base):+.2f}"]
    for name, (run, best) in runs.items():
        row(name, lambda: score(run, best), 2)


def eight_bits(run):
    """As a file keeps it."""
    return lambda picture, sigma: np.clip(np.rint(run(picture, sigma) * 255), 0, 255) / 255


def networks(a, folder):
    """Names of rows, for white noise and for pairs: {name: (run, told or best)}."""
    white, real = {}, {}
    mine = {n: ours(n, a.zenith, folder) for n in OURS}
    for n, run in published(Path(a.data)).items():
        if isinstance(run, str):
            def run(picture, sigma, why=run):
                raise OSError(why)
        white[n] = (run, True)
        real[f"{n}, best level" if n == "FFDNet" else n] = (eight_bits(run), n == "FFDNet")
    for n, run in mine.items():
        white[n] = (run, True)
        white[f"{n}, measured"] = (run, False)
        real[n] = (eight_bits(run), False)
        real[f"{n}, best level"] = (eight_bits(run), True)
    pick = lambda rows: {k: v for k, v in rows.items() if a.only in k}
    return pick(white), pick(real)


# ---- what GIMP users have ------------------------------------------------------------------------------------------------

def gegl(operation, *settings):
    """Commands for one level: a list for each setting to try."""
    def commands(sigma, source, target):
        return [[str(ROOT / "run"), "gegl", source, "-o", target, "--", operation, *s(sigma)] for s in settings]
    return commands


def gmic(command, *settings):
    def commands(sigma, source, target):
        return [["gmic", "v", "-", source, command, s(sigma), "round", "cut", "0,255", "o", target] for s in settings]
    return commands


def times(*factors):
    return [lambda sigma, f=f: f"{f * sigma:g}" for f in factors]


FILTERS = {
    "GIMP, Noise Reduction": gegl("gegl:noise-reduction", *(lambda s, n=n: [f"iterations={n}"] for n in (1, 2, 4, 6, 8, 12, 16))),
    "GEGL, denoise-dct": gegl("gegl:denoise-dct", *(lambda s, v=v: [f"sigma={v(s)}"] for v in times(0.7, 1, 1.4))),
    "G'MIC, denoise": gmic("denoise", *(lambda s, v=v: f"10,{v(s)},5,6" for v in times(0.7, 1, 1.4, 2))),
    "G'MIC, denoise_patchpca": gmic("denoise_patchpca", *(lambda s, v=v: v for v in ("1.3", "1.6", "2"))),   # finds the level itself
    **{f"zenith:denoise, {n}": gegl("zenith:denoise", lambda s, n=n: [f"model={n}", f"sigma={s}"]) for n in OURS},
    **{f"zenith:denoise, {n}, measured": gegl("zenith:denoise", lambda s, n=n: [f"model={n}"]) for n in OURS},
}


def filter_score(commands, sigma, pictures, folder):
    """(PSNR, seconds) in the mean, of the best setting."""
    target, rows = str(folder / "y.png"), []
    for clean, source in pictures:
        found = []
        for command in commands(sigma, str(source), target):
            Path(target).unlink(missing_ok=True)
            began = time.time()
            subprocess.run(command, check=True, capture_output=True)
            found.append((psnr(read(target), clean), time.time() - began))
        rows.append(found)
    return max(map(tuple, np.mean(rows, 0)))


def gimp_table(files, pairs, sigmas, only, folder):
    """The pairs if there are any, else the pictures with noise."""
    sets = {"as it is": [(read(c), n) for c, n in pairs]} if pairs else {}
    for s in sigmas if not pairs else ():
        sets[s] = []
        for i, f in enumerate(files):
            clean, source = read(f), folder / f"{s}-{i}.png"
            noise = np.random.default_rng([s, i]).standard_normal(clean.shape)
            Image.fromarray(np.uint8(np.clip(np.rint(255 * clean + s * noise), 0, 255))).save(source)
            sets[s].append((clean, source))
    line(f"{len(pairs or files)} pictures, 8 bits", [*map(str, sets), "seconds"])
    print("|---" * (len(sets) + 2) + "|")
    line("noisy", [f"{np.mean([psnr(read(f), c) for c, f in x]):.2f}" for x in sets.values()] + [""])

    def score(commands):
        found = [filter_score(commands, s, x, folder) for s, x in sets.items()]
        return [f"{v[0]:.2f}" for v in found] + [f"{np.mean([v[1] for v in found]):.1f}"]
    for name, commands in FILTERS.items():
        if only in name and (not pairs or "measured" in name or name == "GIMP, Noise Reduction"):
            row(name, lambda: score(commands), len(sets) + 1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*")
    p.add_argument("--sigma", default="15,25,50")
    p.add_argument("--every", type=int, default=1, help="every n-th picture")
    p.add_argument("--only", default="", help="rows whose name holds this")
    p.add_argument("--zenith", default=str(ROOT / "build" / "engine" / "zenith"), help="the engine's program")
    p.add_argument("--data", default=str(DATA), help="where testsets and weights are, if not in ../shared/data")
    p.add_argument("--gimp", action="store_true", help="GEGL's and G'MIC's filters, and ours as one, from PNG to PNG")
    a = p.parse_args()
    sigmas = [int(s) for s in a.sigma.split(",")]
    folders = [Path(f) for f in a.folders] or [f for f in (Path(a.data) / "testsets" / s for s in SETS) if f.is_dir()]
    if not folders:
        sys.exit(f"no test set in {a.data}/testsets; name a folder")
    with tempfile.TemporaryDirectory() as temporary:
        temporary = Path(temporary)
        white, real = networks(a, temporary)
        for folder in folders:
            files = sorted(f for f in folder.iterdir() if f.suffix.lower() in (".png", ".jpg", ".tif"))
            pairs = [(f.with_name(f.name.replace("_real.", "_mean.")), f) for f in files if "_real." in f.name]
            pairs = [v for v in pairs if v[0].exists()][::a.every]
            files = files[::a.every]
            if not files:
                sys.exit(f"no pictures in {folder}")
            print(f"\n{folder.name}\n", flush=True)
            if a.gimp:
                gimp_table(files, pairs, sigmas, a.only, temporary)
            elif pairs:
                pairs_table(pairs, real)
            else:
                white_table(files, sigmas, white)


if __name__ == "__main__":
    main()
