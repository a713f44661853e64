# SPDX-License-Identifier: MIT
#
# lib.sh - what the plug-in's test scripts share; sourced, not run.
#
# Environment of every script here:
#   ZENITH_BUILD    meson's build directory (plugin/zenith-gimp2, gegl-ops/*.so)
#   ZENITH_MODELS   where weights are looked for     (default: models/ of the source)
#   ZENITH_PRESETS  where presets are looked for     (default: presets/ of the source)
#   ZENITH_WORK     a folder to work in              (default: a temporary one)
#   ZENITH_OPS      folder of the GEGL module        (default: $ZENITH_BUILD/gegl-ops)
#   ZENITH_DENOISE  model of zenith:denoise to use   (default: fast)
#   ZENITH_LATENT   model of zenith:latent-preview   (default: zenith)
#
# Results are lines "ok NAME", "not ok NAME: why", "skip NAME: why"; finish()
# prints "N passed, M failed, K skipped" and exits with 1 if anything failed.

here=$(cd "$(dirname "$0")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
. "$here/../gegl/modules.sh"
passed=0 failed=0 skipped=0
processes=

ok ()     { echo "ok $1"; passed=$((passed + 1)); }
not_ok () { echo "not ok $1: $2"; failed=$((failed + 1)); }
skip ()   { echo "skip $1: $2"; skipped=$((skipped + 1)); }

finish () {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
  exit
}

# Ends what this script started, and nothing else.
clean_up () {
  for process in $processes; do kill "$process" 2>/dev/null; done
  [ -z "${temporary:-}" ] || rm -rf "$temporary"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# set_up PROGRAM: variables, work folder, private profile.  PROGRAM is the
# plug-in's file in the build, zenith-gimp2 or zenith-gimp3.
set_up () {
  : "${ZENITH_BUILD:?the build directory}"
  ZENITH_BUILD=$(cd "$ZENITH_BUILD" && pwd)
  export ZENITH_MODELS="${ZENITH_MODELS:-$source_dir/models}"
  export ZENITH_PRESETS="${ZENITH_PRESETS:-$source_dir/presets}"
  ops=${ZENITH_OPS:-$ZENITH_BUILD/gegl-ops}
  denoise=${ZENITH_DENOISE:-fast}
  latent=${ZENITH_LATENT:-zenith}
  export ZENITH_LOCALE="${ZENITH_LOCALE:-$ZENITH_BUILD/po}"
  export ZENITH_PROGRAM="$ZENITH_BUILD/engine/zenith"

  if [ -z "${ZENITH_WORK:-}" ]; then
    temporary=$(mktemp -d) && ZENITH_WORK=$temporary
  fi
  mkdir -p "$ZENITH_WORK"
  work=$(cd "$ZENITH_WORK" && pwd)/$(basename "$0" .sh)
  rm -rf "$work"
  mkdir -p "$work/plug-ins/$1" "$work/out" "$work/in"
  cp "$ZENITH_BUILD/plugin/$1" "$work/plug-ins/$1/$1" ||
    { not_ok set-up "there is no $ZENITH_BUILD/plugin/$1"; finish; }

  system_ops=$work/gegl
  gegl_modules "$system_ops"
  export GEGL_PATH="$ops:$system_ops"
  export XDG_DATA_HOME="$work/data" XDG_CONFIG_HOME="$work/config" XDG_CACHE_HOME="$work/cache"
  export HOME="$work" NO_AT_BRIDGE=1
  export GIMP2_DIRECTORY="$work/gimp2" GIMP3_DIRECTORY="$work/gimp3"
  unset DBUS_SESSION_BUS_ADDRESS GEGL_SWAP DISPLAY WAYLAND_DISPLAY
}

# GIMP 3's version as its programs have it: gimp-3.0, gimp-console-3.2.
gimp3=$(for v in 3.2 3.0; do if command -v gimp-console-$v >/dev/null; then echo $v && break; fi; done)
gimp3=${gimp3:-3.0}
has_gimp3 () { command -v "gimp-console-$gimp3" >/dev/null; }

# ImageMagick 6 or 7; it does not work in Turkish, and prints numbers with a comma in others.
if command -v magick >/dev/null; then
  image () { LC_ALL=C.UTF-8 magick "$@"; }
  difference () { LC_ALL=C.UTF-8 magick compare "$@"; }
else
  image () { LC_ALL=C.UTF-8 convert "$@"; }
  difference () { LC_ALL=C.UTF-8 compare "$@"; }
fi

# GIMP 3 makes a colour profile of these chunks, and then everything differs.
plain='-strip -define png:exclude-chunk=gAMA,cHRM,sRGB,iCCP,date,tIME,bKGD,pHYs'

# The pictures that a new user might try.
make_pictures () {
  noisy='-seed 7 -attenuate 0.7 +noise Gaussian'
  image -size 96x64 gradient:orange-navy -depth 8 $plain "PNG24:$work/in/clean.png" &&
  image -size 96x64 gradient:orange-navy $noisy -depth 8 $plain "PNG24:$work/in/rgb.png" &&
  image "$work/in/rgb.png" \( -size 32x64 xc:black xc:gray50 xc:white +append \) \
    -alpha off -compose CopyOpacity -composite $plain "PNG32:$work/in/alpha.png" &&
  image "$work/in/rgb.png" -alpha on -channel A -evaluate set 0 +channel $plain "PNG32:$work/in/clear.png" &&
  image "$work/in/rgb.png" -colorspace Gray $plain -define png:color-type=0 "$work/in/grey.png" &&
  image "$work/in/alpha.png" -colorspace Gray $plain -define png:color-type=4 "$work/in/grey-alpha.png" &&
  image "$work/in/rgb.png" +dither -colors 24 $plain "PNG8:$work/in/indexed.png" &&
  image -size 96x64 gradient:orange-navy $noisy -depth 16 $plain "PNG48:$work/in/rgb16.png" &&
  image "$work/in/rgb.png" -crop 1x1+5+5 +repage $plain "PNG24:$work/in/one.png" &&
  image "$work/in/rgb.png" -crop 3x5+5+5 +repage $plain "PNG24:$work/in/small.png" &&
  image -size 40x30 gradient:white-black $noisy -depth 8 $plain "PNG24:$work/in/layer.png" ||
    { not_ok pictures "ImageMagick cannot make the test pictures"; finish; }
  python3 "$source_dir/tools/make_tiny_zimage.py" "$work/z-image" ||
    { not_ok pictures "the tiny Z-Image could not be made"; finish; }
  # Faces to teach with: the same one, brighter and darker.
  mkdir -p "$work/in/bright" "$work/in/dark"
  for n in 1 2 3 4 5 6; do
    portrait="$source_dir/docs/samples/astronaut.png -crop 200x200+$((120 + n))+$((20 + n)) +repage"
    image $portrait -modulate $((120 + 2 * n)) $plain "PNG24:$work/in/bright/$n.png" &&
    image $portrait -modulate $((60 + 2 * n)) $plain "PNG24:$work/in/dark/$n.png" ||
      { not_ok pictures "ImageMagick cannot make pictures to teach with"; finish; }
  done
  echo 'This is no weight file.' >"$work/in/text.safetensors"
  # A weight file, but of no model: an 8-byte length, a header, four bytes.
  { printf '\070\000\000\000\000\000\000\000'
    printf '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
    printf '\000\000\000\000'; } >"$work/in/other.safetensors"
}

# The first number, rounded up: newer ImageMagick counts parts of pixels; or what is there instead of one.
whole () { LC_ALL=C awk '{ n = $1 + 0; print $1 ~ /^[0-9.e+]+$/ ? int (n) + (n > int (n)) : $0 }'; }

# How many pixels of two pictures differ, in all or in REGION (WxH+X+Y).
n_differ () {
  if [ $# = 3 ]; then
    image "$1" -crop "$3" +repage "$work/cut-a.png"
    image "$2" -crop "$3" +repage "$work/cut-b.png"
    difference -metric AE "$work/cut-a.png" "$work/cut-b.png" null: 2>&1 | whole
  else
    difference -metric AE "$1" "$2" null: 2>&1 | whole
  fi
}

# check NAME CONDITION...: one test; the condition is a command.
check () {
  check_name=$1; shift
  if why=$("$@"); then ok "$check_name"; else not_ok "$check_name" "${why:-$*}"; fi
}

same ()    { n=$(n_differ "$@"); [ "$n" = 0 ] || { echo "$n pixels differ: $*"; false; }; }
changed () { n=$(n_differ "$@"); case $n in 0) echo "nothing changed: $*"; false ;; [1-9]*) ;; *) echo "$n"; false ;; esac; }

