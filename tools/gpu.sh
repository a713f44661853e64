#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gpu.sh [quick] - everything about the CUDA engine on a machine with a GPU: build, self-test in all precisions, golden
# networks, memory and race checks, and a table of speeds beside PyTorch.  Needs nvcc, meson, and for the table PyTorch.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build-gpu}
quick=${1:-}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0
export ZENITH_MODELS=$root/models
export XDG_CACHE_HOME=$out # tuned anew

step() { # NAME COMMAND...: its last line, and the rest only if it fails
  local name=$1
  shift
  if "$@" >"$out/log" 2>&1; then
    printf '%-28s %s\n' "$name" "$(tail -n 1 "$out/log")"
  else
    printf '%-28s FAILED\n' "$name"
    grep -vE '^ok ' "$out/log" | cut -c1-200 | head -n 40
    bad=1
  fi
}

[ -d "$build" ] || step configure meson setup "$build" "$root" -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled \
  -Dcuda=enabled "-Dgpu_archs=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)"
step build ninja -C "$build"
step engines "$build/engine/zenith" engines
step "self-test" "$build/engine/zenith" selftest --engine cuda
step "golden networks" "$build/tests/test_golden"
step "without a GPU" "$root/tests/cli/test_cuda.sh" "$build/engine/zenith" "$build/tests"
if [ "$quick" != quick ] && command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    step "$tool" compute-sanitizer --tool $tool --error-exitcode 9 --report-api-errors no --kernel-name-exclude kernel_substring=peak \
      "$build/engine/zenith" selftest --engine cuda
  done
fi
if python3 -c 'import torch' 2>/dev/null; then
  python3 "$root/tools/bench_gpu.py" "$build/engine/zenith" ${quick:+--quick}
fi
exit $bad
