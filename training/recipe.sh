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
here=$(cd "$(dirname "$0")" && pwd)
run=0

train() { # MINUTES OPTION...: the next run, from the weights of the one before it
  local minutes=$1 done="$out/$name.run$((++run))" before="$out/$name.run$((run - 1))"
  shift
  [ -e "$done" ] && return
  minutes=$(awk "BEGIN { print $minutes * ${SLOWER:-1} }")
  [ "$run" = 1 ] || set -- "$@" --init "$before"
  python3 "$here/train.py" "$name" --photos "${photos[@]}" --test "$kodak" --out "$out" --minutes "$minutes" "$@"
  cp "$out/$name.safetensors" "$done.part"
  mv "$done.part" "$done"
}

photos=("$@")
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
  ;;
*)
  echo "there is no recipe for $name" >&2
  exit 2
  ;;
esac
echo "$out/$name.safetensors"
