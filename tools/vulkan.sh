#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# vulkan.sh LIBS - the Vulkan engine on a machine with an NVIDIA GPU and no display: self-test, golden networks, tiles, and its
# times beside the CUDA engine's in fp16, also with other tiles.  Ends with a table; about 6 minutes.  Needs nvcc and meson; no glslc.
# vulkan.sh prepare LIBS [BUILD] - copies compiled shaders from a build folder to LIBS/spirv, the headers to LIBS/include.
# LIBS holds
#   lib/              libvulkan.so.1 and what libEGL_nvidia needs: libX11, libXext, libxcb, libXau, libXdmcp, libbsd, libmd,
#                     libGLdispatch
#   nvidia_icd.json   {"file_format_version":"1.0.1","ICD":{"library_path":"libEGL_nvidia.so.0","api_version":"1.4.312"}}
#   include/, spirv/  see prepare
# QUICK=1: no golden networks, a part of the self-test.  BUILD: the build folder (build-vulkan).  LOGS: keeps what steps print.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

if [ "${1:-}" = prepare ]; then
  mkdir -p "$2/spirv" "$2/include" && cp "${3:-$root/build}"/engine/vulkan/*.num "$2/spirv/" &&
    cp -r /usr/include/vulkan "$2/include/" && { [ ! -d /usr/include/vk_video ] || cp -r /usr/include/vk_video "$2/include/"; }
  exit
fi
[ -d "${1:-}/lib" ] || { sed -n '3,12p' "$0"; exit 2; }
libs=$(cd "$1" && pwd)
build=${BUILD:-$root/build-vulkan}
out=${LOGS:-$(mktemp -d)}
mkdir -p "$out/cache"
bad=0
: >"$out/table"
export ZENITH_MODELS=$root/models XDG_CACHE_HOME=$out/cache
zenith=$build/engine/zenith

step() { # NAME COMMAND...: its last line, and the rest only if it fails
  local name=$1 log=$out/${1// /-}.log start=$SECONDS line
  shift
  if "$@" >"$log" 2>&1; then
    line=$(tail -n 1 "$log" | sed 's/.*\r//')
  else
    line="FAILED: $(grep -cE '^not ok' "$log") cases"
    grep -vE '^ok ' "$log" | cut -c1-200 | head -n 25
    bad=1
  fi
  printf '%-28s %4d s  %s\n' "$name" $((SECONDS - start)) "$line" | tee -a "$out/table"
}

configure() {
  [ -f "$build/build.ninja" ] || CFLAGS="-I$libs/include" meson setup "$build" "$root" -Dgegl=disabled -Dgimp2=disabled \
    -Dgimp3=disabled -Dcuda=auto -Dgpu_archs=90 -Dvulkan=enabled "-Dspirv=$libs/spirv"
}

self_test() { # four processes for each precision
  local p i status=0 parts=${QUICK:+16} jobs=()
  for p in fp32 fp16 int8 int4; do
    for i in 1 2 3 4; do
      timeout 280 "$zenith" selftest --engine vulkan --only "$p $i/${parts:-4}" >"$out/selftest-$p-$i" 2>&1 &
      jobs+=($!)
    done
  done
  for p in "${jobs[@]}"; do
    wait "$p" || status=1
  done
  cat "$out"/selftest-*
  awk '$1 == "vulkan:" { p += $2; f += $4 } END { printf "%d passed, %d failed\n", p, f; exit f > 0 || p == 0 }' \
    "$out"/selftest-* && return $status
}

end_self_test() {
  local status=0
  wait "$tests" || status=$?
  cat "$out/self-test.out"
  return $status
}

one() { # ENGINE MODEL SIZE: device ms
  timeout 100 "$zenith" bench "$2" --size "$3" --engine "$1" --set precision=fp16 --json 2>>"$out/bench.err" |
    sed -nE 's/.*"device_ms":([0-9.]+).*/\1/p' | head -n 1
}

face() { # ENGINE: the edit's ms, networks loaded
  timeout 100 "$zenith" bench face-edit --engine "$1" --set precision=fp16 2>>"$out/bench.err" |
    tee -a "$out/face-$1" | sed -nE 's/^loaded, median.*edited after ([0-9.]+).*/\1/p' | head -n 1
}