# near A B DECIBEL: PSNR in tenths of a decibel, so that the shell can compare.
psnr () {
  difference -metric PSNR "$1" "$2" null: 2>&1 |
    LC_ALL=C awk '{ print ($1 == "inf" || $1 == "0") ? 9999 : int ($1 * 10) }'
}
near () { n=$(psnr "$1" "$2"); [ "$n" -ge "$3"0 ] || { echo "PSNR $n/10 dB: $*"; false; }; }

# cleaner CLEAN NOISY RESULT: the result is 3 dB nearer to the clean picture.
cleaner () {
  before=$(psnr "$1" "$2") after=$(psnr "$1" "$3")
  [ "$after" -ge $((before + 30)) ] || { echo "PSNR $before/10 dB, then $after/10 dB"; false; }
}

# ours TEXT: in the language of this run.
ours () { TEXTDOMAINDIR=$ZENITH_LOCALE gettext zenith "$1"; }

# in_english FILE: its messages become those of the source, whatever the language
# of this run; what was said is kept beside it.
in_english () {
  catalog=$ZENITH_LOCALE/$(locale_language)/LC_MESSAGES/zenith.mo
  cp "$1" "$1.said"
  [ ! -e "$catalog" ] || python3 "$source_dir/tools/english.py" "$catalog" <"$1.said" >"$1"
}

# The language of this run as po/LINGUAS names it.
locale_language () {
  case ${LC_ALL:-C} in zh_CN*) echo zh_CN ;; *) echo "${LC_ALL%%[_.]*}" ;; esac
}

