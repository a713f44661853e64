#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds, tests the kernels of half precision on this CPU and measures the models that use them, in less than four minutes:
# half_bench.sh [THREADS]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
threads=${1:-$(nproc)}
build=$root/build-half
export ZENITH_MODELS=$root/models
[ -f "$build/build.ninja" ] || meson setup "$build" "$root" -Dcuda=disabled > "$build.log"
ninja -C "$build" engine/zenith tests/test_check > "$build.log"
zenith=$build/engine/zenith
"$zenith" engines
engine=avx512
[ "$(uname -m)" = aarch64 ] && engine=neon
for group in conv gated "tf32 conv" "tf32 gated" "bf16 conv"; do
  "$zenith" selftest --engine $engine --only "$group" | grep -v '^ok' || true
done
tae=$root/models/zenith-tae.safetensors
for n in 1 "$threads"; do
  for precision in auto fp32 tf32 bf16 fp16; do
    for what in "taesd-encode 512x512" "taesd-decode 512x512" "denoise-fast 1024x1024" "denoise-balanced 1024x1024" \
      "diffae-unet 128x128"; do
      read -r model size <<< "$what"
      weights=()
      [ "${model%-*}" = taesd ] && weights=(--weights "$tae")
      ZENITH_PRECISION=${precision#auto} timeout 60 "$zenith" bench "$model" "${weights[@]}" --engine $engine --threads "$n" \
        --size "$size" --json || echo "no $precision: $model"
    done
  done
done
