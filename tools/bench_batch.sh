#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench_batch.sh - 24 pictures of 2 megapixels: a loop over `gegl` and one zenith-batch, with denoise-fast, in one run.
#
#   ./run bench batch [PICTURES [END...]]
#
# Prints wall and CPU seconds of each, and the largest memory of zenith-batch.  Wants the environment of ./run.
set -eu
export LC_ALL=C.UTF-8 # numbers have a point
n=${1:-24}
ends=("${@:2}")
[ ${#ends[@]} -gt 0 ] || ends=(jpg png)
batch=$ZENITH_BUILD/batch/zenith-batch
samples=$(cd "$(dirname "$0")/../docs/samples" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
names=("$samples"/*.png)
TIMEFORMAT='%R %U %S'

# figures LABEL COMMAND...: a line; $wall is left.
figures() {
  local label=$1 t
  shift
  { t=$({ time "$@" >/dev/null 2>"$tmp/stderr"; } 2>&1); } || { cat "$tmp/stderr"; exit 1; }
  wall=$(echo "$t" | tail -n 1 | cut -d' ' -f1)
  echo "$t" | tail -n 1 | awk -v l="$label" -v n="$n" '{ printf "  %-44s %7.2f s wall, %7.2f s CPU, %5.2f s a picture\n", l, $1, $2 + $3, $1 / n }'
}
loop() {
  local f
  mkdir loop
  for f in in/*; do gegl "$f" -o "loop/${f#in/}" -- zenith:denoise model=fast; done
}
by_batch() { "$batch" --operation zenith:denoise --model fast in batch; }

for end in "${ends[@]}"; do
  rm -rf in loop batch
  mkdir in
  for ((i = 0; i < n; i++)); do
    convert "${names[i % ${#names[@]}]}" -resize '1632x1224!' -seed "$i" -attenuate 0.4 +noise Gaussian -quality 93 -depth 8 "in/$i.$end"
  done
  echo "$n pictures of 1632x1224, $end"
  figures "a loop over gegl" loop
  first=$wall
  figures "zenith-batch" by_batch
  awk -v a="$first" -v b="$wall" 'BEGIN { printf "  zenith-batch is %.2f times as fast as the loop\n", a / b }'
done
"$batch" --operation zenith:denoise --model fast in again >/dev/null 2>&1 &
pid=$! most=0
while now=$(sed -nE 's/^VmHWM:[[:space:]]*([0-9]+) kB/\1/p' "/proc/$pid/status" 2>/dev/null) && [ -n "$now" ]; do
  most=$now
  sleep 0.05
done
wait $pid
echo "  largest memory of zenith-batch: $((most / 1024)) MiB"
