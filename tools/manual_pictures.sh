#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# manual_pictures.sh - the pictures of docs/manual/: before and after, from docs/samples/, and every dialog in English and
# German (tools/screenshots.sh).  Needs what `./run test` installs, and its build (or that of ZENITH_BUILD).
#
#   tools/manual_pictures.sh [examples | dialogs [NAME...]]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${ZENITH_BUILD:-$root/build}
export LC_ALL=C.UTF-8 ZENITH_MODELS=$root/models GEGL_PATH=$build/gegl-ops:$(pkg-config --variable=pluginsdir gegl-0.4)
samples=$root/docs/samples out=$root/docs/manual/images
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# filter IN OUT OPERATION...
filter() { gegl "$1" -o "$2" -- "${@:3}" 2>/dev/null && [ -s "$2" ]; }
# sideways FACE: how much more light falls on its left half
sideways() {
  convert "$1" -colorspace Gray -crop 88x70+20+40 +repage -resize '2x1!' -format '%[fx:(p{0,0}-p{1,0})/(p{0,0}+p{1,0})]' info:
}
# teach_light: 64 made-up faces, so nobody's; the twenty with most light from the left and from the right teach the attribute
# `light`, which is found below $tmp/home
teach_light() {
  local seed file home=$tmp/home/zenith/models
  mkdir -p "$tmp/left" "$tmp/right" "$home"
  for seed in 100 116 132 148; do
    "$build/engine/zenith" face "$tmp/many.png" mode=sample n=16 seed=$seed
    convert "$tmp/many.png" -crop 128x128 +repage "$tmp/made-$seed-%02d.png"
  done
  for file in "$tmp"/made-*.png; do echo "$(sideways "$file") $file"; done | sort -g | cut -d ' ' -f 2 >"$tmp/by-light"
  head -n 20 "$tmp/by-light" | xargs cp -t "$tmp/right"
  tail -n 20 "$tmp/by-light" | xargs cp -t "$tmp/left"
  "$build/engine/zenith" teach light --with "$tmp/left" --without "$tmp/right" --whole --out "$home/light.attributes.safetensors"
}
# pair NAME PICTURE...: side by side, at most 60 kB
pair() {
  local name=$1 quality=88
  shift
  convert "$@" -bordercolor white -border 2x0 +append -strip "$tmp/pair.png"
  while convert "$tmp/pair.png" -quality $quality "$out/$name.jpg" && [ "$(stat -c %s "$out/$name.jpg")" -gt 60000 ]; do
    quality=$((quality - 6))
  done
  ls -l "$out/$name.jpg"
}

examples() {
  local cat=$samples/chelsea.png face="-crop 120x120+166+62 +repage -resize 200x200" amount part="-crop 300x220+60+10 +repage"
  filter "$cat" "$tmp/noisy.png" gegl:noise-rgb independent=true gaussian=true linear=false correlated=false red=0.2 green=0.2 blue=0.2 seed=7
  filter "$tmp/noisy.png" "$tmp/clean.png" zenith:denoise
  pair denoise \( "$tmp/noisy.png" $part \) \( "$tmp/clean.png" $part \)
  filter "$cat" "$tmp/soft.png" gegl:gaussian-blur std-dev-x=1.3 std-dev-y=1.3
  convert "$tmp/soft.png" -quality 50 "$tmp/soft.jpg"
  filter "$tmp/soft.jpg" "$tmp/sharp.png" zenith:restore
  pair restore \( "$tmp/soft.jpg" $part \) \( "$tmp/sharp.png" $part \)
  convert "$cat" -crop 100x74+130+80 +repage "$tmp/small.png"
  filter "$tmp/small.png" "$tmp/large.png" zenith:upscale scale=3
  pair enlarge \( "$tmp/small.png" -filter Catrom -resize 300% \) "$tmp/large.png"

  filter "$samples/astronaut.png" "$tmp/older.png" zenith:diffae-manipulate age=0.9
  filter "$samples/astronaut.png" "$tmp/kept.png" zenith:diffae-reconstruct
  pair face \( "$samples/astronaut.png" $face \) \( "$tmp/older.png" $face \)
  pair reconstruct-face \( "$samples/astronaut.png" $face \) \( "$tmp/kept.png" $face \)
  for seed in 5 11 23; do filter "$samples/astronaut.png" "$tmp/new-$seed.png" zenith:diffae-sample seed=$seed; done
  pair new-face "$tmp"/new-*.png
  filter "$samples/astronaut.png" "$tmp/between.png" zenith:diffae-interpolate position=0.5 "path=$tmp/new-5.png"
  pair blend-faces \( "$samples/astronaut.png" $face \) \( "$tmp/between.png" $face \) \( "$tmp/new-5.png" -resize 200x200 \)

  teach_light
  filter "$samples/astronaut.png" "$tmp/nobody.png" zenith:diffae-sample seed=19
  for amount in -0.7 0.7; do
    XDG_DATA_HOME=$tmp/home filter "$tmp/nobody.png" "$tmp/light$amount.png" zenith:diffae-manipulate attribute=light amount=$amount find=false
  done
  pair teach "$tmp/light-0.7.png" "$tmp/nobody.png" "$tmp/light0.7.png" -resize 200x200

  convert "$cat" -crop 256x256+80+20 +repage "$tmp/part.png"
  filter "$tmp/part.png" "$tmp/latent.png" zenith:latent-preview mode=latent
  filter "$tmp/part.png" "$tmp/difference.png" zenith:latent-preview mode=difference scale=8
  pair latent-preview "$tmp/part.png" "$tmp/latent.png" "$tmp/difference.png"
  # a plane is 32 x 32 with 8 rows more above and below; values are about -3 to 3
  filter "$tmp/part.png" "$tmp/planes.png" zenith:latent-encode planes=true gegl:brightness-contrast contrast=0.16 brightness=0.08
  convert "$tmp/planes.png" -crop 32x48 +repage -gravity center -crop 32x32+0+0 +repage -filter point -resize 128x128 "$tmp/plane-%02d.png"
  pair latent-encode "$tmp/part.png" \( \( "$tmp/plane-00.png" "$tmp/plane-01.png" +append \) \( "$tmp/plane-02.png" "$tmp/plane-03.png" +append \) -append \)
  filter "$tmp/part.png" "$tmp/decoded.png" zenith:latent-encode planes=true gegl:unsharp-mask std-dev=1 scale=0.3 zenith:latent-decode planes=true
  pair latent-decode "$tmp/part.png" "$tmp/decoded.png"
}

# dialogs [NAME...]: these (denoise, z-image, ...) or all
dialogs() {
  local language name names=$*
  names=${names:-$(grep -oh 'dialog-[a-z-]*\.png' "$root"/docs/manual/*.md | sort -u | sed 's/^dialog-//; s/\.png$//')}
  ZENITH_DIALOGS=$names ZENITH_BUILD=$build "$root/tools/screenshots.sh" all "$tmp" en de
  for language in en de; do
    for name in $names; do
      convert "$tmp/$language/$name.png" -resize '600x>' -dither None -colors 48 -strip -define png:compression-level=9 \
        "PNG8:$out/dialog-$name$([ $language = en ] || echo -$language).png"
    done
  done
  du -ch "$out"/* | tail -n 1
}

mkdir -p "$out"
case ${1:-all} in
  examples) examples ;;
  dialogs) dialogs "${@:2}" ;;
  all) examples && dialogs ;;
  *) echo "usage: tools/manual_pictures.sh [examples | dialogs [NAME...]]" >&2 && exit 2 ;;
esac
