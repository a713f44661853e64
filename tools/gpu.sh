#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gpu.sh [STEP...] - everything about the CUDA engine on a machine with a GPU.  Without steps: check memcheck racecheck speed.
#   check      self-test in all precisions, golden networks, tiles, and what happens without a GPU; about 3 minutes
#   bench      milliseconds of TAESD, the denoisers and zenith-lite in fp16 and fp32; with BASE, also of an older
#              version; and of a face edit, with and without loading
#   memcheck   the self-test under compute-sanitizer, in all precisions; likewise racecheck
#   speed      speeds compared with PyTorch, which must be installed; or quick, without the slow half of PyTorch's
# It builds first, for this machine's GPU alone, and ends with a table.  Needs nvcc and meson.  A step whose tool is
# missing is skipped with a message.
#   BUILD   the build folder (build-gpu)
#   LOGS    a folder that keeps what the steps print
#   BASE    an older source tree, or a tar archive of one, for bench; else .carry/base or .carry/base.tar* if there is one:
#           git archive --prefix=base/ VERSION >.carry/base.tar
set -uo pipefail
export LC_ALL=C.UTF-8 # numbers have a point
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build-gpu}
wanted=" ${*:-check memcheck racecheck speed} "
out=${LOGS:-$(mktemp -d)}
[ -n "${LOGS:-}" ] || trap 'rm -rf "$out"' EXIT
mkdir -p "$out/pieces"
bad=0
table=$out/table
: >"$table"
export ZENITH_MODELS=$root/models
export XDG_CACHE_HOME=$out/pieces # tuned anew

asked() { [[ $wanted == *" $1 "* ]]; }

for name in "$@"; do
  [[ " check bench memcheck racecheck speed quick " == *" $name "* ]] && continue
  echo "gpu.sh: no step '$name': check, bench, memcheck, racecheck, speed or quick" >&2
  exit 2
done