# What a case of cases.scm did: lines "NAME|done or error|dirty or clean|text".
result_of () { sed -n "s/^$1|//p" "$work/results" | tail -1; }

done_ok () {
  case $(result_of "$1") in
    'done|'*) ;;
    '') echo "it did not run"; false ;;
    *) echo "$(result_of "$1")"; false ;;
  esac
}

no_values=$(gettext -d gimp20 "Procedure '%s' returned no return values" | sed 's/.*%s.//')

# The case failed, with a message that matches, and changed nothing.  A
# plug-in that crashed leaves no message, only GIMP's.
refused () {
  r=$(result_of "$1")
  case $r in
    *'no return values'* | *"$no_values"*) echo "the plug-in crashed"; return 1 ;;
    'error|clean|'*) ;;
    'error|'*) echo "the image is dirty after: $r"; return 1 ;;
    *) echo "no error: ${r:-it did not run}"; return 1 ;;
  esac
  echo "$r" | grep -qiE -e "$2" || { echo "not the sentence ($2): $r"; return 1; }
  [ -z "${3:-}" ] || same "$work/in/$3.png" "$work/out/$1.png"
}

# A result, or an error message; lost pixels are neither.
result_or_sentence () {
  case $(result_of "$1") in
    'done|'*) ;;
    *) refused "$1" '[a-z]' "${2:-}" ;;
  esac
}

# The log of a GIMP holds no crash, and no complaint of our own program; the
# broken pipe is GIMP 3's own habit, every plug-in of its own says it too, and
# the queue of the swap file is GEGL's: buffers that were freed shortly before
# the end still wait there to be taken out of the file, and its gaps are checked
# before that.
quiet () {
  if grep -nE 'fatal error|Segmentation|crashed|zenith-gimp[23]:[0-9]+\)' "$1" |
       grep -vE 'gimp_flush\(\): error: Broken pipe|swap writer queue wasn.t empty|gegl_tile_backend_swap_cleanup'; then false; fi
}

# doc_block NAME: the code after "<!-- test: NAME -->" in docs/scripting.md.
doc_block () {
  awk -v mark="<!-- test: $1 -->" '
    $0 == mark   { wanted = 1; next }
    /^```/       { if (inside) exit; if (wanted) inside = 1; next }
    inside       { print }' "$source_dir/docs/scripting.md"
}

# alt LABEL: its key in the language of this run.
alt () { echo "alt+$(ours "$1" | sed 's/.*_\(.\).*/\1/' | tr 'A-Z' 'a-z')"; }

# Keys of a dialog's rows, as layout/TITLE.keys has them (zenith-access.h).
row_key ()   { LC_ALL=C awk -F '\t' -v name="$2" '$3 == name { print $2 }' "layout/$1.keys"; }
row_value () { LC_ALL=C awk -F '\t' -v key="$2" '$2 == key { print $4 }' "layout/$1.keys"; }
has_focus () { LC_ALL=C awk -F '\t' -v key="$2" '$2 == key && $1 == "*" { found = 1 } END { exit !found }' "layout/$1.keys"; }
is_value ()  { [ "$(row_value "$1" "$2")" = "$3" ]; }
is_other ()  { ! is_value "$1" "$2" "$3"; }

# keys_lead TITLE: each row's key gives it the focus.
keys_lead () {
  wait_for 60 test -s "layout/$1.keys" || { echo "no row has a key"; return 1; }
  for key in $(cut -f2 "layout/$1.keys"); do
    xdotool key "alt+$key"
    wait_for 60 has_focus "$1" "$key" || { echo "alt+$key: $(grep "^\*" "layout/$1.keys" || echo nothing) has the focus"; return 1; }
  done
}

# arrows_move TITLE NAME: the row's slider goes up, and back again.
arrows_move () {
  key=$(row_key "$1" "$2") value=$(row_value "$1" "$key")
  [ -n "$value" ] || { echo "no row $2: $(cut -f3 "layout/$1.keys" | tr '\n' ';')"; return 1; }
  xdotool key "alt+$key"
  wait_for 60 has_focus "$1" "$key" || { echo "alt+$key does not lead to $2"; return 1; }
  xdotool key Left
  wait_for 60 is_other "$1" "$key" "$value" || { echo "$2 stays at $value"; return 1; }
  xdotool key Right
  wait_for 60 is_value "$1" "$key" "$value" || { echo "$2 is $(row_value "$1" "$key"), not $value again"; return 1; }
}

# A display of our own, for dialogs, with a window manager: both are waited for.
start_display () {
  Xvfb -displayfd 3 -screen 0 "${screen:-1280x900}x24" -nolisten tcp 3>"$work/display" >/dev/null 2>&1 &
  processes="$processes $!"
  wait_for 60 test -s "$work/display" || return 1
  export DISPLAY=":$(cat "$work/display")"
  openbox >/dev/null 2>&1 &
  processes="$! $processes"
  wait_for 60 xdotool get_num_desktops
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for () {
  tries=$(($1 * 5)); shift
  while [ "$tries" -gt 0 ]; do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.2
    tries=$((tries - 1))
  done
  return 1
}
