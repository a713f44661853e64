#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# denoise-folder.sh - one GEGL operation on every picture of a folder; `./run denoise-folder` calls it.
#
#   denoise-folder.sh IN OUT OPERATION [PROPERTY=VALUE...]
#
# Wants gegl with the operations in GEGL_PATH.  Pictures are PNG, JPEG, TIFF, WebP and OpenEXR files of IN by their
# names' ends; its subfolders are not entered, and nothing in IN is changed.  OUT gets files of the same names,
# kinds and bit depths.  A result that is newer than its picture is left alone, so that an interrupted run goes
# on where it was; a result gets its name only when it is complete.
#
# Exit status: 0 all done; 1 some could not be done, listed last; 2 wrong usage, or nothing to do.
set -u

die() {
  echo "denoise-folder: $*" >&2
  exit 2
}

[ $# -ge 3 ] || die "usage: denoise-folder.sh IN OUT OPERATION [PROPERTY=VALUE...]"
[ -d "$1" ] || die "there is no folder '$1'"
in=$(cd -- "$1" && pwd -P) || die "the folder '$1' cannot be entered"
mkdir -p -- "$2" 2>/dev/null || die "the folder '$2' cannot be made"
out=$(cd -- "$2" && pwd -P) || die "the folder '$2' cannot be entered"
[ "$in" != "$out" ] || die "the second folder must not be the first: its pictures would be lost"
shift 2
# gegl sees plain names only: the picture through a link, the result in the folder it is in.
part=.zenith-part-$$
cd -- "$out" && { : >"$part"; } 2>/dev/null || die "nothing can be written to '$out'"
tmp=$(mktemp -d) || die "there is no room for temporary files"
trap 'rm -rf "$tmp" "$out/$part"' EXIT
trap 'echo "denoise-folder: stopped; run it again to go on" >&2; exit 130' INT TERM HUP
find . -maxdepth 1 -name '.zenith-part-*' ! -name "$part" -mmin +60 -delete 2>/dev/null # of runs that were killed

# ---- what a file is ----------------------------------------------------------------------------------------

# number FILE OFFSET SIZE [big]: an unsigned number in the file, little-endian unless told.
number() {
  od -A n -v -t u1 -j "$2" -N "$3" -- "$1" 2>/dev/null |
    awk -v big="${4:-}" '{ for (i = 1; i <= NF; i++) b[n++] = $i }
      END { for (i = 0; i < n; i++) v = v * 256 + (big ? b[i] : b[n - 1 - i]); print v + 0 }'
}

# tiff_tag FILE TAG: its first value, or nothing.
tiff_tag() {
  local f=$1 big="" ifd n i type
  [ "$(head -c 2 -- "$f")" != MM ] || big=big
  ifd=$(number "$f" 4 4 $big)
  n=$(number "$f" "$ifd" 2 $big)
  for ((i = 0; i < n && i < 200; i++)); do
    [ "$(number "$f" $((ifd + 2 + i * 12)) 2 $big)" = "$2" ] || continue
    type=$(number "$f" $((ifd + 4 + i * 12)) 2 $big)
    [ "$type" = 3 ] || return 0
    if [ "$(number "$f" $((ifd + 6 + i * 12)) 4 $big)" -le 2 ]; then # it fits in the entry
      number "$f" $((ifd + 10 + i * 12)) 2 $big
    else
      number "$f" "$(number "$f" $((ifd + 10 + i * 12)) 4 $big)" 2 $big
    fi
    return 0
  done
}

# saver FILE END: the operations that write such a file, with their properties, one a line.
saver() {
  local bits
  case $2 in
    png)
      bits=$(number "$1" 24 1)
      case $(number "$1" 25 1) in # grey stays grey
        0) printf '%s\n' gegl:convert-format "format=Y' float" ;;
        4) printf '%s\n' gegl:convert-format "format=Y'A float" ;;
      esac
      printf '%s\n' gegl:png-save "bitdepth=$([ "$bits" = 16 ] && echo 16 || echo 8)"
      ;;
    jpg | jpeg) printf '%s\n' gegl:jpg-save quality=95 ;; # a grey one becomes a colour file
    tif | tiff)
      bits=$(tiff_tag "$1" 258)
      [ "${bits:-8}" -gt 8 ] || bits=8
      printf '%s\n' gegl:tiff-save "bitdepth=$bits" "fp=$([ "$(tiff_tag "$1" 339)" = 3 ] && echo 1 || echo 0)"
      ;;
    webp) printf '%s\n' gegl:webp-save quality=95 ;;
    exr) echo gegl:exr-save ;;
  esac
}

