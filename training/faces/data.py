"""Faces in device memory, their attributes, and augmentation.

    python data.py decode FACES.tar[.gz] DIR NAME      # DIR/NAME.npy (uint8 [n,3,128,128]) and DIR/NAME.json (file names)

A training takes every NAME.json that it finds in its folder, also one that appears later.
"""
import csv
import io
import json
import os
import sys
import tarfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

# name: (kind, how the csv's columns give its value, where it becomes "yes", deviation of a soft "yes")
# binary: the target is sigmoid((value - threshold) / softness); number: the standardised value.
ATTRIBUTES = {
    "smile": ("binary", lambda r: float(r["smile_logit"]), 0, 4),
    "mouth_open": ("binary", lambda r: float(r["mouth_open"]), 0.18, 0.03),
    "male": ("binary", lambda r: (4 * (r["gender"] == "Male") + float(r["gender_est_male"])) / 5 - 0.5, 0, 0.12),
    "sunglasses": ("binary", lambda r: float(r["sunglasses"]), 0.3, 0.08),
    "age": ("number", lambda r: (float(r["age_est"]) + AGES[r["age_group"]]) / 2, 45, 0),
    "eyes_open": ("number", lambda r: float(r["eyes_open"]), None, 0),
    "yaw": ("number", lambda r: float(r["yaw"]), 0, 0),
    "brightness": ("number", lambda r: float(r["brightness"]), None, 0),
    "contrast": ("number", lambda r: float(r["contrast"]), None, 0),
    "warmth": ("number", lambda r: float(r["warmth"]), None, 0),
    # not sliders: they help the code
    "pitch": ("number", lambda r: float(r["pitch"]), None, 0),
    "mouth_width": ("number", lambda r: float(r["mouth_width"]), None, 0),
    "corner_lift": ("number", lambda r: float(r["corner_lift"]), None, 0),
}
AGES = {"20-29": 25, "30-39": 35, "40-49": 45, "50-59": 55, "60-69": 65, "70+": 75}
NAMES = list(ATTRIBUTES)
SLIDERS = NAMES[:10]
BINARY = sum(a[0] == "binary" for a in ATTRIBUTES.values())        # these come first
PIXEL = [NAMES.index(n) for n in ("brightness", "contrast", "warmth")]
YAW = NAMES.index("yaw")


def picture(blob):
    from PIL import Image
    return np.asarray(Image.open(io.BytesIO(blob)).convert("RGB")).transpose(2, 0, 1)


def decode(tar, folder, name):
    names, blobs = [], []
    with tarfile.open(tar) as t:
        for m in t:
            if m.isfile() and m.name.endswith(".jpg"):
                names.append(os.path.basename(m.name))
                blobs.append(t.extractfile(m).read())
    with ProcessPoolExecutor() as ex:
        pictures = np.stack(list(ex.map(picture, blobs, chunksize=64)))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", pictures)
    (folder / f"{name}.tmp").write_text(json.dumps(names))
    (folder / f"{name}.tmp").rename(folder / f"{name}.json")


def limits(table):
    """Where a judge's readings become "yes", [A]: 0 for logits, the threshold for standardised numbers."""
    rows = [r for r in csv.DictReader(open(table)) if r["split"] == "train"]
    v = torch.tensor([[f(r) for _, f, _, _ in ATTRIBUTES.values()] for r in rows], dtype=torch.float32)
    at = torch.tensor([float(v[:, i].median()) if a[2] is None else a[2] for i, a in enumerate(ATTRIBUTES.values())])
    out = (at - v.mean(0)) / v.std(0)
    out[:BINARY] = 0
    return out


