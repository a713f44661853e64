# SPDX-License-Identifier: MIT
# commands.sh - the longer commands of ./run, which sources this file.

# ---- gegl, presets -------------------------------------------------------------------------------------------

# filter IN OUT OPERATION [PROPERTY=VALUE...]: gegl exits 0 whatever happens, so look at what it said and left.
filter() {
  local in=$1 out=$2 said
  shift 2
  rm -f "$out"
  said=$(gegl "$in" -o "$out" -- "$@" 2>&1 | grep -vE 'GeglBuffers leaked|gegl_tile_cache_destroy|EEEEeEeek|^$' || true)
  if [ -n "$said" ] || [ ! -s "$out" ]; then
    echo "run: $* on $in failed: ${said:-no output}" >&2
    return 1
  fi
}

# zenith-batch is the one way from picture to picture: presets of one's own, metadata, nothing half written.
batch() {
  main_build "${pkg_gegl[@]}" "${pkg_batch[@]}" >&2
  use_build
  exec "$build/batch/zenith-batch" "$@"
}

cmd_gegl_preset() {
  local again=()
  if [ $# -eq 4 ] && [ "$4" = --in-place ]; then again=(--in-place); elif [ $# -ne 3 ]; then
    echo "usage: ./run gegl-preset NAME IN OUT [--in-place]" >&2
    exit 2
  fi
  batch "${again[@]}" --preset="$1" -- "$2" "$3"
}

cmd_denoise_folder() {
  if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo "usage: ./run denoise-folder IN OUT [PRESET]" >&2
    exit 2
  fi
  batch --preset="${3:-High ISO photo}" -- "$1" "$2"
}

# ---- demo ----------------------------------------------------------------------------------------------------

cmd_demo() {
  local start=$SECONDS out=$root/out name tiles=() wrote=0
  main_build "${pkg_gegl[@]}" "${pkg_picture[@]}"
  use_build
  mkdir -p "$out"
  rm -f "$out"/*.png
  echo "built in $((SECONDS - start)) s; engine: $("$build/engine/zenith" engines | sed -n 's/^\* *//p')"

  # step FILE LABEL IN OPERATION...
  step() {
    local file=$1 label=$2 in=$3 t
    shift 3
    t=$(date +%s%N)
    filter "$in" "$out/$file" "$@" || exit 1
    t=$((($(date +%s%N) - t) / 1000000))
    printf '  %-30s %6d ms   %s\n' "out/$file" "$t" "$label"
    tiles+=(-label "$label" "$out/$file")
    wrote=$((wrote + 1))
  }
  for name in astronaut chelsea coffee; do
    tiles+=(-label "$name" "$root/samples/$name.png")
    step "$name-noisy.png" "$name, noise added" "$root/samples/$name.png" \
      gegl:noise-rgb independent=true gaussian=true linear=false correlated=false red=0.2 green=0.2 blue=0.2 seed=7
    step "$name-denoise-fast.png" "denoise, fast" "$out/$name-noisy.png" zenith:denoise model=fast
    step "$name-denoise-balanced.png" "denoise, balanced" "$out/$name-noisy.png" zenith:denoise model=balanced
    step "$name-reconstruct.png" "latent preview" "$root/samples/$name.png" zenith:latent-preview mode=reconstruct
    step "$name-latent.png" "the latent" "$root/samples/$name.png" zenith:latent-preview mode=latent
    step "$name-difference.png" "difference x 4" "$root/samples/$name.png" zenith:latent-preview mode=difference
    step "$name-round-trip.png" "encode, decode" "$root/samples/$name.png" zenith:latent-encode zenith:latent-decode
  done
  # The astronaut's face, which is found, and one that the latent network makes up.
  local crop=(gegl:crop x=124 y=24 width=200 height=200)
  step "face.png" "a face" "$root/samples/astronaut.png" "${crop[@]}"
  step "face-smile.png" "smile" "$root/samples/astronaut.png" zenith:diffae-manipulate attribute=smile amount=1 "${crop[@]}"
  step "face-older.png" "age" "$root/samples/astronaut.png" zenith:diffae-manipulate attribute=age amount=1 "${crop[@]}"
  step "face-younger.png" "age -1" "$root/samples/astronaut.png" zenith:diffae-manipulate attribute=age amount=-1 "${crop[@]}"
  step "face-reconstruct.png" "what the model keeps" "$root/samples/astronaut.png" zenith:diffae-reconstruct "${crop[@]}"
  step "face-sample.png" "a face of nobody" "$root/samples/astronaut.png" zenith:diffae-sample seed=5
  step "face-between.png" "between the two" "$root/samples/astronaut.png" zenith:diffae-interpolate position=0.35 "path=$out/face-sample.png" "${crop[@]}"
  montage -font "$font" "${tiles[@]}" -tile 8x -geometry 256x256+6+6 -background white "$out/contact-sheet.png"
  echo "wrote $wrote pictures and out/contact-sheet.png in $((SECONDS - start)) s"
  echo "next: ./run gimp PICTURE (Filters > Zenith), or ./run install"
}

# ---- GIMP ----------------------------------------------------------------------------------------------------

# cmd_gimp [-i] [ARGUMENT...]: the newest GIMP here, with a private gimprc that adds this build's plug-in.
cmd_gimp() {
  local gimp plugins dir=$root/.cache/gimp version
  main_build "${pkg_gegl[@]}" "${pkg_gimp[@]}" >&2
  use_build
  if command -v gimp-console-3.0 >/dev/null; then
    gimp=gimp-3.0 version=3 plugins=$dir/plug-ins-3
    install -D "$build/plugin/zenith-gimp3" "$plugins/zenith-gimp3/zenith-gimp3"
  else
    gimp=gimp-2.10 version=2 plugins=$dir/plug-ins-2
    install -D "$build/plugin/zenith-gimp2" "$plugins/zenith-gimp2/zenith-gimp2"
  fi
  if [ "${1:-}" = -i ]; then # the console; a batch goes on with its own options
    gimp=${gimp/gimp-/gimp-console-}
  fi
  mkdir -p "$dir"
  echo "(plug-in-path \"$plugins:\${gimp_dir}/plug-ins:\${gimp_plug_in_dir}/plug-ins\")" >"$dir/gimprc-$version"
  exec "$gimp" "--system-gimprc=$dir/gimprc-$version" "$@"
}

# ---- tests ---------------------------------------------------------------------------------------------------

# suite NAME COMMAND...: runs it, shows what is not ok, and notes its last line in $tallies.  The seconds of CPU are what a
# suite costs; the others depend on what runs beside it.
suite() {
  local name=$1 log=$root/.cache/test-${1//[^a-z0-9]/-}.log status=0 tally t=$SECONDS p f k cpu note="" TIMEFORMAT='%U %S'
  shift
  { time "$@" >"$log" 2>&1; } 2>"$log.cpu" || status=$?
  cpu=$(awk 'END { printf "%.0f", $1 + $2 }' "$log.cpu")
  rm -f "$log.cpu"
  tally=$(grep -E '^([a-z0-9]+: )?[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1 || true)
  p=$(sed -nE 's/.*\b([0-9]+) passed.*/\1/p' <<<"$tally") f=$(sed -nE 's/.* ([0-9]+) failed.*/\1/p' <<<"$tally")
  k=$(sed -nE 's/.* ([0-9]+) skipped.*/\1/p' <<<"$tally")
  if [ -z "$tally" ] || { [ "$status" -ne 0 ] && [ "$f" = 0 ]; }; then
    f=$((${f:-0} + 1))
    note=" (exit status $status; the end of $log)"
  fi
  echo "${p:-0} $f ${k:-0} $cpu" >>"$tallies"
  { # in one piece: two lanes write here
    printf '%-34s %s passed, %s failed, %s skipped, CPU %d s, %d s%s\n' "$name" "${p:-0}" "$f" "${k:-0}" "$cpu" $((SECONDS - t)) "$note"
    grep -E '^(not ok|skip)' "$log" | sed 's/^/    /' || true
    [ -z "$note" ] || tail -n 15 "$log" | sed 's/^/    /'
  } | cat
}

# total: adds up what the suites noted; the last line of every test command.
total() {
  awk '{ p += $1; f += $2; k += $3 } END { printf "%d passed, %d failed, %d skipped\n", p, f, k; exit f > 0 }' "$tallies"
}

# one NAME COMMAND...: a single test.
one() {
  local name=$1
  shift
  if "$@" >"$root/.cache/one.log" 2>&1; then
    printf 'ok %s\n1 passed, 0 failed, 0 skipped\n' "$name"
  else
    printf 'not ok %s\n' "$name"
    tail -n 20 "$root/.cache/one.log"
    printf '0 passed, 1 failed, 0 skipped\n'
  fi
}

# Every symbol that the library exports has the prefix.
only_our_symbols() {
  ! nm -g --defined-only "$build/engine/libzenith.a" 2>/dev/null | awk 'NF == 3 && $3 !~ /^zn_/ { print; bad = 1 } END { exit !bad }'
}

# The readers of files alone, instrumented.
# compile_fuzz TARGET SOURCE...: tests/fuzz/fuzz_TARGET.c with these files.
compile_fuzz() {
  local exe=$root/.cache/fuzz_$1 src=("$root/tests/fuzz/fuzz_$1.c") f
  for f in "${@:2}"; do
    src+=("$root/$f.c")
  done
  [ -x "$exe" ] && [ -z "$(find "$root/engine/core" "$root/engine/text" "${src[@]}" -newer "$exe")" ] && return 0
  clang -std=c11 -g -O1 -D_GNU_SOURCE -DZN_SOURCE_ROOT="\"$root\"" -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=undefined "${src[@]}" -o "$exe"
}

compile_fuzzers() {
  compile_fuzz weights engine/core/{weights,safetensors,torchzip,gguf,blocks,pickle,json,convert,quantise,status} tests/attack/bytes &&
    compile_fuzz text engine/text/{bpe,split,tokenizer,unicode} engine/core/{json,status}
}

# fuzz TARGET SECONDS SEEDS [OPTION...]
fuzz() {
  local work=$root/.cache/fuzz-corpus-$1
  mkdir -p "$work"
  ASAN_OPTIONS=allocator_may_return_null=1 "$root/.cache/fuzz_$1" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 "${@:4}" "$work" "$3" && echo "1 passed, 0 failed, 0 skipped"
}

# ---- attack --------------------------------------------------------------------------------------------------

# ASan and UBSan over everything; TSan over the one program that is for it.  -O1: with more, compilers take minutes over
# the instrumented kernels; -g1: reports name lines, and nothing follows variables.
build_asan() {
  targets=sanitized compile "$root/build-asan" gcc -Db_sanitize=address,undefined -Doptimization=1 -Dc_args=-g1 -Db_lundef=false \
    -Dgegl=auto -Dwerror=true -Dgimp2=disabled -Dgimp3=disabled -Dcuda=disabled
}
build_tsan() {
  targets=tests/attack_threads compile "$root/build-tsan" gcc -Db_sanitize=thread -Doptimization=1 -Dc_args=-g1 -Db_lundef=false \
    -Dwerror=true -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled -Dcuda=disabled
}

# attack_lane FILES|PROGRAMS SECONDS KILLS: half of what there is; the seconds are shared out over the generators.  What
# broke something, and where each generator is, stays in .cache/attack.
attack_lane() {
  local kept=$root/.cache/attack asan=$root/build-asan/tests jobs=$((($(nproc) + 1) / 2)) # of each lane
  mkdir -p "$kept"
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  if [ "$1" = files ]; then
    suite "attack, readers" "$asan/attack_readers" -j "$jobs" "$kept" "$(($2 * 7 / 10 + 1))"
    [ ! -x "$asan/attack_files" ] || suite "attack, readers beside GEGL" "$asan/attack_files" -j "$jobs" "$kept" "$(($2 * 3 / 10 + 1))"
    return
  fi
  suite "attack, models" "$asan/attack_models" -j "$jobs" "$kept" "$(($2 / 2 + 1))"
  [ ! -x "$asan/gegl/attack_graphs" ] || suite "attack, graphs" "$asan/gegl/attack_graphs" "$kept" "$(($2 * 4 / 10 + 1))"
  TSAN_OPTIONS=halt_on_error=1 suite "attack, threads" "$root/build-tsan/tests/attack_threads" "$kept" "$(($2 / 10 + 1))"
  suite "attack, allocations" "$root/tests/attack/alloc.sh" "$build" "$3" "$kept"
  SEED=$(date +%s) suite "attack, writers" "$root/tests/attack/writers.sh" "$build" "$3"
}

# attack_table: what was run, all calls together.
attack_table() {
  local f cases failures
  printf '\n%-22s %14s %10s\n' generator cases failures
  for f in "$root"/.cache/attack/*.state; do
    read -r cases failures <"$f"
    printf '%-22s %14s %10s\n' "$(basename "$f" .state)" "$cases" "$failures"
  done
}

# MINUTES of generated cases, in two lanes, and 200 kills; or `large`: 100 megapixels through every operation.
cmd_attack() {
  local minutes=${1:-10} picture=$root/.cache/large.jpg
  need "${pkg_build[@]}" "${pkg_gegl[@]}" "${pkg_batch[@]}" "${pkg_picture[@]}"
  tallies=$root/.cache/tallies-attack
  mkdir -p "$root/.cache"
  : >"$tallies"
  targets=all main_build
  use_build
  if [ "$minutes" = large ]; then
    shift
    [ -s "$picture" ] || convert -size 12000x8400 "tile:$root/samples/chelsea.png" -quality 92 "$picture"
    exec "$build/tests/gegl/attack_large" "$picture" "$@"
  fi
  case $minutes in '' | *[!0-9]* | 0) die "usage: ./run attack [MINUTES | large]" ;; esac
  exec 3>&1
  progress=3
  suite "build, sanitizers" one "ASan and UBSan" build_asan
  suite "build, TSan" one "TSan" build_tsan
  total >/dev/null || { total; exit 1; }
  attack_lane files $((minutes * 60)) 0 &
  attack_lane programs $((minutes * 60)) 50
  wait
  attack_table
  total
}

# The other architecture's kernels, under emulation.
foreign() {
  local arch=$1 engine=$2 dir=$root/build-$1 wrap="qemu-$1 -L /usr/$1-linux-gnu" targets="tests/test_check tests/test_golden"
  local said=$root/.cache/foreign.log status=0
  if [ ! -f "$dir/build.ninja" ]; then
    mkdir -p "$root/.cache"
    cat >"$root/.cache/cross-$arch.ini" <<TEXT
[binaries]
c = '$arch-linux-gnu-gcc'
ar = '$arch-linux-gnu-ar'
strip = '$arch-linux-gnu-strip'
[host_machine]
system = 'linux'
cpu_family = '$arch'
cpu = '$arch'
endian = 'little'
TEXT
    compile "$dir" gcc --cross-file "$root/.cache/cross-$arch.ini" -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled -Dcuda=disabled || return 1
  fi
  compile "$dir" || return 1
  [ "$arch" = x86_64 ] && wrap="$wrap -cpu max"
  # Emulation is some 30 times slower: every third case of the groups that take long, so each size with one of its tails; and
  # the shipped networks not in plain C, which is the same on every architecture.
  { $wrap "$dir/tests/test_check" -e 3 "$engine" && $wrap "$dir/tests/test_golden" "$engine"; } >"$said" 2>&1 || status=1
  grep -v ' passed, ' "$said"
  awk '/^[0-9]+ passed, / { p += $1; f += $3; k += $5 } END { printf "%d passed, %d failed, %d skipped\n", p, f, k }' "$said"
  return $status
}

# What runs on any build of the engine alone: all of test_exes in tests/meson.build.
engine_tests() {
  local label=$1 dir=$2 t
  if [ "$label" = sanitizers ] && [ -z "${CI:-}" ]; then # what is slow with instruments is left to CI
    part "kernels, $label" "$dir/tests/test_check" neon avx2 avx512
  else
    part "kernels, $label" "$dir/tests/test_check"
    part "gradients, $label" "$dir/tests/test_gradients"
  fi
  for t in $(sed -nE "s|^  '([a-z0-9_]+)': '(unit\|models)/.*|\1|p" "$root/tests/meson.build"); do
    [ "$t, $label, ${CI:-}" != "stream, sanitizers, " ] || continue # likewise
    part "$t, $label" "$dir/tests/test_$t"
  done
}

# part NAME COMMAND...: a suite, if no other lane has begun it.
part() {
  ! mkdir "$parts/${1//[^a-z0-9]/-}" 2>/dev/null || suite "$@"
}

# Three lanes: what computes; what asks GEGL and GIMP; the dialog, which mostly waits, and what else there is time for.  A
# lane that is done takes what is left of the common part, so no core waits for the last lane.
lanes() {
  local lane pids=() p
  for lane in engine dialog gimp; do
    ("lane_$lane" "$1"; lane_common) &
    pids+=($!)
  done
  for p in "${pids[@]}"; do
    wait "$p" || echo "0 1 0 0" >>"$tallies" # it ended before its end
  done
}
lane_engine() {
  suite "include rules" "$root/tests/unit/includes.sh" "$build"
  suite "layout" "$root/tests/unit/format.sh"
  suite "symbols" one "only zn_ symbols are exported" only_our_symbols
  engine_tests gcc "$build"
  suite "command line" "$root/tests/cli/test_cli.sh" "$build/engine/zenith"
  suite "training, command line" "$root/tests/cli/test_train.sh" "$build/engine/zenith"
  suite "teach, command line" "$root/tests/cli/test_teach.sh" "$build/engine/zenith" "$build/tests"
  suite "cuda, without a GPU" "$root/tests/cli/test_cuda.sh" "$build/engine/zenith" "$build/tests"
}
lane_gimp() {
  local t
  suite "real weights" "$build/tests/test_real"
  for t in filters noise formats latents denoise whole zimage faces face_model failures regions; do
    suite "operations, $t" "$build/tests/gegl/test_$t"
  done
  suite "operations, gegl" "$root/tests/gegl/run_gegl.sh" "$build"
  suite "examples, gegl" "$root/tests/gegl/run_examples.sh" "$build"
  for t in formats folder kill prompts; do
    suite "batch, $t" "$root/tests/batch/test_$t.sh" "$build"
  done
  if [ -x "$build/plugin/zenith-gimp2" ]; then
    suite "gimp 2.10" "$root/tests/plugin/gimp2.sh"
  elif [ -x "$build/plugin/zenith-gimp3" ]; then
    suite "gimp 3" "$root/tests/plugin/gimp3.sh"
  else
    suite "gimp" printf 'skip gimp: this build has no plug-in, for meson found no GIMP\n0 passed, 0 failed, 1 skipped\n'
  fi
}
# The other architecture, whose code runs here in emulation: `arch`, the engine of it, and Debian's name.
foreign_names() {
  arch=x86_64 engine=avx2 deb=amd64
  [ "$(uname -m)" != x86_64 ] || arch=aarch64 engine=neon deb=arm64
}

lane_dialog() {
  [ ! -x "$build/plugin/zenith-gimp2" ] || suite "gimp 2.10, dialog" "$root/tests/plugin/dialog.sh"
  suite "translations" "$root/tests/plugin/po.sh"
  suite "batch, cluster" "$root/tests/batch/test_cluster.sh" "$build"
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  suite "fuzz, $1 s" fuzz weights "$1" "$root/tests/fuzz/corpus"
  suite "fuzz text, $1 s" fuzz text "$1" "$root/tests/data/text" -max_len=12000
  attack_lane files 20 0
  attack_lane programs 40 6
}
# The longest first.
lane_common() {
  local arch engine deb
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  if [ -n "${CI:-}" ]; then # emulation takes minutes
    foreign_names
    if command -v "qemu-$arch" >/dev/null && command -v "$arch-linux-gnu-gcc" >/dev/null; then
      part "$engine, emulated" foreign "$arch" "$engine"
    else
      part "$engine, emulated" printf 'skip %s: needs qemu-user and gcc-%s-linux-gnu\n0 passed, 0 failed, 1 skipped\n' "$engine" "${arch//_/-}"
    fi
  fi
  ASAN_OPTIONS=detect_leaks=0 part "command line, sanitizers" "$root/tests/cli/test_cli.sh" "$root/build-asan/engine/zenith"
  engine_tests sanitizers "$root/build-asan"
  part "kernels, clang" "$root/build-clang/tests/test_check" neon avx2 avx512 # gcc's build has the scalar ones and the proofs
  part "leaks, sanitizers" "$root/build-asan/tests/test_leaks"
}

cmd_test() {
  local start=$SECONDS
  need "${pkg_build[@]}" "${pkg_gegl[@]}" "${pkg_gimp[@]}" "${pkg_batch[@]}" "${pkg_picture[@]}" "${pkg_test[@]}"
  if [ -n "${CI:-}" ] && [ "$(id -u)" -eq 0 ]; then
    local arch engine deb
    foreign_names
    (need qemu-user "gcc-${arch//_/-}-linux-gnu" "libc6-dev-$deb-cross") || true # without them that test is skipped, and says so
  fi
  mkdir -p "$root/.cache"
  tallies=$root/.cache/tallies
  : >"$tallies"
  use_build

  exec 3>&1
  progress=3
  suite "build, gcc" one "gcc -Werror" compile "$build" gcc -Dwerror=true -Dcuda=auto "${gpu_test[@]}"
  suite "build, clang" one "clang -Werror" compile "$root/build-clang" clang -Dwerror=true -Dcuda=disabled
  suite "build, sanitizers" one "ASan and UBSan" build_asan
  suite "build, TSan" one "TSan" build_tsan
  suite "build, fuzz target" one "libFuzzer" compile_fuzzers
  total >/dev/null || { total; exit 1; }

  parts=$root/.cache/parts
  rm -rf "$parts"
  mkdir "$parts"
  lanes "$([ -n "${CI:-}" ] && echo 60 || echo 10)"
  if [ -n "${CI:-}" ]; then # alone: it sets the prefix of the build, and parts of it are compiled again
    suite "install, uninstall" "$root/tests/plugin/install.sh"
  fi
  echo "took $((SECONDS - start)) s, CPU $(awk '{ cpu += $4 } END { print cpu }' "$tallies") s"
  total
}

cmd_test_gimp3() {
  main_build "${pkg_gegl[@]}"
  use_build
  tallies=$root/.cache/tallies
  : >"$tallies"
  suite "gimp 3, in a Debian 13 root" "$root/tests/plugin/gimp3.sh"
  total
}

# ---- speed ---------------------------------------------------------------------------------------------------

cmd_bench() {
  targets=all main_build
  use_build
  if [ "${1:-}" = batch ]; then
    need "${pkg_picture[@]}" "${pkg_gegl[@]}" "${pkg_batch[@]}"
    shift
    exec "$root/tools/bench_batch.sh" "$@"
  fi
  if [ "${1:-}" = peers ]; then
    need python3-venv
    shift
    exec "$root/tools/bench_peers.sh" "$@"
  fi
  if [ "${1:-}" = latents ]; then
    shift
    "${PYTHON:-python3}" "$root/tools/quality_latents.py" "${1:-$root/../shared/data/testsets/Kodak24}" "${@:2}" --zenith "$build/engine/zenith"
    exec "${PYTHON:-python3}" "$root/tools/bench_latents.py" "${@:2}" --zenith "$build/engine/zenith"
  fi
  if [ "${1:-}" = quality ]; then
    shift
    exec "${PYTHON:-python3}" "$root/tools/quality_peers.py" --zenith "$build/engine/zenith" "$@"
  fi
  "$build/engine/zenith" bench --threads 1
  "$build/engine/zenith" bench
  "$build/tests/test_check" --bench
  for name in denoise faces; do
    [ ! -x "$build/tests/gegl/bench_$name" ] || "$build/tests/gegl/bench_$name" 2>/dev/null
  done
}
