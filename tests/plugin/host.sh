# SPDX-License-Identifier: MIT
#
# host.sh - starting GIMP 2.10 or 3 with the plug-in; sourced after set_up(),
# with gimp=2 or gimp=3.

# GIMP 2.10 rewrites its gimprc, so each run gets a copy.
cat >"$work/gimprc" <<END
(plug-in-path "$work/plug-ins:\${gimp_plug_in_dir}/plug-ins")
END
[ "$gimp" = 2 ] || cat >>"$work/gimprc" <<END
(color-profile-policy keep)
(show-welcome-dialog no)
(check-updates no)
(config-version "3.0.4")
END

exec=

# gimp_run LOG COMMAND...: each command to Script-Fu, in one GIMP.
gimp_run () {
  log=$1; shift
  cp "$work/gimprc" "$work/gimprc.used"
  for command; do set -- "$@" -b "$command"; shift; done
  if [ "$gimp" = 2 ]; then
    $exec timeout 1800 gimp-console-2.10 -d -f --gimprc="$work/gimprc.used" \
      "$@" -b '(gimp-quit 0)' >"$log" 2>&1
  else
    $exec timeout 1800 "gimp-console-$gimp3" -d -f --system-gimprc="$work/gimprc.used" --quit \
      --batch-interpreter plug-in-script-fu-eval "$@" >"$log" 2>&1
  fi
}

# The same in the background, for dialogs; exec, so that its id is GIMP's.
start_gimp () {
  ( exec=exec; gimp_run "$@" ) &
  gimp_process=$!
  processes="$gimp_process $processes"
}

# arguments_of PROCEDURE: what GIMP 2.10's Script-Fu must give it, also where a dialog asks.
arguments_of () {
  case $1 in
    *denoise)      echo '"fast" 1 1 1 0 0 "auto"' ;;
    *apply-preset) echo '""' ;;
    *restore)      echo '0 0 0 1 "auto"' ;;
    *upscale | *enlarge-image) echo '2 "faithful" 0 0 "auto"' ;;
    *manipulate)   echo '"smile" 0 10 10 0.7 "zenith-face" 0 0 0 0 "auto" TRUE' ;;
    *reconstruct)  echo '"zenith-face" 20 20 0 0 0 0 "auto" TRUE' ;;
    *interpolate)  echo '0.5 "" 20 20 "zenith-face" 0 0 0 0 "auto" 0 TRUE' ;;
    *sample)       echo '0 20 200 "zenith-face" "auto"' ;;
    *wan-video)    echo '0 "random:8" "auto" "auto"' ;;
    *z-image)      echo '"" 0 2 64 64 1 4 "" "auto"' ;;
    *latent-*code) echo '"zenith" "" "auto" "auto"' ;;
    *teach)        echo '"" "" ""' ;;
    *)             echo '"zenith" "reconstruct" "" "auto"' ;;
  esac
}

