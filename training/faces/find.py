"""Train the face finder: a detector at 1/8 of the resolution, and a network that corrects three points on an aligned crop.

    python find.py FACES_DIR PHOTOS_DIR OUT [--minutes 8] [--batch 256] [--threads N] [--export FILE] [--threshold T]

FACES_DIR holds parts of the faces (NAME.npy and NAME.json, data.py decode) and faces128.csv; PHOTOS_DIR holds the free photographs. Faces are pasted
into photographs while training, with soft random borders, so nothing can be learned from the edge of a crop. OUT/find.pt is the checkpoint: the same
command goes on from there. OUT/zenith-find.safetensors is the weight file (float16, batch norms folded); --export writes it without training.
"""
import argparse
import csv
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# Photographs with people or statues in them: neither for training nor for counting false alarms.
PEOPLE = ["budgie-" + n for n in ("010", "013", "044", "050", "052", "055", "062", "090", "103", "114", "124", "137", "138", "145", "152")] + ["debian-335"]
# Photographs for find_eval.py, by the number that their names end with: 100 without people, evenly spread.
HELD_OUT = """
003 007 012 017 021 025 029 033 037 040 045 049 056 060 065 069 073 077 081 084 088 093 097 101 106 110 115 119 123 127
131 135 141 146 150 155 326 330 334 338 342 346 350 354 358 362 366 370 374 377 381 385 389 393 397 401 405 159 163 166
170 174 178 182 186 190 194 198 202 205 209 213 217 221 225 229 233 237 241 244 248 252 256 260 264 268 272 276 280 283
287 291 295 299 303 307 311 315 319 322
""".split()

POINTS = torch.tensor([[40., 39.], [88., 39.], [64., 88.]])      # in a frame of 128: eyes, mouth
SIDE, TILE, PASTES = 192, 256, 2     # of a canvas; of the pieces of photographs; of things pasted into a canvas
SMALL, LARGE = 40, 96                # frames that must be found at one level of the pyramid
CROP, ROOM = 64, 1.35                # side of the second network's crop; the part of it beyond the frame
REACH = 32                           # pixels: the detector's unit of length; the second network's is CROP / 4


def photographs(folder):
    """(for training, for choosing the threshold, held out) of the photographs that are there."""
    files = [f for f in sorted(Path(folder).glob("*.jpg")) if f.stem not in PEOPLE]
    held = set(HELD_OUT)
    rest = [f for f in files if f.stem[-3:] not in held]
    return [f for i, f in enumerate(rest) if i % 6], rest[::6], [f for f in files if f.stem[-3:] in held]


def faces_of(folder, split, outliers=1.0):
    """The aligned faces [n,3,128,128] of all parts NAME.npy, NAME.json in the folder (data.py decode) that belong to a split."""
    folder = Path(folder)
    table = {r["file"]: r for r in csv.DictReader(open(folder / "faces128.csv"))}
    found = []
    for part in sorted(folder.glob("*.json")):
        rows = [table[n] for n in json.loads(part.read_text())]
        found.append(np.load(part.with_suffix(".npy"), mmap_mode="r")[[r["split"] == split and float(r["outlier"]) < outliers for r in rows]])
    return np.concatenate(found)


# ---- networks --------------------------------------------------------------------------------------------

def conv(cin, cout, stride=1, k=3, pad=1):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, pad, bias=False), nn.BatchNorm2d(cout))


class Detector(nn.Module):
    """[n,3,H,W] in -1..1 to [n,7,H/8,W/8]: score, then three points from the middle of the cell, in units of REACH pixels."""

    def __init__(self, widths=(16, 24, 48), blocks=3):
        super().__init__()
        w = (3,) + tuple(widths)
        self.convs = nn.ModuleList([conv(a, b, 2) for a, b in zip(w, w[1:])] + [conv(w[-1], w[-1]) for _ in range(2 * blocks)])
        self.head = nn.Conv2d(w[-1], 7, 1)
        self.downs = len(widths)
        nn.init.constant_(self.head.bias, 0)
        self.head.bias.data[0] = -4

    def forward(self, x):
        for c in self.convs[:self.downs]:
            x = F.relu(c(x))
        for a, b in zip(self.convs[self.downs::2], self.convs[self.downs + 1::2]):
            x = F.relu(x + b(F.relu(a(x))))
        with torch.autocast(x.device.type, enabled=False):
            return self.head(x.float())


