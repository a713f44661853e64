"""Is a face the same person? dlib's face recognition network is the judge: it was trained independently of this project, and is not shipped.

    pip install dlib-bin face_recognition_models numpy            # in an environment of its own; only for measuring

Two faces are one person for the judge if their descriptors are closer than LIMIT.
"""
from pathlib import Path

import numpy as np

LIMIT = 0.6


class Judge:
    def __init__(self, folder=None):
        """folder: of its two networks; None: those of the package face_recognition_models."""
        import dlib
        if not folder:
            import face_recognition_models
            folder = Path(face_recognition_models.__file__).parent / "models"
        self.dlib = dlib
        self.finder = dlib.get_frontal_face_detector()
        self.points = dlib.shape_predictor(str(Path(folder) / "shape_predictor_5_face_landmarks.dat"))
        self.net = dlib.face_recognition_model_v1(str(Path(folder) / "dlib_face_recognition_resnet_model_v1.dat"))

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
