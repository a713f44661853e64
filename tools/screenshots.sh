#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# screenshots.sh - GIMP under a display of its own, with this build's plug-in in a profile of its own: its dialogs as pictures.
#
#   tools/screenshots.sh                 those of README.md: docs/images/gimp.png, docs/images/gimp-face.png
#   tools/screenshots.sh all FOLDER      every dialog, in the language of LC_ALL: FOLDER/NAME.png
#
# Needs what `./run test` installs, and its build (or that of ZENITH_BUILD).  Pictures come from docs/samples/; PNG files of 256 colours.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export ZENITH_BUILD=${ZENITH_BUILD:-$root/build} LC_ALL=${LC_ALL:-C.UTF-8}
samples=$root/docs/samples
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
convert() { LC_ALL=C.UTF-8 command convert "$@"; }

# What the dialogs are opened on.
convert "$samples/chelsea.png" -seed 3 -attenuate 0.5 +noise Gaussian -strip "$tmp/noisy.png"
convert "$samples/astronaut.png" -strip "$tmp/portrait.png"

# The keys of Change a Face: from the presets over Save and the face to the first slider, the smile.
smile=(@Pr_eset Tab Tab Tab End Page_Up Page_Up)

# shot OUT [--gimp] PROCEDURE PICTURE [KEY...]
shot() {
  local out=$1 whole=()
  shift
  [ "$1" != --gimp ] || { whole=(--gimp) && shift; }
  sh "$root/tests/plugin/screenshot.sh" "${whole[@]}" "$tmp/shot.png" "plug-in-zenith-$1" "$tmp/$2.png" "${@:3}" >/dev/null
  convert "$tmp/shot.png" -dither None -colors 256 -strip -define png:compression-level=9 "PNG8:$out"
  ls -l "$out"
}

case ${1:-readme} in
  readme)
    shot "$root/docs/images/gimp.png" --gimp denoise noisy "@_Split view"
    shot "$root/docs/images/gimp-face.png" diffae-manipulate portrait "${smile[@]}"
    ;;
  all)
    out=${2:?usage: screenshots.sh all FOLDER}
    mkdir -p "$out"
    for name in denoise latent-preview diffae-reconstruct diffae-interpolate diffae-sample z-image apply-preset; do
      picture=noisy
      case $name in diffae-*) picture=portrait ;; esac
      shot "$out/$name.png" $name $picture
    done
    shot "$out/diffae-manipulate.png" diffae-manipulate portrait "${smile[@]}"
    ;;
  *) echo "usage: tools/screenshots.sh [all FOLDER]" >&2 && exit 2 ;;
esac
