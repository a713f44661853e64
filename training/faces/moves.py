"""Edits that are learned through the U-Net: for each attribute and sign, how a code moves.

    python moves.py --net zenith-face.safetensors --data DIR --table faces128.csv --out DIR [--seconds 400] [--old ATTRIBUTES.safetensors]

A move of a normalised code z is  shift + outer tanh(inner z + bias), [512] + [512,H] tanh([H,512] z + [H]).  It starts as the linear direction of the
attribute.  Faces are edited by a sampler of four steps along the encoding path, and blended as the engine does it; a critic (a network on pixels) says
whether the attribute is on the other side and whether the others stayed. The change is kept small, grey where it is wide, and inside of the face (masks.py).
measure.py judges the result with a network that was trained on other faces. DIR/moves.safetensors is what attributes.py reads.
"""
import argparse
import json
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import data
import diffusion
import eval as measures
import judge as judges
import masks
import nets

SLIDERS = ["smile", "mouth_open", "eyes_open", "age", "male"]
COMBOS = [(n, s) for n in SLIDERS for s in (1, -1)]
HIDDEN, GUIDE, SHIFT, COARSE = 32, 2.0, 0.42, 4
FREE = {"smile": ["mouth_width", "corner_lift"], "mouth_open": ["mouth_width"]}         # may follow
WHOLE = ("age", "male")                                                                # all of the face
VALIDATION = 1400                                                                      # training faces that only choose strengths


def load_net(path, device):
    tensors = load_file(path)
    net = nets.build("face", len(data.NAMES))
    missing = net.load_state_dict({k: v.float() for k, v in tensors.items() if k in net.state_dict()}, strict=False).missing_keys
    assert all(k.startswith("aux.") for k in missing), missing
    net = net.to(device, torch.float16 if device == "cuda" else torch.float32)
    for p in net.parameters():
        if p.dim() == 4 and device == "cuda":
            p.data = p.data.contiguous(memory_format=torch.channels_last)
    return net.eval().requires_grad_(False)


class Critic(nn.Module):
    """Residual, with group norms: unlike the judge."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 48, 5, 2, 2)
        self.down, self.body = nn.ModuleList(), nn.ModuleList()
        p = 48
        for c in (96, 160, 224, 256):
            self.down.append(nn.Conv2d(p, c, 2, 2))
            self.body.append(nn.Sequential(nn.GroupNorm(16, c), nn.Conv2d(c, c, 3, padding=1), nn.GELU(), nn.Conv2d(c, c, 3, padding=1)))
            p = c
        self.last = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(p * 16, len(data.NAMES)))

    def forward(self, x):
        x = self.stem(x)
        for d, b in zip(self.down, self.body):
            x = d(F.gelu(x))
            x = x + b(x)
        return self.last(x)


def spoil(x):
    """A little blur and noise."""
    u = torch.rand(len(x), 1, 1, 1, device=x.device)
    x = torch.where(u < 0.3, masks.blur(x, 0.8), x)
    return x + torch.randn_like(x) * 0.04 * torch.rand(len(x), 1, 1, 1, device=x.device)


def view(faces, rows):
    """The same faces, but training on these rows."""
    other = object.__new__(data.Faces)
    other.__dict__.update(faces.__dict__)
    other.train, other.count = rows, torch.tensor(float(len(rows)), device=rows.device)
    return other


class Reader:
    """A judge's or critic's readings, 0 at the limit, in deviations."""

    def __init__(self, net, faces, rows):
        self.net, d = net, faces.device
        self.limit = torch.zeros(len(data.NAMES), device=d)
        self.limit[data.BINARY:] = ((faces.threshold - faces.mean) / faces.std)[data.BINARY:].to(d)
        self.spread = torch.ones(len(data.NAMES), device=d)
        with torch.no_grad():
            self.spread = torch.cat([self(faces.get(r)) for r in rows.split(256)]).std(0)

    def __call__(self, x):
        return (self.net(x.contiguous(memory_format=torch.channels_last)).float() - self.limit) / self.spread


class Moves(nn.Module):
    def __init__(self, directions):
        super().__init__()
        n, d = directions.shape
        self.shift = nn.Parameter(directions * SHIFT * math.sqrt(d))
        self.inner = nn.Parameter(torch.randn(n, HIDDEN, d, device=directions.device) / math.sqrt(d))
        self.bias = nn.Parameter(torch.zeros(n, HIDDEN, device=directions.device))
        self.outer = nn.Parameter(torch.zeros(n, d, HIDDEN, device=directions.device))

    def forward(self, z, which):
        h = torch.tanh(torch.einsum("nhd,nd->nh", self.inner[which], z) + self.bias[which])
        return self.shift[which] + torch.einsum("ndh,nh->nd", self.outer[which], h)


def feather(device):
    t = (torch.arange(128, device=device) + 0.5) / 128
    d = (torch.minimum(t, 1 - t) / 0.12).clamp(0, 1)
    d = d * d * (3 - 2 * d)
    return d[:, None] * d


class Blend:
    """What the engine makes of a change: the mask of both codes, without the cast, fading at the frame."""

    def __init__(self, weight, bias, regions):
        self.weight, self.bias, self.regions = weight, bias, regions       # regions [COMBOS,SIDE*SIDE], 0..1, or None
        self.edge = feather(weight.device)

    def face(self, z0, z1):
        f = lambda z: F.linear(z, self.weight, self.bias)
        return masks.at_size(masks.closed(torch.maximum(f(z0), f(z1))))

    def mask(self, face, which):
        if self.regions is None:
            return face
        r = F.interpolate(self.regions[which].view(-1, 1, masks.SIDE, masks.SIDE), (128, 128), mode="bilinear", align_corners=False)[:, 0]
        return face * r

    def __call__(self, x, y, z0, z1, which, tones=False):
        """tones: a cast is what is wanted."""
        d, face = y - x, self.face(z0.detach(), z1.detach())
        if not tones:
            d = d - cast(d.detach(), face)
            grey = (d * torch.tensor([0.299, 0.587, 0.114], device=d.device).view(1, 3, 1, 1)).sum(1, keepdim=True)
            d = grey + colourful(x, face) * (d - grey)
        return x + (self.edge * self.mask(face, which))[:, None] * d, d, face


def cast(d, face):
    """The median of each channel's change in the face."""
    inside = torch.where(face[:, None] > 0.5, d, torch.full_like(d, float("nan")))
    return torch.nan_to_num(inside.flatten(2).nanmedian(2).values)[:, :, None, None]


