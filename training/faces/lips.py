"""Train the network that finds the lips of a face, for edits of large faces.  A CPU will do.

    python lips.py label FACES.tar OUT.npz                       # landmarks of MediaPipe's face mesh
    python lips.py train OUT.npz TABLE.csv FIND.safetensors RESULT.safetensors [--whole 600] [--late 900]

The network is like find.py's corrector, begins with its weights, and gives 20 points of the inner edges of the lips in a crop of 64x64 pixels around the mouth:
from its middle, in units of a quarter of its side.  RESULT has it as `mouth` beside the networks that find faces.  For --whole seconds all of it learns, then for
--late seconds what follows its third layer, from maps of that layer for a few crops of each face, which is four times as fast.
"""
import argparse
import csv
import io
import math
import tarfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIDE, CROP, BORDER = 128, 64, 48
# The mesh's numbers: from the left corner over the top to the right one, and back below.
LIPS = [78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308, 324, 318, 402, 317, 14, 87, 178, 88, 95]
MIRRORED = [10 - i if i <= 10 else 30 - i for i in range(20)]
MIDDLE, PART = (0.5, 0.72), 0.6         # of what is seen, in parts of the frame
STRIDES = (2, 2, 1, 2, 1, 2, 1)
EARLY, CROPS = 3, 5                     # layers that do not learn late; crops of a face


# ---- labels ----------------------------------------------------------------------------------------------

def label(tar, out):
    import mediapipe
    from PIL import Image
    mesh = mediapipe.solutions.face_mesh.FaceMesh(static_image_mode=True, max_num_faces=1, refine_landmarks=True, min_detection_confidence=0.2)
    names, points, files = [], [], []
    with tarfile.open(tar) as t:
        for m in t:
            if not (m.isfile() and m.name.endswith(".jpg")):
                continue
            face = Image.open(io.BytesIO(t.extractfile(m).read())).convert("RGB")
            wide = np.pad(np.asarray(face), ((BORDER, BORDER), (BORDER, BORDER), (0, 0)), "reflect")
            side = len(wide)
            seen = mesh.process(np.ascontiguousarray(Image.fromarray(wide).resize((2 * side, 2 * side), Image.BICUBIC)))
            if not seen.multi_face_landmarks:
                continue
            at = seen.multi_face_landmarks[0].landmark
            names.append(Path(m.name).name)
            points.append([((at[i].x * side - BORDER) / SIDE, (at[i].y * side - BORDER) / SIDE) for i in LIPS])
            small = io.BytesIO()
            face.save(small, "WEBP", quality=75)
            files.append(np.frombuffer(small.getvalue(), np.uint8))
    np.savez(out, names=np.array(names), points=np.array(points, np.float32), sizes=np.array([len(f) for f in files]), files=np.concatenate(files))
    print(len(names), "faces")


def decoded(blob):
    from PIL import Image
    return np.asarray(Image.open(io.BytesIO(blob)).convert("RGB")).transpose(2, 0, 1)


def unpacked(path):
    """Names, pictures [n,3,128,128] and points [n,20,2] of what label() wrote."""
    z = np.load(path)
    files, ends = z["files"], np.cumsum(z["sizes"])
    pictures = np.stack([decoded(files[e - n:e].tobytes()) for e, n in zip(ends, z["sizes"])])
    return z["names"], torch.from_numpy(pictures), torch.from_numpy(z["points"][:, :len(LIPS)])


# ---- crops -----------------------------------------------------------------------------------------------

def crops(pictures, points, rows, spread):
    """Pictures [b,3,64,64] in -1..1 and points [b,40]; spread 0: as the engine sees a frame that is right, 1: frames, colours and noise vary."""
    b = len(rows)
    flip = torch.randint(2, (b,)) if spread else torch.zeros(b, dtype=torch.long)
    r = lambda: torch.rand(b) * 2 - 1
    angle, scale = r() * spread * math.radians(7), torch.exp(r() * spread * 0.08) * PART
    middle = torch.tensor(MIDDLE) + torch.stack([r(), r()], 1) * spread * 0.03
    c, s = torch.cos(angle) * scale, torch.sin(angle) * scale
    sign = 1.0 - 2.0 * flip                                         # of x in the picture, where its mirror image is wanted
    theta = torch.stack([torch.stack([sign * c, -sign * s, sign * (2 * middle[:, 0] - 1)], 1), torch.stack([s, c, 2 * middle[:, 1] - 1], 1)], 1)
    x = F.grid_sample(pictures[rows].float() / 255, F.affine_grid(theta, (b, 3, CROP, CROP), align_corners=False), padding_mode="border", align_corners=False)
    p = points[rows]
    p = torch.where(flip[:, None, None] > 0, torch.stack([1 - p[..., 0], p[..., 1]], -1)[:, MIRRORED], p)
    d = (p - middle[:, None]) / scale[:, None, None] ** 2
    y = 4 * torch.stack([c[:, None] * d[..., 0] + s[:, None] * d[..., 1], c[:, None] * d[..., 1] - s[:, None] * d[..., 0]], -1)
    if spread:
        one = lambda f: f(b, 1, 1, 1)
        soft = one(torch.rand) * (one(torch.rand) < 0.5)
        x = x + soft * (F.interpolate(F.avg_pool2d(x, 2), scale_factor=2, mode="bilinear") - x)
        x = x + (one(torch.rand) < 0.15) * (x.mean(1, keepdim=True) - x)
        x = x.clamp(1e-3, 1) ** torch.exp(one(torch.rand) - 0.5)
        mean = x.mean((1, 2, 3), keepdim=True)
        x = ((x - mean) * torch.exp(0.8 * one(torch.rand) - 0.4) + mean * torch.exp(0.6 * one(torch.rand) - 0.3)) * torch.exp(0.15 * torch.randn(b, 3, 1, 1))
        x = x + torch.randn_like(x) * one(torch.rand) ** 3 * 0.07
    return x.clamp(0, 1) * 2 - 1, y.flatten(1)


