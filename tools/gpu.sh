#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gpu.sh [STEP...] - everything about the CUDA engine on a machine with a GPU, or the steps named:
#   check      build, self-test in all precisions, golden networks, tiles, and what happens without a GPU
#   memcheck   the self-test under compute-sanitizer, in all precisions; likewise racecheck
#   speed      a table of speeds beside PyTorch, which must be there; or quick, without the slow half of PyTorch's
# Needs nvcc and meson.  BUILD names the build folder, LOGS a folder that keeps what the steps print.  A step whose tool
# is not there is passed over, and that is said.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build-gpu}
wanted=" ${*:-check memcheck racecheck speed} "
out=${LOGS:-$(mktemp -d)}
[ -n "${LOGS:-}" ] || trap 'rm -rf "$out"' EXIT
mkdir -p "$out/pieces"
bad=0
export ZENITH_MODELS=$root/models
export XDG_CACHE_HOME=$out/pieces # tuned anew

asked() { [[ $wanted == *" $1 "* ]]; }

for name in "$@"; do
  [[ " check memcheck racecheck speed quick " == *" $name "* ]] && continue
  echo "gpu.sh: no step '$name': check, memcheck, racecheck, speed or quick" >&2
  exit 2
done

step() { # NAME COMMAND...: its last line, and the rest only if it fails
  local name=$1 log=$out/${1// /-}.log
  shift
  if "$@" >"$log" 2>&1; then
    printf '%-28s %s\n' "$name" "$(tail -n 1 "$log" | sed 's/.*\r//')"
  else
    printf '%-28s FAILED\n' "$name"
    grep -vE '^ok ' "$log" | cut -c1-200 | head -n 40
    bad=1
  fi
}

# sanitize TOOL: the self-test under it, in pieces by precision, kernel and, of convolutions, size and the next letter
# (of the channels, or of what else there is); several at once, since each spends its time on one processor.
sanitize() {
  local dir=$out/pieces/$1
  rm -rf "$dir"
  mkdir -p "$dir"
  awk '$1 == "ok" {
      i = $2 ~ /^(tf32|fp16|bf16|fp8)$/ ? 3 : 2
      key = (i == 3 ? $2 : "fp32") " " $i
      if ($i == "conv") key = key " " $(i + 1) ($(i + 1) ~ /3x3|1x1/ ? " " substr($(i + 2), 1, 1) : "")
      cases[key]++
    }
    END { for (key in cases) print cases[key] "\t" key }' "$out/self-test.log" | sort -rn | cut -f 2 | tr '\n' '\0' |
    tool=$1 zenith=$build/engine/zenith dir=$dir xargs -0 -n 1 -P "$(($(nproc) < 14 ? $(nproc) : 14))" bash -c '
      log=$dir/$(echo "$1" | tr " " -)
      compute-sanitizer --tool $tool --error-exitcode 9 --report-api-errors no --kernel-name-exclude kernel_substring=peak \
        "$zenith" selftest --engine cuda --only "$1" >"$log" 2>&1 && grep -q "SUMMARY: 0 " "$log"
      if [ $? = 0 ]; then
        echo "ok $1: $(grep -c "^ok " "$log") cases in $SECONDS s"
      else
        echo "$1 under $tool, after $SECONDS s:"
        grep -v "^ok " "$log"
        exit 1
      fi' piece || return
  # The pieces together are the self-test: not one case was left out.
  diff <(grep -h '^ok ' "$dir"/* | sort -u) <(grep '^ok ' "$out/self-test.log" | sort -u) || return
  echo "$(grep -h '^ok ' "$dir"/* | wc -l) cases in $(ls "$dir" | wc -l) pieces, no error"
}

[ -d "$build" ] || step configure meson setup "$build" "$root" -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled \
  -Dcuda=enabled "-Dgpu_archs=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)"
step build ninja -C "$build"
if asked check; then
  step engines "$build/engine/zenith" engines
  step "golden networks" "$build/tests/test_golden"
  step "tiles" "$build/tests/test_tiles"
  step "without a GPU" "$root/tests/cli/test_cuda.sh" "$build/engine/zenith" "$build/tests"
fi
if asked check || asked memcheck || asked racecheck; then
  step "self-test" "$build/engine/zenith" selftest --engine cuda
fi
for tool in memcheck racecheck; do
  if asked $tool && command -v compute-sanitizer >/dev/null; then
    step $tool sanitize $tool
  elif asked $tool; then
    printf '%-28s passed over: no compute-sanitizer here\n' $tool
  fi
done
if asked speed || asked quick; then
  asked speed && slow=() || slow=(--quick)
  if ! python3 -c 'import torch' 2>/dev/null; then
    echo "beside PyTorch: passed over, it is not here"
  elif ! python3 "$root/tools/bench_gpu.py" "$build/engine/zenith" "${slow[@]}" 2>"$out/speed.log"; then # PyTorch says much
    tail -n 20 "$out/speed.log"
    bad=1
  fi
  "$build/tests/test_check" --bench -p fp16 cuda || bad=1
fi
exit $bad
