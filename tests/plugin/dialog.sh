#!/bin/sh
# SPDX-License-Identifier: MIT
#
# dialog.sh - the plug-in's dialog in GIMP 2.10 or 3, under a display of its own.
#
# Needs:  gimp-console-2.10 or gimp-console-3.0, xvfb, openbox, xdotool,
#         imagemagick, pkg-config; no root, no network.
#         Environment as lib.sh says; ZENITH_BUILD is required.
#         ZENITH_GIMP   2 or 3: which GIMP (default: the one whose plug-in is built)
# Skips:  everything, if one of these is not there.
# Time:   about a minute and a half.

set -u
. "$(dirname "$0")/lib.sh"

for tool in Xvfb openbox xdotool import; do
  command -v "$tool" >/dev/null || { skip dialog "$tool is not installed"; finish; }
done
gimp=${ZENITH_GIMP:-2}
[ -n "${ZENITH_GIMP:-}" ] || [ -e "${ZENITH_BUILD:?the build directory}/plugin/zenith-gimp2" ] || gimp=3
case $gimp in 2) console=gimp-console-2.10 ;; *) console=gimp-console-$gimp3 ;; esac
command -v "$console" >/dev/null || { skip dialog "$console is not installed"; finish; }
[ -e "$ZENITH_BUILD/plugin/zenith-gimp$gimp" ] ||
  { skip dialog "the plug-in was built without GIMP $gimp"; finish; }

set_up "zenith-gimp$gimp"
cd "$work" || exit 1
. "$here/host.sh"
make_pictures
image "$work/in/rgb.png" -resize 400x300! $plain "PNG24:$work/in/big.png"
models=$ZENITH_MODELS
start_display || { skip dialog "no display could be started"; finish; }

ok_key=$(alt _OK) presets_key=$(alt Pr_eset)

visible () { xdotool search --onlyvisible --name "^$1\$" 2>/dev/null; }
gone ()    { ! visible "$1"; }

# Nothing is cut off, every control has a name and a key of its own (zenith-access.h).
mkdir layout
export ZENITH_LAYOUT="$work/layout"
fine () { [ "$(cat "layout/$title.layout")" = ok ] || { tr '\n' ';' <"layout/$title.layout"; false; }; }

# open_dialog NAME PROCEDURE TITLE [PICTURE [MORE]]: GIMP with the picture, the
# procedure's dialog, and when that is closed the picture saved as out/NAME.png.
open_dialog () {
  dialog=$1 title=$(ours "$3")
  interactive_scm "$2" "$work/in/${4:-big}.png" "$work/out/$1.png" "${5:-}" >"$1.scm"
  start_gimp "$1.log" "(load \"$work/$1.scm\")"
  if wait_for 150 visible "$title"; then
    ok "$1-opens"
    xdotool windowfocus "$(visible "$title" | tail -1)" 2>/dev/null
    sleep 2   # the first preview
    wait_for 60 fine
    check "$1-layout" fine
  else
    not_ok "$1-opens" "no window '$title': $(tail -3 "$1.log" | tr '\n' ' ')"
    kill "$gimp_process" 2>/dev/null
    false
  fi
}

# press KEY: ends the dialog; the picture must be saved then.  On a slow machine
# a key may come while work is under way and only stop that: press it again.
press () {
  for try in 1 2 3 4 5 6 7 8 9 10; do
    xdotool key "$1"
    wait_for 12 gone "$title" && break
  done
  if gone "$title" && wait_for 60 test -s "$work/out/$dialog.png"; then
    ok "$dialog-closes"
    wait "$gimp_process"
  else
    import -window root "$work/out/$dialog-stuck.png"
    not_ok "$dialog-closes" "the dialog is still there, see out/$dialog-stuck.png"
    kill "$gimp_process" 2>/dev/null
  fi
  check "$dialog-quiet" quiet "$dialog.log"
}

if open_dialog ok plug-in-zenith-denoise Denoise; then
  import -window root "$work/out/dialog.png"
  press "$ok_key"
  check ok-applied changed in/big.png out/ok.png
fi

# A preset chosen in the filter's own dialog; the values are remembered.
last="((go RUN-WITH-LAST-VALS \"$work/out/last.png\"))"
if open_dialog values plug-in-zenith-denoise Denoise big "$last"; then
  xdotool key "$presets_key"
  sleep 0.3
  xdotool key Down
  sleep 2
  import -window root "$work/out/values-dialog.png"
  press "$ok_key"
  check values-applied changed in/big.png out/values.png
  check values-not-defaults changed out/ok.png out/values.png
  check values-remembered same out/values.png out/last.png
