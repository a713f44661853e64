"""Pack photographs small, for a GPU machine without a network: AVIF files in tar files of at most --part MB.

    python pack.py --clones DIR --out DIR [--first photos.tsv PHOTOS] [--side 896] [--quality 83]

--clones: git directories DIR/OWNER+NAME/repo or DIR/OWNER/NAME, of the repositories that photos.tsv names.  --first: the list of an
older collection (file, original, licence) and its folder; its originals are found by name in the same repositories, and what is not
found is scaled down from the folder.  Every picture is scaled down, to at most half of its original's size: it is sharp, and its
original's noise and JPEG artefacts are gone.  Colours keep their full size.  Photographs of validation.tsv are left out.
"""
import argparse
import io
import re
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image, ImageOps

import photos

Image.MAX_IMAGE_PIXELS = None
HERE = Path(__file__).parent


def repository(clones, owner, name):
    for path in (clones / f"{owner}+{name}" / "repo", clones / owner / name):
        if path.exists():
            return path
    return None


def git(repo, *args):
    done = subprocess.run(["git", "-C", repo, *args], capture_output=True)
    return done.stdout if done.returncode == 0 else b""


def listed(clones):
    """(name, repository, blob) of photos.tsv."""
    for row in photos.rows(HERE / "photos.tsv"):
        m = re.fullmatch(r"github\.com/([^/]+)/([^:]+): .* \(blob ([0-9a-f]+)\)", row["origin"])
        repo = m and repository(clones, m[1], m[2])
        if repo:
            yield Path(row["file"]).stem, repo, m[3]


def first(clones, table):
    """The same for the older collection; blob is None where the repository that a file stands for has no file of its original's
    name, which of Mint's begins with the folder's."""
    blobs = {}
    for kind, owner, name in (("mint", "392781", "mint-backgrounds"), ("budgie", "UbuntuBudgie", "budgie-wallpapers"),
                              ("mate", "ubuntu-mate", "ubuntu-mate-artwork"), ("budgie-backgrounds", "BuddiesOfBudgie", "budgie-backgrounds")):
        repo = repository(clones, owner, name)
        for line in git(repo, "ls-tree", "-r", "HEAD").decode().splitlines() if repo else ():
            about, path = line.split("\t")
            path = Path(path)
            blobs.setdefault((kind, f"{path.parent.name}_{path.name}" if kind == "mint" else path.name), (repo, about.split()[2]))
    for row in photos.rows(table):
        kind = "budgie-backgrounds" if row["licence"].endswith("package budgie-backgrounds") else row["file"].split("-")[0]
        yield row["file"], *blobs.get((kind, row["original"]), (None, None))


def scaled(data, side):
    image = Image.open(io.BytesIO(data))
    if max(image.size) < 600:
        return None
    image.draft("RGB", tuple(min(2 * side, s) for s in image.size))     # of a JPEG file: cosine coefficients left out
    size = image.size
    image = ImageOps.exif_transpose(image.convert("RGB"))
    ratio = min(side / max(size), 0.5)
    return image.resize(tuple(round(s * ratio) for s in image.size), Image.LANCZOS, reducing_gap=3.0)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clones", type=Path, required=True)
    p.add_argument("--first", nargs=2, type=Path, metavar=("LIST", "PHOTOS"))
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--side", type=int, default=896)
    p.add_argument("--quality", type=int, default=83)
    p.add_argument("--part", type=float, default=41, help="MB")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    todo, seen = [], {re.search(r"blob ([0-9a-f]{12})", row["origin"])[1] for row in photos.rows(photos.VALIDATION)}
    for name, repo, blob in (*listed(a.clones), *(first(a.clones, a.first[0]) if a.first else ())):
        if blob is None or blob[:12] not in seen:
            seen.add(blob and blob[:12])
            todo.append((name, repo, blob))
    todo.sort(key=lambda t: hash_of(t[0]))              # every part has something of everything

    def encoded(job):
        name, repo, blob = job
        try:
            if blob:
                image = scaled(git(repo, "cat-file", "blob", blob), a.side)
            else:
                image = Image.open(a.first[1] / name).convert("RGB")
                image = image.resize(tuple(round(0.7 * s) for s in image.size), Image.LANCZOS)
        except OSError as e:
            print(name, e, file=sys.stderr)
            return None
        if image is None:
            return None
        out = io.BytesIO()
        image.save(out, "AVIF", quality=a.quality, subsampling="4:4:4", speed=8, max_threads=1)
        return Path(name).stem, out.getvalue(), image.size

    parts, tar, used, pixels, count = 0, None, 0, 0, 0
    with ThreadPoolExecutor(3) as pool:
        for done in pool.map(encoded, todo):
            if not done:
                continue
            name, data, size = done
            if tar is None or used + len(data) + 1024 > a.part * 1e6:
                if tar:
                    tar.close()
                (a.out / str(parts)).mkdir(exist_ok=True)
                tar, used, parts = tarfile.open(a.out / str(parts) / "photos.tar", "w"), 0, parts + 1
            entry = tarfile.TarInfo(name + ".avif")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
            used += len(data) + 1024
            pixels += size[0] * size[1]
            count += 1
            if count % 50 == 0:
                print(count, "of", len(todo), f"{pixels / 1e6:.0f} Mpixel", f"part {parts} {used / 1e6:.0f} MB", flush=True)
    tar.close()
    print(f"{count} photographs, {pixels / 1e6:.0f} Mpixel, {parts} parts")


def hash_of(name):
    h = 0
    for c in name:
        h = (h * 131 + ord(c) * 7919) % 1000003
    return h


if __name__ == "__main__":
    main()
