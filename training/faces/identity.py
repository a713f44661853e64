"""Does an edited face stay the same person? dlib's face recognition network is the judge: it was trained independently
of this project, and is not shipped.

    pip install dlib-bin face_recognition_models numpy            # in an environment of its own; only for measuring
    python identity.py EDITS_DIR OUT.json

EDITS_DIR: what edits.py made. Two faces are one person for the judge if their descriptors are closer than 0.6. Pairs of different faces show that the judge
can tell people apart in such crops. OUT.json grows face by face; a second call goes on.
"""
import json
import sys
from pathlib import Path

import numpy as np

from edits import pictures_of

LIMIT = 0.6


class Judge:
    def __init__(self):
        import dlib
        import face_recognition_models as files
        self.dlib = dlib
        self.finder = dlib.get_frontal_face_detector()
        self.points = dlib.shape_predictor(files.pose_predictor_five_point_model_location())
        self.net = dlib.face_recognition_model_v1(files.face_recognition_model_location())

    def box(self, x):
        """Where dlib's own detector sees the face of an aligned picture; where it sees none, the usual place. And whether it saw it."""
        found = self.finder(self.widen(x), 1)
        return (max(found, key=lambda r: r.area()), True) if found else (self.dlib.rectangle(9 + 64, 14 + 64, 119 + 64, 124 + 64), False)

    @staticmethod
    def widen(x):
        x = np.clip((x + 1) * 127.5 + 0.5, 0, 255).astype(np.uint8)
        return np.ascontiguousarray(np.pad(x, ((64, 64), (64, 64), (0, 0)), mode="edge"))

    def describe(self, x, box):
        w = self.widen(x)
        return np.array(self.net.compute_face_descriptor(w, self.points(w, box)))


def main(edits, out):
    out = Path(out)
    done = json.loads(out.read_text())["faces"] if out.exists() else {}
    judge = Judge()
    for name, x, made, _ in pictures_of(edits):
        if name in done:
            continue
        box, seen = judge.box(x)
        base = judge.describe(x, box)
        done[name] = {"seen": seen, "descriptor": base.round(6).tolist(),
                      **{n: float(np.linalg.norm(judge.describe(y, box) - base)) for n, y in made.items()}}
    print(report(out, done))


def report(out, done):
    d = np.array([f["descriptor"] for f in done.values()])
    pairs = np.linalg.norm(d[:, None] - d[None], axis=2)[np.triu_indices(len(d), 1)]
    summary = {"n": len(done), "found by dlib": sum(f["seen"] for f in done.values())}
    for n in sorted({k for f in done.values() for k in f} - {"seen", "descriptor"}):
        v = np.array([f[n] for f in done.values() if n in f])
        summary[n] = {"below 0.6": f"{int((v < LIMIT).sum())} of {len(v)}", "median": float(np.median(v)), "largest": float(v.max())}
    if len(pairs):
        summary["different faces"] = {"below 0.6": f"{int((pairs < LIMIT).sum())} of {len(pairs)}", "median": float(np.median(pairs))}
    tmp = out.with_suffix(".tmp")
    tmp.write_text(json.dumps({"summary": summary, "faces": done}))
    tmp.rename(out)
    return json.dumps(summary, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
