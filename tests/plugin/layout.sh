#!/bin/sh
# SPDX-License-Identifier: MIT
#
# layout.sh [FOLDER] - every dialog, one after the other in one GIMP, in the language of LC_ALL: is something
# cut off or beyond the screen, has a control no name for screen readers, do two have the same key, does each key
# lead to its row?
# With FOLDER a picture of each is left there: denoise.png, ... (tools/screenshots.sh calls it so).
#
# Needs:  GIMP (2.10 or 3), xvfb, openbox, xdotool, imagemagick, pkg-config; environment as lib.sh says, and
#           ZENITH_SCREEN   size of the screen                  (default: 1024x768)
#           ZENITH_FONT     size of the letters in points       (default: 15, half as large again as usual)
#           ZENITH_THEME    dark or light, GIMP's own themes    (default: GTK's)
#           ZENITH_DIALOGS  names of dialogs                    (default: all)
# Skips:  everything, if one of these is not there.
# Time:   about two minutes.

set -u
. "$(dirname "$0")/lib.sh"

for tool in Xvfb openbox xdotool import; do
  command -v "$tool" >/dev/null || { skip layout "$tool is not installed"; finish; }
done
gimp=2 console=gimp-console-2.10
[ -e "${ZENITH_BUILD:?the build directory}/plugin/zenith-gimp2" ] || gimp=3 console=gimp-console-$gimp3
command -v "$console" >/dev/null && [ -e "$ZENITH_BUILD/plugin/zenith-gimp$gimp" ] ||
  { skip layout "there is no GIMP, or no plug-in for it"; finish; }
shots=${1:-}
[ -z "$shots" ] || { mkdir -p "$shots" && shots=$(cd "$shots" && pwd); }
shown=$([ -z "$shots" ]; echo $?)   # for pictures the portrait is as it is; else its face is far from the middle

# name, title
all='denoise Denoise
restore Restore
upscale Enlarge
enlarge-image Enlarge the Image
diffae-manipulate Change a Face
diffae-interpolate Blend Two Faces
diffae-sample New Face
z-image Generate
apply-preset Apply Preset
latent-preview Latent Preview
latent-encode Latent Encode
latent-decode Latent Decode
wan-video Wan Video
diffae-reconstruct Reconstruct a Face
diffae-teach Teach an Attribute'
dialogs=${ZENITH_DIALOGS:-$(echo "$all" | sed 's/ .*//')}

set_up "zenith-gimp$gimp"
cd "$work" || exit 1
[ -z "$shots" ] || export XDG_DATA_HOME='~/.local/share' # a folder of that name here: messages as a user has them
. "$here/host.sh"
mkdir layout
export ZENITH_LAYOUT="$work/layout" ZENITH_VERBOSE=1
use_look "${ZENITH_FONT:-15}" "${ZENITH_THEME:-}"
image "$source_dir/docs/samples/chelsea.png" -seed 3 -attenuate 0.5 +noise Gaussian $plain "PNG24:in/noisy.png" &&
image "$source_dir/docs/samples/astronaut.png" -background blue -extent $((shown ? 512 : 1400))x512 $plain "PNG24:in/portrait.png" ||
  { not_ok pictures "ImageMagick cannot make the pictures"; finish; }
language=$(locale_language | tr _ - | tr 'A-Z' 'a-z')
if [ "$language" != c ] && command -v fc-list >/dev/null && [ -z "$(fc-list ":lang=$language" family)" ]; then
  skip letters "no font has the letters of $language, boxes are measured (Debian: fonts-droid-fallback or fonts-noto-cjk)"
fi
screen=${ZENITH_SCREEN:-1024x768}
start_display || { skip layout "no display could be started"; finish; }

[ "$gimp" = 2 ] || echo '(script-fu-use-v3)' >all.scm
for name in $dialogs; do
  case $name in diffae-*) picture=portrait ;; *) picture=noisy ;; esac
  open_scm "plug-in-zenith-$name" "$work/in/$picture.png"
done >>all.scm
start_gimp log "(load \"$work/all.scm\")"

visible () { xdotool search --onlyvisible --name "^$1\$" 2>/dev/null; }
gone ()    { ! visible "$1"; }
fine ()    { [ "$(cat "layout/$1.layout")" = ok ] || { tr '\n' ';' <"layout/$1.layout"; false; }; }

# The view is at the face: nothing of what lies beside the portrait.
at_the_face () {
  blue=$(image "out/$1.png" -crop 300x300+40+40 +repage -fill white -opaque blue -fill black +opaque white -format '%[fx:int(100*mean)]' info:)
  [ "$blue" -lt 20 ] || { echo "$blue % of the view are beside the portrait"; false; }
}

# steady WINDOW FILE: its picture, when nothing has changed in it for two seconds; after a minute, as it is.
steady () {
  for _ in $(seq 30); do
    import -window "$1" -depth 8 $plain "PNG:$2.new" 2>/dev/null || return 1
    if [ -e "$2" ] && same "$2" "$2.new" >/dev/null; then break; fi
    mv "$2.new" "$2"
    sleep 2
  done
}

for name in $dialogs; do
  title=$(ours "$(echo "$all" | sed -n "s/^$name //p")")
  if ! wait_for 150 visible "$title"; then
    not_ok "$name-opens" "no window '$title': $(tail -3 log | tr '\n' ' ')"
    break
  fi
  window=$(visible "$title" | tail -1)
  xdotool windowfocus "$window" mousemove 1 1 2>/dev/null
  steady "$window" "out/$name.png"
  wait_for 60 fine "$title"
  check "$name" fine "$title"
  check "$name-keys" keys_lead "$title"
  [ "$name" != diffae-manipulate ] || check "$name-view" at_the_face "$name"
  [ "$name" != upscale ] || check "$name-first-view" grep -q 'zenith: first view' log # of the quick model
  if [ "$name" = diffae-manipulate ] || [ "$name" = restore ]; then
    rows=$(grep -c . "layout/$title.keys")
    unfolded () { [ "$(grep -c . "layout/$title.keys")" -gt "$rows" ]; }
    xdotool windowfocus "$window" key "$(alt _Advanced)"
    wait_for 60 unfolded
    check "$name-unfolds" unfolded
    wait_for 60 fine "$title"
    check "$name-unfolded" fine "$title"
    check "$name-unfolded-keys" keys_lead "$title"
    import -window "$window" $plain "PNG:out/$name-unfolded.png"
    [ -z "$shots" ] || cp "out/$name-unfolded.png" "$shots"
  fi
  [ -z "$shots" ] || cp "out/$name.png" "$shots/$name.png"
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    xdotool windowfocus "$window" key Escape 2>/dev/null
    wait_for 12 gone "$title" && break
  done
  check "$name-escape" gone "$title"
done
kill "$gimp_process" 2>/dev/null
check quiet quiet log
finish
