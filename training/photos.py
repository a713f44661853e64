"""Make the photographs of photos.tsv from their originals: free ones from public repositories and Debian packages.

    python photos.py --clones DIR --packages DIR --out DIR
    python photos.py --list validation.tsv --clones DIR --out ../../shared/data/testsets/validation

--clones: git clones, bare or not (git clone https://github.com/OWNER/NAME DIR/OWNER/NAME);
--packages: the packages unpacked (dpkg-deb -x FILE.deb DIR/PACKAGE).  photos.tsv says for each file where it comes from, its
licence, and the size it is scaled down to, at most half of the original's.  What cannot be had is named at the end.
validation.tsv lists photographs to measure on: facades, lines, print, fabric, foliage, a face, animals.  They are left out of the others.
"""
import argparse
import csv
import io
import re
import subprocess
from pathlib import Path

from PIL import Image, ImageOps


VALIDATION = Path(__file__).with_name("validation.tsv")


def rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f, delimiter="\t"))


def original(origin, clones, packages):
    """The original's bytes, or None."""
    git = re.fullmatch(r"github\.com/([^/]+)/([^:]+): .* \(blob ([0-9a-f]+)\)", origin)
    if git and clones:
        done = subprocess.run(["git", "-C", clones / git[1] / git[2], "cat-file", "blob", git[3]], capture_output=True)
        return done.stdout if done.returncode == 0 else None
    package = re.fullmatch(r"Debian ([^:]+): (\S+).*", origin)
    if package and packages:
        path = packages / package[1] / package[2].lstrip("/")
        return path.read_bytes() if path.is_file() else None
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--list", type=Path, default=VALIDATION.with_name("photos.tsv"))
    p.add_argument("--clones", type=Path)
    p.add_argument("--packages", type=Path)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    made, missing = 0, []
    kept = {row["origin"] for row in rows(VALIDATION)} if a.list.name != VALIDATION.name else ()
    for row in rows(a.list):
        if row["origin"] not in kept:
            blob = original(row["origin"], a.clones, a.packages)
            if not blob:
                missing.append(row["origin"])
                continue
            size = tuple(map(int, row["pixels"].split("x")))
            image = ImageOps.exif_transpose(Image.open(io.BytesIO(blob))).convert("RGB")
            image.resize(size, Image.LANCZOS).save(a.out / row["file"], quality=95, subsampling=0)
            made += 1
    print(f"{made} photographs in {a.out}")
    for origin in missing:
        print("not found:", origin)
    return bool(missing)


if __name__ == "__main__":
    raise SystemExit(main())
