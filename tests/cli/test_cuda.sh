#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_cuda.sh ZENITH FAKE_DIR - the CUDA engine without a GPU: its messages, and how the CPU replaces it.
# FAKE_DIR holds a libcuda.so.1 that computes nothing and fails as told (tests/unit/fake_cuda.c).
set -u
zenith=$1 fake=$2
here=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
export ZENITH_MODELS=$here/models XDG_CACHE_HOME=$tmp/cache
unset ZENITH_ENGINE

check() { # NAME CONDITION...
  local name=$1
  shift
  if "$@" >"$tmp/why" 2>&1; then
    echo "ok $name"
    passed=$((passed + 1))
  else
    echo "not ok $name: $(tail -n 2 "$tmp/why" "$tmp/err" 2>/dev/null | tr '\n' ' ' | head -c 300)"
    failed=$((failed + 1))
  fi
}
has() { grep -qE -- "$1" "$2"; }
skip() { echo "skip $1"; skipped=$((skipped + 1)); }

# Without a driver.
"$zenith" engines >"$tmp/engines" 2>"$tmp/err"
if has '^[* ] cuda +usable' "$tmp/engines"; then
  skip "no driver: this machine has a GPU"
else
  check "engines says why there is no cuda" has '^  cuda +no: .{20,}' "$tmp/engines"
  check "auto takes another engine" has '^\* (neon|avx2|avx512|scalar)' "$tmp/engines"
  "$zenith" run identity --engine cuda --in x=/dev/null --out y="$tmp/y.npy" >"$tmp/out" 2>"$tmp/err"
  check "asking for cuda exits with 1" test $? -eq 1
  check "and one sentence" test "$(wc -l <"$tmp/err")" -eq 1
fi

# With the fake driver.
export LD_LIBRARY_PATH=$fake
if has 'no CUDA kernels' "$tmp/engines"; then
  skip "the fall-backs: this build has no CUDA kernels"
  echo "$passed passed, $failed failed, $skipped skipped"
  exit $((failed > 0))
fi
FAKE_CUDA_LOG=$tmp/log "$zenith" engines >"$tmp/engines" 2>"$tmp/err"
check "a driver makes cuda usable" has '^\* cuda +usable' "$tmp/engines"
check "the kernels are fat binaries" has '^image ba55ed50' "$tmp/log"
# All but those for compute capability 8.9 and later: the fake GPU has 8.1.
check "all of them load" test "$(grep -c '^image' "$tmp/log")" -eq "$(ls "$here"/engine/cuda/kernels/*.cu | grep -vc "/hopper\|/conv_mma8")"
check "training takes the CPU" "$zenith" train zenith-ae --steps 1 --size 32 --batch 1 --out "$tmp/trained.safetensors"
FAKE_CUDA=none "$zenith" engines >"$tmp/engines" 2>"$tmp/err"
check "a driver without a GPU is passed over" has '^  cuda +no: .*no GPU' "$tmp/engines"
FAKE_CUDA=old "$zenith" engines >"$tmp/engines" 2>"$tmp/err"
check "an old GPU is passed over" has '^  cuda +no: .*6\.1' "$tmp/engines"

