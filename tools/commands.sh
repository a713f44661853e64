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
    tiles+=(-label "$name" "$root/docs/samples/$name.png")
    step "$name-noisy.png" "$name, noise added" "$root/docs/samples/$name.png" \
      gegl:noise-rgb independent=true gaussian=true linear=false correlated=false red=0.2 green=0.2 blue=0.2 seed=7
    step "$name-denoise-fast.png" "denoise, fast" "$out/$name-noisy.png" zenith:denoise model=fast
    step "$name-denoise-balanced.png" "denoise, balanced" "$out/$name-noisy.png" zenith:denoise model=balanced
    step "$name-reconstruct.png" "latent preview" "$root/docs/samples/$name.png" zenith:latent-preview mode=reconstruct
    step "$name-latent.png" "the latent" "$root/docs/samples/$name.png" zenith:latent-preview mode=latent
    step "$name-difference.png" "difference x 4" "$root/docs/samples/$name.png" zenith:latent-preview mode=difference
    step "$name-round-trip.png" "encode, decode" "$root/docs/samples/$name.png" zenith:latent-encode zenith:latent-decode
  done
  step "soft.png" "blurred" "$root/docs/samples/chelsea.png" gegl:gaussian-blur std-dev-x=1.2 std-dev-y=1.2
  step "soft-restore.png" "restore" "$out/soft.png" zenith:restore
  step "face-upscale.png" "enlarged twice" "$root/docs/samples/astronaut.png" gegl:crop x=124 y=24 width=200 height=200 zenith:upscale scale=2
  # The astronaut's face, which is found, and one that the latent network makes up.
  local crop=(gegl:crop x=124 y=24 width=200 height=200)
  step "face.png" "a face" "$root/docs/samples/astronaut.png" "${crop[@]}"
  step "face-smile.png" "smile" "$root/docs/samples/astronaut.png" zenith:diffae-manipulate attribute=smile amount=1 "${crop[@]}"
  step "face-older.png" "age" "$root/docs/samples/astronaut.png" zenith:diffae-manipulate attribute=age amount=1 "${crop[@]}"
  step "face-younger.png" "age -1" "$root/docs/samples/astronaut.png" zenith:diffae-manipulate attribute=age amount=-1 "${crop[@]}"
  step "face-reconstruct.png" "what the model keeps" "$root/docs/samples/astronaut.png" zenith:diffae-reconstruct "${crop[@]}"
  step "face-sample.png" "a face of nobody" "$root/docs/samples/astronaut.png" zenith:diffae-sample seed=5
  step "face-between.png" "between the two" "$root/docs/samples/astronaut.png" zenith:diffae-interpolate position=0.35 "path=$out/face-sample.png" "${crop[@]}"
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
  { time "$@" >"$log" 2>&1 9>&-; } 2>"$log.cpu" || status=$?
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