fi

use_look 15   # large letters
if open_dialog escape plug-in-zenith-denoise Denoise; then
  check keys-lead keys_lead "$title"
  check arrows-move arrows_move "$title" "$(ours Strength)"
  import -window root "$work/out/escape-dialog.png"
  press Escape
  check escape-same same in/big.png out/escape.png
fi

use_look 10
# Return accepts.
if open_dialog latent plug-in-zenith-latent-preview 'Latent Preview'; then
  press Return
  check latent-applied changed in/big.png out/latent.png
fi

# The face is found and its frame drawn, before anything is asked of it: dots of pure white in a portrait that has none.
frame_is_shown () {
  import -window "$window" out/face-window.png || return 1
  dots=$(image out/face-window.png -crop 380x380+30+30 +repage -fill black +opaque '#ffffff' -format '%[fx:int(mean*w*h)]' info:)
  [ "$dots" -gt 100 ] && [ "$dots" -lt 1000 ]
}

# grey_of LINE SIDE: how much of a line of pixels of the window has the grey around the picture; SIDE: h or w.
grey_of () {
  image "out/$look-window.png" -crop "$1" +repage -fill black +opaque '#707070' -fill white -opaque '#707070' \
    -format "%[fx:int(mean*$2+0.5)]" info:
}
# look NAME: the window as it is now, in out/NAME-window.png; the picture in its
# view (all but the grey around it) in out/NAME.png; its progress bar and buttons
# in out/NAME-bar.png.  The plug-in stands still meanwhile.
look () {
  look=$1
  kill -STOP "$program"
  import -window "$window" "out/$1-window.png"
  kill -CONT "$program"
  height=$(grey_of 1x0+20+0 h) width=$(grey_of 0x1+0+20 w)   # of the view: its left and upper edges are grey
  image "out/$1-window.png" -crop "$((width - 8))x$((height - 8))+20+20" +repage -bordercolor '#707070' -border 1 -trim +repage $plain "PNG24:out/$1.png"
  image "out/$1-window.png" -gravity south -crop x100+0+0 +repage $plain "PNG24:out/$1-bar.png"
}

# Looks until the preview has changed and the progress bar is empty again, or six minutes of work have passed; other previews
# between the first and the last are estimates.  From one look to the next the work goes on for an eighth of the time it has
# had: an estimate that is there for a third of the time is seen on any machine.
watch_preview () {
  n_estimates=0 pause=40   # milliseconds
  cp out/face-before.png out/face-last.png
  while [ "$pause" -lt 45000 ]; do
    sleep "$((pause / 1000)).$(printf %03d $((pause % 1000)))"
    pause=$((pause + pause / 8))
    look face-now
    if changed out/face-last.png out/face-now.png >/dev/null; then
      n_estimates=$((n_estimates + 1))
      cp out/face-now.png out/face-last.png
      cp out/face-now-window.png "out/face-estimate-$n_estimates.png"
    fi
    [ "$n_estimates" = 0 ] || ! same out/face-before-bar.png out/face-now-bar.png >/dev/null || break
  done
  n_estimates=$((n_estimates - 1))   # the last is the result
  [ "$pause" -lt 45000 ]
}
# The preview is the picture that OK gives, but for the dots of the frame.
is_result () {
  n=$(difference -metric AE -fuzz 1% "$1" "$2" null: 2>&1 | whole)
  [ "$n" -lt 1000 ] || { echo "$n pixels differ: $*"; false; }
}
if [ -e "$source_dir/models/zenith-find.safetensors" ]; then
  image "$source_dir/docs/samples/astronaut.png" -crop 400x400+40+20 +repage +level 10%,90% $plain "PNG24:$work/in/portrait.png"
  # the result is a new layer on top
  saved='(vector-ref (cadr (gimp-image-get-layers image)) 0)'
  if open_dialog face plug-in-zenith-diffae-manipulate 'Change a Face' portrait; then
    window=$(visible "$title" | tail -1)
    check face-frame-is-shown wait_for 60 frame_is_shown
    # from the preset's list over Save and the face to the first slider, the smile
    xdotool key "$presets_key" Tab Tab Tab
    sleep 0.5
    program=$(xdotool getwindowpid "$window")
    trap 'kill -CONT "$program" 2>/dev/null; clean_up' EXIT
    look face-before
    xdotool key End
    if watch_preview; then
      check face-estimates test "$n_estimates" -ge 1
    else
      not_ok face-estimates "$((n_estimates + 1)) changes, then no end, see out/face-now-window.png"
    fi
    trap clean_up EXIT
    press "$ok_key"
    check face-preview-is-the-result is_result out/face-now.png out/face.png
    check face-changed changed in/portrait.png out/face.png 200x200+100+20
    check face-same-outside same in/portrait.png out/face.png 400x180+0+220
  fi
  saved=
