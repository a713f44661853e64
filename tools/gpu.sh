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

# sanitize TOOL: the self-test under it, in pieces by precision, kernel and, of convolutions, size and the next letter
# (of the channels, or of what else there is); several at once, since each spends its time on one processor.
sanitize() {
  mkdir -p "$out/$1"
  awk '$1 == "ok" {
      i = $2 ~ /^(tf32|fp16|bf16|fp8)$/ ? 3 : 2
      key = (i == 3 ? $2 : "fp32") " " $i
      if ($i == "conv") key = key " " $(i + 1) ($(i + 1) ~ /3x3|1x1/ ? " " substr($(i + 2), 1, 1) : "")
      if (!seen[key]++) printf "%s%c", key, 0
    }' "$out/cases" >"$out/$1.pieces"
  tool=$1 zenith=$build/engine/zenith out=$out xargs -0 -n 1 -P "$(($(nproc) < 12 ? $(nproc) : 12))" bash -c '
    log=$out/$tool/$(echo "$1" | tr " " -)
    if ! compute-sanitizer --tool $tool --error-exitcode 9 --report-api-errors no --kernel-name-exclude kernel_substring=peak \
      "$zenith" selftest --engine cuda --only "$1" >"$log" 2>&1; then
      printf "%s under %s:\n" "$1" $tool
      grep -v "^ok " "$log"
      exit 1
    fi' piece <"$out/$1.pieces" || return
  echo "$(cat "$out/$1"/* | grep -c '^ok ') cases in $(ls "$out/$1" | wc -l) pieces, no error"
}

[ -d "$build" ] || step configure meson setup "$build" "$root" -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled \
  -Dcuda=enabled "-Dgpu_archs=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)"
step build ninja -C "$build"
step engines "$build/engine/zenith" engines
step "self-test" "$build/engine/zenith" selftest --engine cuda
cp "$out/log" "$out/cases"
step "golden networks" "$build/tests/test_golden"
step "without a GPU" "$root/tests/cli/test_cuda.sh" "$build/engine/zenith" "$build/tests"
if [ "$quick" != quick ] && command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    step "$tool" sanitize $tool
  done
fi
if python3 -c 'import torch' 2>/dev/null; then
  python3 "$root/tools/bench_gpu.py" "$build/engine/zenith" ${quick:+--quick}
fi
exit $bad
