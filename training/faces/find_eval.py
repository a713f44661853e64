"""Measure the face finder: held-out faces in held-out photographs, and false alarms.

    python find_eval.py ZENITH FACES_DIR PHOTOS_DIR OUT.json [--weights FILE] [--pictures 200] [--alarms 100] [--tune]

ZENITH: the built program, so what is measured is what ships. FACES_DIR, PHOTOS_DIR: as for find.py. In each picture one to three of the 673 test faces lie
in a photograph that the training has not seen: frames of 48 to 500 pixels (evenly by their logarithm), turned by up to 30 degrees, with soft borders. A
face is found if a frame's eyes and mouth are off by at most 5 % of the distance of the eyes, in the mean of the three. Weights whose threshold is
low (find.py --export --threshold 0.05) show what each threshold costs; --tune does so with faces of the training in photographs that neither the training nor the test sees.
"""
import argparse
import json
import math
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import find

POINTS = np.array([[40, 39], [88, 39], [64, 88]]) / 128 - 0.5
EYES = 48 / 128                      # their distance, of a frame


def marks(f):
    c, s = math.cos(f["angle"]), math.sin(f["angle"])
    return np.array([f["x"], f["y"]]) + f["size"] * POINTS @ np.array([[c, s], [-s, c]])


def paste(canvas, face, f, rng):
    """The face into the canvas [h,w,3] in 0..255, inside a soft superellipse; enlarged by bicubic interpolation."""
    h, w = canvas.shape[:2]
    c, s = math.cos(f["angle"]), math.sin(f["angle"])
    k = 128 / f["size"]
    source = Image.fromarray(face)
    if k > 1:                        # the resampling below does not average
        side = max(16, round(f["size"]))
        source, k = source.resize((side, side), Image.LANCZOS), side / f["size"]
    side = source.width
    affine = (k * c, k * s, side / 2 - k * (c * f["x"] + s * f["y"]), -k * s, k * c, side / 2 - k * (-s * f["x"] + c * f["y"]))
    drawn = np.asarray(source.transform((w, h), Image.AFFINE, affine, Image.BICUBIC), dtype=np.float32)
    y, x = np.mgrid[:h, :w] + 0.5
    u, v = (c * (x - f["x"]) + s * (y - f["y"])) / f["size"] * 2, (-s * (x - f["x"]) + c * (y - f["y"])) / f["size"] * 2
    p, a, b = rng.uniform(2, 5), rng.uniform(0.8, 0.97), rng.uniform(0.85, 0.97)
    r = (np.abs(u / a) ** p + np.abs(v / b) ** p) ** (1 / p)
    m = np.clip((1 - r) / rng.uniform(0.1, 0.35), 0, 1)
    m = (m * m * (3 - 2 * m))[..., None]
    return canvas + m * (drawn - canvas)


def frames(program, picture, folder, weights):
    np.save(folder / "x.npy", np.ascontiguousarray(picture / 255, dtype="<f4"))
    r = subprocess.run([program, "find", str(folder / "x.npy")] + weights, capture_output=True, text=True)
    if r.returncode and "no face was found" not in r.stderr:
        raise SystemExit(r.stderr)
    out = []
    for line in r.stdout.splitlines():
        f = {k: float(v) for k, v in (t.split("=") for t in line.split())}
        f["angle"] = math.radians(f["angle"])
        out.append(f)
    return out


def main():
    a = argparse.ArgumentParser()
    a.add_argument("zenith")
    a.add_argument("faces")
    a.add_argument("photos")
    a.add_argument("out")
    a.add_argument("--weights")
    a.add_argument("--pictures", type=int, default=200)
    a.add_argument("--tune", action="store_true", help="to choose the threshold: faces of the training, photographs set aside for this")
    a.add_argument("--alarms", type=int, default=100, help="held-out photographs to count false alarms in")
    a = a.parse_args()
    weights = ["--weights", a.weights] if a.weights else []
    pictures = find.faces_of(a.faces, "train" if a.tune else "test")
    held = find.photographs(a.photos)[1 if a.tune else 2]
    rng = np.random.default_rng(11)
    order = rng.permutation(len(pictures))
    rows, extra, next_face = [], 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        alarms = {}
        for f in held[:a.alarms]:
            for g in frames(a.zenith, np.asarray(Image.open(f).convert("RGB")), Path(tmp), weights):
                alarms.setdefault(f.name, []).append(round(g["score"], 3))
        for k in range(a.pictures):
            photo = np.asarray(Image.open(held[k % len(held)]).convert("RGB"), dtype=np.float32)
            h, w = photo.shape[:2]
            truth = []
            for _ in range(rng.integers(1, 4)):
                size = math.exp(rng.uniform(math.log(48), math.log(min(500, 0.95 * h, 0.95 * w))))
                f = {"x": rng.uniform(0.5 * size, w - 0.5 * size), "y": rng.uniform(0.5 * size, h - 0.5 * size), "size": size,
                     "angle": math.radians(rng.uniform(-30, 30))}
                if all(math.hypot(f["x"] - g["x"], f["y"] - g["y"]) > 0.75 * (f["size"] + g["size"]) for g in truth):
                    photo = paste(photo, pictures[order[next_face % len(order)]].transpose(1, 2, 0), f, rng)
                    truth.append(f)
                    next_face += 1
            found = frames(a.zenith, np.clip(photo, 0, 255).round(), Path(tmp), weights)
            for f in truth:
                off = [(np.linalg.norm(marks(f) - marks(g), axis=1).mean() / (EYES * f["size"]), g["score"]) for g in found]
                best = min(off, default=(9.0, 0.0))
                rows.append({"size": f["size"], "angle": math.degrees(f["angle"]), "off": best[0], "score": best[1]})
            extra += sum(all(np.linalg.norm(marks(f) - marks(g), axis=1).mean() > 0.3 * EYES * f["size"] for f in truth) for g in found)
    off, size = np.array([r["off"] for r in rows]), np.array([r["size"] for r in rows])
    share = lambda sel, at: round(float((off[sel] <= at).mean()), 4) if sel.any() else None
    bins = [(48, 64), (64, 96), (96, 192), (192, 501)]
    summary = {"faces": len(rows), "within 5 %": share(off > -1, 0.05), "within 10 %": share(off > -1, 0.10), "within 30 %": share(off > -1, 0.30),
               "median of the found": round(float(np.median(off[off < 0.3])), 4) if (off < 0.3).any() else None,
               "within 5 % by size": {f"{p}-{q}": [share((size >= p) & (size < q), 0.05), int(((size >= p) & (size < q)).sum())] for p, q in bins},
               "frames beside the faces": extra, "photographs without people": len(held[:a.alarms]),
               "photographs with a false alarm": len(alarms), "false alarms": sum(map(len, alarms.values()))}
    score = np.array([r["score"] for r in rows])
    summary["thresholds: within 5 %, photographs with a false alarm"] = {
        f"{t:.2f}": [round(float(((off <= 0.05) & (score >= t)).mean()), 4), sum(bool(max(v) >= t) for v in alarms.values())] for t in np.arange(0.1, 1, 0.1)}
    Path(a.out).write_text(json.dumps({"summary": summary, "alarms": alarms, "faces": rows}))
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