def colourful(x, face):
    """0 of grey pictures, 1 of those whose faces have usual colours: the mean of the largest minus the smallest channel, by 0.06."""
    inside = (face > 0.5).float()
    range_ = (x.amax(1) - x.amin(1)) / 2
    return ((range_ * inside).sum((1, 2)) / inside.sum((1, 2)).clamp(min=1) / 0.06).clamp(max=1)[:, None, None, None]


def others_of(name):
    w = torch.tensor([0.0 if n == name or n in FREE.get(name, []) else 1.0 for n in data.NAMES])
    w[data.PIXEL[0]:data.PIXEL[-1] + 1] *= 0.5
    if name == "smile":
        w[data.NAMES.index("mouth_open")] = 0.1
    return w


def train(net, faces, rows, codes, moves, critic, blend, seconds, note, batch=64, lr=0.006, done0=0.0, done1=1.0):
    """rows: the faces; codes: normalised, of all faces, with .mean and .std; done0, done1: the part of the schedule."""
    device = faces.device
    ts = diffusion.bent(COARSE)
    weight = torch.stack([others_of(n) for n, _ in COMBOS]).to(device)
    column = torch.tensor([data.NAMES.index(n) for n, _ in COMBOS], device=device)
    sign = torch.tensor([float(s) for _, s in COMBOS], device=device)
    opposite = [rows[faces.labels[rows, data.NAMES.index(n)] == (s < 0)] for n, s in COMBOS]
    smile_down, mouth = COMBOS.index(("smile", -1)), data.NAMES.index("mouth_open")
    laughing = rows[faces.labels[rows, data.NAMES.index("smile")] & faces.labels[rows, mouth]]
    opt = torch.optim.Adam([{"params": [moves.shift], "rate": lr}, {"params": [moves.inner, moves.bias, moves.outer], "rate": lr * 0.1}], betas=(0.9, 0.99))
    began, step, scale, sums, count = time.time(), 0, 1024.0, torch.zeros(6, device=device), 0
    told = began
    while (part := (time.time() - began) / seconds) < 1:
        done = done0 + (done1 - done0) * part
        for g in opt.param_groups:
            g["lr"] = g["rate"] * min(1, (step + 1) / 20) * (1 - 0.95 * done)
        which = torch.arange(step * batch, (step + 1) * batch, device=device) % len(COMBOS)
        pick = torch.empty(batch, dtype=torch.long, device=device)
        for c in range(len(COMBOS)):
            at = (which == c).nonzero()[:, 0]
            pools = [opposite[c]] * 3 + [laughing if c == smile_down else rows]
            for i in at.tolist():
                pool = pools[int(torch.randint(4, ()))]
                pick[i] = pool[int(torch.randint(len(pool), ()))]
        x, z0 = faces.get(pick), codes.of[pick]
        if step % 2:
            x = x.flip(3)                                           # its code is another one
            with torch.no_grad():
                z0 = (net.encoder(x).float() - codes.mean) / codes.std
        move = moves(z0, which)
        raw = lambda z: z * codes.std + codes.mean
        up = diffusion.way_up(net, x, raw(z0), ts)
        y = diffusion.edit(net, up, raw(z0), raw(z0 + move), ts, GUIDE)
        blended, d, face = blend(x, y, z0, z0 + move, which)
        with torch.no_grad():
            was = critic(x)
        now = critic(blended.clamp(-1, 1))
        s, i = sign, torch.arange(batch, device=device)
        a0, a1 = was[i, column[which]] * s[which], now[i, column[which]] * s[which]
        goal = torch.maximum(torch.full_like(a0, 0.9), a0 + 0.5).clamp(max=1.8)
        miss = F.relu(goal - a1).clamp(max=4).square()
        close = F.relu(now[:, mouth] + 0.5).square() * (which == smile_down)
        other = F.smooth_l1_loss(now, was, reduction="none", beta=0.5).mul(weight[which]).sum(1) / weight[which].sum(1)
        small = ((blended - x).abs().mean((1, 2, 3)) * 6 + ((1 - face)[:, None] * d).abs().mean((1, 2, 3)) * 4)
        luma = (d * torch.tensor([0.299, 0.587, 0.114], device=device).view(1, 3, 1, 1)).sum(1, keepdim=True)
        tint = masks.blur((d - luma) * face[:, None], 4).square().mean((1, 2, 3)) * 150
        length = move.square().mean(1) * 0.3
        parts = torch.stack([miss, close, 1.5 * other, small, tint, length])
        loss = parts.sum() * scale
        opt.zero_grad()
        loss.backward()
        grads = [p.grad for p in moves.parameters()]
        if all(bool(torch.isfinite(g).all()) for g in grads):
            for g in grads:
                g /= scale * batch / len(COMBOS)
            nn.utils.clip_grad_norm_(moves.parameters(), 5.0)
            opt.step()
        else:
            scale /= 2
        sums += parts.detach().mean(1)
        count, step = count + 1, step + 1
        if time.time() - told > 15 or device == "cpu":
            told = time.time()
            hit = [round(float(((a1 > 0) & (a0 < 0))[which == c].float().sum() / ((a0 < 0)[which == c].float().sum() + 1e-6)), 2) for c in range(len(COMBOS))]
            note(f"moves {step}", {"miss close other small tint length": [round(v, 3) for v in (sums / count).tolist()], "hits": hit, "scale": scale})
            sums.zero_()
            count = 0
    return step


