"""How much of an edit is left on a large face, whose pixels move instead of being drawn.

    python moved.py --zenith ZENITH --data DIR --table faces128.csv --judge FILE [--faces 60] [--scale 4] [--details 0.7,0.4] [--jobs 2]

Held-out faces, enlarged bicubically, are edited with amount 1 as `zenith face` does, reduced again by means, and read by the judge of measure.py, of which each
edit takes the first --faces faces that it sees on the other side. Each line: flips and the mean way of the reading for each of --details, and of the same
faces as they are, not enlarged. ZENITH_MODELS: the weights.
"""
import argparse
import json
import random
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import data
import edits
import judge as judges


def edited(job):
    """The face after an edit, [128, 128, 3] of 0..255."""
    a, folder, k, face, scale, settings = job
    side = len(face) * scale
    src, dst = (str(Path(folder) / f"{k}-{n}.npy") for n in ("in", "out"))
    large = Image.fromarray(face).resize((side, side), Image.BICUBIC)
    np.save(src, np.asarray(large, np.float32) / 255)
    subprocess.run([a.zenith, "face", src, dst, "find=none", *settings], check=True, capture_output=True)
    y = np.load(dst).reshape(len(face), scale, len(face), scale, 3).mean((1, 3))
    for f in (src, dst):
        Path(f).unlink()
    return np.clip(y, 0, 1) * 255


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zenith", required=True)
    p.add_argument("--data", required=True)
    p.add_argument("--table", required=True)
    p.add_argument("--judge", required=True)
    p.add_argument("--faces", type=int, default=60)
    p.add_argument("--scale", type=int, default=4)
    p.add_argument("--details", default="0.7,0.4")
    p.add_argument("--jobs", type=int, default=2)
    a = p.parse_args()
    net, limits = judges.load(a.judge, "cpu"), data.limits(a.table)
    faces = np.load(Path(a.data) / "test.npy").transpose(0, 2, 3, 1)
    faces = faces[random.Random(0).sample(range(len(faces)), len(faces))]
    ways = [(a.scale, f"detail={d}") for d in a.details.split(",")] + [(1, "detail=0.7")]

    def read(x):
        v = torch.from_numpy(np.asarray(x, np.float32) / 127.5 - 1).permute(0, 3, 1, 2)
        return torch.cat([net(b.contiguous(memory_format=torch.channels_last)).float() for b in v.split(100)]) - limits

    seen = read(faces)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(a.jobs) as pool:
        for name in ("smile", "mouth-open", "eyes-open", "age", "gender"):
            column = data.NAMES.index(edits.row_of(name))
            for sign in (1, -1):
                rows = (seen[:, column] * sign < 0).nonzero()[:a.faces, 0].numpy()
                row = {"edit": f"{name}={sign}", "faces": len(rows)}
                for scale, detail in ways:
                    jobs = [(a, folder, k, faces[k], scale, [f"{name}={sign}", detail]) for k in rows.tolist()]
                    now = read(np.stack(list(pool.map(edited, jobs))))
                    way = (now - seen[rows])[:, column] * sign
                    row[f"{128 * scale} {detail}"] = {"flips": round(float((now[:, column] * sign > 0).float().mean()), 3), "way": round(float(way.mean()), 2)}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
