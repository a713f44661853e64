#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The product of 4-bit weights beside ggml's (Q4_0), in one run on one machine.
#
#   tools/bench_ggml.sh BUILD_DIR WORK_DIR [THREADS]
#
# WORK_DIR is outside of the source: ggml is fetched there (PyPI's ggml-python has its source), built for this CPU, and kept.
# The two take turns; the best time of each counts.
set -eu
build=$(cd "${1:?usage: bench_ggml.sh BUILD_DIR WORK_DIR [THREADS]}" && pwd)
mkdir -p "${2:?usage: bench_ggml.sh BUILD_DIR WORK_DIR [THREADS]}"
work=$(cd "$2" && pwd)
threads=${3:-$(nproc)}
here=$(cd "$(dirname "$0")" && pwd)
in=2560 out=2560 rows="1 32 256"

if [ ! -e "$work/lib/libggml.so" ]; then
  python3 -m pip download -q --no-deps -d "$work" ggml-python
  tar -C "$work" -xzf "$work"/ggml_python-*.tar.gz
  cmake -S "$work"/ggml_python-*/vendor/ggml -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DGGML_BUILD_TESTS=OFF \
    -DGGML_BUILD_EXAMPLES=OFF -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON >"$work/log"
  cmake --build "$work/build" --target ggml -j"$(nproc)" >>"$work/log"
  mkdir -p "$work/lib"
  find "$work/build" -name 'libggml*.so*' -exec cp -P {} "$work/lib" \;
fi
cc -O2 -std=gnu11 -I"$(echo "$work"/ggml_python-*/vendor/ggml/include)" "$here/bench_ggml.c" -o "$work/bench_ggml" -L"$work/lib" \
  -Wl,-rpath,"$work/lib" -lggml -lggml-cpu -lggml-base

ours() { "$build/tests/test_check" --bench --only ', int4' -t "$threads" 2>/dev/null | sed -n "s/^.*linear $in>$out \([0-9]*\) tokens*, int4 *\([0-9.]*\) ms.*/\1 \2/p"; }
theirs() { "$work/bench_ggml" "$threads" $in $out $rows; }
for turn in 1 2 3; do
  ours | sed 's/^/zenith /'
  theirs | sed 's/^/ggml /'
done | awk -v threads="$threads" -v shape="$in > $out" '
  { key = $1 " " $2; if (!(key in best) || $3 < best[key]) best[key] = $3; if ($1 == "ggml") n[$2] = 1 }
  END {
    printf "int4 product %s, %d threads, ms\n%8s %10s %10s %8s\n", shape, threads, "rows", "zenith", "ggml", "ratio"
    fflush()
    for (r in n) printf "%8d %10.3f %10.3f %8.2f\n", r, best["zenith " r], best["ggml " r], best["ggml " r] / best["zenith " r] | "sort -n"
  }'