else
  skip face-estimates "models/zenith-find.safetensors is not here"
fi

# The result goes where the user wants it, and the next one too.
layers='(gimp-message (string-append "layers " (number->string (car (gimp-image-get-layers (aref (cadr (gimp-image-list)) 0))))))'
[ "$gimp" = 2 ] || layers='(gimp-message (string-append "layers " (number->string (vector-length (gimp-image-get-layers (vector-ref (gimp-get-images) 0))))))'
if open_dialog where plug-in-zenith-denoise Denoise big "$layers"; then
  xdotool key "$(alt Res_ult)"
  sleep 0.3
  xdotool key Down
  sleep 1
  import -window root "$work/out/where-dialog.png"
  press "$ok_key"
  check where-new-layer grep -q 'layers 2' where.log
  check where-remembered grep -q 'plug-in-zenith-denoise=new-layer$' "$XDG_DATA_HOME/zenith/generate.ini"
  rm -f "$XDG_DATA_HOME/zenith/generate.ini"
fi

# Fit, 200 %, split view; then Help, which opens our own page with whatever opens pages here.
mkdir -p "$XDG_DATA_HOME/applications"
cat >"$XDG_DATA_HOME/applications/page.desktop" <<END
[Desktop Entry]
Type=Application
Name=page
Exec=sh -c "echo %u >$work/page-opened"
MimeType=text/html;x-scheme-handler/https;
END
printf '[Default Applications]\ntext/html=page.desktop\nx-scheme-handler/https=page.desktop\n' >"$XDG_DATA_HOME/applications/mimeapps.list"
export ZENITH_HELP="$ZENITH_BUILD/docs"
image -size 1600x1200 xc:navy -fill orange -draw 'rectangle 700,500 900,700' $plain "PNG24:$work/in/centre.png"
if open_dialog view plug-in-zenith-denoise Denoise centre; then
  # the middle of the picture is orange, its upper left corner navy
  shows_orange () {
    import -window root "$work/out/view-dialog.png"
    orange=$(image "$work/out/view-dialog.png" -fuzz 3% -fill black +opaque '#ffa500' -fill white -opaque '#ffa500' -format '%[fx:int(mean*w*h)]' info:)
    [ "$orange" -gt 20000 ]
  }
  check view-opens-in-the-middle wait_for 60 shows_orange
  size=$(xdotool getwindowgeometry "$(visible "$title" | tail -1)" | grep Geometry)
  for key in $(alt _Fit) $(alt '_200 %') $(alt '_Split view') $(alt '_100 %'); do xdotool key "$key"; sleep 1; done
  sleep 2
  import -window root "$work/out/view-split.png"
  check view-never-jumps test "$(xdotool getwindowgeometry "$(visible "$title" | tail -1)" | grep Geometry)" = "$size"
  xdotool key "$(alt _Help)"
  wait_for 60 test -s page-opened
  check help-is-ours grep -qE 'docs/manual/(de/)?denoise.html' page-opened
  press Escape
fi

# Presets of every filter, here two that suit any picture: the second in the list is chosen with the keyboard; Repeat takes
# it again.
mkdir two && cp "$source_dir/presets/gentle.preset" "$source_dir/presets/strong.preset" two
all_presets=$ZENITH_PRESETS ZENITH_PRESETS=$work/two
last="((go RUN-WITH-LAST-VALS \"$work/out/preset-again.png\"))"
if open_dialog preset plug-in-zenith-apply-preset 'Apply Preset' big "$last"; then
  import -window root "$work/out/preset-dialog.png"
  for n in 1 2; do xdotool key Down; sleep 0.3; done
  sleep 2
  import -window root "$work/out/preset-chosen.png"
  press "$ok_key"
  check preset-applied changed in/big.png out/preset.png
  check preset-repeated same out/preset.png out/preset-again.png
fi
ZENITH_PRESETS=$all_presets