# keep_exif FROM TO: what the camera noted, orientation included, goes from one JPEG file to another.
keep_exif() {
  local at=2 size n
  for ((n = 0; n < 20; n++)); do
    size=$(number "$1" $((at + 2)) 2 big)
    case $(od -A n -t x1 -j "$at" -N 2 -- "$1" | tr -d ' ') in
      ffe1)
        if [ "$(tail -c +$((at + 5)) -- "$1" | head -c 4)" = Exif ]; then
          { head -c 2 -- "$2" && tail -c +$((at + 1)) -- "$1" | head -c $((size + 2)) && tail -c +3 -- "$2"; } >"$tmp/exif" &&
            cat "$tmp/exif" >"$2"
          return
        fi
        ;;
      ffe* | fffe) ;;
      *) return 0 ;;
    esac
    at=$((at + 2 + size))
  done
}

# ---- one picture -------------------------------------------------------------------------------------------

# one FILE END OPERATION...: makes $part; fails and sets $why.  $noise is what was measured.
one() {
  local file=$1 end=$2 save said
  shift 2
  noise="" why="no result was written"
  rm -f "$part" "$tmp"/in.*
  [ -r "$file" ] || { why="it cannot be read" && return 1; }
  ln -s -- "$file" "$tmp/in.$end"
  mapfile -t save < <(saver "$file" "$end")
  # gegl exits 0 whatever happens: what it says and leaves tells.
  said=$(ZENITH_VERBOSE=1 gegl "$tmp/in.$end" -- "$@" "${save[@]}" path="$part" 2>&1 </dev/null |
    grep -vaE 'GeglBuffers leaked|gegl_tile_cache_destroy|EEEEeEeek|^libpng warning|Unknown field with tag|^$')
  noise=$(sed -n 's/.*measured noise: red \(.*\), green \(.*\), blue \(.*\) of 255/\1 \2 \3/p' <<<"$said" | head -n 1)
  said=$(grep -v 'measured noise:' <<<"$said" | head -n 1)
  if [ -n "$said" ]; then
    why=$(sed -E 's/^\*\* \(gegl:[0-9]+\): WARNING \*\*: [0-9:.]+ //' <<<"${said//"$tmp/in.$end"/the file}")
    return 1
  fi
  [ -s "$part" ] || return 1
  case $end in jpg | jpeg) keep_exif "$file" "$part" ;; esac
}

# ---- all of them -------------------------------------------------------------------------------------------

shopt -s nullglob dotglob
names=() todo=() there=0 others=0 folders=0 failed=()
for f in "$in"/*; do
  name=${f##*/}
  if [ -d "$f" ]; then
    [ "$f" = "$out" ] || folders=$((folders + 1))
    continue
  fi
  end=${name##*.}
  case ${end,,} in
    png | jpg | jpeg | tif | tiff | webp | exr) names+=("$name") ;;
    *) others=$((others + 1)) ;;
  esac
done
[ ${#names[@]} -gt 0 ] || die "there are no pictures (png, jpg, tif, webp, exr) in '$in'"
for name in "${names[@]}"; do
  if [ -s "$name" ] && [ ! "$in/$name" -nt "$name" ]; then there=$((there + 1)); else todo+=("$name"); fi
done
echo "${#names[@]} pictures, $there of them done already$([ $folders = 0 ] || echo "; $folders subfolders are not entered")$(
  [ $others = 0 ] || echo "; $others other files are left out")"

start=$(date +%s) n=0
for name in "${todo[@]}"; do
  n=$((n + 1)) end=${name##*.}
  t=$(date +%s%N)
  if one "$in/$name" "${end,,}" "$@" && mv -f -- "$part" "$name" 2>"$tmp/mv"; then
    result="$((($(date +%s%N) - t) / 100000000))"
    result="${result%?}.${result: -1} s${noise:+, noise $noise}"
    [ "${result#.}" = "$result" ] || result=0$result
  else
    [ ! -s "$tmp/mv" ] || why=$(head -n 1 "$tmp/mv")
    failed+=("${name//[[:cntrl:]]/?}: $why")
    result="skipped: $why"
  fi
  left=$((($(date +%s) - start) * (${#todo[@]} - n) / n))
  printf '[%d/%d] %s  %s%s\n' "$n" "${#todo[@]}" "${name//[[:cntrl:]]/?}" "$result" \
    "$([ $n = ${#todo[@]} ] || printf '  (about %d:%02d left)' $((left / 60)) $((left % 60)))"
done

echo "$((${#todo[@]} - ${#failed[@]})) done, $there done before, ${#failed[@]} skipped, in $(($(date +%s) - start)) s"
[ ${#failed[@]} -gt 0 ] || exit 0
printf 'skipped:\n'
printf '  %s\n' "${failed[@]}"
exit 1
