#!/bin/sh
# SPDX-License-Identifier: MIT
#
# screenshot.sh [--gimp] OUT.png PROCEDURE PICTURE [KEY...] - the dialog of a
# filter, open on a picture, in the language of LC_ALL.
#
# --gimp     the dialog in front of GIMP's window
# KEY        pressed one after the other when the dialog is there: what xdotool
#            calls it, or @LABEL, the key of a label (@_Split view)
# Needs:  gimp (2.10 or 3), xvfb, openbox, xdotool, imagemagick, pkg-config;
#         environment as lib.sh says, ZENITH_BUILD is required.
# Exit:   0 OUT.png is there; 1 with a message on stderr.

set -u
. "$(dirname "$0")/lib.sh"

complain () { echo "screenshot.sh: $*" >&2; exit 1; }
absolute () { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }

whole=
[ "${1:-}" != --gimp ] || { whole=yes; shift; }
[ $# -ge 3 ] || complain 'usage: screenshot.sh [--gimp] OUT.png PROCEDURE PICTURE [KEY...]'
out=$(absolute "$1") procedure=$2 picture=$(absolute "$3")
shift 3

for tool in Xvfb openbox xdotool import; do
  command -v "$tool" >/dev/null || complain "$tool is not installed"
done
if [ -e "${ZENITH_BUILD:?the build directory}/plugin/zenith-gimp2" ] && command -v gimp-2.10 >/dev/null; then
  gimp=2 program='gimp-2.10 --gimprc'
elif [ -e "$ZENITH_BUILD/plugin/zenith-gimp3" ] && command -v "gimp-$gimp3" >/dev/null; then
  gimp=3 program="gimp-$gimp3 --system-gimprc"
else
  complain "no GIMP with a plug-in in $ZENITH_BUILD"
fi

set_up "zenith-gimp$gimp"
cd "$work" || exit 1
. "$here/host.sh"
cat >>gimprc <<END
(show-tips no)
(single-window-mode yes)
(initial-zoom-to-fit yes)
(default-view (show-layer-boundary no))
END
use_look 10

if [ "$gimp" = 2 ]; then
  cat >open.scm <<END
(let* ((i (vector-ref (cadr (gimp-image-list)) 0)) (d (car (gimp-image-get-active-drawable i))))
  ($procedure RUN-INTERACTIVE i d $(arguments_of "$procedure")))
END
else
  cat >open.scm <<END
(script-fu-use-v3)
(let* ((i (vector-ref (gimp-get-images) 0)))
  ($procedure #:run-mode RUN-INTERACTIVE #:image i #:drawables (gimp-image-get-selected-drawables i)))
END
fi

screen=1200x780
start_display || complain "no display could be started"
cp gimprc gimprc.used
$program="$work/gimprc.used" --new-instance -s --batch-interpreter plug-in-script-fu-eval \
  -b "(load \"$work/open.scm\")" "$picture" >gimp.log 2>&1 &
processes="$! $processes"

main_window () { xdotool search --onlyvisible --name 'GNU Image|GIMP' | tail -1 | grep .; }
dialog ()      { xdotool search --onlyvisible --classname '^zenith' | tail -1 | grep .; }

# steady: until nothing has changed for five seconds; then steady-0.png is the
# screen.  Three minutes: the preview of a slow machine.
steady () {
  quiet_for=0
  for try in $(seq 180); do
    import -window root -depth 8 $plain steady-1.png || return 1
    if [ -e steady-0.png ] && same steady-0.png steady-1.png >/dev/null; then quiet_for=$((quiet_for + 1)); else quiet_for=0; fi
    mv steady-1.png steady-0.png
    [ "$quiet_for" -lt 5 ] || return 0
    sleep 1
  done
  return 1
}

wait_for 150 dialog || { import -window root "$out"; complain "the dialog did not open, see $out: $(tail -3 gimp.log)"; }
# The window fills the screen, the picture the window (Fit Image in Window).
window=$(main_window) && xdotool windowmove "$window" 0 0 windowsize "$window" 1196 750
sleep 1
[ -z "$window" ] || xdotool windowfocus "$window" key ctrl+shift+j
sleep 0.5
eval "$(xdotool getwindowgeometry --shell "$(dialog)")"   # WIDTH, HEIGHT
xdotool windowmove "$(dialog)" $((1190 - WIDTH)) $((740 - HEIGHT)) windowraise "$(dialog)" windowfocus "$(dialog)"
xdotool mousemove 1190 30
sleep 2
for key; do
  case $key in @*) key=$(alt "${key#@}") ;; esac
  xdotool key "$key"
  sleep 0.3
done
steady || complain "the dialog does not come to rest"
if [ -n "$whole" ]; then
  mv steady-0.png "$out"
else
  import -frame -window "$(dialog)" -depth 8 $plain "$out" || complain "no picture could be taken"
fi
echo "$out"
