#!/bin/bash
# Train the small autoencoders side by side on one GPU: latents.sh KODAK TEACHER OUT PHOTOS...
# OUT gets zenith, zenith-lite (one latent space), zenith-f2 (TEACHER has taef2_encoder.pth and taef2_decoder.pth), the three networks
# of the comparison, and log.txt; files appear after a minute and are renewed. MINUTES (9.3) is the time of all of it.
# ONLY="gated-family zenith-f2" trains these alone (gated-family, zenith and zenith-lite of gated blocks, is trained only so);
# INIT=FOLDER goes on from its files (SCHEDULE=0.5:1: the second half).
set -u
here=$(cd "$(dirname "$0")" && pwd)
kodak=$1 teacher=$2 out=$3
shift 3
work=$(mktemp -d)
minutes=${MINUTES:-9.3}
export OMP_NUM_THREADS=2 PYTHONUNBUFFERED=1

# Kernels of several processes run at the same time only under MPS; without it they take turns.
export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps-log
mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
if nvidia-cuda-mps-control -d 2>/dev/null && timeout 40 python3 -c "import torch; print(torch.ones(9, device='cuda').sum().item())"; then
  echo "MPS is on"
else
  echo quit | timeout 10 nvidia-cuda-mps-control 2>/dev/null
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  echo "no MPS"
fi

collect() {
  for f in "$work"/*.safetensors; do
    [ -e "$f" ] && cp "$f" "$out/.part" && mv "$out/.part" "$out/${f##*/}"
  done
  tail -n 500 "$work"/*.err >"$out/log.txt" 2>/dev/null
}

train() { # NAME OPTIONS
  local name=$1 init=()
  shift
  [ -z "${ONLY:-}" ] || [[ " $ONLY " == *" $name "* ]] || return 0
  if [ -n "${INIT:-}" ]; then
    case $name in
    *-family) init=(--init "$INIT") ;;
    *) init=(--init "$INIT/$name.safetensors") ;;
    esac
  fi
  TORCHINDUCTOR_CACHE_DIR=$work/cache-$name python3 "$here/train.py" "$name" --photos "${photos[@]}" --test "$kodak" --out "$work" \
    --teacher "$teacher" --minutes "$minutes" --wall --muon --hold 0.3 --part "${SCHEDULE:-0:1}" "${init[@]}" "$@" >"$work/$name.err" 2>&1 &
  pids+=($!)
}

photos=("$@") pids=()
train zenith-family --lr 1.5e-3 --phases 128x64:0.7,256x16:0.3 --every 60
# taef2's norms see the whole picture: large crops
train zenith-f2 --lr 2e-3 --phases 192x24:0.3,320x8:0.35,512x3:0.35 --every 60
case " ${ONLY:-} " in *" gated-family "*) train gated-family --lr 1.5e-3 --phases 128x64:0.7,256x16:0.3 --every 60 ;; esac
for name in latent-gated latent-mix latent-plain; do
  train $name --lr 1.5e-3 --phases 128x32:1 --steps 12000 --every 60 --minutes "$(awk "BEGIN { print $minutes - 0.1 }")"
done
while running=$(jobs -rp) && [ -n "$running" ]; do
  sleep 10
  collect
done
wait
collect
[ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && echo quit | nvidia-cuda-mps-control
tail -n 3 "$work"/*.err
rm -rf "$work"
