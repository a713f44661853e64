#!/bin/sh
# SPDX-License-Identifier: MIT
#
# screenshot.sh OUT.png [PICTURE [PROCEDURE]] - GIMP with a picture and the
# filter's dialog open, as the README shows it.
#
# PICTURE    default: a sample picture with noise added, so that there is
#            something to see
# PROCEDURE  default: plug-in-zenith-denoise
# Needs:  gimp (2.10 or 3), xvfb, openbox, xdotool, imagemagick, pkg-config;
#         environment as lib.sh says, ZENITH_BUILD is required.
# Exit:   0 OUT.png is there; 1 with a message on stderr.

set -u
. "$(dirname "$0")/lib.sh"

out=${1:?usage: screenshot.sh OUT.png [PICTURE [PROCEDURE]]}
case $out in /*) ;; *) out=$PWD/$out ;; esac
picture=${2:-}
case $picture in ''|/*) ;; *) picture=$PWD/$picture ;; esac
procedure=${3:-plug-in-zenith-denoise}

complain () { echo "screenshot.sh: $*" >&2; exit 1; }

for tool in Xvfb openbox xdotool import; do
  command -v "$tool" >/dev/null || complain "$tool is not installed"
done
if [ -e "${ZENITH_BUILD:?the build directory}/plugin/zenith-gimp2" ] && command -v gimp-2.10 >/dev/null; then
  gimp=2 program='gimp-2.10 --gimprc'
elif [ -e "$ZENITH_BUILD/plugin/zenith-gimp3" ] && command -v gimp-3.0 >/dev/null; then
  gimp=3 program='gimp-3.0 --system-gimprc'
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

if [ -z "$picture" ]; then
  picture=$work/noisy.png
  sample=$(ls "$source_dir"/docs/samples/*.png | head -1)
  for name in chelsea coffee astronaut; do
    [ -e "$source_dir/docs/samples/$name.png" ] && sample=$source_dir/docs/samples/$name.png && break
  done
  [ -n "$sample" ] || complain "there is no sample picture"
  image "$sample" -seed 3 -attenuate 0.8 +noise Gaussian $plain "$picture" || complain "no noisy picture"
fi

case $gimp:$procedure in
  2:*denoise)      call="($procedure RUN-INTERACTIVE i d \"balanced\" 1 1 1 0 0 \"auto\")" ;;
  2:*apply-preset) call="($procedure RUN-INTERACTIVE i d \"\")" ;;
  2:*)             call="($procedure RUN-INTERACTIVE i d \"zenith\" \"reconstruct\" \"\" \"auto\")" ;;
  *)               call="($procedure #:run-mode RUN-INTERACTIVE #:image i #:drawables (gimp-image-get-selected-drawables i))" ;;
esac
if [ "$gimp" = 2 ]; then
  echo "(let* ((i (vector-ref (cadr (gimp-image-list)) 0)) (d (car (gimp-image-get-active-drawable i)))) $call)" >open.scm
else
  echo "(script-fu-use-v3) (let* ((i (vector-ref (gimp-get-images) 0))) $call)" >open.scm
fi

screen=1360x880
start_display || complain "no display could be started"
cp gimprc gimprc.used
$program="$work/gimprc.used" --new-instance -s --batch-interpreter plug-in-script-fu-eval \
  -b "(load \"$work/open.scm\")" "$picture" >gimp.log 2>&1 &
processes="$! $processes"

main_window () { xdotool search --onlyvisible --name 'GNU Image|GIMP' | tail -1 | grep .; }
dialog ()      { xdotool search --onlyvisible --name '^(Denoise|Latent Preview|Apply Preset)$' | tail -1 | grep .; }

wait_for 90 dialog || { import -window root "$out"; complain "the dialog did not open, see $out: $(tail -3 gimp.log)"; }
# The window fills the screen, the picture the window (Fit Image in Window).
window=$(main_window) && xdotool windowmove "$window" 0 0 windowsize "$window" 1356 850
sleep 1
[ -z "$window" ] || xdotool windowfocus "$window" key ctrl+shift+j
sleep 0.5
xdotool windowmove "$(dialog)" 590 360 windowraise "$(dialog)" windowfocus "$(dialog)"
xdotool mousemove 1300 60
sleep "${ZENITH_SHOT_WAIT:-8}"   # the preview of the slowest engine
import -window root -depth 8 $plain "$out" || complain "no picture could be taken"
echo "$out"