class Corrector(nn.Module):
    """[n,3,64,64], a crop around a supposed frame, to [n,7]: is it a face; by how much the three points are off, in CROP / 4 pixels."""

    def __init__(self, widths=(24, 48, 48, 80, 80, 48, 64)):
        super().__init__()
        w = (3,) + tuple(widths)
        strides = (2, 2, 1, 2, 1, 2)
        self.convs = nn.ModuleList([conv(a, b, s) for a, b, s in zip(w, w[1:], strides)] + [conv(w[-2], w[-1], 1, 4, 0)])
        self.head = nn.Conv2d(w[-1], 7, 1)

    def forward(self, x):
        for c in self.convs:
            x = F.relu(c(x))
        with torch.autocast(x.device.type, enabled=False):
            return self.head(x.float()).flatten(1)


def folded(net, prefix):
    """Convolutions with their batch norms folded in, by the names of the weight file."""
    out = {}
    for i, c in enumerate(net.convs):
        g = c[1].weight / torch.sqrt(c[1].running_var + c[1].eps)
        out[f"{prefix}.conv{i}.weight"] = c[0].weight * g[:, None, None, None]
        out[f"{prefix}.conv{i}.bias"] = c[1].bias - c[1].running_mean * g
    out[f"{prefix}.head.weight"], out[f"{prefix}.head.bias"] = net.head.weight, net.head.bias
    return out


def export(path, detector, corrector, **about):
    from safetensors.torch import save_file
    tensors = {**folded(detector, "detect"), **folded(corrector, "points")}
    tensors = {k: v.detach().half().cpu().contiguous() for k, v in tensors.items()}
    save_file(tensors, path, {"model": "zenith-find", "project": "Zenith", "input": "sRGB in -1..1",
                              "trained_on": "faces of FairFace (Kimmo Karkkainen and Jungseock Joo, arXiv:1908.04913), CC BY 4.0, pasted into free photographs",
                              **{k: str(v) for k, v in about.items()}})


# ---- frames: [n,4] = centre x, centre y, side, angle ------------------------------------------------------------

def points_of(f):
    p = (POINTS.to(f.device) - 64) / 128
    c, s = torch.cos(f[:, 3])[:, None], torch.sin(f[:, 3])[:, None]
    x, y = p[:, 0][None], p[:, 1][None]
    return torch.stack([f[:, :1] + f[:, 2:3] * (c * x - s * y), f[:, 1:2] + f[:, 2:3] * (s * x + c * y)], 2)


def frame_of(points):
    """The similarity that takes POINTS to [n,3,2] with the least squared error."""
    a = (POINTS.to(points.device) - 64) / 128
    m, mean = a.mean(0), points.mean(1)
    a, b = a - m, points - mean[:, None]
    n = (a * a).sum()
    re = (a[None, :, 0] * b[:, :, 0] + a[None, :, 1] * b[:, :, 1]).sum(1) / n
    im = (a[None, :, 0] * b[:, :, 1] - a[None, :, 1] * b[:, :, 0]).sum(1) / n
    return torch.stack([mean[:, 0] - (re * m[0] - im * m[1]), mean[:, 1] - (im * m[0] + re * m[1]),
                        torch.hypot(re, im), torch.atan2(im, re)], 1)


def crop(canvas, which, f):
    """[m,3,CROP,CROP]: the neighbourhoods of frames f in the pictures number `which`."""
    at = (torch.arange(CROP, device=f.device) + 0.5) / CROP - 0.5
    v, u = torch.meshgrid(at, at, indexing="ij")
    c, s, side = torch.cos(f[:, 3])[:, None, None], torch.sin(f[:, 3])[:, None, None], (ROOM * f[:, 2])[:, None, None]
    x, y = f[:, 0, None, None] + side * (c * u - s * v), f[:, 1, None, None] + side * (s * u + c * v)
    h, w = canvas.shape[2:]
    return F.grid_sample(canvas[which], torch.stack([2 * x / w - 1, 2 * y / h - 1], 3), "bilinear", "border", align_corners=False)


# ---- pictures made while training -----------------------------------------------------------------------------