row() { # NAME CUDA VULKAN PLAIN
  awk -v name="$1" -v c="${2:-0}" -v v="${3:-0}" -v p="${4:-0}" 'BEGIN { printf "%-28s %9.3f %9.3f %9.3f   %6.2f %6.2f\n",
    name, c, v, p, v > 0 ? c / v : 0, p > 0 ? c / p : 0 }'
}

bench() {
  local m s
  printf '%-28s %9s %9s %9s   %6s %6s\n' "fp16, ms" cuda vulkan "no matr." "speed" "speed"
  for m in "taesd-encode 512x512" "taesd-decode 512x512" "zenith-lite-decode 512x512" "denoise-fast 1024x1024" \
    "denoise-balanced 1024x1024" "denoise-best 1024x1024"; do
    s=${m#* } m=${m% *}
    row "$m $s" "$(one cuda $m $s)" "$(one vulkan $m $s)" "$(ZENITH_VULKAN_MATRICES=0 one vulkan $m $s)"
  done
  row "face-edit" "$(face cuda)" "$(face vulkan)" "$(ZENITH_VULKAN_MATRICES=0 face vulkan)"
}

# Tiles of convolutions and products: pixels, invocations (with matrices), and whether it loads ahead (2: no); 0: as usual.
variants() {
  local tile row m
  for row in "conv 3x3 64>64 512x512" "matrix product 4096^3"; do
    for m in 1 0; do
      for tile in 0,0,1 0,0,2 256,128,1 256,128,2 256,256,1 256,256,2; do
        printf '%-26s %-12s %s\n' "$row, matrices $m" "$tile" "$(ZENITH_VULKAN_MATRICES=$m ZENITH_VULKAN_TILE=$tile \
          timeout 20 "$build/tests/test_check" --bench -p fp16 --only "$row" vulkan | sed -nE 's/.*( [0-9.]+ ms.*GFLOP\/s).*/\1/p')"
      done
    done
  done
}

linears() { # int8: products of fp16 with and without matrices, and of integers
  local e
  for e in "MATRICES=1 INTEGERS=0" "MATRICES=0 INTEGERS=0" "MATRICES=0 INTEGERS=1"; do
    echo "int8, $e"
    env "ZENITH_VULKAN_${e% *}" "ZENITH_VULKAN_${e#* }" timeout 25 "$build/tests/test_check" --bench -p int8 --only linear vulkan
  done
}

layers() {
  for m in "taesd-decode 512x512" "denoise-balanced 1024x1024"; do
    timeout 60 "$zenith" bench ${m% *} --size ${m#* } --engine vulkan --set precision=fp16 --layers
  done
}

step configure configure
step build ninja -C "$build" ${QUICK:+engine/zenith tests/test_check}
driver=$(dirname "$(find /usr /lib /opt -name 'libEGL_nvidia.so.0' 2>/dev/null | head -n 1)")
export LD_LIBRARY_PATH=$libs/lib:$driver:${LD_LIBRARY_PATH:-} VK_ICD_FILENAMES=$libs/nvidia_icd.json
"$zenith" engines | tee -a "$out/table"
self_test >"$out/self-test.out" 2>&1 & # mostly work of the processors: beside the golden networks
tests=$!
if [ -z "${QUICK:-}" ]; then
  step "golden networks" timeout 200 "$build/tests/test_golden" vulkan
  step "golden diffae" timeout 100 "$build/tests/test_diffae"
  step "golden autoencoders" timeout 100 "$build/tests/test_vae"
  step "golden z-image" timeout 100 "$build/tests/test_zimage"
  step "tiles" env ZENITH_ENGINE=vulkan timeout 100 "$build/tests/test_tiles"
fi
step "self-test" end_self_test
bench 2>&1 | tee "$out/bench"
layers >"$out/layers" 2>&1
linears >"$out/linears" 2>&1
variants >"$out/variants" 2>&1
printf '\n%s\n' "---- $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1), $SECONDS s"
cat "$out/table" "$out/bench" "$out/layers" "$out/linears" "$out/variants"
[ ! -s "$out/bench.err" ] || head -n 20 "$out/bench.err"
exit $bad
