# SPDX-License-Identifier: MIT
# programs.sh BUILD - the table of programs that write files, for writers.sh and alloc.sh; sourced.
#
#   program NAME MODULE COMMAND...    The command writes into the folder $out, which is empty, or holds results of a run
#                                     before.  The same command gives the same bytes.  MODULE: allocations fail in calls
#                                     from it alone; '' is everywhere.
#
# Each program goes through $each, a function of the script that sources this file.
build=$(cd "${1:?usage: $0 BUILD}" && pwd) || exit 2
root=$(cd "$(dirname "$0")/../.." && pwd)
golden=$root/tests/data/golden
zenith=$build/engine/zenith
batch=$build/batch/zenith-batch
passed=0 failed=0 skipped=0
ok() { echo "ok $1" && passed=$((passed + 1)); }
not_ok() { echo "not ok $1: $2" && failed=$((failed + 1)); }
skip() { echo "skip $1: $2" && skipped=$((skipped + 1)); }
finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}
shim() {
  [ -f "$build/tests/lib$1.so" ] && ! nm "$zenith" 2>/dev/null | grep -q __asan_init && return
  skip "$(basename "$0")" "needs lib$1.so, and a build without sanitizers" && finish
}

tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
out=$tmp/out
mkdir "$tmp/models" "$tmp/in" "$tmp/data" "$tmp/with" "$tmp/without" "$tmp/gegl"
ln -s "$golden/denoise.safetensors" "$tmp/models/denoise-fast.safetensors"
ln -s "$golden"/taesd_*.pth "$tmp/models"
export ZENITH_MODELS=$tmp/models ZENITH_PRESETS=$root/presets XDG_DATA_HOME=$tmp/data XDG_CACHE_HOME=$tmp/cache
# One engine: where memory is short, "auto" takes a slower one, whose last bits are others.
export GEGL_USE_OPENCL=no LC_ALL=C.UTF-8 ZENITH_ENGINE=scalar
unset ZENITH_MEMORY ZENITH_CACHE
head="{'descr': '<f4', 'fortran_order': False, 'shape': (40, 48, 3), }"
{ printf '\x93NUMPY\x01\x00\x76\x00%s%*s\n' "$head" $((117 - ${#head})) ""; head -c $((40 * 48 * 3 * 4)) /dev/zero; } >"$tmp/x.npy"
if command -v pkg-config >/dev/null && pkg-config --exists gegl-0.4; then
  ln -s "$(pkg-config --variable=pluginsdir gegl-0.4)"/gegl-co*.so "$tmp/gegl" # it starts twice as fast with these alone
  export GEGL_PATH=$build/gegl-ops:$tmp/gegl
fi
# wanted NAME: all, or with $ONLY that one.
wanted() { [ -z "${ONLY:-}" ] || [ "$ONLY" = "$1" ]; }

programs() {
  program "zenith run" "" "$zenith" run denoise-fast --set sigma=9 --threads 1 --in "x=$tmp/x.npy" --out "y=$out/y.npy"
  program "zenith denoise" "" "$zenith" denoise "$tmp/x.npy" "$out/y.npy" --set model=fast --threads 1
  program "zenith info" "" "$zenith" info "$golden/taesd_encoder.pth"
  program "zenith train" "" "$zenith" train zenith-ae --base 4 --size 32 --batch 1 --steps 1 --threads 1 --seed 3 \
    --checkpoint "$out/c.ckpt" --every 1 --out "$out/w.safetensors"
  { head -c 128 "$tmp/x.npy" | sed "s/(40, 48, 3), }   /(5, 16, 16, 3), }/"; head -c $((5 * 16 * 16 * 3 * 4)) /dev/zero; } >"$tmp/video.npy"
  program "zenith video" "" "$zenith" video encode "$tmp/video.npy" "$out/z.npy" --weights "$golden/wan21.pth" --threads 1
  program "zenith convert" "" "$zenith" convert "$golden/taesd_encoder.pth" "$out/converted.safetensors"
  # with a precision: where weights do not fit, fewer bits would be another result
  if python3 "$root/tools/make_tiny_zimage.py" "$tmp/z-image" 2>/dev/null; then
    { head -c 128 "$tmp/x.npy"; head -c $((40 * 48 * 3 * 4)) /dev/zero | tr '\0' '?'; } >"$tmp/mask.npy"
    program "zenith generate" "" "$zenith" generate "$tmp/x.npy" "$out/y.npy" --threads 1 --in "mask=$tmp/mask.npy" \
      --set weights="$tmp/z-image" --set prompt=fox --set steps=1 --set width=32 --set height=32 --set precision=fp32
  fi
  if [ -x "$build/tests/make_pictures" ]; then
    "$build/tests/make_pictures" "$tmp/with" 6 170 16 16 && "$build/tests/make_pictures" "$tmp/without" 6 80 16 16
    program "zenith teach" "" "$zenith" teach thing --with "$tmp/with" --without "$tmp/without" --whole --threads 1 \
      --weights "$golden/diffae.ckpt" --out "$out/thing.attributes.safetensors"
  fi
  if [ -x "$batch" ] && command -v convert >/dev/null; then
    convert "$root/docs/samples/chelsea.png" -resize '64x48!' -strip "PNG24:$tmp/in/a.png"
    convert "$tmp/in/a.png" -quality 90 "$tmp/in/b.jpg"
    convert "$tmp/in/a.png" -depth 16 "$tmp/in/c.tif"
    program "zenith-batch" zenith- "$batch" --jobs 1 --model fast --set sigma=30 "$tmp/in" "$out"
    program "gegl-preset" zenith- "$batch" --preset="High ISO photo" --set model=fast -- "$tmp/in/a.png" "$out/a.png"
    # gegl writes its output itself; after any failure of the operation the picture passes through
    program "gegl" zenith- env GEGL_PATH="$build/gegl-ops:$(pkg-config --variable=pluginsdir gegl-0.4)" \
      gegl "$tmp/in/a.png" -o "$out/a.png" -- zenith:denoise model=fast sigma=20
    program "gegl, latent" zenith- env GEGL_PATH="$build/gegl-ops:$(pkg-config --variable=pluginsdir gegl-0.4)" \
      gegl "$tmp/in/a.png" -o "$out/a.png" -- zenith:latent-preview model=taesd
  else
    skip zenith-batch "this build has none, or there is no ImageMagick"
  fi
}
