#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# recipe.sh NAME KODAK OUT PHOTOS... - one shipped network from random weights, in all the runs that its card tells of.
#
# KODAK: the folder of the 24 test pictures.  PHOTOS: folders of photographs.  The minutes are those of an H200;
# SLOWER=4 takes four times as many.  What OUT has already is continued: a run that is done is not done again.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '3,6s/^# //p' "$0"; exit 2; }
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

mkdir -p "$out"
case $name in
zenith-tae)
  train 5 --phases 192x16:1
  ;;
denoise-fast)
  train 8.5 --lr 2e-3 --muon
  ;;
denoise-balanced)
  train 9.3
  train 14.5 --lr 2e-3 --muon --phases 128x32:0.5,192x16:0.5
  ;;
denoise-best)
  train 15.5 --lr 2e-3 --muon --phases 128x32:0.55,192x16:0.45
  train 22 --lr 2e-3 --muon --phases 128x32:0.55,192x16:0.45
  train 22.8 --lr 1.2e-3 --hold 0.66 --pool 4 --muon --phases 128x32:0.5,192x16:0.5
  train 22.6 --lr 1.2e-3 --hold 0.6 --pool 4 --muon --phases 128x32:0.5,192x16:0.5
  train 19.5 --lr 1.2e-3 --hold 0.55 --pool 4 --muon --phases 128x32:0.4,192x16:0.6
  train 10.6 --lr 8e-4 --hold 0.4 --part 0:0.573 --pool 4 --muon --phases 128x32:0.4,192x16:0.6
  ;;
*)
  echo "there is no recipe for $name" >&2
  exit 2
  ;;
esac
echo "$out/$name.safetensors"