# A picture, by the CPU, then by a GPU that fails: the same picture and a note.
head="{'descr': '<f4', 'fortran_order': False, 'shape': (40, 56, 3), }"
printf '\x93NUMPY\x01\x00\x76\x00%s%*s\n' "$head" $((117 - ${#head})) "" >"$tmp/x.npy"
for i in $(seq 96); do printf "\\x00\\x00\\x$(printf %02x $((i * 53 % 256)))\\x3e"; done >"$tmp/floats"
for i in $(seq 70); do cat "$tmp/floats"; done >>"$tmp/x.npy"
run() { "$zenith" run denoise-fast --set sigma=20 --in x="$tmp/x.npy" "$@" >"$tmp/out" 2>"$tmp/err"; }
CUDA_VISIBLE_DEVICES= LD_LIBRARY_PATH= run --engine auto --out y="$tmp/cpu.npy" # nor a real GPU
check "the CPU alone" test $? -eq 0
for mode in lost=0 lost=7; do
  FAKE_CUDA=$mode run --engine cuda --out y="$tmp/$mode.npy"
  check "$mode: the CPU finishes" test $? -eq 0
  check "$mode: and it is said" has 'done with the (neon|avx2|avx512|scalar) engine instead' "$tmp/err"
  check "$mode: with the CPU's own result" cmp "$tmp/cpu.npy" "$tmp/$mode.npy"
done
head="{'descr': '<f4', 'fortran_order': False, 'shape': (768, 1024, 3), }"
printf '\x93NUMPY\x01\x00\x76\x00%s%*s\n' "$head" $((117 - ${#head})) "" >"$tmp/large.npy"
head -c $((768 * 1024 * 3 * 4)) /dev/zero >>"$tmp/large.npy"
FAKE_CUDA=memory=65 "$zenith" run denoise-fast --set sigma=20 --engine cuda --in x="$tmp/large.npy" --out y="$tmp/y.npy" 2>"$tmp/err"
check "too little memory: the CPU finishes" test $? -eq 0
check "too little memory: and it is said" has 'MiB.*; done with the (neon|avx2|avx512|scalar) engine instead' "$tmp/err"
# Too little memory for the weights alone: the CPU, if the model fits there.
best() { "$zenith" run denoise-best --set sigma=20 --in x="$tmp/x.npy" "$@" >"$tmp/out" 2>"$tmp/err"; }
FAKE_CUDA=none best --engine auto --out y="$tmp/cpu.npy"
FAKE_CUDA=total=66 best --engine cuda --out y="$tmp/y.npy"
check "no memory for the weights: the CPU finishes" cmp "$tmp/cpu.npy" "$tmp/y.npy"
check "no memory for the weights: and it is said" has 'out of memory for the weights; done with the (neon|avx2|avx512|scalar) engine instead' "$tmp/err"
FAKE_CUDA_LOG=$tmp/log6 ZENITH_CUDA_MEMORY=8 best --engine cuda --out y="$tmp/y.npy"
check "weights over the bound: the CPU finishes" cmp "$tmp/cpu.npy" "$tmp/y.npy"
check "weights over the bound: both numbers are said" \
  has 'denoise-best take [0-9]+ MiB .* where 8 are allowed; set ZENITH_CUDA_MEMORY to more; done with' "$tmp/err"
ZENITH_MEMORY=8 FAKE_CUDA=total=66 best --engine cuda --out y="$tmp/y2.npy"
check "neither GPU nor CPU: failed" test $? -eq 1
check "neither GPU nor CPU: one sentence about both" has 'out of memory for the weights; nor can the CPU do it: .* where 8 are allowed; set ZENITH_MEMORY' "$tmp/err"
check "neither GPU nor CPU: nothing is written" test ! -e "$tmp/y2.npy"

run --engine cuda --out y="$tmp/ok.npy"
check "a healthy GPU needs no CPU" test ! -s "$tmp/err"
run --engine cuda --set precision=fp16 --out y="$tmp/ok.npy"
check "half precision starts" test $? -eq 0
kernels() { rm -f "$tmp/log5"; FAKE_CUDA_LOG=$tmp/log5 "$@"; }
kernels run --engine cuda --out y="$tmp/ok.npy"
check "a denoiser takes half precision by itself" has '_f16' "$tmp/log5"
kernels run --engine cuda --set precision=fp32 --out y="$tmp/ok.npy"
check "and float32 if asked" test "$(grep -c '_f16' "$tmp/log5")" -eq 0
ZENITH_PRECISION=fp32 kernels run --engine cuda --out y="$tmp/ok.npy"
check "or if the environment says so" test "$(grep -c '_f16' "$tmp/log5")" -eq 0
kernels "$zenith" run zenith-lite-doc-encode --weights random: --engine cuda --in x="$tmp/x.npy" --out z="$tmp/z.npy" 2>"$tmp/err"
check "other models take float32" test "$(grep -c '_f16' "$tmp/log5")" -eq 0
small() { kernels "$zenith" run zenith-encode --weights "$here/models/$1.safetensors" --engine cuda --in x="$tmp/x.npy" --out z="$tmp/z.npy" 2>"$tmp/err"; }
small zenith
check "zenith takes half precision by itself" has '_f16' "$tmp/log5"
small zenith-f2
check "zenith-f2 runs" test $? -eq 0
check "zenith-f2 takes float32" test "$(grep -c '_f16' "$tmp/log5")" -eq 0
run --engine cuda --set precision=fp64 --out y="$tmp/ok.npy"
check "a precision that does not exist is refused" has 'precision must be' "$tmp/err"
rm -f "$tmp/log"
FAKE_CUDA_LOG=$tmp/log "$zenith" bench taesd-decode --size 64x64 --engine cuda --weights random: >"$tmp/out" 2>"$tmp/err"
check "a repeated forward becomes a graph" has '^replay' "$tmp/log"
check "one graph, not one a run" test "$(grep -c '^graph' "$tmp/log")" -eq 1
ZENITH_CUDA_MEMORY=70 FAKE_CUDA_LOG=$tmp/log2 "$zenith" bench denoise-fast --size 1024x1024 --engine cuda >"$tmp/small" 2>"$tmp/err"
"$zenith" bench denoise-fast --size 1024x1024 --engine cuda >"$tmp/large" 2>>"$tmp/err"
mib() { awk '{ for (i = 2; i <= NF; i++) if ($i == "MiB") print $(i - 1) }' "$1" | head -n 1; }
check "ZENITH_CUDA_MEMORY bounds a tile" test "$(mib "$tmp/small")" -le 70
check "and without it tiles are larger" test "$(mib "$tmp/large")" -gt 70
ZENITH_CUDA_MEMORY=1G "$zenith" bench denoise-fast --size 1024x1024 --engine cuda >"$tmp/unit" 2>>"$tmp/err"
check "in gibibytes, too" test "$(mib "$tmp/unit")" -gt 70
ZENITH_CUDA_MEMORY=4X run --engine cuda --out y="$tmp/ok.npy"
check "and what it does not understand it says" has 'ZENITH_CUDA_MEMORY must be a size in mebibytes.*4X' "$tmp/err"

# A model's weights are stored in the type that its layers multiply: nothing is expanded.
for gpu in usual hopper turing; do
  for p in fp32 fp16; do
    rm -f "$tmp/log5"
    FAKE_CUDA=$gpu FAKE_CUDA_LOG=$tmp/log5 run --engine cuda --set precision=$p --out y="$tmp/ok.npy"
    check "$gpu, $p: runs" test $? -eq 0
    check "$gpu, $p: weights as they are stored" test "$(grep -c '^expand_' "$tmp/log5")" -eq 0
  done
done
check "tensor cores from 8.0 on" test "$(grep -c '^conv_mma' "$tmp/log5")" -eq 0

# The kernels of another GPU.
as() { rm -f "$tmp/log5"; FAKE_CUDA=$1 ZENITH_CUDA_CAPABILITY=$2 FAKE_CUDA_LOG=$tmp/log5 run --engine cuda --set precision=fp16 --out y="$tmp/ok.npy"; }
as hopper 8.9
check "as 8.9: nothing for 9.0" test "$(grep -c '^hopper' "$tmp/log5")" -eq 0
as hopper 7.5
check "as 7.5: no tensor cores" test "$(grep -c '^conv_mma' "$tmp/log5")" -eq 0
for bad in 8,6 6.1 new; do
  ZENITH_CUDA_CAPABILITY=$bad "$zenith" engines >"$tmp/engines" 2>"$tmp/err"
  check "as '$bad'" has "^  cuda +no: ZENITH_CUDA_CAPABILITY is '$bad'" "$tmp/engines"
done
FAKE_CUDA=turing ZENITH_CUDA_CAPABILITY=8.0 "$zenith" engines >"$tmp/engines" 2>"$tmp/err"
check "7.5 as 8.0" has '^  cuda +no: ZENITH_CUDA_CAPABILITY' "$tmp/engines"

# Weights that are packed while a device starts are those that are packed when it is there.
edit() { rm -f "$tmp/log7"; FAKE_CUDA_SLOW=$1 FAKE_CUDA_LOG=$tmp/log7 "$zenith" face "$tmp/large.npy" "$tmp/y.npy" smile=1 find=middle steps=2 stochastic-steps=2 --engine cuda >"$tmp/out" 2>"$tmp/err" && grep '^freed' "$tmp/log7" | sort >"$tmp/freed.$1"; }
check "a face, the device at once" edit 0
check "a face, while the device starts" edit 500
check "with the same weights" cmp "$tmp/freed.0" "$tmp/freed.500"
check "which are many" test "$(wc -l <"$tmp/freed.500")" -gt 100
FAKE_CUDA=broken "$zenith" engines >"$tmp/engines" 2>"$tmp/err"
check "a GPU without a context is passed over" has '^  cuda +no: .*opening the GPU' "$tmp/engines"
FAKE_CUDA=broken "$zenith" denoise "$tmp/x.npy" "$tmp/y.npy" model=fast sigma=20 --engine cuda >"$tmp/out" 2>"$tmp/err"
check "one whose context fails later: the CPU finishes" test $? -eq 0
check "and it is said" has 'opening the GPU.*; done with the (neon|avx2|avx512|scalar) engine instead' "$tmp/err"

# What was measured is remembered, in a file that does not grow for ever.
starts() { rm -f "$tmp/log3"; FAKE_CUDA_LOG=$tmp/log3 run --engine cuda --out y="$tmp/ok.npy"; wc -l <"$tmp/log3"; }
rm -rf "$XDG_CACHE_HOME"
first=$(starts)
again=$(starts)
check "kernels are tried once" test "$again" -lt "$first"
choices=$(ls "$XDG_CACHE_HOME"/zenith/*)
for i in $(seq 1500); do printf 'layer %d\t1\n' "$i"; done >"$choices"
starts >/dev/null
check "a full file gives way" test "$(wc -l <"$choices")" -le 1024
check "and they are tried once again" test "$(starts)" -eq "$again"

# What is not a file of a sensible size is neither read, nor waited for, nor written to.
mv "$choices" "$tmp/choices"
try() { timeout 300 "$zenith" run denoise-fast --set sigma=20 --in x="$tmp/x.npy" --engine cuda --out y="$tmp/ok.npy" 2>"$tmp/err"; }
mkfifo "$choices"
check "a FIFO in its place does not stop a run" try
check "and stays" test -p "$choices"
rm "$choices"
echo 'not ours' >"$tmp/target"
ln -s "$tmp/target" "$choices"
check "nor does a link" try
check "whose target is not written to" test "$(cat "$tmp/target")" = 'not ours'
check "and which stays" test -L "$choices"
rm "$choices"
mkdir "$choices"
check "nor a folder" try
rmdir "$choices"
{ cat "$tmp/choices"; head -c 2000000 /dev/zero | tr '\0' x; } >"$choices"
check "a file that is too long is replaced" test "$(starts)" -gt "$again"
check "by a short one" test "$(wc -c <"$choices")" -lt 200000
check "with nothing left beside it" test "$(ls "$XDG_CACHE_HOME/zenith" | wc -l)" -eq 1

# Graphs, and models in several threads.
for gpu in usual hopper hopper=12020 lost=30; do
  FAKE_CUDA=$gpu FAKE_CUDA_LOG=$tmp/log4.$gpu "$fake/test_gpu_host" "$tmp/log4.$gpu" >"$tmp/host" 2>&1
  grep -E '^(ok|not ok)' "$tmp/host"
  passed=$((passed + $(grep -c '^ok' "$tmp/host"))) failed=$((failed + $(grep -c '^not ok' "$tmp/host")))
  check "to its end" has '^[0-9]+ passed' "$tmp/host"
done

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
