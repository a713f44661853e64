#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_vulkan.sh ZENITH DIR - the Vulkan engine on Mesa's software device (llvmpipe), with the validation layers where they are
# installed: one case of each kind of operation, tiny models, the choice of "auto", faults of a device, the cache of pipelines.
# DIR holds host_cpu.so and libfaulty_vulkan.so (tests/vulkan/*.c).
#
# Skips:  everything without a Vulkan engine in the build or without the device.
# Time:   a minute or two, most of it LLVM's.
set -u
zenith=$1 dir=$2
here=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
export ZENITH_MODELS=$here/models XDG_CACHE_HOME=$tmp/cache
unset ZENITH_ENGINE ZENITH_VULKAN_DEVICE ZENITH_PRECISION ZENITH_VULKAN_KIND ZENITH_VULKAN_MATRICES ZENITH_VULKAN_TILE \
  ZENITH_VULKAN_INTEGERS

check() { # NAME CONDITION...
  local name=$1
  shift
  if "$@" >"$tmp/why" 2>&1; then
    echo "ok $name"
    passed=$((passed + 1))
  else
    echo "not ok $name: $(tail -n 2 "$tmp/why" "$tmp/err" 2>/dev/null | tr '\n' ' ' | head -c 400)"
    failed=$((failed + 1))
  fi
}
has() { grep -qE -- "$1" "$2"; }
skip() { echo "skip $1"; skipped=$((skipped + 1)); }
finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  exit $((failed > 0))
}

"$zenith" engines >"$tmp/engines" 2>"$tmp/err"
check "engines lists vulkan" has '^[* ] vulkan +(usable|no): .{10,}' "$tmp/engines"
if has 'this build has no Vulkan' "$tmp/engines"; then
  skip "everything else: this build has no Vulkan engine"
  finish
fi

# The name of the CPU may promise LLVM instructions that a virtual machine hides: host_cpu.c.
[ ! -e "$dir/host_cpu.so" ] || export LD_PRELOAD=$dir/host_cpu.so
export ZENITH_VULKAN_DEVICE=llvmpipe
"$zenith" engines >"$tmp/named" 2>"$tmp/err"
if ! has '^  vulkan +usable: llvmpipe' "$tmp/named"; then
  skip "everything else: no llvmpipe (mesa-vulkan-drivers): $(sed -n 's/^..vulkan *//p' "$tmp/named" | head -c 120)"
  finish
fi
check "auto never takes a software device" has '^\* (neon|avx2|avx512|scalar|cuda)' "$tmp/named"
if has '^  vulkan +no: ' "$tmp/engines"; then
  check "nor is it used unless it is named" has '^  vulkan +no: .*software' "$tmp/engines"
else
  skip "a software device alone: this machine has a GPU"
fi
ZENITH_VULKAN_DEVICE=no-such-card "$zenith" engines >"$tmp/other" 2>"$tmp/err"
check "a name that no device has is said" has "^  vulkan +no: .*'no-such-card'; there are: .*[0-9] llvmpipe" "$tmp/other"

# With the validation layers: they write to stdout.
layers=
if ls /usr/share/vulkan/explicit_layer.d /etc/vulkan/explicit_layer.d 2>/dev/null | grep -q validation; then
  layers=VK_LAYER_KHRONOS_validation
else
  skip "the validation layers are not installed (vulkan-validationlayers)"
