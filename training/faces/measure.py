"""Measure learned edits (moves.py) on held-out faces, as the engine makes and blends them.

    python measure.py --net zenith-face.safetensors --data DIR --table faces128.csv --moves DIR --out DIR [--shipped ATTRIBUTES] [--inside FILE] [--dlib FOLDER] [--old ATTRIBUTES]
    python measure.py --packed OUT/edits.bin --tar FACES128.tar [--dlib FOLDER]

--moves: the folder of moves.safetensors and judge.safetensors; --shipped: an attribute file that is measured as it is, instead of the moves: the folder then
needs judge.safetensors alone, and if it has none, a judge is trained on the training faces that are there, but for some to validate it;
--packed: the identity of edits that another machine made, without dlib; --inside: masks of the held-out faces (inside.npy, inside.json) that were made by
landmarks of another program, for the change outside of a face; --dlib: the folder of its two networks, for identity; --old: linear directions to compare with.
Strengths are chosen on validation faces, which are training faces that moves.py did not use; then each direction edits up to 200 held-out faces that the
judge sees on the other side. Sheets show private people: never publish them.
"""
import argparse
import io
import json
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

import data
import diffusion
import edits
import eval as measures
import identity as identities
import judge as judges
import masks
import moves as learned
import sheet

STEPS, FACES, LIMIT = 10, 200, identities.LIMIT
STRENGTHS = (0.6, 0.75, 0.9, 1.05)
AGES = {"20-29": "20-29", "30-39": "30-39", "40-49": "40-49"}
KEY = {"mouth-open": "mouth_open", "eyes-open": "eyes_open", "gender": "male"}


# ---- identity, in processes of its own

JUDGE = []


def start_dlib(folder):
    JUDGE.append(identities.Judge(folder))


def find(x):
    r = JUDGE[0].box(x)[0]
    return r.left(), r.top(), r.right(), r.bottom()


def describe(job):
    x, box = job
    return JUDGE[0].describe(x, JUDGE[0].dlib.rectangle(*box))


def pictures_of(x):
    return x.clamp(-1, 1).permute(0, 2, 3, 1).cpu().numpy()