def openings(y):
    """Heights of the opening at nine places across it."""
    p = y.unflatten(1, (-1, 2))
    return p[:, 11:].flip(1)[..., 1] - p[:, 1:10, :][..., 1]


def loss_of(out, y):
    return F.smooth_l1_loss(out, y, beta=0.05) + F.smooth_l1_loss(openings(out), openings(y), beta=0.05)


# ---- the network -----------------------------------------------------------------------------------------

class Network(nn.Module):
    """find.py's corrector, whose batch norms are folded, with another head; begun with its weights, or those of an earlier training."""

    def __init__(self, first):
        super().__init__()
        again = "mouth.head.weight" in first
        kept = {k.split(".", 1)[1]: v.float() for k, v in first.items() if k.startswith("mouth." if again else "points.")}
        self.convs = nn.ModuleList()
        for i, stride in enumerate(STRIDES):
            w = kept[f"conv{i}.weight"]
            c = nn.Conv2d(w.shape[1], w.shape[0], w.shape[2], stride, 1 if w.shape[2] == 3 else 0)
            c.weight.data.copy_(w)
            c.bias.data.copy_(kept[f"conv{i}.bias"])
            self.convs.append(c)
        self.head = nn.Conv2d(w.shape[0], 2 * len(LIPS), 1)
        if again:
            self.head.load_state_dict({k: kept["head." + k] for k in ("weight", "bias")})

    def early(self, x):
        for c in self.convs[:EARLY]:
            x = F.relu(c(x))
        return x

    def late(self, x):
        for c in self.convs[EARLY:]:
            x = F.relu(c(x))
        return self.head(x).flatten(1)

    def forward(self, x):
        return self.late(self.early(x))


def learn(params, batch, run, seconds, name, save, rate=1.5e-3):
    """batch: a function that gives inputs and points; run: one that gives points."""
    opt = torch.optim.AdamW(params, rate, weight_decay=0.02)
    start, steps, mean = time.time(), 0, 0.0
    while (done := (time.time() - start) / max(seconds, 1e-6)) < 1:
        for g in opt.param_groups:
            g["lr"] = rate * min(1, (steps + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * done)) + 1e-6
        for _ in range(10):
            x, y = batch()
            loss = loss_of(run(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            steps += 1
            mean += (float(loss.detach()) - mean) / min(steps, 100)
        if steps % 500 == 0:
            print(name, steps, round(mean, 4), flush=True)
            save()
    print(name, steps, "steps, loss", round(mean, 4), flush=True)


def measure(net, pictures, points, rows):
    """Mean distances in parts of the frame, and their 95th percentile: of points, of the opening's heights."""
    out = []
    with torch.no_grad():
        for some in rows.split(256):
            x, y = crops(pictures, points, some, 0.0)
            made = net(x)
            out.append(torch.stack([(made - y).unflatten(1, (-1, 2)).norm(dim=-1).mean(1), (openings(made) - openings(y)).abs().mean(1)], 1) * PART / 4)
    out = torch.cat(out)
    print(len(out), "held-out faces: mean", out.mean(0).tolist(), "95 %", out.quantile(0.95, 0).tolist(), flush=True)


def train(packed, table, find, result, whole, late, batch=64):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file
    with safe_open(find, "pt") as f:
        about = f.metadata()
    first = load_file(find)
    net = Network(first)

    def save():
        own = {"mouth." + k.replace("convs.", "conv"): v.detach().half().contiguous() for k, v in net.state_dict().items()}
        save_file({**first, **own}, result, about)

    names, pictures, points = unpacked(packed)
    rows = {r["file"]: r for r in csv.DictReader(open(table))}
    usual = torch.tensor([rows[n]["split"] == "train" and float(rows[n]["outlier"]) < 0.5 for n in names]).nonzero()[:, 0]
    held = torch.tensor([rows[n]["split"] == "test" for n in names]).nonzero()[:, 0]
    learn(list(net.parameters()), lambda: crops(pictures, points, usual[torch.randint(len(usual), (batch,))], 1.0), net, whole, "whole", save)
    maps, goals = [], []
    with torch.no_grad():
        for _ in range(CROPS if late else 0):
            for some in usual[torch.randperm(len(usual))].split(250):
                x, y = crops(pictures, points, some, 1.0)
                maps.append(net.early(x).half())
                goals.append(y)
    if late:
        maps, goals = torch.cat(maps), torch.cat(goals)

        def kept():
            i = torch.randint(len(maps), (batch,))
            return maps[i].float(), goals[i]

        learn([p for m in [*net.convs[EARLY:], net.head] for p in m.parameters()], kept, net.late, late, "late", save)
    save()
    measure(net, pictures, points, held)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("task", choices=("label", "train"))
    p.add_argument("files", nargs="+")
    p.add_argument("--whole", type=float, default=600)
    p.add_argument("--late", type=float, default=900)
    a = p.parse_args()
    if a.task == "label":
        label(*a.files)
    else:
        train(*a.files, a.whole, a.late)


if __name__ == "__main__":
    main()
