#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pictures.sh - makes the pictures of README.md and docs/denoise.md, and the lines of that page's tables that come from
# the model cards.
#
#   tools/pictures.sh           all of it
#   tools/pictures.sh denoise   docs/images/denoise-*.jpg and the tables of docs/denoise.md alone
#
# Needs what `./run demo` and `./run test` install.  With GEGL_PATH set, that build's operations are used.  Every
# picture comes from docs/samples/, whose licences are in docs/samples/LICENCES.md.
set -euo pipefail
export LC_ALL=C.UTF-8 # numbers have a point
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
font=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
mkdir -p docs/images
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

tiles=()
crop() { tiles+=('(' "$1" -crop "$2" +repage -set label "$3" ')'); } # at 100 %
sheet() {
  montage -font "$font" "${tiles[@]}" -tile "$2" -geometry +4+4 -background white -quality 88 "$1"
  tiles=()
}
g() {
  if [ -n "${GEGL_PATH:-}" ]; then ZENITH_MODELS=$root/models gegl "$@"; else ./run gegl "$@"; fi
}

# ---- docs/denoise.md -----------------------------------------------------------------------------------------

# noisy NAME DEVIATION: white noise of so many of 255.  gegl:noise-rgb's 0.2 is a deviation of 25.5, found by measuring.
noisy() {
  local level
  level=$(awk -v s="$2" 'BEGIN { print s / 25.5 * 0.2 }')
  g "docs/samples/$1.png" -- gegl:noise-rgb independent=true gaussian=true linear=false correlated=false \
    red="$level" green="$level" blue="$level" seed=7 gegl:png-save path="$tmp/$1-noisy.png" bitdepth=8
}
# try NAME LABEL PLACE PROPERTY...: a crop of the noisy picture, denoised so.
try() {
  local name=$1 label=$2 place=$3
  shift 3
  g "$tmp/$name-noisy.png" -- zenith:denoise "$@" gegl:png-save path="$tmp/$name-${#tiles[@]}.png" bitdepth=8
  crop "$tmp/$name-${#tiles[@]}.png" "$place" "$label"
}

denoise_pictures() {
  local models="fast balanced" m name place
  [ ! -e models/denoise-best.safetensors ] || models="$models best"
  for name in coffee:288x216+150+60 astronaut:288x216+130+20; do
    place=${name#*:} name=${name%:*}
    noisy "$name" 25
    crop "$tmp/$name-noisy.png" "$place" "noise of 25 added"
    for m in $models; do try "$name" "denoised, $m" "$place" "model=$m"; done
    crop "docs/samples/$name.png" "$place" "the original"
  done
  sheet docs/images/denoise-networks.jpg $((2 + $(wc -w <<<"$models")))x
  name=chelsea place=288x216+80+30
  noisy $name 20
  crop "$tmp/$name-noisy.png" $place "noise of 20 added"
  try $name "defaults" $place model=balanced
  try $name "strength 0.5" $place model=balanced strength=0.5
  try $name "luma 0: colour noise only" $place model=balanced luma=0
  try $name "detail 0.5" $place model=balanced detail=0.5
  try $name "strength 1.5" $place model=balanced strength=1.5
  sheet docs/images/denoise-sliders.jpg 3x
}

# One line for each network that is shipped, from its card.
denoise_cards() {
  local m card
  for m in fast balanced best; do
    card=models/denoise-$m.md
    [ -f "$card" ] || continue
    awk -F '|' -v m="$m" '
      $2 ~ /^ *multiply-adds per pixel *$/ { macs = $3; gsub(/[ ,]/, "", macs); macs = macs / 1000 }
      $2 ~ /^ *parameters *$/ { split($3, p, " "); params = p[1] }
      $2 ~ /^ *PSNR, dB *$/ && !psnr { psnr = $3 "|" $4 "|" $5 }
      END { printf "| **denoise-%s** |%s| %.1f | %s | measured, [card](../models/denoise-%s.md) |\n", m, psnr, macs, params, m }' "$card"
  done
}
# The rows follow the head of the table with seven columns.
denoise_table() {
  denoise_cards >"$tmp/cards"
  awk -v cards="$tmp/cards" '
    /^\| \*\*denoise-/ { next }
    { print }
    /^\|---\|---\|---\|---\|---\|---\|---\|$/ { while ((getline line < cards) > 0) print line }' docs/denoise.md >"$tmp/page"
  cat "$tmp/page" >docs/denoise.md
}

# ---- README.md -----------------------------------------------------------------------------------------------

readme_pictures() {
  local name place
  [ -s out/contact-sheet.png ] || ./run demo
  for name in astronaut:256x192+150+30 chelsea:256x192+80+50; do
    place=${name#*:} name=${name%:*}
    crop "out/$name-noisy.png" "$place" "noise added"
    crop "out/$name-denoise-fast.png" "$place" "denoise, fast"
    crop "out/$name-denoise-balanced.png" "$place" "denoise, balanced"
    crop "docs/samples/$name.png" "$place" "the original"
  done
  sheet docs/images/before-after.jpg 4x
  tools/screenshots.sh
}

denoise_pictures
denoise_table
[ "${1:-}" = denoise ] || readme_pictures
ls -l docs/images
