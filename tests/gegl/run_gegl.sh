#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The operations through the `gegl` command line, as a user types it.
#
#   run_gegl.sh BUILD_DIR [GEGL]
#
# gegl's exit status says nothing (0 on every failure), so outputs and stderr are looked at.
set -u
build=$(cd "${1:?usage: run_gegl.sh BUILD_DIR [GEGL]}" && pwd) || exit 2
gegl=${2:-gegl}
root=$(cd "$(dirname "$0")/../.." && pwd)
picture=$root/docs/samples/chelsea.png
passed=0 failed=0 skipped=0

finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}
ok() { echo "ok $1" && passed=$((passed + 1)); }
not_ok() { echo "not ok $1: $2" && failed=$((failed + 1)); }
# check NAME WHY COMMAND...: the command must succeed.
check() {
  local name=$1 why=$2
  shift 2
  if "$@" >/dev/null 2>&1; then ok "$name"; else not_ok "$name" "$why"; fi
}

command -v "$gegl" >/dev/null || { echo "skip gegl: there is no gegl command" && skipped=1 && finish; }
[ -f "$picture" ] || { echo "skip gegl: there is no $picture" && skipped=1 && finish; }

tmp=$(mktemp -d) || exit 2
trap 'rm -r "$tmp"' EXIT
mkdir "$tmp/models"
for name in taesd_encoder.pth taesd_decoder.pth taef1_encoder.safetensors taef1_decoder.safetensors; do
  ln -s "$root/tests/data/golden/$name" "$tmp/models/$name"
done
ln -s "$root/tests/data/golden/denoise.safetensors" "$tmp/models/denoise-fast.safetensors"
ln -s "$root/tests/data/golden/restore.safetensors" "$tmp/models/restore.safetensors"
ln -s "$root/models/upscale-small.safetensors" "$tmp/models/upscale.safetensors"
# GEGL_PATH replaces GEGL's own path, so it must name that too.
. "$root/tests/gegl/modules.sh"
gegl_modules "$tmp/gegl"
export GEGL_PATH="$build/gegl-ops:$tmp/gegl"
export ZENITH_MODELS="$tmp/models" XDG_DATA_HOME="$tmp/data" GEGL_USE_OPENCL=no
# babl measures which conversions are fast and keeps that here: one folder for all, or two runs may round differently.
export XDG_CACHE_HOME="$tmp/cache"
mkdir "$tmp/cache"

# GEGL's own leak is left out: the nodes of a chain on the command line have no parent that would free them, so whatever
# caches its result, gegl:gaussian-blur too, is reported.  Leaks of our own: see below.
run() {
  "$gegl" "$@" 2>&1 >/dev/null | grep -v -e 'GeglBuffers leaked' -e gegl_tile_cache_destroy -e '^$' >"$tmp/stderr"
  true
}
# Width and height of a PNG.
size() { od -A n -t u1 -j 16 -N 8 "$1" 2>/dev/null | awk '{ print $3 * 256 + $4 "x" $7 * 256 + $8 }'; }

for op in denoise latent-decode latent-encode latent-preview restore upscale wan-video z-image; do
  check "info of zenith:$op" "gegl --info fails" "$gegl" --info "zenith:$op"
done
"$gegl" --info zenith:denoise >"$tmp/info" 2>&1
check "order of properties" "$(grep -o '^[a-z]* *\[' "$tmp/info" | tr -d ' [\n')" \
  test "$(grep -o '^[a-z]* *\[' "$tmp/info" | tr -d ' [' | tr '\n' ' ')" = \
  "model strength luma chroma detail sigma sharpen engine status measured precision note failed noted weights "
check "key for GIMP's menu" "gimp:menu-path is missing" grep -q '^gimp:menu-path *<Image>/Filters/Zenith/' "$tmp/info"

