#!/bin/sh
# Train the face autoencoder from random weights, or continue from a checkpoint, and measure it.
#   recipe.sh FACES_DIR OUT [MINUTES] [CHECKPOINT]      FACES_DIR: faces128.tar (or faces*.tar.gz) and faces128.csv
set -eu
here=$(cd "$(dirname "$0")" && pwd)
faces=$1 out=$2 minutes=${3:-60} init=${4:-}
mkdir -p "$out"
for tar in "$faces"/faces*.tar "$faces"/faces*.tar.gz; do
    [ -e "$tar" ] || continue
    name=$(basename "$tar" | cut -d. -f1)
    [ -e "$out/data/$name.json" ] || python3 "$here/data.py" decode "$tar" "$out/data" "$name"
done
python3 "$here/kernels.py"
python3 "$here/train.py" --data "$out/data" --table "$faces/faces128.csv" --out "$out" --minutes "$minutes" ${init:+--init "$init"}
python3 "$here/eval.py" --net "$out" --data "$out/data" --table "$faces/faces128.csv" --out "$out"
python3 "$here/latent.py" --codes "$out/codes.safetensors" --out "$out/latent.safetensors"
python3 "$here/export.py" join "$out" "$out/face-ae-ema.safetensors"
python3 "$here/ship.py" "$out/face-ae-ema.safetensors" "$out/latent.safetensors" "$out/zenith-face.safetensors"
python3 "$here/moves.py" --net "$out/zenith-face.safetensors" --data "$out/data" --table "$faces/faces128.csv" --out "$out/edits"
python3 "$here/measure.py" --net "$out/zenith-face.safetensors" --data "$out/data" --table "$faces/faces128.csv" --moves "$out/edits" --out "$out/edits"
python3 "$here/attributes.py" "$out/edits/moves.safetensors" "$out/edits/measure.json" "$out/zenith-face.attributes.safetensors"