class Codes:
    """Normalised codes of all faces, by row."""

    def __init__(self, net, faces, statistics=None):
        rows = torch.tensor(sorted(faces.have), device=faces.device)
        with torch.no_grad():
            z = torch.cat([net.encoder(faces.get(r)).float() for r in rows.split(256)])
        if statistics is None:
            own = z[torch.isin(rows, faces.of("train"))]
            statistics = own.mean(0), own.std(0)
        self.mean, self.std = statistics
        self.of = torch.zeros(len(faces.rows), z.shape[1], device=faces.device)
        self.of[rows] = (z - self.mean) / self.std


@torch.no_grad()
def regions(net, faces, rows, codes, moves, blend, ts, each=48):
    """Where an attribute's edits change a face: [COMBOS,SIDE*SIDE], 0..1, the same for both signs, symmetric."""
    out = []
    for name in SLIDERS:
        if name in WHOLE:
            out += [torch.ones(masks.SIDE ** 2, device=faces.device)] * 2
            continue
        total = torch.zeros(128, 128, device=faces.device)
        for c, (n, s) in enumerate(COMBOS):
            if n != name:
                continue
            pool = rows[faces.labels[rows, data.NAMES.index(n)] == (s < 0)][:each]
            x, z0 = faces.get(pool), codes.of[pool]
            which = torch.full((len(pool),), c, device=faces.device)
            z1 = z0 + moves(z0, which)
            raw = lambda z: z * codes.std + codes.mean
            y = diffusion.edit(net, diffusion.way_up(net, x, raw(z0), ts), raw(z0), raw(z1), ts, GUIDE)
            _, d, face = blend(x, y, z0, z1, which)
            total += (d.abs().mean(1) * face).sum(0) / (face.sum(0) + 1)
        total = masks.blur((total + total.flip(1))[None, None], 4)[0, 0]
        t = ((total / total[16:112, 16:112].max() - 0.12) / 0.28).clamp(0, 1)
        r = F.avg_pool2d((t * t * (3 - 2 * t))[None, None], 128 // masks.SIDE).flatten()
        out += [r, r]
    return torch.stack(out)


def directions_of(codes, faces, rows):
    z = codes.of[rows]
    return torch.stack([F.normalize(measures.fit(z, faces, rows, n)[0], dim=0) * s for n, s in COMBOS])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", required=True)
    p.add_argument("--data", required=True)
    p.add_argument("--table", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--seconds", type=float, default=400)
    p.add_argument("--critic-seconds", type=float, default=45)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--start", help="moves.safetensors of an earlier call")
    a = p.parse_args()
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    began, log = time.time(), {}

    def note(key, value):
        log[key] = value
        print(f"{time.time() - began:6.1f} s {key} {json.dumps(value)}", flush=True)
        (out / "moves.json").write_text(json.dumps(log))

    net = load_net(a.net, device)
    faces = data.Faces(a.data, a.table, device)
    train_rows = faces.train[:int(faces.count)]
    order = torch.randperm(len(train_rows), generator=torch.Generator().manual_seed(7)).to(device)
    train_rows = train_rows[order]
    val, rows = train_rows[:min(VALIDATION, len(train_rows) // 8)], train_rows[min(VALIDATION, len(train_rows) // 8):]
    note("faces", [len(rows), len(val)])
    for name, kind, part, how in (("judge", judges.Judge, rows[1::2], {}), ("critic", Critic, rows[::2], dict(kind=Critic, spoil=spoil, lr=1e-3))):
        f, seconds = view(faces, part), a.critic_seconds
        if (out / f"{name}.safetensors").exists():
            trained = kind()
            trained.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in load_file(out / f"{name}.safetensors").items()})
            trained = trained.to(device, memory_format=torch.channels_last).eval().requires_grad_(False)
        else:
            trained, steps = judges.train(f, seconds, batch=256 if device == "cuda" else 8, **how)
            judges.save(trained, out / f"{name}.safetensors")
            note(f"{name} steps", steps)
        seen = torch.cat([trained(faces.get(r).contiguous(memory_format=torch.channels_last)).float() for r in val.split(256)])
        note(name, {n: [round(v, 3) for v in measures.quality(seen[:, i], faces, val, n).values()] for i, n in enumerate(data.NAMES)})
    critic = Reader(trained, faces, val)
    codes = Codes(net, faces)
    weight, bias, loss = masks.learn(faces, rows, codes.of[rows], steps=400 if device == "cuda" else 20)
    note("mask loss", loss)
    moves = Moves(directions_of(codes, faces, rows))
    if a.start:
        before = load_file(a.start)
        for n, v in moves.named_parameters():
            v.data = before[n].to(device)
    blend = Blend(weight, bias, None)

    def save():
        save_file({"shift": moves.shift.data.cpu(), "inner": moves.inner.data.cpu(), "bias": moves.bias.data.cpu(), "outer": moves.outer.data.cpu(),
                   "mask.weight": weight.cpu().contiguous(), "mask.bias": bias.cpu(), "mean": codes.mean.cpu(), "std": codes.std.cpu(),
                   "validation": val.cpu(), **({"regions": blend.regions.cpu()} if blend.regions is not None else {})}, out / "moves.tmp")
        (out / "moves.tmp").rename(out / "moves.safetensors")

    ts = diffusion.bent(COARSE)
    first = 0.15 if a.start else 0.45
    note("steps", train(net, faces, rows, codes, moves, critic, blend, a.seconds * first, note, a.batch, done1=first))
    blend.regions = regions(net, faces, rows, codes, moves, blend, ts, 48 if device == "cuda" else 2)
    save()
    (out / "first").touch()
    note("steps", train(net, faces, rows, codes, moves, critic, blend, a.seconds * (1 - first), note, a.batch, done0=first))
    save()
    (out / "done").touch()


if __name__ == "__main__":
    main()