run "$picture" -o "$tmp/plain.png" -- gegl:nop
want=$(size "$tmp/plain.png")
twice=$((2 * ${want%x*}))x$((2 * ${want#*x}))

# filter NAME ARGS...: gives a picture of the same size, and stderr stays empty.
filter() {
  local name=$1
  shift
  rm -f "$tmp/out.png"
  run "$picture" -o "$tmp/out.png" -- "$@"
  if [ -s "$tmp/stderr" ]; then
    not_ok "$name" "$(head -n 1 "$tmp/stderr")"
  elif [ "$(size "$tmp/out.png")" != "$want" ]; then
    not_ok "$name" "the result is $(size "$tmp/out.png"), not $want"
  else
    ok "$name"
  fi
}
# A picture from a prompt: without an input, with one, and without weights.
python3 "$root/tools/make_tiny_zimage.py" "$tmp/models/z-image"
run -o "$tmp/fox.png" -- zenith:z-image prompt="a red fox" width=80 height=48 steps=2
check "z-image: a new picture" "$(size "$tmp/fox.png") $(head -n 1 "$tmp/stderr")" test "$(size "$tmp/fox.png")" = 80x48 -a ! -s "$tmp/stderr"
filter "z-image: from a picture" zenith:z-image prompt="a red fox" change=0.4 steps=2 width=128 height=96
run -o "$tmp/none.png" -- zenith:z-image prompt="a red fox" width=80 height=48 weights=/nowhere
check "z-image: what is missing" "$(head -n 1 "$tmp/stderr")" grep -q 'lacks .*transformer/ (12.3 GB.*Apache' "$tmp/stderr"
filter "denoise" zenith:denoise model=fast
check "denoise changes something" "the pictures are equal" test -n "$(cmp "$tmp/plain.png" "$tmp/out.png")"
filter "denoise with all properties" zenith:denoise model=fast strength=1.5 luma=0.5 chroma=0.5 detail=1 sharpen=1 sigma=25 engine=scalar
ZENITH_VERBOSE=1 run "$picture" -o "$tmp/out.png" -- zenith:denoise model=fast
check "the measured noise is said when asked for" "stderr is: $(cat "$tmp/stderr")" \
  grep -qE '^zenith:denoise: measured noise: red [0-9.]+, green [0-9.]+, blue [0-9.]+ of 255$' "$tmp/stderr"
ZENITH_VERBOSE=1 run "$picture" -o "$tmp/out.png" -- zenith:restore
check "what was found is said when asked for" "stderr is: $(cat "$tmp/stderr")" \
  grep -qE '^zenith:restore: found: .*blur.*, .*JPEG.*, .*noise' "$tmp/stderr"
ZENITH_VERBOSE=1 filter "a given level is not measured" zenith:denoise model=fast sigma=10
# Every preset, as a script would take it.
for preset in "$root"/presets/*.preset; do
  mapfile -t words < <(sed -n 's/^operation=//p' "$preset"; grep -vE '^(#|name=|description=|operation=|[[:space:]]*$)' "$preset")
  case ${words[0]} in
    zenith:denoise | zenith:restore | zenith:upscale)
      [ "${words[0]}" != zenith:denoise ] || words+=(model=fast)
      [ "${words[0]}" != zenith:upscale ] || want=$twice
      filter "preset $(basename "$preset" .preset)" "${words[@]}"
      want=$(size "$tmp/plain.png")
      check "... changes something" "the pictures are equal" test -n "$(cmp "$tmp/plain.png" "$tmp/out.png")"
      cksum <"$tmp/out.png" >>"$tmp/presets"
      ;;
    zenith:diffae-*)
      ZENITH_MODELS="$root/models" filter "preset $(basename "$preset" .preset)" "${words[@]}" find=false steps=2 stochastic-steps=2
      check "... changes something" "the pictures are equal" test -n "$(cmp "$tmp/plain.png" "$tmp/out.png")"
      ;;
    zenith:z-image)
      filter "preset $(basename "$preset" .preset)" "${words[@]}" prompt="a red fox" change=0.4 steps=2 width=128 height=96 ;;
    *) filter "preset $(basename "$preset" .preset)" "${words[@]}" model=taef1 ;;
  esac
done
check "nine presets, no two alike" "$(sort "$tmp/presets" | uniq -c | tr '\n' ';')" test "$(sort -u "$tmp/presets" | wc -l)" = 9
filter "latent-preview" zenith:latent-preview model=taef1
filter "latent-preview mode=latent" zenith:latent-preview model=taef1 mode=latent
filter "latent-preview mode=difference" zenith:latent-preview model=taef1 mode=difference
filter "in a longer graph" gegl:gaussian-blur std-dev-x=2 zenith:latent-preview model=taesd gegl:invert zenith:denoise model=fast gegl:opacity value=1

for model in taesd taef1; do
  run "$picture" -o "$tmp/round.png" -- zenith:latent-encode model=$model zenith:latent-decode model=$model
  check "encode and decode with $model" "the result is $(size "$tmp/round.png"), stderr $(head -n 1 "$tmp/stderr")" \
    test "$(size "$tmp/round.png")" = 456x304 -a ! -s "$tmp/stderr"
  run "$picture" -o "$tmp/latent.gegl" -- zenith:latent-encode model=$model
  run -o "$tmp/file.png" -- gegl:gegl-buffer-load path="$tmp/latent.gegl" zenith:latent-decode model=$model
  check "a latent of $model in a file" "the pictures differ" cmp "$tmp/round.png" "$tmp/file.png"
done

# fails NAME WORD ARGS...: the picture passes, and stderr has one line with the word in it.
fails() {
  local name=$1 word=$2 op=$3
  shift 2
  rm -f "$tmp/out.png"
  run "$picture" -o "$tmp/out.png" -- "$@"
  if ! cmp -s "$tmp/plain.png" "$tmp/out.png"; then
    not_ok "$name" "the picture did not pass unchanged"
  elif [ "$(wc -l <"$tmp/stderr")" -ne 1 ] || ! grep -q "^$op: .*$word" "$tmp/stderr"; then
    not_ok "$name" "stderr is: $(cat "$tmp/stderr")"
  else
    ok "$name"
  fi
}
echo "no weights at all" >"$tmp/text.pth"
fails "no weights" taesd3_encoder zenith:latent-preview model=taesd3
fails "a text file as weights" text.pth zenith:latent-preview weights="$tmp/text.pth"
fails "the weights of another model" denoise-fast zenith:latent-encode weights="$tmp/models/denoise-fast.safetensors"
fails "a missing file" nothing.pth zenith:latent-decode weights="$tmp/nothing.pth"
case $(uname -m) in aarch64) absent=avx2 ;; *) absent=neon ;; esac
ZENITH_ENGINE=$absent fails "an engine that is not here, by the environment" "$absent" zenith:denoise model=fast
fails "a picture where a latent should be" "3 channels" zenith:latent-decode model=taesd

# Leaks: a graph in a file frees its nodes, so a buffer that is left is ours.
"$gegl" "$picture" -o "$tmp/small.png" -- gegl:crop width=72 height=64 >/dev/null 2>&1
load="<gegl:load path='$tmp/small.png'/>"
face="find='false' steps='2' stochastic-steps='2'"
# no_leak NAME LINES GRAPH: gegl's stdout, where it counts buffers, stays empty; stderr has so many lines.
no_leak() {
  echo "<gegl>$3</gegl>" >"$tmp/graph.xml"
  rm -f "$tmp/out.png"
  ZENITH_MODELS="$tmp/models:$root/models" "$gegl" -i "$tmp/graph.xml" -o "$tmp/out.png" >"$tmp/stdout" 2>"$tmp/stderr"
  check "no leak: $1" "$(head -n 3 "$tmp/stdout" "$tmp/stderr" | tr '\n' ' ')" \
    test ! -s "$tmp/stdout" -a "$(wc -l <"$tmp/stderr")" = "$2" -a -s "$tmp/out.png"
}
"$gegl" --list-all 2>/dev/null | sed -n 's/^zenith://p' >"$tmp/list"
check "the operations are listed" "$(cat "$tmp/list")" test "$(wc -l <"$tmp/list")" -ge 9
check "no template is" "$(cat "$tmp/list")" sh -c "! grep identity '$tmp/list'"
while read -r op; do
  below=$load
  case $op in
    denoise) set_to="model='fast'" ;;
    restore | upscale) set_to="" ;;
    latent-encode | latent-preview) set_to="" ;;
    wan-video) set_to="frames='2' weights='$root/tests/data/golden/wan21.pth'" ;;
    latent-decode) set_to="" below="<zenith:latent-encode/>$load" ;;
    diffae-reconstruct) set_to=$face ;;
    diffae-manipulate) set_to="$face amount='1'" ;;
    diffae-interpolate) set_to="$face path='$tmp/small.png'" ;;
    diffae-sample) set_to="steps='2' latent-steps='2'" below="" ;;
    z-image) set_to="prompt='a fox' steps='2' width='64' height='64'" ;;
    *) not_ok "no leak: $op" "give it a line here" && continue ;;
  esac
  no_leak "$op" 0 "<zenith:$op $set_to/>$below"
done <"$tmp/list"
no_leak "a second picture" 0 "<zenith:diffae-interpolate $face>$load</zenith:diffae-interpolate>$load"
no_leak "a strip" 0 "<zenith:diffae-interpolate $face strip='2' path='$tmp/small.png'/>$load"
no_leak "a second picture that is missing" 1 "<zenith:diffae-interpolate $face path='$tmp/nothing.png'/>$load"
no_leak "an attribute that is missing" 1 "<zenith:diffae-manipulate $face amount='1' attribute='nothing'/>$load"
no_leak "no face" 1 "<zenith:diffae-reconstruct/>$load"
no_leak "no weights" 1 "<zenith:latent-preview weights='$tmp/nothing.pth'/>$load"
no_leak "a prompt without a picture" 0 "<zenith:z-image prompt='a fox' steps='2' width='64' height='64'/>"

# A GPU that goes away in the middle (tests/unit/fake_cuda.c): the CPU's picture, and a note.
if LD_LIBRARY_PATH="$build/tests" "$build/engine/zenith" engines | grep -q '^. cuda *usable'; then
  run "$picture" -o "$tmp/cpu.png" -- zenith:denoise model=fast sigma=20
  LD_LIBRARY_PATH="$build/tests" FAKE_CUDA=lost=3 run "$picture" -o "$tmp/gpu.png" -- \
    zenith:denoise engine=cuda model=fast sigma=20
  check "a lost GPU: it is said" "stderr is: $(cat "$tmp/stderr")" grep -q 'done with the .* engine instead' "$tmp/stderr"
  check "a lost GPU: the CPU's picture" "$(cmp "$tmp/cpu.png" "$tmp/gpu.png" 2>&1), $(wc -c "$tmp"/[cg]pu.png | tr '\n' ' '); stderr is: $(cat "$tmp/stderr")" \
    cmp "$tmp/cpu.png" "$tmp/gpu.png"
  LD_LIBRARY_PATH="$build/tests" ZENITH_CUDA_MEMORY=1 run "$picture" -o "$tmp/gpu.png" -- zenith:denoise engine=cuda model=fast sigma=20
  check "a GPU without memory: it is said" "stderr is: $(cat "$tmp/stderr")" \
    grep -q 'set ZENITH_CUDA_MEMORY to more; done with the .* engine instead' "$tmp/stderr"
  check "a GPU without memory: the CPU's picture" "they differ" cmp "$tmp/cpu.png" "$tmp/gpu.png"
else
  echo "skip a lost GPU: this build has no CUDA kernels" && skipped=$((skipped + 1))
fi
finish