def bytes_of(x):
    return (x.clamp(-1, 1) * 127.5 + 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()


class Identity:
    """Distances between faces and their edits; the originals' boxes and descriptors are kept."""

    def __init__(self, folder, processes):
        self.pool = ProcessPoolExecutor(processes, initializer=start_dlib, initargs=(folder,)) if folder else None
        if self.pool:
            self.pool.submit(int).result()              # the processes begin before CUDA does
        self.kept = {}

    def __call__(self, rows, x, y):
        if not self.pool:
            return None
        rows, x = rows.tolist(), pictures_of(x)
        new = [k for k, r in enumerate(rows) if r not in self.kept]
        boxes = list(self.pool.map(find, [x[k] for k in new], chunksize=4))
        for k, b, d in zip(new, boxes, self.pool.map(describe, [(x[k], b) for k, b in zip(new, boxes)], chunksize=4)):
            self.kept[rows[k]] = (b, d)
        d = list(self.pool.map(describe, [(v, self.kept[r][0]) for r, v in zip(rows, pictures_of(y))], chunksize=4))
        return np.array([np.linalg.norm(v - self.kept[r][1]) for r, v in zip(rows, d)])


# ---- edits

# ---- what is measured

def shipped(path):
    """The tensors of moves.safetensors as an attribute file has them; its strengths, which are 1, and guidance."""
    t = {k: v.float() for k, v in load_file(path).items()}
    flat = lambda v: v.flatten(0, 1)
    out = {n: flat(t[f"move.{n}"]) for n in ("shift", "inner", "bias", "outer")}
    out.update({n: t[n] for n in ("mask.weight", "mask.bias", "mean", "std")})
    out["regions"] = t["mask.region"].flatten(1).repeat_interleave(2, 0)
    return out, {c: f"1 {float(t['guide'][c // 2])}" for c in range(len(learned.COMBOS))}


def train_judge(path, faces, seconds):
    """Validation faces, and a judge in this file that was trained on the others."""
    rows = faces.train[:int(faces.count)]
    val = rows[:min(learned.VALIDATION, len(rows) // 10)]
    if not path.exists():
        net, steps = judges.train(learned.view(faces, rows[len(val):]), seconds, batch=256 if faces.device == "cuda" else 8)
        judges.save(net, path)
    net = judges.load(path, faces.device)
    seen = torch.cat([net(faces.get(r).contiguous(memory_format=torch.channels_last)).float() for r in val.split(256)])
    return val, {n: [round(v, 3) for v in measures.quality(seen[:, i], faces, val, n).values()] for i, n in enumerate(data.NAMES)}


class Engine:
    def __init__(self, net, faces, codes, ts):
        self.net, self.faces, self.codes, self.ts = net, faces, codes, ts
        self.ups = {}

    @torch.no_grad()
    def edit(self, rows, shift, guide, batch=100):
        """x, and the pictures with codes z + shift(z), not blended; z0, z1."""
        raw = lambda z: z * self.codes.std + self.codes.mean
        out = []
        for r in rows.split(batch):
            x, z0 = self.faces.get(r), self.codes.of[r]
            z1 = z0 + shift(z0)
            up = diffusion.way_up(self.net, x, raw(z0), self.ts)
            out.append((x, diffusion.edit(self.net, up, raw(z0), raw(z1), self.ts, guide), z0, z1))
        return [torch.cat(v) for v in zip(*out)]


def groups_of(faces, rows):
    """Names of groups, and which of these rows are in them."""
    r = [faces.rows[i] for i in rows.tolist()]
    light = np.array([float(v["brightness"]) for v in faces.rows])
    cuts = np.quantile(light, [1 / 3, 2 / 3])
    out = {"all": np.ones(len(r), bool)}
    for g in ("20-29", "30-39", "40-49", "50 and more"):
        out[g] = np.array([AGES.get(v["age_group"], "50 and more") == g for v in r])
    for g in ("Female", "Male"):
        out[g] = np.array([v["gender"] == g for v in r])
    b = np.digitize([float(v["brightness"]) for v in r], cuts)
    for k, g in enumerate(("dark", "middle", "bright")):
        out[g] = b == k
    return out


def read_packed(path):
    """Names of edits and files, and JPEGs."""
    raw = Path(path).read_bytes()
    end = raw.index(b"\n")
    at = end + 1
    for key, name, size in json.loads(raw[:end]):
        yield key, name, raw[at:at + size]
        at += size


def packed(a):
    """Prints how many of the faces of a packed file are the same person."""
    import tarfile
    edited = list(read_packed(a.packed))
    blobs, names = {}, {name for _, name, _ in edited}
    with tarfile.open(a.tar) as t:
        blobs = {Path(m.name).name: t.extractfile(m).read() for m in t if Path(m.name).name in names}
    open_ = lambda blob: data.picture(blob).transpose(1, 2, 0) / np.float32(127.5) - 1
    kept, out = {}, {}
    with ProcessPoolExecutor(a.processes, initializer=start_dlib, initargs=(a.dlib,)) as pool:
        names = sorted(blobs)
        boxes = list(pool.map(find, [open_(blobs[n]) for n in names], chunksize=4))
        kept = dict(zip(names, zip(boxes, pool.map(describe, [(open_(blobs[n]), b) for n, b in zip(names, boxes)], chunksize=4))))
        for (key, name, _), d in zip(edited, pool.map(describe, [(open_(b), kept[n][0]) for _, n, b in edited], chunksize=4)):
            out.setdefault(key, []).append(float(np.linalg.norm(d - kept[name][1])))
    for key, d in out.items():
        print(f"{key:14s} {len(d)} faces, the same {np.mean(np.array(d) < LIMIT):.3f}, median {np.median(d):.2f}, largest {max(d):.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net")
    p.add_argument("--data")
    p.add_argument("--table")
    p.add_argument("--moves")
    p.add_argument("--out")
    p.add_argument("--shipped")
    p.add_argument("--judge-seconds", type=float, default=45)
    p.add_argument("--packed")
    p.add_argument("--tar")
    p.add_argument("--inside")
    p.add_argument("--dlib")
    p.add_argument("--old")
    p.add_argument("--faces", type=int, default=FACES)
    p.add_argument("--processes", type=int, default=10)
    p.add_argument("--strengths", default=",".join(map(str, STRENGTHS)))
    p.add_argument("--guides", default="2")
    a = p.parse_args()
    if a.packed:
        return packed(a)
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    identity = Identity(a.dlib, a.processes)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    began, R = time.time(), {}

    def note(key, value):
        R[key] = value
        print(f"{time.time() - began:6.1f} s {key} {json.dumps(value)}", flush=True)
        (out / "measure.json").write_text(json.dumps(R, indent=1))

    net = learned.load_net(a.net, device)
    faces = data.Faces(a.data, a.table, device)
    t, strength = shipped(a.shipped) if a.shipped else (load_file(Path(a.moves) / "moves.safetensors"), {})
    t = {k: v.to(device) for k, v in t.items()}
    model = learned.Moves(t["shift"])
    for n in ("shift", "inner", "bias", "outer"):
        getattr(model, n).data = t[n].float()
    codes = learned.Codes(net, faces, (t["mean"], t["std"]))
    blends = {"regions": learned.Blend(t["mask.weight"], t["mask.bias"], t["regions"]), "face": learned.Blend(t["mask.weight"], t["mask.bias"], None)}
    if a.shipped:
        val, quality = train_judge(Path(a.moves) / "judge.safetensors", faces, a.judge_seconds)
        note("judge", quality)
    else:
        val = t["validation"]
    test = faces.of("test")
    test = test[torch.tensor(random.Random(0).sample(range(len(test)), len(test)), device=device)]
    judge = learned.Reader(judges.load(Path(a.moves) / "judge.safetensors", device), faces, val)
    see = torch.no_grad()(lambda x: torch.cat([judge(v) for v in x.split(200)]))
    seen = {"val": see(faces.get(val)), "test": torch.cat([judge(faces.get(r)) for r in test.split(200)])}
    engine = Engine(net, faces, codes, diffusion.bent(STEPS))
    inside = None
    if a.inside:
        bits = np.unpackbits(np.load(a.inside), axis=1).reshape(-1, 128, 128).astype(bool)
        where = {n: k for k, n in enumerate(json.loads(Path(a.inside).with_suffix(".json").read_text()))}
        inside = lambda rows: torch.from_numpy(bits[[where[faces.rows[i]["file"]] for i in rows.tolist()]]).to(device)

    def pool(split, column, sign):
        rows, s = (val, seen["val"]) if split == "val" else (test, seen["test"])
        keep = (s[:, column] * sign < 0).nonzero()[:, 0][:a.faces]
        return rows[keep], s[keep]

    def report(rows, was, x, y, column, sign):
        """Figures of edits y of x, and what happened to each face."""
        now = see(y.clamp(-1, 1))
        hit = (now[:, column] * sign > 0).cpu().numpy()
        d = identity(rows, x, y)
        moved = (now - was).abs()
        others = [j for j in range(len(data.SLIDERS)) if j != column]
        r = {"faces": len(rows), "flips": float(hit.mean()), "others": float(moved[:, others].mean()), "moved": float(((now - was)[:, column] * sign).mean())}
        if d is not None:
            r.update({"same": float((d < LIMIT).mean()), "median": float(np.median(d)), "largest": float(d.max())})
        change = (y.clamp(-1, 1) - x).abs().mean(1) * 127.5
        r["change"] = float(change.mean())
        if inside and rows[0] in test:
            m = inside(rows)
            each = (change * ~m).sum((1, 2)) / (~m).sum((1, 2)).clamp(min=1)
            r["outside"], r["outside most"] = float(each.mean()), float(each.max())
        return r, hit, d, now

    # ---- strengths, on validation faces
    names = {v: k for k, v in KEY.items()}
    lines = []
    for c, (name, sign) in enumerate(learned.COMBOS if not strength else []):
        column = data.NAMES.index(name)
        rows, was = pool("val", column, sign)
        if not len(rows):
            continue
        tried = {}
        for guide in map(float, a.guides.split(",")):
            for k in map(float, a.strengths.split(",")):
                x, y, z0, z1 = engine.edit(rows, lambda z: k * model(z, torch.full((len(z),), c, device=device)), guide)
                which = torch.full((len(rows),), c, device=device)
                y = blends["regions"](x, y, z0, z1, which)[0]
                r = report(rows, was, x, y, column, sign)[0]
                tried[f"{k} {guide}"] = r
                note(f"val {name} {sign:+d} {k} guide {guide}", r)
                if guide == 2 and k in (0.6, 0.9):
                    lines += [x[:14], y[:14]] if k == 0.6 else [y[:14]]
        margin = lambda r: min((r["flips"] - 0.85) / 0.05, (r.get("same", 1) - 0.95) / 0.02, 2.2) - 0.001 * r["change"]
        strength[c] = max(tried, key=lambda k: margin(tried[k]))
        note(f"strength {name} {sign:+d}", strength[c])
        sheet.save(out / "val.jpg", lines)

    # ---- held-out faces
    pictures, lines, fair = {}, [], {}
    for c, (name, sign) in enumerate(learned.COMBOS):
        if c not in strength:
            continue
        column = data.NAMES.index(name)
        rows, was = pool("test", column, sign)
        if not len(rows):
            continue
        k, guide = map(float, strength[c].split())
        which = torch.full((len(rows),), c, device=device)
        x, y, z0, z1 = engine.edit(rows, lambda z: k * model(z, torch.full((len(z),), c, device=device)), guide)
        raw = report(rows, was, x, y, column, sign)[0]
        note(f"test {name} {sign:+d} not blended", raw)
        note(f"test {name} {sign:+d} face alone", report(rows, was, x, blends["face"](x, y, z0, z1, which)[0], column, sign)[0])
        y = blends["regions"](x, y, z0, z1, which)[0]
        r, hit, d, now = report(rows, was, x, y, column, sign)
        note(f"test {name} {sign:+d}", r)
        for g, m in groups_of(faces, rows).items():
            if m.any():
                fair.setdefault(g, {})[f"{name} {sign:+d}"] = [int(m.sum()), round(float(hit[m].mean()), 3),
                                                               round(float((d[m] < LIMIT).mean()), 3) if d is not None else None]
        note("groups", fair)
        lines += [x[:14], y[:14]]
        sheet.save(out / "test.jpg", lines)
        pictures[f"{name}{sign:+d}"] = (rows.cpu().numpy(), bytes_of(y))

    # ---- smile -1 on faces that laugh
    mouth, smile = data.NAMES.index("mouth_open"), data.NAMES.index("smile")
    c = learned.COMBOS.index(("smile", -1))
    k, guide = map(float, strength.get(c, "1 2").split())
    for label, rows in (("test", test), ("val", val)):
        v = faces.values.to(device)
        rows = rows[(v[rows, smile] > 0) & (v[rows, mouth] > 0.25)]
        if not len(rows):
            continue
        x, y, z0, z1 = engine.edit(rows, lambda z: k * model(z, torch.full((len(z),), c, device=device)), guide)
        y = blends["regions"](x, y, z0, z1, torch.full((len(rows),), c, device=device))[0]
        was, now = see(x), see(y.clamp(-1, 1))
        was_open = was[:, mouth] > 0
        note(f"laughing {label}", {"faces": len(rows), "open": int(was_open.sum()), "closed": int((was_open & (now[:, mouth] < 0)).sum()),
                                   "not smiling": int((now[:, smile] < 0).sum())})
        if label == "test":
            sheet.save(out / "laughing.jpg", [x[:14], y[:14], x[14:28], y[14:28]])
            pictures["laughing"] = (rows.cpu().numpy(), bytes_of(y))

    pack(out / "edits.bin", pictures, faces)
    note("strengths", {f"{n} {s:+d}": strength.get(c) for c, (n, s) in enumerate(learned.COMBOS)})

    # ---- as it was: linear directions, not blended
    if a.old:
        table = edits.attributes_of(a.old)[0]
        for n, (direction, shift, guide) in table.items():
            column = data.NAMES.index(edits.row_of(n))
            tones = n in ("brightness", "warmth", "contrast")
            for sign in (1, -1):
                rows, was = pool("test", column, sign)
                if not len(rows):
                    continue
                move = torch.from_numpy(np.array(shift)).to(device) / codes.std * sign
                x, y, z0, z1 = engine.edit(rows, lambda z: move.expand_as(z), guide)
                note(f"old {n} {sign:+d}", report(rows, was, x, y, column, sign)[0])
                y = blends["face"](x, y, z0, z1, torch.zeros(len(rows), dtype=torch.long, device=device), tones)[0]
                note(f"old {n} {sign:+d} blended", report(rows, was, x, y, column, sign)[0])

    # ---- masks to look at, and reconstruction by group
    few = test[:14]
    m = blends["face"].face(codes.of[few], codes.of[few])
    sheet.save(out / "masks.jpg", [faces.get(few), m[:, None].expand(-1, 3, -1, -1) * 2 - 1, faces.get(few) * m[:, None] + m[:, None] - 1,
                                   t["regions"][::2].view(-1, 1, masks.SIDE, masks.SIDE).expand(-1, 3, -1, -1).repeat_interleave(4, 2).repeat_interleave(4, 3) * 2 - 1])
    few, ts = (test if device == "cuda" else test[:4]), diffusion.bent(20)
    how = dict(order=2, ends=False)
    raw = lambda r: codes.of[r] * codes.std + codes.mean
    f = lambda r: diffusion.sample(net, diffusion.reverse(net, faces.get(r), raw(r), ts, **how), raw(r), ts, **how)
    db = torch.cat([-10 * torch.log10(((f(r) - faces.get(r)) / 2).square().flatten(1).mean(1) + 1e-10) for r in few.split(128)]).cpu().numpy()
    note("reconstruction", {g: [int(m.sum()), round(float(db[m].mean()), 2)] for g, m in groups_of(faces, few).items() if m.any()})


def pack(path, pictures, faces):
    """Edited faces as one file: a JSON line with names and lengths, then JPEGs."""
    from PIL import Image
    index, blobs = [], []
    for key, (rows, y) in pictures.items():
        for r, v in zip(rows.tolist(), y):
            f = io.BytesIO()
            Image.fromarray(v).save(f, "JPEG", quality=94, subsampling=0)
            index.append([key, faces.rows[r]["file"], len(f.getvalue())])
            blobs.append(f.getvalue())
    Path(path).write_bytes(json.dumps(index).encode() + b"\n" + b"".join(blobs))


if __name__ == "__main__":
    main()