# A preset of one's own: saved, renamed, deleted; each question can be cancelled.
own=$XDG_DATA_HOME/zenith/presets
n_own ()    { [ "$(ls "$own" 2>/dev/null | wc -l)" = "$1" ] || { echo "files: $(ls "$own" 2>&1 | tr '\n' ' ')"; false; }; }
has_own ()  { grep -qsx "name *= *$1" "$own"/*; }
# ask LABEL TITLE: the question that the button brings, when keys go there.
has_keys () { [ "$(xdotool getwindowfocus getwindowname)" = "$1" ]; }
ask () {
  question=$(ours "$2")
  xdotool key "$(alt "$1")"
  wait_for 60 has_keys "$question"
}
if open_dialog own plug-in-zenith-denoise Denoise; then
  ask Sa_ve... 'Save Preset' && xdotool type 'Not kept' && xdotool key Escape
  wait_for 60 gone "$question"
  check own-save-cancelled n_own 0
  ask Sa_ve... 'Save Preset' && xdotool type 'First look' && xdotool key Return
  wait_for 60 has_own 'First look'
  check own-saved has_own 'First look'
  import -window root "$work/out/own-saved.png"
  ask Re_name... 'Rename Preset' && xdotool key ctrl+a && xdotool type 'Second look' && xdotool key Escape
  wait_for 60 gone "$question"
  check own-rename-cancelled has_own 'First look'
  ask Re_name... 'Rename Preset' && xdotool key ctrl+a && xdotool type 'Second look' && xdotool key Return
  wait_for 60 has_own 'Second look'
  check own-renamed has_own 'Second look'
  wait_for 60 n_own 1 # while it is replaced, there are two files
  check own-renamed-alone n_own 1
  ask _Delete... 'Delete Preset' && xdotool key Escape
  wait_for 60 gone "$question"
  check own-delete-cancelled has_own 'Second look'
  ask _Delete... 'Delete Preset' && import -window root "$work/out/own-delete.png" && xdotool key Return
  wait_for 60 n_own 0
  check own-deleted n_own 0
  press Escape
fi

# Cancel stops the work within a tile; the dialog stays, and ends at the second.
image -size 4000x3000 gradient:orange-navy -seed 7 -attenuate 0.7 +noise Gaussian -depth 8 $plain "PNG24:$work/in/wide.png"
if open_dialog cancel plug-in-zenith-denoise Denoise wide; then
  sleep 8   # the noise of the whole picture is measured first
  xdotool key "$ok_key"
  sleep 1.5
  xdotool key Escape
  sleep 3
  import -window root "$work/out/cancel-dialog.png"
  if visible "$title" >/dev/null; then
    press Escape
    check cancel-same same in/wide.png out/cancel.png
  else
    wait "$gimp_process"
    if check cancel-quiet quiet cancel.log && same in/wide.png out/cancel.png >/dev/null; then
      skip cancel "Escape came before OK"
    else
      skip cancel "this machine was done before it could be cancelled"
    fi
  fi
fi

# A failure is shown, the dialog stays, and after Cancel nothing has happened.
ZENITH_MODELS=$work/nowhere
if open_dialog failure plug-in-zenith-denoise Denoise; then
  xdotool key "$ok_key"
  sleep 2
  check failure-stays visible "$title"
  import -window root "$work/out/failure-dialog.png"
  press Escape
  check failure-same same in/big.png out/failure.png
fi

# Where GEGL does not look, as in the sandbox of a Flatpak, the operations are still used, and a question comes first: is GIMP
# to find them, too?  Once; what it makes is a link that GIMP passes over when they are gone.
if [ "$gimp" = 3 ]; then
  link=$XDG_DATA_HOME/gegl-0.4/plug-ins/zenith-ops.so gegl_path=$GEGL_PATH
  mkdir elsewhere && cp "$ops/zenith-ops.so" elsewhere
  export ZENITH_OPS="$work/elsewhere"
  unset GEGL_PATH
  # answer KEY: of the question that comes before the dialog NAME
  answer () {
    rm -f "$XDG_DATA_HOME/zenith/generate.ini"
    interactive_scm plug-in-zenith-denoise in/big.png "$work/out/unused.png" >question.scm
    start_gimp question.log "(load \"$work/question.scm\")"
    title=$(ours Denoise)
    if wait_for 150 visible Zenith; then
      import -window root "$work/out/question.png"
      xdotool windowfocus "$(visible Zenith | tail -1)" key "$1"
      wait_for 60 gone Zenith && wait_for 60 visible "$title" || echo "no dialog after $1"
    else
      echo "no question: $(tail -3 question.log | tr '\n' ' ')"
    fi
    kill "$gimp_process" 2>/dev/null
    wait "$gimp_process" 2>/dev/null
  }
  check question-not-now test -z "$(answer "$(alt '_Not Now')")"
  check question-no-link test ! -e "$link"
  check question-link test -z "$(answer "$(alt '_Make the Link')")"
  check question-link-is-there test "$(readlink "$link")" = "$work/elsewhere/zenith-ops.so"
  there='(script-fu-use-v3) (gimp-message (if (defined? (quote plug-in-zenith-denoise)) "denoise there" "denoise absent"))'
  export ZENITH_OPS="$work/nowhere"
  gimp_run linked.log "$there"
  check question-gimp-finds-them grep -q 'denoise there' linked.log
  rm elsewhere/zenith-ops.so
  rm -f "$GIMP3_DIRECTORY/pluginrc"
  gimp_run unlinked.log "$there"
  check question-undone grep -q 'denoise absent' unlinked.log
  check question-undone-quietly test "$(grep -c 'zenith-ops' unlinked.log)" = 0
  rm -rf "$link" elsewhere
  unset ZENITH_OPS
  export GEGL_PATH="$gegl_path"
fi

# In the whole GIMP: one undo step takes back one call.
ZENITH_MODELS=$models
if command -v "${console%console*}${console#*console-}" >/dev/null; then
  undo_scm "$work/in/big.png" "$work/out/undo-applied.png" "$work/go-on" "$work/out/undo-undone.png" >undo.scm
  start_gui undo.log "$work/undo.scm"
  main_window () { xdotool search --onlyvisible --name '\.0 \(.*GIMP' | tail -1 | grep .; }
  if wait_for 240 test -s out/undo-applied.png && wait_for 60 main_window; then
    sleep 1
    xdotool windowfocus "$(main_window)"
    sleep 0.5
    xdotool key ctrl+z
    # GIMP takes its time over the key: the image is saved until it is undone
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      : >go-on
      wait_for 60 test ! -e go-on
      same in/big.png out/undo-undone.png >/dev/null && break
      sleep 2
    done
    import -window root "$work/out/undo-window.png"
    check undo-applied changed in/big.png out/undo-applied.png
    check undo-one-step same in/big.png out/undo-undone.png
  else
    not_ok undo "GIMP's window did not come: $(tail -3 undo.log | tr '\n' ' ')"
  fi
  kill "$gimp_process" 2>/dev/null
else
  skip undo "GIMP's program with windows is not installed"
fi

# Weights that are missing are said at once, with the page that has them.
rm -f page-opened
page_is_asked_for () { # the button comes with the message, after the window
  xdotool key "$(alt '_Web page of the weights')"
  sleep 1
  test -s page-opened
}
if open_dialog lacks plug-in-zenith-z-image Generate; then
  import -window root "$work/out/lacks-dialog.png"
  wait_for 60 page_is_asked_for
  check lacks-page-opens grep -q 'https://huggingface.co/' page-opened
  press Escape
fi

# A prompt is typed, Return generates: a layer more, the prompt is remembered, the seed is a new one.
count='(gimp-message (string-append "layers " (number->string (car (gimp-image-get-layers (aref (cadr (gimp-image-list)) 0))))))'
source=generate   # GIMP 2.10 saves the layer, GIMP 3 the picture: without its new layer
[ "$gimp" = 2 ] || {
  source=generate-source
  count="(let* ((i (vector-ref (gimp-get-images) 0)) (l (gimp-image-get-layers i)))
    (gimp-message (string-append \"layers \" (number->string (vector-length l))))
    (gimp-image-remove-layer i (vector-ref l 0))
    (gimp-file-save RUN-NONINTERACTIVE i \"$work/out/$source.png\"))"
}
export ZENITH_MODELS="$work:$models"
if open_dialog generate plug-in-zenith-z-image Generate big "$count"; then
  xdotool type --delay 60 'a red fox'
  sleep 1
  import -window root "$work/out/generate-dialog.png"
  press Return
  check generate-layer grep -q 'layers 2' generate.log
  check generate-remembers grep -q 'prompts=a red fox;' "$XDG_DATA_HOME/zenith/generate.ini"
  check generate-source-stays same in/big.png "out/$source.png"
fi
export ZENITH_MODELS="$models"

finish
