#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pixels, depth, profiles and metadata of every format are kept; truncated or damaged files are refused.
#
#   test_formats.sh BUILD_DIR
. "$(dirname "$0")/lib.sh"
cd "$tmp/in" || exit 2
webp=$("$batch" --help | grep -c WebP)

# ---- fixtures ------------------------------------------------------------------------------------------------

# A profile that is not sRGB, so that dropping or replacing it is noticed.
icc=$(find /usr/share/color /usr/share/texmf /usr/share/ghostscript -name 'a98.icc' 2>/dev/null | head -n 1)
exif="-Orientation#=6 -Artist=me -Make=Canon -Model=X -DateTimeOriginal=2020:01:02_03:04:05 -GPSLatitude=12.5
  -GPSLatitudeRef=N -ISO=3200 -XMP:Title=hello -XMP:CreatorTool=Camera -IPTC:Keywords=k1 -IPTC:City=Ulm"
picture() { convert -seed 3 -size 90x60 plasma:red-blue -density 240x240 -units PixelsPerInch -strip "$@"; }
picture -depth 8 PNG24:eight.png
picture -depth 16 PNG48:sixteen.png
picture -quality 90 photo.jpg
picture -depth 8 eight.tif
picture -depth 16 -compress zip sixteen.tif
picture photo.webp
picture -define webp:lossless=true lossless.webp
exiftool -q -q -overwrite_original -d %Y:%m:%d_%H:%M:%S $exif ${icc:+"-icc_profile<=$icc"} ./*
# exiftool pads a strip of odd length with a byte that holds nothing: a file cut by that byte is whole.
for f in eight.tif sixteen.tif; do
  end=$(exiftool -n -s3 -p '${StripOffsets} ${StripByteCounts}' "$f" | awk '{ print $1 + $2 }')
  [ "$end" != $(($(stat -c %s "$f") - 1)) ] || truncate -s "$end" "$f"
done
picture -colorspace Gray -depth 8 -define png:color-type=0 grey.png
picture -colorspace Gray -depth 16 grey.tif
picture -colorspace Gray -quality 90 grey.jpg
picture -alpha set -channel A -evaluate set 40% -depth 8 PNG32:alpha.png
picture -alpha set -channel A -evaluate set 40% -depth 16 alpha.tif
picture -alpha set -channel A -evaluate set 40% -depth 16 -define tiff:alpha=associated associated.tif
picture -depth 32 -define quantum:format=floating-point float.tif 2>/dev/null
picture -define tiff:tile-geometry=32x32 -compress zip tiles.tif
picture -interlace plane -compress none planes.tif
picture -colorspace gray -define quantum:polarity=min-is-white white.tif
picture -colors 20 PNG8:palette.png
picture -interlace PNG PNG24:interlaced.png
picture -interlace JPEG progressive.jpg
picture -sampling-factor 4:4:4 -quality 98 fine.jpg
picture -colorspace CMYK cmyk.jpg
convert -size 20x20 xc:red xc:blue pages.tif
printf '\377\330\377\341\000\042Exif\000\000II*\000\010\000\000\000\001\000\022\001\003\000\001\000\000\000\006\000\000\000\000\000\000\000' >turned.jpg
convert -seed 8 -size 80x40 plasma:red-blue -strip jpg:- | tail -c +3 >>turned.jpg
# A profile whose primaries have no light.
base64 -d <<<'H4sIAAAAAAACA/t/4/8jRgVPZ+f4gCB/N08fVwZGRgYGRgEGIGByYGDIzSspCnJ3UoiIjFJgQAKJycUFDHjBt2sMjCD6si4D6YC9CGghkL4BxCLpSOwkJHZRSJAzkH4DxHzpSOwkJHZ5SUEJkP4DUo/uBxBILi0qgzIZmYwZGBBqEO4HAKzrYWckAQAA' |
  gunzip >dark.jpg
tail -c +3 grey.jpg >>dark.jpg
echo "no picture" >text.jpg
: >empty.png

# ---- pixels, kinds -------------------------------------------------------------------------------------------

go 1 "strength 0" --model fast --set strength=0 "$tmp/in" "$tmp/same"
says "CMYK is refused" 'cmyk.jpg: .*CMYK'
says "several pages are refused" 'pages.tif: .*several pages'
says "a text is refused" 'text.jpg: it is no picture'
says "an empty file is refused" 'empty.png: the file is empty'
check "nothing else is refused" "$(cat "$tmp/said")" grep -q ' done, 0 done before, 4 skipped' "$tmp/said"
for f in eight.png sixteen.png grey.png alpha.png palette.png interlaced.png eight.tif sixteen.tif grey.tif alpha.tif \
  associated.tif float.tif tiles.tif planes.tif white.tif lossless.webp; do
  case $f in *.webp) [ "$webp" -gt 0 ] || continue ;; esac
  differ=$(compare -metric AE "$f" "$tmp/same/$f" null: 2>&1 | grep -oE '^[0-9.e+]+' | head -n 1)
  check "$f: every pixel comes back" "$differ differ" test "$differ" = 0
done
kind() { identify -format '%m %[bit-depth] %[channels] %wx%h %x %y %U' "$1" 2>/dev/null | sed -E 's/ +/ /g; s/(gray|srgb)(a?) [0-9.]+ /\1\2 /'; }
for f in *.jpg *.png *.tif *.webp; do
  [ -e "$tmp/same/$f" ] || continue
  was=$(kind "$f") is=$(kind "$tmp/same/$f")
  check "$f: depth, channels, size, resolution" "$was -> $is" test "$was" = "$is"
done
check "progressive stays" "no" test "$(identify -format %[interlace] "$tmp/same/progressive.jpg")" = JPEG
check "sampling stays" "$(identify -format '%[jpeg:sampling-factor]' "$tmp/same/fine.jpg")" \
  test "$(identify -format '%[jpeg:sampling-factor]' "$tmp/same/fine.jpg")" = "$(identify -format '%[jpeg:sampling-factor]' fine.jpg)"
check "a fine JPEG file stays fine" "$(identify -format %Q "$tmp/same/fine.jpg")" test "$(identify -format %Q "$tmp/same/fine.jpg")" -ge 98

# ---- metadata ------------------------------------------------------------------------------------------------

go 1 "denoised" $fast "$tmp/in" "$tmp/out"
light() { identify -format '%[fx:round(200*mean)]' "$1" 2>/dev/null; }
check "a profile without light leaves grey as it is" "$(light "$tmp/out/dark.jpg") of $(light "$tmp/out/grey.jpg")" test "$(light "$tmp/out/dark.jpg")" = "$(light "$tmp/out/grey.jpg")"
files="eight.png sixteen.png photo.jpg eight.tif sixteen.tif turned.jpg"
[ "$webp" = 0 ] || files="$files photo.webp lossless.webp"
# dump FOLDER TO: for each file all tags, and the profile and a JPEG file's EXIF to the byte.
dump() {
  mkdir "$2"
  (cd "$1" && exiftool -q -q -n -G1 -a -s -warning -icc_profile:all -exif:all -gps:all -xmp:all -iptc:all -jfif:all -comment \
    -w! "$2/%f.%e.tags" $files && exiftool -q -q -b -icc_profile -w! "$2/%f.%e.icc" $files &&
    exiftool -q -q -b -exif -w! "$2/%f.%e.exif" photo.jpg)
}
dump "$tmp/in" "$tmp/tags-in"
dump "$tmp/out" "$tmp/tags-out"
# kept FILE: but for what describes the layout of the file, and the mark.
kept() { sed 's/  */ /g' "$1" | grep -vE 'XMPToolkit|History|StripOffsets|StripByteCounts|RowsPerStrip|FillOrder|SampleFormat|Predictor' | sort; }
tag() { sed -nE "s/^\[[^]]*\] +$2 +: //p" "$tmp/tags-out/$1.tags" | head -n 1; }
for f in $files; do
  check "$f changed" "the pixels are the same" test "$(compare -metric AE "$f" "$tmp/out/$f" null: 2>&1)" != 0
  kept "$tmp/tags-in/$f.tags" >"$tmp/before"
  kept "$tmp/tags-out/$f.tags" >"$tmp/after"
  check "$f: EXIF, XMP, IPTC and profile" "$(diff "$tmp/before" "$tmp/after" | head -n 4 | tr '\n' ' ')" cmp "$tmp/before" "$tmp/after"
  check "$f: orientation" "$(tag "$f" Orientation)" test "$(tag "$f" Orientation)" = 6
  check "$f: is marked" "$(tag "$f" HistoryAction) $(tag "$f" HistorySoftwareAgent)" \
    test "$(tag "$f" HistoryAction) $(tag "$f" HistorySoftwareAgent | cut -d' ' -f1)" = "filtered Zenith"
  check "$f: the mark tells the settings" "$(tag "$f" HistoryParameters)" \
    test "$(tag "$f" HistoryParameters | sed "s,computed-by=[a-z0-9]* fp[0-9]*\$,computed-by=ENGINE,")" = "zenith:denoise model=fast strength=1 luma=1 chroma=1 detail=0.15 sigma=30 sharpen=0 precision=auto sigma-scale=1 computed-by=ENGINE"
  [ "$f" != turned.jpg ] || continue
  check "$f: the fixture really has them" "$(wc -l <"$tmp/before")" test "$(grep -cE ' (Title|Keywords|DateTimeOriginal|GPSLatitude|CreatorTool) ' "$tmp/before")" -ge 4
  [ -z "$icc" ] || check "$f: the profile's bytes" "they differ" cmp "$tmp/tags-in/$f.icc" "$tmp/tags-out/$f.icc"