# plain_language: what a program is asked and answers here is the same for every user; tests set a language of their own.
plain_language() {
  export LC_ALL=C.UTF-8
  unset LANGUAGE
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

# ---- attack --------------------------------------------------------------------------------------------------

# shaders: what says to another build that the compiled shaders are those of build/, if it has them.
shaders() { [ ! -e "$build/engine/vulkan/fill.num" ] || echo "-Dspirv=$build/engine/vulkan"; }

# ASan and UBSan over everything; TSan over the programs that are for it.  -O1: with more, compilers take minutes over
# the instrumented kernels; -g1: reports name lines, and nothing follows variables.
build_asan() {
  targets=sanitized compile "$root/build-asan" gcc -Db_sanitize=address,undefined -Doptimization=1 -Dc_args=-g1 -Db_lundef=false \
    -Dgegl=auto -Dwerror=true -Dgimp2=disabled -Dgimp3=disabled -Dcuda=disabled $(shaders)
}
build_tsan() {
  targets="tests/attack_threads tests/test_session" compile "$root/build-tsan" gcc -Db_sanitize=thread -Doptimization=1 -Dc_args=-g1 -Db_lundef=false \
    -Dwerror=true -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled -Dcuda=disabled $(shaders)
}

# attack_lane NUMBER OF LANES SECONDS TIMES: each NUMBERth of the attacks in the registry.  The last number among the
# arguments becomes how often, or the share of the seconds that it is of the lane's sum.
attack_lane() {
  local what name command all sum words i
  all=$(awk -v n="$1" -v of="$2" 'NR % of == n % of' "$registry")
  sum=$(awk -F '\t' '$2 == "seconds" { for (n = split($5, w, " "); n && w[n] !~ /^[0-9]+$/; n--); s += w[n] } END { print s + 0 }' <<<"$all")
  while IFS=$'\t' read -r _ what _ name command <&4; do
    eval "words=($command)"
    for ((i = ${#words[@]} - 1; i > 0; i--)); do
      case ${words[i]} in '' | *[!0-9]*) continue ;; esac
      [ "$what" = times ] && words[i]=$4 || words[i]=$(($3 * words[i] / sum + 1))
      break
    done
    suite "$name" "${words[@]}"
  done 4<<<"$all"
}

# attack_table: what was run, all calls together.
attack_table() {
  local f cases failures
  printf '\n%-22s %14s %10s\n' generator cases failures
  cd "$root/.cache/attack" || return
  for f in *.state */*.state; do
    [ ! -f "$f" ] || { read -r cases failures <"$f" && printf '%-22s %14s %10s\n' "${f%.state}" "$cases" "$failures"; }
  done
}

# MINUTES of generated cases, in two lanes, and 200 kills; on other machines a third of that for x86-64 in emulation.  Or
# `large`: 100 megapixels through every operation.
cmd_attack() {
  local minutes=${1:-10} picture=$root/.cache/large.jpg
  need "${pkg_build[@]}" "${pkg_gegl[@]}" "${pkg_batch[@]}" "${pkg_picture[@]}"
  tallies=$root/.cache/tallies-attack
  mkdir -p "$root/.cache"
  : >"$tallies"
  targets=all main_build
  use_build
  plain_language
  if [ "$minutes" = large ]; then
    shift
    [ -s "$picture" ] || convert -size 12000x8400 "tile:$root/docs/samples/chelsea.png" -quality 92 "$picture"
    exec "$build/tests/gegl/attack_large" "$picture" "$@"
  fi
  case $minutes in '' | *[!0-9]* | 0) die "usage: ./run attack [MINUTES | large]" ;; esac
  exec 3>&1
  progress=3
  suite "build, sanitizers" one "ASan and UBSan" build_asan
  suite "build, TSan" one "TSan" build_tsan
  total >/dev/null || { total; exit 1; }
  registry=$root/.cache/registry-attack
  sanitizer_options
  "$root/tools/registry.py" --attack "gcc=$build" "sanitizers=$root/build-asan" "threads=$root/build-tsan" >"$registry"
  attack_lane 1 2 $((minutes * 60)) 50 &
  attack_lane 2 2 $((minutes * 60)) 50
  wait
  if [ "$(uname -m)" != x86_64 ] && [ "$(id -u)" -eq 0 ]; then
    (need qemu-user gcc-x86-64-linux-gnu libc6-dev-amd64-cross) || true # without them that part is skipped, and says so
  fi
  suite "attack, x86-64" "$root/tests/attack/foreign.sh" "$root/.cache" $((minutes * 20)) "$root/.cache/attack/x86-64"
  attack_table
  total
}

# sanitizer_options: a finding ends the program; every run draws other times to kill at.
sanitizer_options() {
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 SEED
  SEED=$(date +%s)
}

# make_locales: those that tests run in, in .cache/locale, where $LOCPATH finds them; the system's stay as they are.
make_locales() {
  local dir=$root/.cache/locale name
  mkdir -p "$dir"
  for name in de_DE fr_FR tr_TR ja_JP zh_CN; do
    [ -d "$dir/$name.UTF-8" ] || { rm -rf "$dir/new" && localedef -i $name -f UTF-8 "$dir/new" && mv "$dir/new" "$dir/$name.UTF-8"; } || return
  done
  [ "$(LOCPATH=$dir LC_ALL=de_DE.UTF-8 locale decimal_point)" = , ] # an unknown locale is silently C
}

# The other architecture, whose code runs here in emulation: `arch`, and Debian's name of it.
foreign_names() {
  arch=x86_64 deb=amd64
  [ "$(uname -m)" != x86_64 ] || arch=aarch64 deb=arm64
}
build_foreign() {
  local arch deb dir=$root/build-emulated cross=$root/.cache/cross.ini
  foreign_names
  cat >"$cross" <<TEXT
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
  targets="tests/test_check tests/test_golden" compile "$dir" gcc --cross-file "$cross" \
    -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled -Dcuda=disabled $(shaders)
}

# The tests that meson lists (tests/meson.build), as tools/registry.py prints them, are in the file $registry.  Three lanes
# run them: what computes; what asks GEGL and GIMP; the dialog, which mostly waits.  A lane that is done takes what is left of
# the common part, all other builds, so no core waits for the last lane.  Each claims what it begins with a folder in $claims.
lanes() {
  local lane pids=() p
  for lane in engine dialog gimp; do
    (lane "$lane"; lane common) &
    pids+=($!)
  done
  for p in "${pids[@]}"; do
    wait "$p" || echo "0 1 0 0" >>"$tallies" # it ended before its end
  done
}
lane() {
  local world of name command wrap line arch deb
  foreign_names
  while IFS= read -r line <&4; do
    IFS=$'\t' read -r world of _ name command <<<"$line"
    [ "$of" = "$1" ] && mkdir "$claims/${name//[^a-z0-9]/-}" 2>/dev/null || continue
    wrap=()
    if [ "$world" = emulated ]; then
      wrap=("qemu-$arch" -L "/usr/$arch-linux-gnu")
      [ "$arch" != x86_64 ] || wrap+=(-cpu max)
    fi
    eval "suite \"\$name\" \"\${wrap[@]}\" $command" </dev/null
  done 4<"$registry"
}
# Every line of the registry was begun, and no file of tests/ is in none.
all_ran() {
  local name bad=0
  while IFS=$'\t' read -r _ _ _ name _; do
    [ -d "$claims/${name//[^a-z0-9]/-}" ] || { echo "not ok $name: nothing ran it" && bad=$((bad + 1)); }
  done <"$registry"
  [ $bad -gt 0 ] || [ "$(ls "$claims" | wc -l)" = "$(wc -l <"$registry")" ] || { echo "not ok registry: two tests have one name" && bad=$((bad + 1)); }
  [ $bad = 0 ] && echo "ok every test of the registry ran"
  echo "$((bad == 0)) passed, $bad failed, 0 skipped"
  return $((bad > 0))
}

cmd_test() {
  local start=$SECONDS ci=() worlds=("gcc=$build" "clang=$root/build-clang" "sanitizers=$root/build-asan" "threads=$root/build-tsan")
  local arch deb
  foreign_names
  need "${pkg_build[@]}" "${pkg_gegl[@]}" "${pkg_gimp[@]}" "${pkg_batch[@]}" "${pkg_picture[@]}" "${pkg_test[@]}"
  if [ -n "${CI:-}" ]; then
    ci=(--ci)
    if [ "$(id -u)" -eq 0 ]; then
      (need qemu-user "gcc-${arch//_/-}-linux-gnu" "libc6-dev-$deb-cross") || true # without them that test is skipped, and says so
    fi
  fi
  mkdir -p "$root/.cache"
  exec 9>"$root/.cache/test.lock" # suite() closes it: what stays behind does not hold it
  flock -n 9 || die "another ./run test is at work in this folder"
  tallies=$root/.cache/tallies
  : >"$tallies"
  use_build
  plain_language

  exec 3>&1
  progress=3
  suite "locales" one "localedef" make_locales
  suite "build, gcc" one "gcc -Werror" compile "$build" gcc -Dwerror=true -Dcuda=auto "${gpu_test[@]}"
  suite "build, clang" one "clang -Werror" compile "$root/build-clang" clang -Dwerror=true -Dcuda=disabled $(shaders)
  suite "build, sanitizers" one "ASan and UBSan" build_asan
  suite "build, TSan" one "TSan" build_tsan
  if [ -n "${CI:-}" ]; then # emulation takes minutes
    if command -v "qemu-$arch" >/dev/null && command -v "$arch-linux-gnu-gcc" >/dev/null; then
      suite "build, emulated" one "$arch" build_foreign
      worlds+=("emulated=$root/build-emulated")
    else
      suite "build, emulated" printf 'skip emulated: needs qemu-user and gcc-%s-linux-gnu\n0 passed, 0 failed, 1 skipped\n' "${arch//_/-}"
    fi
  fi
  total >/dev/null || { total; exit 1; }

  registry=$root/.cache/registry claims=$root/.cache/claims
  "$root/tools/registry.py" "${ci[@]}" "${worlds[@]}" >"$registry" || die "the list of tests is not in order"
  rm -rf "$claims"
  mkdir "$claims"
  sanitizer_options
  suite "registry" "$root/tests/unit/registry.sh" "${worlds[@]}"
  lanes
  lane alone
  suite "registry, what ran" all_ran
  echo "took $((SECONDS - start)) s, CPU $(awk '{ cpu += $4 } END { print cpu }' "$tallies") s"
  total
}

# cmd_test_gimp3 [13 | sid]
cmd_test_gimp3() {
  case ${1:-13} in 13 | sid) ;; *) die "usage: ./run test-gimp3 [13 | sid]" ;; esac
  main_build "${pkg_gegl[@]}"
  use_build
  tallies=$root/.cache/tallies
  : >"$tallies"
  plain_language
  if [ "${1:-13}" = sid ]; then
    suite "gimp 3.2, in a root of unstable" "$root/tests/plugin/gimp3.sh" sid
  else
    suite "gimp 3, in a Debian 13 root" "$root/tests/plugin/gimp3.sh"
  fi
  total
}

# ---- Windows -------------------------------------------------------------------------------------------------

# cmd_windows: build-windows, by mingw-w64, and its tests under wine (tools/wine.sh).
cmd_windows() {
  local dir=$root/build-windows wine=$root/tools/wine.sh test
  need "${pkg_build[@]}" gcc-mingw-w64-x86-64-posix "$([ "$(uname -m)" = x86_64 ] && echo wine || echo mmdebstrap)"
  tallies=$root/.cache/tallies-windows
  mkdir -p "$root/.cache"
  : >"$tallies"
  plain_language
  suite "build, windows" one "mingw-w64" compile "$dir" gcc --cross-file "$root/tools/windows.ini" -Dwerror=true \
    -Dgegl=disabled -Dgimp2=disabled -Dgimp3=disabled -Dcuda=disabled
  total >/dev/null || { total; exit 1; }
  export ZENITH_MODELS=$root/models
  suite "selftest, windows" one "zenith.exe selftest" "$wine" "$dir/engine/zenith.exe" selftest
  for test in "$dir"/tests/test_*.exe; do
    suite "$(basename "$test" .exe), windows" "$wine" "$test"
  done
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