class Maker:
    def __init__(self, faces_dir, photos_dir, device):
        from PIL import Image
        self.device = device
        self.faces = torch.from_numpy(faces_of(faces_dir, "train", 0.5)).to(device)
        rng, tiles = np.random.default_rng(0), []
        photos = [Image.open(f).convert("RGB") for f in photographs(photos_dir)[0]]
        for p in photos:                                 # the finer levels of a pyramid: all of the photograph
            for level in (1, 2):
                q = np.asarray(p.reduce(level))
                q = np.pad(q, [(0, max(0, TILE - q.shape[0])), (0, max(0, TILE - q.shape[1])), (0, 0)], "symmetric")
                h, w = q.shape[:2]
                for y in np.linspace(0, h - TILE, -(-h // TILE)).astype(int):
                    for x in np.linspace(0, w - TILE, -(-w // TILE)).astype(int):
                        tiles.append(q[y:y + TILE, x:x + TILE].transpose(2, 0, 1))
        for level in (4, 8, 16, 32):                     # the coarser ones: whole photographs side by side, with mid-grey between them
            small = [np.asarray(p.reduce(level)) for p in photos]
            for _ in range(2 * len(photos)):
                tile, y = np.full((TILE, TILE, 3), 128, np.uint8), -rng.integers(128 // level + 1)
                while y < TILE:
                    x, tall = -rng.integers(256 // level + 1), 0
                    while x < TILE:
                        q = small[rng.integers(len(small))]
                        y0, x0 = max(0, -y), max(0, -x)
                        there = tile[y + y0:y + q.shape[0], x + x0:x + q.shape[1]]
                        there[:] = q[y0:y0 + there.shape[0], x0:x0 + there.shape[1]]
                        x, tall = x + q.shape[1] + rng.integers(24), max(tall, q.shape[0])
                    y += tall + rng.integers(24)
                tiles.append(tile.transpose(2, 0, 1))
        self.tiles = torch.from_numpy(np.stack(tiles)).to(device)
        self.hard = torch.ones(len(tiles), device=device)      # how much of a face the networks see in each: these are drawn more often
        self.drawn = None

    def u(self, n, a, b):
        return torch.rand(n, device=self.device) * (b - a) + a

    def tint(self, x, strength):
        n = len(x)
        g = lambda s: (torch.randn(n, 1, 1, 1, device=self.device) * s * strength)
        x = x * torch.exp(g(0.25)) + g(0.12) + torch.randn(n, 3, 1, 1, device=self.device) * 0.05 * strength
        grey = (torch.rand(n, 1, 1, 1, device=self.device) < 0.12).float()
        return x + grey * (x.mean(1, keepdim=True) - x)

    def take(self, bank, n):
        return bank[torch.randint(len(bank), (n,), device=self.device)].float() / 127.5 - 1

    def similarity(self, n, side, of):
        """A grid that cuts [side,side] out of pictures of side `of`, turned and scaled at random."""
        a, s = self.u(n, -0.4, 0.4), self.u(n, 0.55, 1.0) * side / of
        flip = torch.where(self.u(n, 0, 1) < 0.5, -1.0, 1.0)
        room = (1 - s * (torch.cos(a).abs() + torch.sin(a).abs())).clamp(min=0)
        c, sn = s * torch.cos(a), s * torch.sin(a)
        theta = torch.stack([torch.stack([c * flip, -sn, room * self.u(n, -1, 1)], 1),
                             torch.stack([sn * flip, c, room * self.u(n, -1, 1)], 1)], 1)
        return F.affine_grid(theta, (n, 3, side, side), align_corners=False)

    def backgrounds(self, n):
        self.drawn = torch.multinomial(self.hard + 0.1 * self.hard.mean() + 1e-4, n, replacement=True)
        return self.tiles[self.drawn].float() / 127.5 - 1

    def learn(self, mistake):
        """What the networks saw in the backgrounds of the last batch: [n], 0 (nothing) to 1 (a face)."""
        self.hard[self.drawn] += 0.3 * (mistake - self.hard[self.drawn])

    def batch(self, n):
        """Canvases [n,3,SIDE,SIDE]; frames [n,PASTES,4]; which pastes are faces, and which are there at all [n,PASTES]."""
        dev = self.device
        canvas = F.grid_sample(self.backgrounds(n), self.similarity(n, SIDE, TILE), "bilinear", "reflection", align_corners=False)
        canvas = self.tint(canvas, 0.7)
        at = torch.arange(SIDE, device=dev) + 0.5
        yy, xx = torch.meshgrid(at, at, indexing="ij")
        frames, is_face, there = [], [], []
        for k in range(PASTES):
            side = torch.exp(self.u(n, math.log(0.85 * SMALL), math.log(1.12 * LARGE)))
            f = torch.stack([self.u(n, 0, 1) * (SIDE - 0.7 * side) + 0.35 * side, self.u(n, 0, 1) * (SIDE - 0.7 * side) + 0.35 * side,
                             side, self.u(n, -0.62, 0.62)], 1)
            kind = torch.rand(n, device=dev)             # face; piece of a photograph; face far turned; part of a face
            face, piece, turned, part = kind < 0.66, (kind >= 0.66) & (kind < 0.82), (kind >= 0.82) & (kind < 0.91), kind >= 0.91
            alive = torch.ones(n, dtype=torch.bool, device=dev)
            for g, t in zip(frames, there):
                alive &= ~t | (torch.hypot(f[:, 0] - g[:, 0], f[:, 1] - g[:, 1]) > 0.62 * (f[:, 2] + g[:, 2]))
            src = self.take(self.faces, n)
            cut = F.grid_sample(self.take(self.tiles, n), self.similarity(n, 128, TILE), "bilinear", "reflection", align_corners=False)
            src = torch.where(piece[:, None, None, None], cut, src)
            soft = F.interpolate(F.avg_pool2d(src, 2), scale_factor=2, mode="bilinear", align_corners=False)
            src = torch.where(((side < 70) | (torch.rand(n, device=dev) < 0.15))[:, None, None, None], soft, src)
            src = self.tint(src, 1.0)
            dx, dy = (xx - f[:, 0, None, None]) / side[:, None, None], (yy - f[:, 1, None, None]) / side[:, None, None]
            c, s = torch.cos(f[:, 3])[:, None, None], torch.sin(f[:, 3])[:, None, None]
            u, v = 2 * (c * dx + s * dy), 2 * (c * dy - s * dx)                    # -1..1 in the frame
            # where the colours come from
            extra = torch.where(turned, self.u(n, 1.6, 4.68), torch.zeros_like(side))[:, None, None]
            zoom = torch.where(part, self.u(n, 0.2, 0.42), torch.ones_like(side))[:, None, None]
            ox = torch.where(part, self.u(n, -0.6, 0.6), torch.zeros_like(side))[:, None, None]
            oy = torch.where(part, self.u(n, -0.6, 0.6), torch.zeros_like(side))[:, None, None]
            flip = torch.where(self.u(n, 0, 1) < 0.5, -1.0, 1.0)[:, None, None]
            ce, se = torch.cos(extra), torch.sin(extra)
            gu, gv = flip * zoom * (ce * u - se * v) + ox, zoom * (se * u + ce * v) + oy
            drawn = F.grid_sample(src, torch.stack([gu, gv], 3), "bilinear", "reflection", align_corners=False)
            # a soft border: a superellipse whose shape, size, place and softness vary, uneven along its length
            wide = torch.where(self.u(n, 0, 1) < 0.3, 1.3, 1.0)
            p, a, b = self.u(n, 2, 6)[:, None, None], (wide * self.u(n, 0.72, 1.15))[:, None, None], (wide * self.u(n, 0.78, 1.15))[:, None, None]
            wobble = F.interpolate(torch.randn(n, 1, 5, 5, device=dev), size=(SIDE, SIDE), mode="bicubic", align_corners=False)[:, 0]
            r = (((u / a).abs() + 1e-4) ** p + (((v - self.u(n, -0.05, 0.1)[:, None, None]) / b).abs() + 1e-4) ** p) ** (1 / p)
            r = r + wobble * self.u(n, 0, 0.1)[:, None, None]
            m = ((1 - r) / self.u(n, 0.06, 0.45)[:, None, None] + self.u(n, 0, 0.3)[:, None, None]).clamp(0, 1)
            m = (m * m * (3 - 2 * m) * alive[:, None, None])[:, None]
            canvas = canvas + m * (drawn - canvas)
            frames.append(f)
            there.append(alive)
            is_face.append(face & alive)
        noise = torch.randn(canvas.shape, device=dev) * (self.u(n, 0, 1) ** 2 * 0.1)[:, None, None, None]
        blurred = F.avg_pool2d(canvas, 3, 1, 1, count_include_pad=False)
        blur = (self.u(n, -0.6, 0.7).clamp(0, 1))[:, None, None, None]
        canvas = self.tint(canvas + blur * (blurred - canvas) + noise, 0.6).clamp(-1, 1)
        return canvas, torch.stack(frames, 1), torch.stack(is_face, 1), torch.stack(there, 1)


# ---- loss --------------------------------------------------------------------------------------------------------

def losses(detector, corrector, made):
    canvas, frames, is_face, there = made
    n, dev = len(canvas), canvas.device
    half = torch.autocast(dev.type, torch.bfloat16, enabled=dev.type == "cuda")
    with half:
        out = detector(canvas.contiguous(memory_format=torch.channels_last)).float()
    at = (torch.arange(SIDE // 8, device=dev) + 0.5) * 8
    cy, cx = torch.meshgrid(at, at, indexing="ij")
    score = out[:, 0]
    yes, care = torch.zeros_like(score, dtype=torch.bool), torch.ones_like(score, dtype=torch.bool)
    points_loss, count = 0, 0
    for k in range(PASTES):
        f, face = frames[:, k], is_face[:, k]
        d = torch.hypot(cx - f[:, 0, None, None], cy - f[:, 1, None, None])
        core = (d < (0.13 * f[:, 2]).clamp(min=5.7)[:, None, None]) & face[:, None, None]
        size_ok = ((f[:, 2] > SMALL) & (f[:, 2] < LARGE))[:, None, None]
        yes |= core & size_ok
        care &= ~((d < (0.4 * f[:, 2])[:, None, None]) & face[:, None, None]) | (core & size_ok)
        want = (points_of(f)[:, :, :, None, None] - torch.stack([cx, cy])[None, None]) / REACH         # [n,3,2,h,w]
        gap = (out[:, 1:].view(n, 3, 2, *cx.shape) - want).abs().mean((1, 2)) * REACH / f[:, 2, None, None]
        points_loss, count = points_loss + (gap * core).sum(), count + core.sum()
    p = torch.sigmoid(score)
    weight = torch.where(yes, (1 - p) ** 2, p ** 2 * 0.5).detach()
    bce = F.binary_cross_entropy_with_logits(score, yes.float(), reduction="none")
    score_loss = (weight * bce * care).sum() / yes.sum().clamp(min=1)
    points_loss = points_loss / count.clamp(min=1)

    # the second network: every paste from a wrong frame, and the detector's worst mistake in each canvas
    with torch.no_grad():
        f = frames.reshape(-1, 4)
        m = len(f)
        rough = torch.where(torch.rand(m, device=dev) < 0.5, 0.35, 1.0)
        g = lambda s: torch.randn(m, device=dev) * s * rough
        start = torch.stack([f[:, 0] + g(0.06) * f[:, 2], f[:, 1] + g(0.06) * f[:, 2], f[:, 2] * torch.exp(g(0.1)), f[:, 3] + g(0.13)], 1)
        which = torch.arange(n, device=dev).repeat_interleave(PASTES)
        near = torch.zeros_like(care)
        for k in range(PASTES):
            d = torch.hypot(cx - frames[:, k, 0, None, None], cy - frames[:, k, 1, None, None])
            near |= (d < (0.5 * frames[:, k, 2])[:, None, None]) & is_face[:, k, None, None]
        worst = (score - 1e4 * near).flatten(1).argmax(1)
        rows = torch.arange(n, device=dev)
        at = torch.stack([cx.flatten()[worst], cy.flatten()[worst]], 1)
        pts = out[:, 1:].flatten(2)[rows, :, worst].view(n, 3, 2) * REACH + at[:, None]
        wrong = frame_of(pts)
        wrong = torch.stack([wrong[:, 0], wrong[:, 1], wrong[:, 2].clamp(30, 140), wrong[:, 3]], 1)
        label = torch.cat([is_face.flatten().float(), torch.zeros(n, device=dev)])
        use = torch.cat([there.flatten().float(), torch.ones(n, device=dev)])
        start, which = torch.cat([start, wrong]), torch.cat([which, rows])
        x = crop(canvas, which, start)
        # where the points really are, seen from the supposed frame
        q = points_of(f) - start[:m, None, :2]
        c, s = torch.cos(start[:m, 3])[:, None], torch.sin(start[:m, 3])[:, None]
        q = torch.stack([c * q[..., 0] + s * q[..., 1], c * q[..., 1] - s * q[..., 0]], 2) / start[:m, 2, None, None]
        off = (q - (POINTS.to(dev) - 64) / 128) / ROOM * 4
    with half:
        y = corrector(x.contiguous(memory_format=torch.channels_last)).float()
    bce = F.binary_cross_entropy_with_logits(y[:, 0], label, reduction="none")
    face_loss = (bce * use).sum() / use.sum()
    gap = (y[:m, 1:].view(m, 3, 2) - off).abs().mean((1, 2))
    off_loss = (gap * is_face.flatten()).sum() / is_face.sum().clamp(min=1)
    mistake = torch.sigmoid(score.flatten(1)[rows, worst].detach()) * torch.sigmoid(y[m:, 0].detach())
    return (score_loss, points_loss, face_loss, off_loss), mistake.sqrt()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("faces")
    a.add_argument("photos")
    a.add_argument("out")
    a.add_argument("--minutes", type=float, default=8)
    a.add_argument("--batch", type=int, default=256)
    a.add_argument("--lr", type=float, default=2e-3)
    a.add_argument("--threads", type=int, default=0)
    a.add_argument("--export", help="write this weight file and do nothing else")
    a.add_argument("--threshold", type=float, default=0.5, help="of the weight file: the score of a face; find_eval.py shows what each costs")
    a = a.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(time.time_ns() & 0xffffffff)
    detector, corrector = Detector().to(device), Corrector().to(device)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    detector, corrector = (net.to(memory_format=torch.channels_last) for net in (detector, corrector))
    params = list(detector.parameters()) + list(corrector.parameters())
    opt = torch.optim.AdamW(params, a.lr, weight_decay=0.01, fused=device == "cuda")
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    file, step, spent = out / "find.pt", 0, 0.0
    if file.exists():
        c = torch.load(file, map_location=device)
        detector.load_state_dict(c["detector"])
        corrector.load_state_dict(c["corrector"])
        if not a.export:
            opt.load_state_dict(c["opt"])
        step, spent = c["step"], c["spent"]
    if a.export:
        export(a.export, detector, corrector, steps=step, threshold=a.threshold)
        return

    def save():
        torch.save({"detector": detector.state_dict(), "corrector": corrector.state_dict(), "opt": opt.state_dict(), "step": step, "spent": spent},
                   out / "find.tmp")
        (out / "find.tmp").rename(file)
        export(out / "zenith-find.safetensors", detector, corrector, steps=step, threshold=a.threshold)

    maker = Maker(a.faces, a.photos, device)
    print(f"{len(maker.faces)} faces, {len(maker.tiles)} pieces of photographs, {sum(p.numel() for p in params)} weights, from step {step}", flush=True)
    last = saved = time.time()
    total, mean = 60 * a.minutes, None
    while spent < total:
        lr = a.lr * min(1, (step + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * spent / total)) + 1e-6
        for g in opt.param_groups:
            g["lr"] = lr
        with torch.no_grad():
            made = maker.batch(a.batch)
        parts, mistake = losses(detector, corrector, made)
        maker.learn(mistake)
        loss = parts[0] + 4 * parts[1] + parts[2] + 10 * parts[3]
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 5.0)
        opt.step()
        step += 1
        now = time.time()
        spent, last = spent + now - last, now
        with torch.no_grad():
            v = torch.stack([x.detach() for x in parts])
            mean = v if mean is None else mean + (v - mean) * max(0.02, 1 / step)
        if step % 50 == 0 and (step < 1000 or step % 500 == 0):
            print(f"{step} steps, {spent:.0f} s: score {mean[0]:.4f}, points {mean[1]:.4f}, face {mean[2]:.4f}, correction {mean[3]:.4f}, "
                  f"backgrounds {maker.hard.mean():.4f}", flush=True)
        if now - saved > 60:
            save()
            saved = now
    save()


if __name__ == "__main__":
    main()
