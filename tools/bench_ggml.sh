#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Products of 4-bit and 8-bit weights, compared with ggml's (Q4_0, Q8_0), in one run on one machine.
#
#   tools/bench_ggml.sh BUILD_DIR WORK_DIR [THREADS]
#   tools/bench_ggml.sh --fetch WORK_DIR
#
# WORK_DIR is outside of the source: ggml is fetched there (the source of PyPI's llama-cpp-python has it), built for this CPU, and
# kept.  For a machine without network, --fetch only downloads the source, 25 MB, to be copied there. The two programs
# alternate; the best CPU time of each counts, since other programs may be running.
#   ENGINES   whose table comes one after the other (zenith: the best of this CPU), such as "avx512 avx512-plain avx2 avx2-plain";
#             -plain: without the CPU's products of int8 (VNNI, FEAT_DotProd), -dots: without those of matrices (FEAT_I8MM).
#             One that the CPU lacks is skipped with a message.
#   SHAPES    IN:OUT ...;  ROWS;  TURNS
set -eu
export LC_ALL=C.UTF-8 # numbers have a point
usage='usage: bench_ggml.sh BUILD_DIR WORK_DIR [THREADS], or --fetch WORK_DIR'
build=${1:?$usage}
mkdir -p "${2:?$usage}"
work=$(cd "$2" && pwd)
threads=${3:-$(nproc)}
here=$(cd "$(dirname "$0")" && pwd)
shapes=${SHAPES:-"3840:3840 3840:10240"} rows=${ROWS:-"1 32 1024"} turns=${TURNS:-3} engines=${ENGINES:-zenith}

source=$(echo "$work"/llama_cpp_python-*/vendor/llama.cpp/ggml)
if [ ! -d "$source" ]; then
  # pip would build the package to learn its name: the index is read instead.
  python3 - "$work/llama.tar.gz" <<'PYTHON'
import re, sys, urllib.request
page = urllib.request.urlopen("https://pypi.org/simple/llama-cpp-python/").read().decode()
files = re.findall(r'href="([^"#]*/llama_cpp_python-([0-9.]+)\.tar\.gz)', page)
urllib.request.urlretrieve(max(files, key=lambda f: [int(n) for n in f[1].split(".")])[0], sys.argv[1])
PYTHON
  tar -C "$work" -xzf "$work/llama.tar.gz" --wildcards '*/vendor/llama.cpp/ggml/*'
  rm "$work/llama.tar.gz"
  source=$(echo "$work"/llama_cpp_python-*/vendor/llama.cpp/ggml)
  touch "$source/ggml.pc.in" # left out of that package
fi
[ "$build" != --fetch ] || exit 0
build=$(cd "$build" && pwd)
if [ ! -e "$work/lib/libggml.so" ]; then
  cmake -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF \
    -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DGGML_CCACHE=OFF >"$work/log" 2>&1
  cmake --build "$work/build" --target ggml -j"$(nproc)" >>"$work/log" 2>&1
  mkdir -p "$work/lib"
  find "$work/build" -name 'libggml*.so*' -exec cp -P {} "$work/lib" \;
fi
cc -O2 -std=gnu11 -I"$source/include" "$here/bench_ggml.c" -o "$work/bench_ggml" \
  "$build/engine/libzenith.a" -L"$work/lib" -Wl,-rpath,"$work/lib" -lggml -lggml-cpu -lggml-base -lpthread -lm

measure() { # ENGINE BITS SHAPE
  for ((turn = 0; turn < turns; turn++)); do
    for side in "$1" ggml; do
      # shellcheck disable=SC2086
      "$work/bench_ggml" "$side" "$threads" "$2" "${3%:*}" "${3#*:}" $rows 2>/dev/null | sed "s/^/$side /"
    done
  done | awk -v engine="$1" -v bits="$2" -v shape="$3" '
    { key = $1 " " $2; if (!(key in best) || $4 < best[key]) best[key] = $4; n[$2] = 1 }
    END {
      for (r in n)
        printf "%5d %12s %6d %10.3f %10.3f %7.2f\n", bits, shape, r, best[engine " " r], best["ggml " r], best["ggml " r] / best[engine " " r] | "sort -k3n"
    }'
}

for engine in $engines; do
  if ! "$work/bench_ggml" "$engine" 1 4 32 16 1 >/dev/null 2>"$work/why"; then
    printf 'skip %s: %s\n' "$engine" "$(cat "$work/why")"
    continue
  fi
  printf '%s, %d threads, CPU ms\n%5s %12s %6s %10s %10s %7s\n' "$engine" "$threads" bits shape rows zenith ggml ratio
  for bits in 4 8; do
    for shape in $shapes; do
      measure "$engine" "$bits" "$shape"
    done
  done
done