done
[ -n "$icc" ] || skip "profiles" "there is no a98.icc (libgs-common)"
check "EXIF of a JPEG file to the byte" "it differs" cmp "$tmp/tags-in/photo.jpg.exif" "$tmp/tags-out/photo.jpg.exif"
check "EXIF of a PNG file in its own chunk" "no eXIf" grep -qa eXIf "$tmp/out/eight.png"
# Twice: the history grows.
go 0 "denoised again" $fast "$tmp/out/photo.jpg" "$tmp/twice.jpg"
check "two entries" "$(exiftool -s3 -HistoryAction "$tmp/twice.jpg")" test "$(exiftool -s3 -HistoryAction "$tmp/twice.jpg")" = "filtered, filtered"

# ---- PNG's gAMA ----------------------------------------------------------------------------------------------

# chunk FILE NAME HEX: adds a chunk after the header.
chunk() {
  local crc body
  body=$(printf '%s' "$2" | od -A n -t x1 | tr -d ' \n')$3
  crc=$(printf '%s' "$body" | xxd -r -p | gzip -c | tail -c 8 | head -c 4 | xxd -p | sed -E 's/(..)(..)(..)(..)/\4\3\2\1/')
  { head -c 33 "$1"; printf '%08x%s%s' $((${#3} / 2)) "$body" "$crc" | xxd -r -p; tail -c +34 "$1"; } >"$1.new" && mv "$1.new" "$1"
}
gamma() { exiftool -s3 -Gamma "$1"; }
mkdir "$tmp/gamma"
if command -v xxd >/dev/null; then
  for g in 0000b18f:right 00035b60:wrong 000186a0:linear; do
    convert -seed 3 -size 40x30 plasma:red-blue -depth 8 $plain "PNG24:$tmp/gamma/${g#*:}.png"
    chunk "$tmp/gamma/${g#*:}.png" gAMA "${g%:*}"
  done
  check "a fixture has gAMA 2.2" "$(gamma "$tmp/gamma/wrong.png")" test "$(gamma "$tmp/gamma/wrong.png")" = 0.4545 -o "$(gamma "$tmp/gamma/wrong.png")" = 0.4546
  convert -seed 3 -size 40x30 plasma:red-blue -depth 8 $plain "PNG24:$tmp/gamma/animation.png"
  chunk "$tmp/gamma/animation.png" acTL 0000000200000000
  chunk "$tmp/gamma/right.png" bKGD 000100020003
  go 1 "gAMA" $fast "$tmp/gamma" "$tmp/gamma-out"
  says "an animation is refused" 'animation.png: it is an animation'
  check "a true gAMA stays" "$(gamma "$tmp/gamma-out/right.png")" test "$(gamma "$tmp/gamma-out/right.png")" = "$(gamma "$tmp/gamma/right.png")"
  background=$(exiftool -s3 -BackgroundColor "$tmp/gamma-out/right.png")
  check "so does the background's colour" "$background" test "$background" = "1 2 3"
  check "a linear one stays" "$(gamma "$tmp/gamma-out/linear.png")" test "$(gamma "$tmp/gamma-out/linear.png")" = 1
  check "a wrong one goes" "$(gamma "$tmp/gamma-out/wrong.png")" test -z "$(gamma "$tmp/gamma-out/wrong.png")"
else
  skip "gAMA" "there is no xxd"
fi
check "none is made up" "$(gamma "$tmp/out/eight.png")" test -z "$(gamma "$tmp/out/eight.png")$(gamma "$tmp/out/sixteen.png")$(gamma "$tmp/out/grey.png")"

# ---- cut and damaged files -----------------------------------------------------------------------------------

mkdir "$tmp/cut"
n=0
for f in eight.png interlaced.png photo.jpg progressive.jpg grey.jpg eight.tif sixteen.tif tiles.tif planes.tif photo.webp lossless.webp; do
  case $f in *.webp) [ "$webp" -gt 0 ] || continue ;; esac
  size=$(stat -c %s "$f")
  for left in $((size - 1)) $((size - 2)) $((size - 20)) $((size - 300)) $((size * 9 / 10)) $((size / 2)) $((size / 10)) 40; do
    head -c $left "$f" >"$tmp/cut/$left-$f"
    n=$((n + 1))
  done
done
# The end is there, the middle is not: what a decoder fills with grey.
size=$(stat -c %s photo.jpg)
{ head -c $((size * 3 / 4)) photo.jpg; printf '\377\331'; } >"$tmp/cut/closed.jpg"
size=$(stat -c %s progressive.jpg)
{ head -c $((size * 3 / 4)) progressive.jpg; printf '\377\331'; } >"$tmp/cut/closed-progressive.jpg"
size=$(stat -c %s eight.png)
{ head -c $((size * 3 / 4)) eight.png; head -c 30 /dev/zero; tail -c +$((size * 3 / 4 + 31)) eight.png; } >"$tmp/cut/zeros.png"
n=$((n + 3))
go 1 "cut files" --model fast --set strength=0 "$tmp/cut" "$tmp/cut-out"
check "all $n are found" "$(ls "$tmp/cut-out")" test "$(ls "$tmp/cut-out" | wc -l)" = 0
check "and listed" "$(tail -n 1 "$tmp/said")" grep -q "^0 done, 0 done before, $n skipped" "$tmp/said"
# A cut file does not replace what its whole version made.
mkdir "$tmp/late"
cp photo.jpg "$tmp/late/photo.jpg"
go 0 "a good picture" $fast "$tmp/late" "$tmp/late-out"
before=$(md5sum <"$tmp/late-out/photo.jpg")
head -c 2000 photo.jpg >"$tmp/late/photo.jpg"
go 1 "the same, cut since" $fast "$tmp/late" "$tmp/late-out"
check "the older result stays" "it was replaced" test "$before" = "$(md5sum <"$tmp/late-out/photo.jpg")"

# ---- one picture, other formats ------------------------------------------------------------------------------

go 0 "JPEG to PNG" $fast photo.jpg "$tmp/photo.png"
check "is a PNG file" "$(file "$tmp/photo.png")" test "$(identify -format %m "$tmp/photo.png")" = PNG
check "with the camera's notes" "$(exiftool -Make "$tmp/photo.png")" test "$(exiftool -s3 -Make "$tmp/photo.png") $(exiftool -s3 -Title "$tmp/photo.png")" = "Canon hello"
go 0 "TIFF to JPEG" $fast sixteen.tif "$tmp/sixteen.jpg"
check "is turned as the TIFF was" "$(exiftool -n -Orientation "$tmp/sixteen.jpg")" test "$(exiftool -n -s3 -Orientation "$tmp/sixteen.jpg")" = 6
go 1 "transparency to JPEG" $fast alpha.png "$tmp/alpha.jpg"
says "is a sentence" 'cannot be transparent'
check "and no file" "there is one" test ! -e "$tmp/alpha.jpg"

# ---- the same bytes whatever babl takes ----------------------------------------------------------------------

# babl notes which of its conversions was fastest; with no tolerance it takes none of them, and rounds in another way.
mkdir "$tmp/any"
for f in "-depth 16 PNG48:sixteen.png" "-colorspace Gray -depth 8 -define png:color-type=0 grey.png" "-quality 92 photo.jpg"; do
  (cd "$tmp/any" && convert -seed 3 -size 320x240 plasma:red-blue $f)
done
go 0 "babl's fastest" $fast "$tmp/any" "$tmp/any-fastest"
XDG_CACHE_HOME=$tmp/cache2 BABL_TOLERANCE=0.00000000001 go 0 "babl's exact" $fast "$tmp/any" "$tmp/any-exact"
check "the same bytes" "$(cd "$tmp/any" && for f in *; do cmp "../any-fastest/$f" "../any-exact/$f"; done 2>&1)" \
  test "$(sums "$tmp/any-fastest")" = "$(sums "$tmp/any-exact")"

# ---- larger results ------------------------------------------------------------------------------------------

mkdir "$tmp/small"
cp eight.png sixteen.png photo.jpg sixteen.tif grey.png grey.tif alpha.png associated.tif float.tif "$tmp/small" 2>/dev/null
ln -s "$root/models/upscale-small.safetensors" "$tmp/models/upscale-small.safetensors"
cp "$tmp/small/eight.png" "$tmp/small/plain.png"
sized="eight.png sixteen.png photo.jpg sixteen.tif big.jpg"
cp "$tmp/small/photo.jpg" "$tmp/small/big.jpg"
(cd "$tmp/small" && exiftool -q -q -overwrite_original -ExifByteOrder=MM big.jpg -o mm.jpg && mv mm.jpg big.jpg &&
  exiftool -q -q -overwrite_original -ExifImageWidth=90 -ExifImageHeight=60 -XMP-tiff:ImageWidth=90 -XMP-exif:ExifImageHeight=60 $sized)
go 0 "enlarging" --operation zenith:upscale --set scale=3 --set model=small "$tmp/small" "$tmp/large"
for f in "$tmp"/small/*; do
  f=$(basename "$f")
  check "$f: three times as large, of its depth" "$(identify "$tmp/large/$f")" test \
    "$(identify -format '%w %h %z %[channels]' "$tmp/large/$f")" = "270 180 $(identify -format '%z %[channels]' "$tmp/small/$f")"
done
sizes() { exiftool -n -s3 -p '$ExifIFD:ExifImageWidth $ExifIFD:ExifImageHeight $XMP-tiff:ImageWidth $XMP-exif:ExifImageHeight $XResolution $Orientation' "$1"; }
for f in $sized; do
  check "$f: says how large it is" "$(sizes "$tmp/large/$f" 2>&1)" test "$(sizes "$tmp/large/$f")" = \
    "270 180 270 180 $(exiftool -n -s3 -p '$XResolution $Orientation' "$tmp/small/$f")"
done
check "a size that was not there is not added" "$(exiftool -s "$tmp/large/plain.png")" test -z "$(exiftool -s3 -ExifImageWidth "$tmp/large/plain.png")"

# ---- what a file may cost ------------------------------------------------------------------------------------

# Files of a few bytes that ask for much, through the reader itself (tests/batch/test_costs.c).
if [ -x "$build/tests/test_costs" ]; then
  "$build/tests/test_costs" >"$tmp/costs" 2>&1
  while read -r line; do
    case $line in
      "ok "*) ok "${line#ok }" ;;
      "not ok "*) not_ok "${line#not ok }" "see above" ;;
    esac
  done <"$tmp/costs"
  check "costs: to the end" "$(tail -n 1 "$tmp/costs")" grep -q ' passed, 0 failed' "$tmp/costs"
else
  skip "costs" "this build has no test_costs"
fi
finish
