"""Put autoencoder, latent network and the codes' statistics into one file, as shipped.

    python ship.py AUTOENCODER LATENT OUT.safetensors

AUTOENCODER: what export.py writes; LATENT: what latent.py writes. The attribute head, which only training needs, is left out.
"""
import sys

from safetensors import safe_open
from safetensors.torch import save_file


def read(path):
    with safe_open(path, "pt") as f:
        return dict(f.metadata() or {}), {k: f.get_tensor(k) for k in f.keys()}


def main(autoencoder, latent, out):
    meta, tensors = read(autoencoder)
    of_latent, more = read(latent)
    tensors = {k: v for k, v in tensors.items() if not k.startswith("aux.")} | more
    meta.pop("attributes", None)
    meta |= {"model": "zenith-face", "license": "CC BY-SA 4.0"}
    meta |= {k: of_latent[k] for k in ("latent_prediction", "latent_schedule") if k in of_latent}
    save_file(tensors, out, meta)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
