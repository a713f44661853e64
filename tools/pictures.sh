#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pictures.sh - makes the pictures of README.md, docs/denoise.md and docs/restore.md, and the lines of that page's tables that come from
# the model cards.
#
#   tools/pictures.sh           all of it
#   tools/pictures.sh denoise   docs/images/denoise-*.jpg and the tables of docs/denoise.md alone
#   tools/pictures.sh restore   docs/images/restore.jpg and enlarge.jpg alone
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

# ---- docs/restore.md -----------------------------------------------------------------------------------------

# better NAME LABEL PLACE PROPERTY...: a crop of the damaged picture, and of what restore makes of it.
better() {
  local name=$1 label=$2 place=$3
  shift 3
  g "$tmp/$name-damaged.png" -- zenith:restore "$@" gegl:png-save path="$tmp/$name-better.png" bitdepth=8
  crop "$tmp/$name-damaged.png" "$place" "$label"
  crop "$tmp/$name-better.png" "$place" "restored${*:+, $*}"
  crop "docs/samples/$name.png" "$place" "the original"
}

restore_pictures() {
  local s=docs/samples small i
  convert $s/chelsea.png -blur 0x1.6 "$tmp/chelsea-damaged.png"
  better chelsea "blurred" 288x216+80+30
  convert $s/coffee.png -quality 12 "$tmp/coffee.jpg" && convert "$tmp/coffee.jpg" "$tmp/coffee-damaged.png"
  better coffee "JPEG, quality 12" 288x216+150+60
  # a faded print with scratches, a hair and dust, drawn four times as large and scaled down, so that edges are soft
  local marks=(-stroke '#f4f0e8' -fill none -strokewidth 5 -draw 'line 640,0 700,2048' -strokewidth 3 -draw 'line 1010,100 1050,1500'
    -strokewidth 7 -draw 'bezier 560,300 800,180 900,420 1180,330' -stroke '#302820' -strokewidth 4 -draw 'bezier 700,700 760,560 980,640 1000,820')
  for i in 620,160,9 930,520,14 1100,240,7 760,420,6 860,760,11 1180,700,8 580,620,6 990,380,5; do
    IFS=, read -r x y r <<<"$i"
    marks+=(-stroke none -fill '#f8f6f0' -draw "circle $x,$y $((x + r)),$y")
  done
  convert $s/astronaut.png -channel R -level '0,112%' +level 16%,96% -channel G +level 14%,86% -channel B +level 14%,70% +channel \
    "$tmp/faded.png"
  convert -size 2048x2048 xc:none "${marks[@]}" -resize 25% "$tmp/marks.png"
  convert "$tmp/faded.png" "$tmp/marks.png" -composite "$tmp/astronaut-damaged.png"
  better astronaut "an old print" 288x216+130+20 dust=1 fading=0.6
  sheet docs/images/restore.jpg 3x
  for i in astronaut:72x54+33+5 coffee:72x54+38+15; do
    small=${i#*:} i=${i%:*}
    convert "$s/$i.png" -filter Catrom -resize 25% -crop "$small" +repage "$tmp/small.png"
    crop "$s/$i.png" "$(awk -F '[x+]' '{ print 4 * $1 "x" 4 * $2 "+" 4 * $3 "+" 4 * $4 }' <<<"$small")" "the original"
    convert "$tmp/small.png" -scale 400% "$tmp/$i-large.png"
    crop "$tmp/$i-large.png" 288x216+0+0 "a quarter of it"
    for small in faithful crisp; do
      g "$tmp/small.png" -- zenith:upscale scale=4 model=$small gegl:png-save path="$tmp/$i-$small.png" bitdepth=8
      crop "$tmp/$i-$small.png" 288x216+0+0 "enlarged, $small"
    done
  done
  sheet docs/images/enlarge.jpg 4x
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

if [ "${1:-}" != restore ]; then
  denoise_pictures
  denoise_table
fi
[ "${1:-}" = denoise ] || restore_pictures
[ -n "${1:-}" ] || readme_pictures
ls -l docs/images
