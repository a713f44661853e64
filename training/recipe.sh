#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# recipe.sh NAME KODAK OUT PHOTOS... - one shipped network from random weights, in all the runs that its card tells of.
# recipe.sh next KODAK OUT PHOTOS... - the three denoisers once more, from the shipped weights, with pairs of cameras.py; then their estimator.
#
# KODAK: the folder of the 24 test pictures.  PHOTOS: folders of photographs.  The minutes are those of an H200;
# SLOWER=4 takes four times as many.  What OUT has already is continued: a run that is done is not done again.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '3,7s/^# //p' "$0"; exit 2; }
name=$1 kodak=$2 out=$3
shift 3
photos=("$@")
here=$(cd "$(dirname "$0")" && pwd)
run=0
result= # of the run before

train() { # MINUTES OPTION...: the next run
  local minutes init=()
  [ -z "$result" ] || init=(--init "$result")
  minutes=$(awk "BEGIN { print $1 * ${SLOWER:-1} }")
  shift
  run=$((run + 1))
  result=$out/$name.run$run.safetensors
  [ -e "$result" ] && return
  python3 "$here/train.py" "$name" --photos "${photos[@]}" --test "$kodak" --out "$out" --minutes "$minutes" "$@" "${init[@]}"
  cp "$out/$name.safetensors" "$result.part"
  mv "$result.part" "$result"
}

pairs() { # COUNT SEED: the pairs of cameras.py
  pairs=$out/cameras192.$2.safetensors
  [ -e "$pairs" ] || python3 "$here/cameras.py" "$pairs" --photos "${photos[@]}" --count "$1" --seed "$2" --side 192 --jobs "$(nproc)"
}

cameras() { # MINUTES OPTION...: a run with them
  train "$@" --pool 2 --muon --phases 128x32:0.6,192x16:0.4 --cameras "$pairs" --share 0.35
}

shots() { # SECONDS: a run of denoisers.py, with the shipped estimator
  local from=$result
  run=$((run + 1))
  result=$out/$name.run$run.safetensors
  [ -e "$result" ] && return
  python3 "$here/denoisers.py" "$name=$from" --level "$here/../models/denoise-level.safetensors" --photos "${photos[@]}" --test "$kodak" \
    --out "$out" --seconds "$(awk "BEGIN { print $1 * ${SLOWER:-1} }")"
  cp "$out/$name.safetensors" "$result.part"
  mv "$result.part" "$result"
}

level() { # MODELS: the estimator for the denoisers of this folder
  local patches=$out/cameras128.safetensors kept=$out/validation128.safetensors net
  [ -e "$patches" ] || python3 "$here/cameras.py" "$patches" --photos "${photos[@]}" --count 40000 --seed 5 --jobs "$(nproc)"
  [ -e "$kept" ] || python3 "$here/cameras.py" "$kept" --photos "${photos[@]}" --count 400 --seed 77 --validation --jobs "$(nproc)"
  for net in denoise-fast denoise-balanced denoise-best; do
    [ -e "${patches%.*}.$net.tables" ] || python3 "$here/estimate.py" tables "$patches" --models "$1" --network "$net" --count 8000
    [ -e "${kept%.*}.$net.tables" ] || python3 "$here/estimate.py" tables "$kept" --models "$1" --network "$net"
  done
  python3 "$here/estimate.py" train "$patches" --check "$kept" --out "$out" --batch 96 --width 32 56 --told 0.2 --pull 0.3 --seed 2 \
    --minutes "$(awk "BEGIN { print 6 * ${SLOWER:-1} }")"
}

mkdir -p "$out"
case $name in
zenith-tae)
  train 5 --phases 192x16:1
  ;;
denoise-fast)
  train 8.5 --lr 2e-3 --muon
  pairs 10000 1
  cameras 5.5 --lr 1e-3 --hold 0.4 --part 0:0.78
  pairs 10000 11
  cameras 4.2 --lr 1e-3 --hold 0.4 --part 0.6:1 --seed 2
  shots 120
  ;;
denoise-balanced)
  train 9.3
  train 14.5 --lr 2e-3 --muon --phases 128x32:0.5,192x16:0.5
  pairs 10000 1
  cameras 5.5 --lr 1e-3 --hold 0.4 --part 0:0.78
  pairs 10000 11
  cameras 4.2 --lr 1e-3 --hold 0.4 --part 0.6:1 --seed 2
  shots 120
  ;;
denoise-best)
  train 15.5 --lr 2e-3 --muon --phases 128x32:0.55,192x16:0.45
  train 22 --lr 2e-3 --muon --phases 128x32:0.55,192x16:0.45
  train 22.8 --lr 1.2e-3 --hold 0.66 --pool 4 --muon --phases 128x32:0.5,192x16:0.5
  train 22.6 --lr 1.2e-3 --hold 0.6 --pool 4 --muon --phases 128x32:0.5,192x16:0.5
  train 19.5 --lr 1.2e-3 --hold 0.55 --pool 4 --muon --phases 128x32:0.4,192x16:0.6
  train 10.6 --lr 8e-4 --hold 0.4 --part 0:0.573 --pool 4 --muon --phases 128x32:0.4,192x16:0.6
  pairs 10000 11
  cameras 5 --lr 5e-4 --hold 0.2 --seed 2
  ;;
denoise-level)
  level "$here/../models"
  ;;
next)
  pairs 12000 1
  for name in denoise-fast denoise-balanced denoise-best; do
    run=0 result=$here/../models/$name.safetensors
    case $name in # minutes of an H200: about 100,000, 90,000 and 60,000 steps
    denoise-fast) minutes=20 ;;
    denoise-balanced) minutes=28 ;;
    denoise-best) minutes=45 ;;
    esac
    cameras $minutes --lr 1e-3 --hold 0.4
  done
  level "$out"
  name=denoise-level
  ;;
*)
  echo "there is no recipe for $name" >&2
  exit 2
  ;;
esac
echo "$out/$name.safetensors"
