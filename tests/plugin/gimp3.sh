#!/bin/sh
# SPDX-License-Identifier: MIT
#
# gimp3.sh - the plug-in and the operations in GIMP 3, headless and with the
# dialog, in a profile of its own.
#
# Where GIMP 3 and a plug-in built for it are at hand (Debian 13), it is tested
# in place.  Elsewhere, or with the argument sid, a root of Debian 13 (GIMP 3.0)
# or unstable (GIMP 3.2) is made once and kept, the source is copied in, built
# there, and this script runs again inside.
#
# Needs:  in place: gimp (3.0 or 3.2), imagemagick, pkg-config, ZENITH_BUILD;
#         else: root, apt and, the first time, the network (debian-root.sh).
#         Environment as lib.sh says, and
#           ZENITH_TRIXIE, ZENITH_SID  the root's folder (default: .cache/trixie, .cache/sid of the source);
#         inside it, models/ and presets/ of the source are used.
# Skips:  everything, with the reason, if the root cannot be made.
# Time:   two minutes; the first time three to five more.

set -u
. "$(dirname "$0")/lib.sh"
. "$here/expect.sh"

# Builds in the root and runs this script there.
run_inside () {
  case ${1:-} in
    sid) root=${ZENITH_SID:-$source_dir/.cache/sid} debian=unstable release=sid ;;
    *) root=${ZENITH_TRIXIE:-$source_dir/.cache/trixie} debian=13 release=trixie ;;
  esac
  why=$(ZENITH_ROOT_RELEASE=$release "$here/debian-root.sh" "$root" --copy zenith/source) # the build beside it is kept
  case $? in
    0) ;;
    77) skip gimp3 "$why"; finish ;;
    *) not_ok gimp3 "the root of Debian $debian could not be made"; finish ;;
  esac
  inside=$root/zenith language=de_DE.UTF-8
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 language="$language" \
    sh -c '
      mkdir -p /zenith/locale
      [ -e "/zenith/locale/$language" ] || localedef -i "${language%.*}" -f UTF-8 "/zenith/locale/$language" || exit 3
      [ -e /zenith/build/build.ninja ] || meson setup /zenith/build /zenith/source || exit 3
      ninja -C /zenith/build || exit 3' >"$inside/build.log" 2>&1 ||
    { not_ok gimp3-build "see $inside/build.log: $(grep -m1 -E 'error|ERROR' "$inside/build.log")"; finish; }
  exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL="$language" LOCPATH=/zenith/locale \
    ZENITH_WORK=/zenith/work ZENITH_BUILD=/zenith/build \
    ${ZENITH_DENOISE:+ZENITH_DENOISE="$ZENITH_DENOISE"} \
    ${ZENITH_LATENT:+ZENITH_LATENT="$ZENITH_LATENT"} \
    sh /zenith/source/tests/plugin/gimp3.sh
}

[ -z "${1:-}" ] && has_gimp3 && [ -e "${ZENITH_BUILD:-}/plugin/zenith-gimp3" ] || run_inside "${1:-}"

set_up zenith-gimp3
cd "$work" || exit 1
gimp=3
. "$here/host.sh"
make_pictures
make_presets

# Without the module nothing is registered, and GIMP asks again next time.
query='(script-fu-use-v3) (gimp-message (if (defined? (quote plug-in-zenith-denoise)) "denoise there" "denoise absent")) (gimp-message (if (defined? (quote plug-in-zenith-apply-preset)) "presets there" "presets absent"))'
GEGL_PATH=$system_ops gimp_run absent.log "$query"
check no-module-no-procedures grep -q 'denoise absent' absent.log
check no-module-no-presets grep -q 'presets absent' absent.log
gimp_run exist.log "$query"
check registered-denoise grep -q 'denoise there' exist.log
check registered-presets grep -q 'presets there' exist.log

start_scm >start.scm
cat start.scm "$here/gimp3.scm" "$here/case.scm" "$here/cases.scm" >all.scm
gimp_run cases.log "(script-fu-use-v3) (load \"$work/all.scm\")"
expect_all
check log-quiet quiet cases.log

