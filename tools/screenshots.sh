#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# screenshots.sh - GIMP under a display of its own, with this build's plug-in in a profile of its own: its dialogs as pictures.
#
#   tools/screenshots.sh                 those of README.md: docs/images/gimp.png, docs/images/gimp-face.png
#   tools/screenshots.sh all FOLDER [LANGUAGE...]
#                                        every dialog in each language (en de es fr ja zh_CN): FOLDER/LANGUAGE/NAME.png,
#                                        NAME as in tests/plugin/layout.sh; fails if a text is cut off in one of them
#   tools/screenshots.sh looks FOLDER [LANGUAGE]
#                                        every dialog, dark and light, and with large letters on a screen of 1024 x 768
#   tools/screenshots.sh one FILE.png PROCEDURE PICTURE.png [KEY...]
#                                        one dialog on a picture, with keys as tests/plugin/screenshot.sh has them
#
# Needs what `./run test` installs, for ja and zh_CN also a font (fonts-droid-fallback or fonts-noto-cjk), and its build (or that
# of ZENITH_BUILD).  Pictures come from docs/samples/; PNG files of 256 colours.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export ZENITH_BUILD=${ZENITH_BUILD:-$root/build} LC_ALL=${LC_ALL:-C.UTF-8} LOCPATH=${LOCPATH:-$root/.cache/locale}
samples=$root/docs/samples
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
convert() { LC_ALL=C.UTF-8 command convert "$@"; }

# The keys of Change a Face: from the presets over Save and the face to the first slider, the smile.
smile=(@Pr_eset Tab Tab Tab End Page_Up Page_Up)

small() { convert "$1" -dither None -colors 256 -strip -define png:compression-level=9 "PNG8:$2"; }

# shot OUT [--gimp] PROCEDURE PICTURE [KEY...]
shot() {
  local out=$1 whole=()
  shift
  [ "$1" != --gimp ] || { whole=(--gimp) && shift; }
  sh "$root/tests/plugin/screenshot.sh" "${whole[@]}" "$tmp/shot.png" "plug-in-zenith-$1" "$2" "${@:3}" >/dev/null
  small "$tmp/shot.png" "$out"
  ls -l "$out"
}

# locale_of LANGUAGE: its name, made where the tests have theirs.
locale_of() {
  local name
  case $1 in en) echo C.UTF-8 && return ;; *_*) name=$1 ;; ja) name=ja_JP ;; *) name=$1_${1^^} ;; esac
  mkdir -p "$LOCPATH"
  [ -d "$LOCPATH/$name.UTF-8" ] || localedef -i "$name" -f UTF-8 "$LOCPATH/$name.UTF-8" >&2
  echo "$name.UTF-8"
}

# dialogs FOLDER LANGUAGE: all of them.
dialogs() {
  local status=0 file
  LC_ALL=$(locale_of "$2") ZENITH_WORK=$tmp/work "$root/tests/plugin/layout.sh" "$1" >"$tmp/log" || status=1
  cat "$tmp/log"
  ! grep -q '^skip letters' "$tmp/log" || status=1
  for file in "$1"/*.png; do small "$file" "$file.small" && mv "$file.small" "$file"; done
  return $status
}

failed=0
case ${1:-readme} in
  readme)
    convert "$samples/chelsea.png" -seed 3 -attenuate 0.5 +noise Gaussian -strip "$tmp/noisy.png"
    convert "$samples/astronaut.png" -strip "$tmp/portrait.png"
    shot "$root/docs/images/gimp.png" --gimp denoise "$tmp/noisy.png" "@_Split view"
    shot "$root/docs/images/gimp-face.png" diffae-manipulate "$tmp/portrait.png" "${smile[@]}"
    ;;
  all)
    out=${2:?usage: screenshots.sh all FOLDER [LANGUAGE...]}
    languages=("${@:3}")
    [ ${#languages[@]} -gt 0 ] || languages=(en $(cat "$root/po/LINGUAS"))
    export ZENITH_FONT=${ZENITH_FONT:-10} ZENITH_SCREEN=${ZENITH_SCREEN:-1280x900}
    for language in "${languages[@]}"; do dialogs "$out/$language" "$language" || failed=1; done
    ;;
  looks)
    out=${2:?usage: screenshots.sh looks FOLDER [LANGUAGE]}
    ZENITH_FONT=10 ZENITH_THEME=dark dialogs "$out/dark" "${3:-en}" || failed=1
    ZENITH_FONT=10 ZENITH_THEME=light dialogs "$out/light" "${3:-en}" || failed=1
    dialogs "$out/large" "${3:-en}" || failed=1
    ;;
  one) shot "${2:?}" "${3:?}" "${@:4}" ;;
  *) sed -n 's/^#   tools/usage: tools/p' "$0" >&2 && exit 2 ;;
esac
exit $failed