fi
silent() { ! grep -E 'VUID|Validation (Error|Warning)|UNASSIGNED' "$1"; }
cases() { # ENVIRONMENT NAME...: one process; every name has a case, and none fails
  local environment=$1 text c
  shift
  text=$(printf '; %s' "$@")
  env "$environment" VK_INSTANCE_LAYERS=$layers timeout 1800 "$zenith" selftest --engine vulkan --only "${text#; }" \
    >"$tmp/log" 2>"$tmp/err"
  check "$environment: no case fails" has '^vulkan: [1-9][0-9]* passed, 0 failed' "$tmp/log"
  for c in "$@"; do
    c=${c% [0-9]*/[0-9]*}
    check "$environment: $c" has "^ok ${c#fp32 }" "$tmp/log"
  done
  [ -z "$layers" ] || check "$environment: validation is silent" silent "$tmp/log"
}
cases ZENITH_VULKAN_MATRICES=0 "fp32 conv 3x3 16>16, 1x2x3 1/3" "fp32 conv 3x3 12>18" \
  "fp32 gated block 8, 1x1x1" "fp16 gated block 48, 2x3x5" "fp32 group norm 4/16" "fp16 layer norm 1/8" "fp16 attention 4/40" \
  "fp16 attention 1x65 queries, 66 keys, 2 heads of 160>160" \
  "fp32 rope 2/12" "fp32 lookup 1/6" "fp16 resize 1/2" "fp16 shuffle 4/8" "fp32 unshuffle 1/3" "fp16 map 2/60" "fp16 add 1/20" \
  "fp32 step 4/8" "fp16 fill" "fp16 fwht 2/60" "fp32 pruned 1/2" "fp32 model taesd-decode" "fp32 model upscale-small-x2" \
  "fp32 model zenith-lite-decode" "fp32 model diffae-encode" "fp32 model flux-ae-decode"
# The kernels for fp16 arithmetic and for cooperative matrices, which this device does not have: products are emulated, everything
# else is the same.
# Products of integers, too, which a software device does not use by itself.
ZENITH_VULKAN_INTEGERS=1 cases ZENITH_VULKAN_MATRICES=packed "fp16 conv 3x3 64>64, 1x1x1 1/4" \
  "fp16 conv 1x1 33>17, 1x1x2, weights in int4, integers, largest" "fp16 conv 1x1 33>17, 1x3x701, weights in int8, integers"
cases ZENITH_VULKAN_MATRICES=emulated "fp16 conv 3x3 strided 64>64, 2x16x14 1/2" "fp16 conv 3x3 320>120, 2x5x7, many" \
  "fp16 conv 3x3 up2 16>16, 1x5x8" "fp16 conv 1x1 2500>130, 1x3x1 1/3" "fp16 gated block 48, 2x3x5" \
  "fp16 attention 3x77 queries, 77 keys, 3 heads of 32>32"

# An integrated device is taken if it is faster than the CPU.  That is measured once, and kept: a file that says so is believed.
integrated() { env ZENITH_VULKAN_KIND=integrated XDG_CACHE_HOME="$tmp/auto" "$zenith" engines >"$tmp/$1" 2>"$tmp/err"; }
# measured FILE: there is a ratio, and only one above 1 is taken
measured() { has "^(  vulkan +usable: .*; 0\.[0-9]+|\* vulkan +usable: .*; [1-9][0-9]*\.[0-9]+) times the CPU's speed" "$1"; }
integrated measured
check "auto measures an integrated device, and takes it if it is faster" measured "$tmp/measured"
kept=$(ls "$tmp"/auto/zenith/auto-vulkan-*.txt 2>/dev/null | head -n 1)
check "the ratio is kept" test -s "$kept"
if [ -s "$kept" ]; then
  echo 2.5 >"$kept"
  integrated faster
  check "auto takes one that is faster" has "^\* vulkan +usable: .*; 2\.50 times the CPU's speed" "$tmp/faster"
  printf 'nonsense\n' >"$kept"
  integrated again
  check "a damaged ratio is measured again" measured "$tmp/again"
fi