# open_scm PROCEDURE IN: opens IN and calls the procedure with its dialog.
open_scm () {
  if [ "$gimp" = 2 ]; then
    cat <<END
(let* ((image (car (gimp-file-load RUN-NONINTERACTIVE "$2" "$2"))))
  (catch #f ($1 RUN-INTERACTIVE image (car (gimp-image-get-active-drawable image)) $(arguments_of "$1"))))
END
  else
    cat <<END
(let* ((image (gimp-file-load RUN-NONINTERACTIVE "$2")))
  (catch #f ($1 #:run-mode RUN-INTERACTIVE #:image image #:drawables (gimp-image-get-selected-drawables image))))
END
  fi
}

# use_look POINTS [dark | light]: the size of the letters, the theme; no cursor that comes and goes: two pictures of the
# same state are equal.
use_look () {
  printf 'gtk-cursor-blink = 0\ngtk-font-name = "Sans %s"\n' "$1" >"$HOME/.gtkrc-2.0"
  mkdir -p "$XDG_CONFIG_HOME/gtk-3.0" "$GIMP2_DIRECTORY"
  printf '[Settings]\ngtk-cursor-blink=false\ngtk-font-name=Sans %s\ngtk-application-prefer-dark-theme=%s\n' \
    "$1" "$([ "${2:-}" = dark ] && echo true || echo false)" >"$XDG_CONFIG_HOME/gtk-3.0/settings.ini"
  case ${2:-} in
    dark)  echo 'include "/usr/share/gimp/2.0/themes/Dark/gtkrc"' >"$GIMP2_DIRECTORY/themerc" ;;
    light) echo 'include "/usr/share/gimp/2.0/themes/Light/gtkrc"' >"$GIMP2_DIRECTORY/themerc" ;;
  esac
}

# interactive_scm PROCEDURE IN OUT [MORE]: opens IN, calls the procedure with its
# dialog, does MORE, saves OUT whatever came of the dialog: in GIMP 2.10 the layer, or what $saved says.
interactive_scm () {
  if [ "$gimp" = 2 ]; then
    cat <<END
(define (go mode file)
  (let* ((image    (car (gimp-file-load RUN-NONINTERACTIVE "$2" "$2")))
         (drawable (car (gimp-image-get-active-drawable image))))
    (catch #f ($1 mode image drawable $(arguments_of "$1")))
    (lambda ()
      (file-png-save RUN-NONINTERACTIVE image ${saved:-drawable} file file
                     FALSE 6 FALSE FALSE FALSE FALSE TRUE))))
END
  else
    cat <<END
(script-fu-use-v3)
(define (go mode file)
  (let* ((image     (gimp-file-load RUN-NONINTERACTIVE "$2"))
         (drawables (gimp-image-get-selected-drawables image)))
    (catch #f ($1 #:run-mode mode #:image image #:drawables drawables))
    (lambda ()
      (file-png-export #:run-mode RUN-NONINTERACTIVE #:image image #:file file
                       #:options -1 #:include-color-profile #f #:include-thumbnail #f))))
END
  fi
  cat <<END
(let ((save (go RUN-INTERACTIVE "$3")))
  ${4:-}
  (save))
END
}

# start_gui LOG FILE.scm: GIMP with its windows, in the background.
start_gui () {
  cp "$work/gimprc" "$work/gimprc.used"
  case $gimp in
    2) set -- "$1" "$2" gimp-2.10 "--gimprc=$work/gimprc.used" ;;
    *) set -- "$1" "$2" "gimp-$gimp3" "--system-gimprc=$work/gimprc.used" ;;
  esac
  "$3" "$4" --new-instance -s --batch-interpreter plug-in-script-fu-eval \
    -b "(load \"$2\")" >"$1" 2>&1 &
  gimp_process=$!
  processes="$gimp_process $processes"
}

# undo_scm IN APPLIED GO UNDONE: shows IN, applies a filter, saves APPLIED; whenever
# the file GO is there, saves UNDONE and deletes GO.
undo_scm () {
  if [ "$gimp" = 2 ]; then
    cat <<END
(let* ((image    (car (gimp-file-load RUN-NONINTERACTIVE "$1" "$1")))
       (drawable (car (gimp-image-get-active-drawable image)))
       (save     (lambda (file) (file-png-save RUN-NONINTERACTIVE image drawable file file
                                               FALSE 6 FALSE FALSE FALSE FALSE TRUE))))
  (gimp-display-new image)
  (plug-in-zenith-denoise RUN-NONINTERACTIVE image drawable "$denoise" 1 1 1 0 25 "auto")
  (gimp-displays-flush)
END
  else
    cat <<END
(script-fu-use-v3)
(let* ((image (gimp-file-load RUN-NONINTERACTIVE "$1"))
       (save  (lambda (file) (file-png-export #:run-mode RUN-NONINTERACTIVE #:image image #:file file
                                              #:options -1 #:include-color-profile #f
                                              #:include-thumbnail #f))))
  (gimp-display-new image)
  (plug-in-zenith-denoise #:run-mode RUN-NONINTERACTIVE #:image image
                          #:drawables (gimp-image-get-selected-drawables image)
                          #:model "$denoise" #:sigma 25)
  (gimp-displays-flush)
END
  fi
  cat <<END
  (save "$2")
  (let again ()
    (let wait () (if (not (file-exists? "$3")) (begin (gimp-displays-flush) (wait))))
    (save "$4")
    (file-delete "$3")
    (again)))
END
}