# Two layers at once are one call; if one of them is refused, none changes.
cat >several.scm <<END
(script-fu-use-v3)
(define (layers image) (gimp-image-get-layers image))
(let* ((image (gimp-file-load RUN-NONINTERACTIVE "$work/in/rgb.png"))
       (copy  (gimp-layer-copy (vector-ref (layers image) 0))))
  (gimp-image-insert-layer image copy -1 0)
  (plug-in-zenith-denoise #:run-mode RUN-NONINTERACTIVE #:image image #:drawables (layers image)
                          #:model "$denoise" #:sigma 25)
  (gimp-image-remove-layer image (vector-ref (layers image) 0))
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/several.png"))
END
gimp_run several.log "(load \"$work/several.scm\")"
check several same out/denoise-rgb.png out/several.png

# The operation as a filter that stays: saved, loaded, still there, and shown.
cat >keep.scm <<END
(script-fu-use-v3)
(let* ((image (gimp-file-load RUN-NONINTERACTIVE "$work/in/rgb.png"))
       (layer (vector-ref (gimp-image-get-layers image) 0)))
  (gimp-drawable-append-new-filter layer "zenith:denoise" "Denoise" LAYER-MODE-REPLACE 1.0
                                   "model" "$denoise" "strength" 0.75 "sigma" 25)
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/keep.xcf")
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/keep-before.png"))
(let* ((image (gimp-file-load RUN-NONINTERACTIVE "$work/in/rgb.png"))
       (layer (vector-ref (gimp-image-get-layers image) 0)))
  (gimp-drawable-append-new-filter layer "zenith:upscale" "Enlarge" LAYER-MODE-REPLACE 1.0 "scale" 2 "model" "small")
  (gimp-image-resize image 192 128 0 0)
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/enlarge.xcf")
  (gimp-drawable-filter-delete (vector-ref (gimp-drawable-get-filters layer) 0))
  (plug-in-zenith-upscale #:run-mode RUN-NONINTERACTIVE #:image image #:drawables (vector layer) #:scale 2 #:model "small")
  (gimp-image-remove-layer image layer)
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/enlarged.png"))
END
cat >kept.scm <<END
(script-fu-use-v3)
(let* ((image   (gimp-file-load RUN-NONINTERACTIVE "$work/out/keep.xcf"))
       (layer   (vector-ref (gimp-image-get-layers image) 0))
       (filters (gimp-drawable-get-filters layer)))
  (gimp-message (string-append "filters " (number->string (vector-length filters)) " "
                               (gimp-drawable-filter-get-operation-name (vector-ref filters 0))))
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/keep-after.png")
  (gimp-drawable-filter-delete (vector-ref filters 0))
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/keep-removed.png"))
(let* ((image (gimp-file-load RUN-NONINTERACTIVE "$work/out/enlarge.xcf"))
       (layer (vector-ref (gimp-image-get-layers image) 0)))
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/enlarge-filter.png")
  (gimp-drawable-filter-delete (vector-ref (gimp-drawable-get-filters layer) 0))
  (gimp-image-resize image 96 64 0 0)
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/enlarge-removed.png"))
END
gimp_run keep.log "(load \"$work/keep.scm\")"
gimp_run kept.log "(load \"$work/kept.scm\")"
check filter-shows changed in/rgb.png out/keep-before.png
check filter-survives-xcf grep -q 'filters 1 zenith:denoise' kept.log
check filter-same-after-xcf near out/keep-before.png out/keep-after.png 60   # rounding
check filter-removable same in/rgb.png out/keep-removed.png
check filter-enlarges near out/enlarged.png out/enlarge-filter.png 60
check filter-enlarges-removable same in/rgb.png out/enlarge-removed.png

# What GIMP 3.2 has more: layers that are links to a file, which stay links below a filter; our procedures make pixels of
# them, as GIMP's own do.  (It refuses filters of channels and masks.)
if [ "$gimp3" = 3.2 ]; then
  cat >newer.scm <<END
(script-fu-use-v3)
(define (filters d) (gimp-message (string-append "filters " (number->string (vector-length (gimp-drawable-get-filters d))))))
(define (denoise d) (gimp-drawable-append-new-filter d "zenith:denoise" "Denoise" LAYER-MODE-REPLACE 1.0
                                                     "model" "$denoise" "sigma" 25))
(let* ((image (gimp-image-new 96 64 RGB))
       (link  (gimp-link-layer-new image "$work/in/rgb.png")))
  (gimp-image-insert-layer image link -1 0)
  (denoise link)
  (filters link)
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/link-filter.png")
  (if (not (gimp-item-id-is-link-layer link)) (gimp-message "no link any more")))
(let* ((image (gimp-image-new 96 64 RGB))
       (link  (gimp-link-layer-new image "$work/in/rgb.png")))
  (gimp-image-insert-layer image link -1 0)
  (plug-in-zenith-denoise #:run-mode RUN-NONINTERACTIVE #:image image #:drawables (vector link) #:model "$denoise" #:sigma 25)
  (gimp-file-save RUN-NONINTERACTIVE image "$work/out/link.png"))
END
  gimp_run newer.log "(load \"$work/newer.scm\")"
  check filter-of-link grep -q 'filters 1' newer.log
  check filter-of-link-shows cleaner in/clean.png in/rgb.png out/link-filter.png
  check filter-keeps-link test "$(grep -c 'no link any more' newer.log)" = 0
  check link cleaner in/clean.png in/rgb.png out/link.png
fi

# The document's examples; an error gives status 70.
mkdir -p doc/photos doc/clean
cp in/rgb.png doc/photo.png
cp in/rgb.png doc/photos/a.png
cp in/alpha.png doc/photos/b.png
echo 'no picture' >doc/photos/broken.png
size=$(stat -c %s in/rgb.png)
head -c $((size * 2 / 3)) in/rgb.png >doc/photos/cut.png
cd doc || exit 1
prepare_filters
for example in gimp3-file gimp3-filters gimp3-filter gimp3-folder; do
  doc_block "$example" >"../$example.scm"
  [ $example != gimp3-folder ] || cp "$source_dir/docs/samples/folder-gimp3.scm" "../$example.scm"
  [ -s "../$example.scm" ] || { not_ok "doc-$example" "it is not in docs/scripting.md"; continue; }
  check "doc-$example" gimp_run "../$example.log" "(load \"$work/$example.scm\")"
done
gimp_run ../again.log "(load \"$work/gimp3-folder.scm\")"
cd ..
check doc-gimp3-file-result changed in/rgb.png doc/photo-clean.png
check_filters
check doc-gimp3-filter-result test -s doc/photo.xcf
check doc-gimp3-folder-a changed in/rgb.png doc/clean/a.png
check doc-gimp3-folder-b test -s doc/clean/b.png
check doc-gimp3-folder-cut grep -q 'failed: photos/cut.png' gimp3-folder.log
check doc-gimp3-folder-no-half-picture test ! -e doc/clean/cut.png
check doc-gimp3-folder-broken grep -q 'failed: photos/broken.png' gimp3-folder.log
check_same_as_batch doc/photos/a.png doc/clean/a.png
check doc-gimp3-folder-count grep -q '2 done, 0 there already, 2 failed' gimp3-folder.log
check doc-gimp3-folder-resume grep -q '0 done, 2 there already, 2 failed' again.log
gimp_run bad.log '(script-fu-use-v3) (let* ((i (gimp-image-new 9 9 RGB))) (plug-in-zenith-apply-preset #:run-mode 1 #:image i #:drawables (vector) #:preset "x"))'
check bad-exit-status test "$?" != 0

# The dialog has a script of its own; its results count here.
ZENITH_PRESETS=$source_dir/presets ZENITH_MODELS=$source_dir/models ZENITH_GIMP=3 ZENITH_WORK=$work/.. sh "$here/dialog.sh" >dialog.txt 2>&1
while IFS= read -r line; do
  case $line in
    'ok '*)     ok "dialog-${line#ok }" ;;
    'not ok '*) line=${line#not ok }; not_ok "dialog-${line%%:*}" "${line#*: }" ;;
    'skip '*)   line=${line#skip }; skip "dialog-${line%%:*}" "${line#*: }" ;;
  esac
done <dialog.txt

finish