# A picture: the same as the CPU's, but for rounding.
for i in $(seq 96); do printf "\\x00\\x00\\x$(printf %02x $((i * 53 % 256)))\\x3e"; done >"$tmp/floats"
for i in $(seq 70); do cat "$tmp/floats"; done >"$tmp/many-floats"
npy() { # FILE SHAPE COUNT
  local head="{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }"
  printf '\x93NUMPY\x01\x00\x76\x00%s%*s\n' "$head" $((117 - ${#head})) "" >"$1"
  head -c $((4 * $3)) "$tmp/many-floats" >>"$1"
}
npy "$tmp/x.npy" "40, 56, 3" 6720
run() { "$zenith" run denoise-fast --set precision=fp32 --set sigma=20 --in x="$tmp/x.npy" "$@" >"$tmp/out" 2>"$tmp/err"; }
ZENITH_VULKAN_DEVICE= run --out y="$tmp/cpu.npy"
VK_INSTANCE_LAYERS=$layers run --engine vulkan --out y="$tmp/gpu.npy"
check "a denoiser runs" test $? -eq 0
check "without a note" test ! -s "$tmp/err"
[ -z "$layers" ] || check "validation is silent about it" silent "$tmp/out"
values() { od -An -v -tf4 -j128 "$1" | tr -s ' ' '\n' | grep .; }
near() { paste <(values "$1") <(values "$2") | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 0.0001)) bad++ } END { exit bad > 0 || NR < 30 }'; }
check "and gives the CPU's picture" near "$tmp/cpu.npy" "$tmp/gpu.npy"

# An autoencoder of transforms.
encode() { "$zenith" run zenith-lite-doc-encode --weights random: --set precision=fp32 --in x="$tmp/x.npy" "$@" >"$tmp/out" 2>"$tmp/err"; }
ZENITH_VULKAN_DEVICE= encode --out z="$tmp/cpu-z.npy"
encode --engine vulkan --out z="$tmp/gpu-z.npy"
check "an autoencoder gives the CPU's latent" near "$tmp/cpu-z.npy" "$tmp/gpu-z.npy"

# Z-Image with made-up weights: features of a prompt, then a latent, in fp16 and int8, against the CPU's with the same weights.
echo "a cat" >"$tmp/prompt"
"$zenith" run z-image-tokens --weights "$here/tests/data/text/tokenizer.json" --in prompt="$tmp/prompt" --out tokens="$tmp/t.npy" 2>"$tmp/err"
npy "$tmp/noise.npy" "6, 10, 16" 960
z_image() { # OUT PRECISION ENGINE
  "$zenith" run z-image-text --weights random: --set precision=$2 --engine $3 --in tokens="$tmp/t.npy" --out cap="$tmp/$1-cap.npy" \
    2>"$tmp/err" && "$zenith" run z-image-sample --weights random: --set precision=$2 --set steps=2 --engine $3 \
    --in x="$tmp/noise.npy" --in cap="$tmp/$1-cap.npy" --out z="$tmp/$1-z.npy" 2>>"$tmp/err"
}
alike() { paste <(values "$1") <(values "$2") | awk '{ d += ($1 - $2) ^ 2; a += $2 ^ 2 } END { print d / a; exit !(d <= 0.0009 * a && NR >= 30) }'; }
cpu=$(sed -nE 's/^[* ] (neon|avx2|avx512|scalar) +usable.*/\1/p' "$tmp/named" | tail -n 1)
for p in fp16 int8; do
  z_image cpu-$p $p $cpu
  z_image gpu-$p $p vulkan
  check "Z-Image in $p runs without a note" test ! -s "$tmp/err"
  check "Z-Image in $p: features of a prompt as the CPU's" alike "$tmp/cpu-$p-cap.npy" "$tmp/gpu-$p-cap.npy"
  check "Z-Image in $p: a latent as the CPU's" alike "$tmp/cpu-$p-z.npy" "$tmp/gpu-$p-z.npy"
done

# Products of integers round inputs as the CPU's do: as far from fp16, whatever that distance is.
no_worse() { # A B C: A is at most 1.2 times as far from C as B is
  paste <(values "$1") <(values "$2") <(values "$3") |
    awk '{ a += ($1 - $3) ^ 2; b += ($2 - $3) ^ 2 } END { print a / b; exit !(a > 0 && a <= 1.44 * b && NR >= 30) }'
}
if [ -n "${CI:-}" ]; then
  ZENITH_VULKAN_INTEGERS=1 z_image integers int8 vulkan
  check "Z-Image in products of integers" no_worse "$tmp/integers-z.npy" "$tmp/cpu-int8-z.npy" "$tmp/cpu-fp16-z.npy"
else
  skip "Z-Image in products of integers: only with CI"
fi

# Two processes at once.
run --engine vulkan --out y="$tmp/one.npy" &
first=$!
"$zenith" run denoise-fast --set precision=fp32 --set sigma=20 --in x="$tmp/x.npy" --engine vulkan --out y="$tmp/two.npy" 2>"$tmp/err2"
check "two processes: the second" cmp "$tmp/gpu.npy" "$tmp/two.npy"
wait $first
check "two processes: the first" cmp "$tmp/gpu.npy" "$tmp/one.npy"

# Stopped and continued, as when a computer sleeps.
run --engine vulkan --out y="$tmp/slept.npy" &
first=$!
sleep 0.2
kill -STOP $first && sleep 0.3 && kill -CONT $first
wait $first
check "a process that was stopped for a while" cmp "$tmp/gpu.npy" "$tmp/slept.npy"

# Faults: the CPU finishes and says so.
real=$(ldconfig -p 2>/dev/null | sed -n 's/.*libvulkan\.so\.1 .*=> //p' | head -n 1)
faulty() { # VARIABLE=VALUE...: a run with that
  rm -f "$tmp/faulty.npy"
  env "$@" REAL_VULKAN="$real" LD_LIBRARY_PATH="$tmp/faulty" "$zenith" run denoise-fast --set precision=fp32 --set sigma=20 \
    --in x="$tmp/x.npy" --engine vulkan --out y="$tmp/faulty.npy" >"$tmp/out" 2>"$tmp/err"
}
instead='; done with the (neon|avx2|avx512|scalar) engine instead'
if [ -e "$dir/libfaulty_vulkan.so" ] && [ -n "$real" ]; then
  mkdir "$tmp/faulty" && cp "$dir/libfaulty_vulkan.so" "$tmp/faulty/libvulkan.so.1"
  env TWICE=1 ZENITH_VULKAN_DEVICE=1 REAL_VULKAN="$real" LD_LIBRARY_PATH="$tmp/faulty" "$zenith" engines >"$tmp/two" 2>"$tmp/err"
  check "several devices are listed, and taken by number" has '^  vulkan +usable: llvmpipe .*; devices: 0 .*, 1 ' "$tmp/two"
  for fault in LOST_AT=0 LOST_AT=3 LOST_WAIT_AT=0 LOST_WAIT_AT=3; do
    faulty $fault
    check "$fault: the CPU finishes" near "$tmp/cpu.npy" "$tmp/faulty.npy"
    check "$fault: and it is said" has "the device was lost$instead" "$tmp/err"
  done
  faulty NO_MEMORY_AT=6
  check "no memory for weights or tensors: the CPU finishes" near "$tmp/cpu.npy" "$tmp/faulty.npy"
  check "and it is said" has "[Mm]emory.*$instead" "$tmp/err"
  faulty BUDGET=1000000 BUDGET_AT=0
  check "a small budget of memory from the start: it is said" has "ZENITH_VULKAN_MEMORY.*$instead" "$tmp/err"
  faulty BUDGET=1000000 BUDGET_AT=1
  check "a budget that others use up: the CPU finishes" near "$tmp/cpu.npy" "$tmp/faulty.npy"
  check "and it is said" has "[Mm]emory.*$instead" "$tmp/err"
  faulty BUDGET=1000000 BUDGET_AT=1000
  check "a budget that suffices" cmp "$tmp/gpu.npy" "$tmp/faulty.npy"
else
  skip "faults: no Vulkan loader to put one before"
fi
ZENITH_VULKAN_MEMORY=1 run --engine vulkan --out y="$tmp/small.npy"
check "too little memory: the CPU finishes and it is said" has 'ZENITH_VULKAN_MEMORY.*; done with the (neon|avx2|avx512|scalar) engine instead' "$tmp/err"

# The cache of pipelines: whole, or not used; never written through a link.
cache=$(ls "$XDG_CACHE_HOME"/zenith/vulkan-*.bin 2>/dev/null | head -n 1)
check "pipelines are kept" test -s "$cache"
if [ -s "$cache" ]; then
  printf 'zenithvk\xff\xff\xff\xff\xff\xff\xff\xff' >"$cache"
  run --engine vulkan --out y="$tmp/again.npy"
  check "a damaged cache is not used" cmp "$tmp/gpu.npy" "$tmp/again.npy"
  truncate -s 65M "$cache"
  run --engine vulkan --out y="$tmp/again.npy"
  check "nor one that is too large, and it is replaced" test "$(stat -c %s "$cache")" -lt 60000000
  rm -f "$cache"
  echo precious >"$tmp/precious"
  ln -s "$tmp/precious" "$cache"
  run --engine vulkan --out y="$tmp/again.npy"
  check "a link is not followed" has '^precious$' "$tmp/precious"
fi
finish