step() { # NAME COMMAND...: its last line, and the rest only if it fails
  local name=$1 log=$out/${1// /-}.log start=$SECONDS line
  shift
  if "$@" >"$log" 2>&1; then
    line=$(tail -n 1 "$log" | sed 's/.*\r//')
  else
    line=FAILED
    grep -vE '^ok ' "$log" | cut -c1-200 | head -n 40
    bad=1
  fi
  printf '%-28s %4d s  %s\n' "$name" $((SECONDS - start)) "$line" | tee -a "$table"
}

# ---- building ------------------------------------------------------------------------------------------------------

# configure DIR SOURCE
configure() {
  local cc
  cc=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
  [ -f "$1/build.ninja" ] || meson setup "$1" "$2" -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled -Dcuda=enabled \
    "-Dgpu_archs=${cc:-90}"
}

# The older source tree that bench compares with, unpacked if need be; none: nothing.
base_tree() {
  local from=${BASE:-} f
  if [ -z "$from" ]; then
    for f in "$root"/.carry/base "$root"/.carry/base.tar*; do
      [ ! -e "$f" ] || from=$f
    done
  fi
  if [ -f "$from" ]; then
    mkdir -p "$out/base" && tar -xf "$from" -C "$out/base" --strip-components=1 && echo "$out/base"
  elif [ -n "$from" ]; then
    (cd "$from" && pwd)
  fi
}

# ---- steps ---------------------------------------------------------------------------------------------------------

# The self-test, four processes for each precision: most of its time is spent on formulas on one processor.
self_test() {
  local p i status=0 jobs=()
  for p in fp32 tf32 fp16 bf16 fp8 int8 int4; do
    for i in 1 2 3 4; do
      "$build/engine/zenith" selftest --engine cuda --only "$p $i/4" >"$out/pieces/selftest-$p-$i" 2>&1 &
      jobs+=($!)
    done
  done
  for p in "${jobs[@]}"; do
    wait "$p" || status=1
  done
  cat "$out"/pieces/selftest-*
  awk '$1 == "cuda:" { p += $2; f += $4 } END { printf "%d passed, %d failed\n", p, f; exit f > 0 || p == 0 }' \
    "$out"/pieces/selftest-* && return $status
}

end_self_test() {
  local status=0
  wait "$tests" || status=$?
  cat "$out/self-test.out"
  return $status
}

# sanitize TOOL: the self-test under it.  It is cut by precision, operation and, for convolutions, by kernel size and the next
# letter of the name; several parts run at once, since each uses one processor.
sanitize() {
  local dir=$out/pieces/$1
  rm -rf "$dir"
  mkdir -p "$dir"
  awk '$1 == "ok" {
      i = $2 ~ /^(tf32|fp16|bf16|fp8|int8|int4)$/ ? 3 : 2
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
  # The parts are the whole self-test: no case was left out.
  diff <(grep -h '^ok ' "$dir"/* | sort -u) <(grep '^ok ' "$out/self-test.log" | sort -u) || return
  echo "$(grep -h '^ok ' "$dir"/* | wc -l) cases in $(ls "$dir" | wc -l) pieces, no error"
}

# measure ZENITH NAME: device times of every model and precision, a line each, into $out/bench-NAME.
measure() {
  local p
  for p in fp16 fp32; do
    "$1" bench taesd-encode taesd-decode zenith-lite-encode zenith-lite-decode --size 512x512 --engine cuda \
      --set precision=$p --json &&
      "$1" bench denoise-fast denoise-balanced denoise-best --size 1024x1024 --engine cuda --set precision=$p --json ||
      return 1
  done | sed -nE 's/.*"model":"([^"]*)".*"size":"([^"]*)".*"device_ms":([0-9.]+).*/\1 \2 \3/p' |
    awk '{ print $1, $2, n[$1]++ ? "fp32" : "fp16", $3 }' >>"$out/bench-$2"
}

# bench: the median of three rounds; with an older version in turn.
bench() {
  local i
  rm -f "$out"/bench-now "$out"/bench-base
  for i in 1 2 3; do
    [ -z "$base" ] || measure "$build-base/engine/zenith" base || return
    measure "$build/engine/zenith" now || return
  done
  touch "$out/bench-base"
  sort -k 1,3 -k 4,4n "$out/bench-base" | awk 'NR % 3 == 2' >"$out/medians-base"
  sort -k 1,3 -k 4,4n "$out/bench-now" | awk 'NR % 3 == 2' |
    awk -v base="$out/medians-base" 'BEGIN { while ((getline line < base) > 0) { split(line, f, " "); old[f[1] f[3]] = f[4] } }
      { printf "%-22s %-10s %s %9.3f ms", $1, $2, $3, $4
        if ($1 $3 in old) printf "   before %9.3f ms %+6.1f %%", old[$1 $3], 100 * ($4 / old[$1 $3] - 1)
        print "" }' >"$out/bench-table"
  [ "$(wc -l <"$out/bench-table")" -eq 14 ] && echo "14 models and precisions"
}

# face_edit PRECISION: an edit of a face, in a fresh process and with the networks loaded.  Kernels are tuned before.
face_edit() {
  local run=("$build/engine/zenith" bench face-edit --engine cuda --set "precision=$1")
  "${run[@]}" && "${run[@]}" >"$out/face-edit-$1" && cat "$out/face-edit-$1" &&
    sed -nE 's/^(first|loaded, median).*edited (after .*)/\1 \2/p' "$out/face-edit-$1" | paste -sd ';'
}

base=$(asked bench && base_tree)
step configure configure "$build" "$root"
if [ -n "$base" ]; then
  step "configure, before" configure "$build-base" "$base"
  ninja -C "$build-base" engine/zenith >"$out/build-base.log" 2>&1 & # in parallel: hopper.cu alone takes a minute
  other=$!
fi
step build ninja -C "$build"
[ -z "$base" ] || step "build, before" wait "$other"
if asked check || asked memcheck || asked racecheck; then # most of it is work for the processors: beside the other steps
  self_test >"$out/self-test.out" 2>&1 &
  tests=$!
fi
if asked check; then
  step engines "$build/engine/zenith" engines
  step "golden networks" "$build/tests/test_golden"
  step "golden autoencoders" "$build/tests/test_vae"
  step "golden diffae" "$build/tests/test_diffae"
  step "golden z-image" "$build/tests/test_zimage"
  step "streamed layers" "$build/tests/test_stream"
  step "fp16 beside fp32" "$build/tests/test_half"
  step "tiles" "$build/tests/test_tiles"
  step "without a GPU" "$root/tests/cli/test_cuda.sh" "$build/engine/zenith" "$build/tests"
fi
if asked check || asked memcheck || asked racecheck; then
  step "self-test" end_self_test
fi
asked bench && step bench bench
for p in fp16 fp32; do asked bench && step "face edit $p" face_edit $p; done
for tool in memcheck racecheck; do
  if asked $tool && command -v compute-sanitizer >/dev/null; then
    step $tool sanitize $tool
  elif asked $tool; then
    printf '%-28s skipped: no compute-sanitizer here\n' $tool | tee -a "$table"
  fi
done
if asked speed || asked quick; then
  asked speed && slow=() || slow=(--quick)
  if ! python3 -c 'import torch' 2>/dev/null; then
    echo "beside PyTorch: skipped, it is not installed"
  elif ! python3 "$root/tools/bench_gpu.py" "$build/engine/zenith" "${slow[@]}" 2>"$out/speed.log"; then # its messages
    tail -n 20 "$out/speed.log"
    bad=1
  fi
  "$build/tests/test_check" --bench -p fp16 cuda || bad=1
fi
printf '\n%s\n' "---- $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1), $SECONDS s"
cat "$table"
[ ! -f "$out/bench-table" ] || cat "$out/bench-table"
exit $bad
