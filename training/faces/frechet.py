"""The Frechet distance between new faces and held-out ones, in the space of dlib's face recognition network (128 numbers a face).

    pip install dlib-bin face_recognition_models numpy pillow     # in an environment of its own; only for measuring
    for i in $(seq 0 49); do zenith face samples/$i.npy mode=sample n=100 seed=$((i*100)); done
    python frechet.py FACES.tar FACES.csv samples/*.npy

It is the formula of FID, |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)), but not FID: that has the features of an Inception network, whose
weights no package on PyPI carries. This network sees who a person is, and little of skin and background. Beside it stand the
distances between the halves of the training faces, which is what two sets of real faces of that size have, and from the held-out
faces to the training faces. Features are kept in features.npz.
"""
import csv
import io
import sys
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

from identity import Judge


def distance(a, b):
    ca, cb = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    w, v = np.linalg.eigh(ca)
    half = (v * np.sqrt(np.clip(w, 0, None))) @ v.T
    root = np.sqrt(np.clip(np.linalg.eigvalsh(half @ cb @ half), 0, None)).sum()
    return float(((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(ca) + np.trace(cb) - 2 * root)


def describe(judge, faces):
    """Features of pictures in -1..1; where the detector sees no face, of the usual place."""
    out, seen = [], 0
    for x in faces:
        box, found = judge.box(x)
        seen += found
        out.append(judge.describe(x, box))
    return np.array(out), seen


def real(tar, table, split, most):
    names = [r["file"] for r in csv.DictReader(open(table)) if r["split"] == split][:most]
    with tarfile.open(tar) as t:
        for n in names:
            yield np.asarray(Image.open(io.BytesIO(t.extractfile(n).read())).convert("RGB"), np.float32) / 127.5 - 1


def made(files):
    for f in files:
        x = np.load(f)
        yield from (2 * p - 1 for p in x.reshape(-1, x.shape[1], x.shape[1], 3))


def main(tar, table, *files):
    judge, store = Judge(), Path("features.npz")
    kept = dict(np.load(store)) if store.exists() else {}
    for split, most in (("test", None), ("train", 2000)):
        if split not in kept:
            kept[split], seen = describe(judge, real(tar, table, split, most))
            print(f"{split}: {len(kept[split])} faces, seen by dlib's detector in {seen}", flush=True)
            np.savez(store, **kept)
    test, train = kept["test"], kept["train"]
    half = len(train) // 2
    print(f"halves of the training faces ({half} each): {distance(train[:half], train[half:]):.4f}")
    print(f"held-out ({len(test)}) to training faces ({len(train)}): {distance(test, train):.4f}")
    if files:
        new, seen = describe(judge, made(files))
        print(f"new ({len(new)}, seen in {seen}) to held-out faces: {distance(new, test):.4f}; to training faces: {distance(new, train):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