class Faces:
    """Everything on the device: pictures [N,3,128,128] uint8, targets [N,A]; train[:count] are the rows to train on."""

    def __init__(self, folder, table, device, outliers=0.5):
        self.folder, self.device = Path(folder), device
        self.rows = list(csv.DictReader(open(table)))
        self.index = {r["file"]: i for i, r in enumerate(self.rows)}
        self.values = torch.tensor([[f(r) for _, f, _, _ in ATTRIBUTES.values()] for r in self.rows], dtype=torch.float32)
        in_train = torch.tensor([r["split"] == "train" for r in self.rows])
        v = self.values[in_train]
        self.mean, self.std = v.mean(0), v.std(0)
        self.threshold = torch.tensor([float(v[:, i].median()) if a[2] is None else a[2]
                                       for i, a in enumerate(ATTRIBUTES.values())])
        targets = ((self.values - self.mean) / self.std).clamp(-3, 3)
        for i in range(BINARY):
            _, _, at, soft = ATTRIBUTES[NAMES[i]]
            targets[:, i] = torch.sigmoid((self.values[:, i] - at) / soft)
        self.labels = (self.values > self.threshold).to(device)
        self.targets = targets.to(device)
        self.values = self.values.to(device)
        self.good = [r["split"] == "train" and float(r["outlier"]) < outliers for r in self.rows]
        self.pictures = torch.zeros(len(self.rows), 3, 128, 128, dtype=torch.uint8, device=device)
        self.train = torch.zeros(len(self.rows), dtype=torch.long, device=device)
        self.count = torch.zeros((), device=device)
        self.have, self.parts = set(), set()
        self.poll()

    def poll(self):
        """Take in parts that have appeared since; how many faces there are to train on."""
        for j in sorted(self.folder.glob("*.json")):
            if j.name in self.parts:
                continue
            rows = torch.tensor([self.index[n] for n in json.loads(j.read_text())])
            self.pictures[rows.to(self.device)] = torch.from_numpy(np.load(j.with_suffix(".npy"))).to(self.device)
            new = [i for i in rows.tolist() if self.good[i] and i not in self.have]
            n = int(self.count)
            self.train[n:n + len(new)] = torch.tensor(new, dtype=torch.long, device=self.device)
            self.count.fill_(n + len(new))
            self.have |= set(rows.tolist())
            self.parts.add(j.name)
        return int(self.count)

    def of(self, split):
        """Row numbers of the faces of a split that are here."""
        return torch.tensor([i for i, r in enumerate(self.rows) if r["split"] == split and i in self.have],
                            device=self.device)

    def get(self, rows):
        return self.pictures[rows].float() / 127.5 - 1

    def batch(self, n):
        """Augmented pictures in -1..1 and their targets."""
        rows = self.train[(torch.rand(n, device=self.device) * self.count).long()]
        x, y = self.get(rows), self.targets[rows]
        return augment(x, y, self.mean, self.std)


def augment(x, y, mean, std):
    """Flips; half of the pictures turned, scaled and moved a little; half of them with other colours. The targets follow."""
    n, device = len(x), x.device
    u = lambda *s: torch.rand(*s, device=device) * 2 - 1
    flip = torch.rand(n, device=device) < 0.5
    sign = torch.where(flip, -1.0, 1.0)
    move = (torch.rand(n, device=device) < 0.5).float()
    a, s = move * u(n) * 0.09, torch.exp(move * u(n) * 0.06)
    tx, ty = move * u(n) * 0.05, move * u(n) * 0.05
    cos, sin = s * torch.cos(a), s * torch.sin(a)
    theta = torch.stack([torch.stack([cos * sign, -sin, tx], 1), torch.stack([sin * sign, cos, ty], 1)], 1)
    moved = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), "bicubic", "reflection", align_corners=False)
    x = torch.where(move.bool()[:, None, None, None], moved, torch.where(flip[:, None, None, None], x.flip(3), x))
    tint = (torch.rand(n, 1, 1, 1, device=device) < 0.5).float()
    warm = u(n, 1, 1, 1) * 0.08 * (1 - torch.arange(3, device=device)).view(1, 3, 1, 1)
    x = x * torch.exp(tint * u(n, 1, 1, 1) * 0.2) + tint * (u(n, 1, 1, 1) * 0.15 + warm)
    x = x.clamp(-1, 1)
    y = y.clone()
    y[:, YAW] *= sign
    m, d = mean[PIXEL].tolist(), std[PIXEL].tolist()
    y[:, PIXEL[0]:PIXEL[-1] + 1] = torch.stack([((v - a) / b).clamp(-3, 3) for v, a, b in zip(tone(x), m, d)], 1)
    return x, y


def tone(x):
    """Brightness, contrast and warmth of pictures in -1..1, near the definitions of the table: of the middle."""
    c = (x[:, :, 24:104, 24:104] + 1) * 127.5
    luma = 0.299 * c[:, 0] + 0.587 * c[:, 1] + 0.114 * c[:, 2]
    return luma.mean((1, 2)), luma.flatten(1).std(1), (c[:, 0] - c[:, 2]).mean((1, 2))


def attribute_loss(logits, y):
    """The mean over attributes: cross-entropy of the binary ones, half the squared error of the numbers."""
    b = F.binary_cross_entropy_with_logits(logits[:, :BINARY], y[:, :BINARY], reduction="none").mean(0).sum()
    return (b + 0.5 * (logits[:, BINARY:] - y[:, BINARY:]).square().mean(0).sum()) / len(NAMES)


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[1] != "decode":
        raise SystemExit(__doc__)
    decode(*sys.argv[2:])
