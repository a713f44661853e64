"""Where the faces of the held-out pictures are, by dlib's 68 landmarks: what measure.py --inside reads. Only for measuring; dlib's file is not shipped.

    pip install dlib-bin face_recognition_models pillow numpy            # in an environment of its own
    python inside.py FACES128.tar FACES128.csv OUT.npy

A face is the polygon of jaw and eyebrows, these moved up by 0.18 of the height from brows to chin, widened by 5 pixels. OUT.npy: bits, [faces][128 * 128 / 8];
OUT.json: names.
"""
import csv
import io
import json
import sys
import tarfile
from pathlib import Path

import dlib
import face_recognition_models
import numpy as np
from PIL import Image, ImageDraw, ImageFilter


def main(tar, table, out):
    points = dlib.shape_predictor(face_recognition_models.pose_predictor_model_location())
    finder = dlib.get_frontal_face_detector()
    held = {r["file"] for r in csv.DictReader(open(table)) if r["split"] == "test"}
    names, masks = [], []
    with tarfile.open(tar) as t:
        for m in t:
            name = Path(m.name).name
            if name not in held:
                continue
            x = np.asarray(Image.open(io.BytesIO(t.extractfile(m).read())).convert("RGB"))
            w = np.ascontiguousarray(np.pad(x, ((64, 64), (64, 64), (0, 0)), mode="edge"))
            found = finder(w, 1)
            box = max(found, key=lambda r: r.area()) if found else dlib.rectangle(9 + 64, 14 + 64, 119 + 64, 124 + 64)
            p = np.array([(q.x - 64 + 0.5, q.y - 64 + 0.5) for q in points(w, box).parts()])
            jaw, brow = p[:17], p[17:27]
            up = 0.18 * (p[8, 1] - brow[:, 1].mean())
            outline = [*jaw, *(brow[::-1] - (0, up))]
            im = Image.new("L", (512, 512))
            ImageDraw.Draw(im).polygon([(4 * a, 4 * b) for a, b in outline], fill=255)
            im = im.resize((128, 128), Image.BOX).point(lambda v: 255 if v > 127 else 0).filter(ImageFilter.MaxFilter(11))
            names.append(name)
            masks.append(np.asarray(im) > 0)
    np.save(out, np.packbits(np.stack(masks).reshape(len(masks), -1), axis=1))
    Path(out).with_suffix(".json").write_text(json.dumps(names))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
