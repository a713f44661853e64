#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Products of 4-bit and 8-bit weights beside ggml's (Q4_0, Q8_0), in one run on one machine.
#
#   tools/bench_ggml.sh BUILD_DIR WORK_DIR [THREADS]
#
# WORK_DIR is outside of the source: ggml is fetched there (the source of PyPI's llama-cpp-python has it), built for this CPU, and
# kept.  The two take turns; the best CPU time of each counts, since other programs may be running.
set -eu
build=$(cd "${1:?usage: bench_ggml.sh BUILD_DIR WORK_DIR [THREADS]}" && pwd)
mkdir -p "${2:?usage: bench_ggml.sh BUILD_DIR WORK_DIR [THREADS]}"
work=$(cd "$2" && pwd)
threads=${3:-$(nproc)}
here=$(cd "$(dirname "$0")" && pwd)
shapes=${SHAPES:-"3840:3840 3840:10240"} rows=${ROWS:-"1 32 1024"} turns=${TURNS:-3}

if [ ! -e "$work/lib/libggml.so" ]; then
  # pip would build the package to learn its name: the index is read instead.
  python3 - "$work/llama.tar.gz" <<'PYTHON'
import re, sys, urllib.request
page = urllib.request.urlopen("https://pypi.org/simple/llama-cpp-python/").read().decode()
files = re.findall(r'href="([^"#]*/llama_cpp_python-([0-9.]+)\.tar\.gz)', page)
urllib.request.urlretrieve(max(files, key=lambda f: [int(n) for n in f[1].split(".")])[0], sys.argv[1])
PYTHON
  tar -C "$work" -xzf "$work/llama.tar.gz" --wildcards '*/vendor/llama.cpp/ggml/*'
  source=$(echo "$work"/llama_cpp_python-*/vendor/llama.cpp/ggml)
  touch "$source/ggml.pc.in" # left out of that package
  cmake -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF \
    -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DGGML_CCACHE=OFF >"$work/log" 2>&1
  cmake --build "$work/build" --target ggml -j"$(nproc)" >>"$work/log" 2>&1
  mkdir -p "$work/lib"
  find "$work/build" -name 'libggml*.so*' -exec cp -P {} "$work/lib" \;
fi
cc -O2 -std=gnu11 -I"$(echo "$work"/llama_cpp_python-*/vendor/llama.cpp/ggml/include)" "$here/bench_ggml.c" -o "$work/bench_ggml" \
  "$build/engine/libzenith.a" -L"$work/lib" -Wl,-rpath,"$work/lib" -lggml -lggml-cpu -lggml-base -lpthread -lm

printf '%d threads, CPU ms\n%5s %12s %6s %10s %10s %7s\n' "$threads" bits shape rows zenith ggml ratio
for bits in 4 8; do
  for shape in $shapes; do
    for ((turn = 0; turn < turns; turn++)); do
      for side in zenith ggml; do
        # shellcheck disable=SC2086
        "$work/bench_ggml" $side "$threads" $bits "${shape%:*}" "${shape#*:}" $rows 2>/dev/null | sed "s/^/$side /"
      done
    done | awk -v bits="$bits" -v shape="$shape" '
      { key = $1 " " $2; if (!(key in best) || $4 < best[key]) best[key] = $4; n[$2] = 1 }
      END {
        for (r in n)
          printf "%5d %12s %6d %10.3f %10.3f %7.2f\n", bits, shape, r, best["zenith " r], best["ggml " r], best["ggml " r] / best["zenith " r] | "sort -k3n"
      }'
  done
done
