#!/bin/sh
# SPDX-License-Identifier: MIT
#
# gimp2.sh - the plug-in in GIMP 2.10, headless, in a profile of its own.
#
# Needs:  gimp (2.10), imagemagick, pkg-config; no display, no root, no network.
#         Environment as lib.sh says; ZENITH_BUILD is required.
# Skips:  everything, if GIMP 2.10 or the plug-in for it is not there.
# Time:   about a minute.

set -u
. "$(dirname "$0")/lib.sh"
. "$here/expect.sh"

command -v gimp-console-2.10 >/dev/null ||
  { skip gimp2 "gimp-console-2.10 is not installed"; finish; }
[ -e "${ZENITH_BUILD:?the build directory}/plugin/zenith-gimp2" ] ||
  { skip gimp2 "the plug-in was built without GIMP 2.10"; finish; }

set_up zenith-gimp2
cd "$work" || exit 1
gimp=2
. "$here/host.sh"
make_pictures
make_presets

# Without the module nothing is registered, and GIMP asks again next time.
GEGL_PATH=$system_ops gimp_run absent.log \
  '(gimp-message (string-append "absent " (number->string (car (gimp-procedural-db-query "plug-in-zenith.*" "" "" "" "" "" "")))))'
check no-module-no-procedures grep -q 'absent 0' absent.log

# GIMP's own list of the operation's presets gets ours; what is there stays.
list=$GIMP2_DIRECTORY/filters/GimpGegl-zenith-denoise-config.settings
mkdir -p "${list%/*}"
printf '# settings\n\n(GimpGegl-zenith-denoise-config "Mine"\n    (strength 0.25))\n' >"$list"

exists='(for-each (lambda (name) (gimp-message (string-append name " " (number->string (car (gimp-procedural-db-proc-exists name)))))) (list "plug-in-zenith-denoise" "plug-in-zenith-latent-preview" "plug-in-zenith-apply-preset" "plug-in-zenith-diffae-reconstruct" "plug-in-zenith-diffae-manipulate" "plug-in-zenith-diffae-interpolate" "plug-in-zenith-diffae-sample" "plug-in-zenith-diffae-teach" "plug-in-zenith-z-image" "plug-in-zenith-restore" "plug-in-zenith-upscale" "plug-in-zenith-latent-encode" "plug-in-zenith-latent-decode" "plug-in-zenith-denoise-more" "plug-in-zenith-wan-video" "plug-in-zenith-enlarge-image" "plug-in-zenith-help"))'
gimp_run exist.log "$exists"
for procedure in denoise latent-preview apply-preset diffae-reconstruct diffae-manipulate diffae-interpolate diffae-sample diffae-teach z-image restore upscale latent-encode latent-decode denoise-more wan-video enlarge-image help; do
  check "registered-$procedure" grep -q "plug-in-zenith-$procedure 1" exist.log
done
check presets-in-gimps-list grep -q "^(GimpGegl-zenith-denoise-config \"$(ours 'High ISO photo')\"\$" "$list"
check presets-in-gimps-list-once test "$(grep -c '^(GimpGegl-zenith-denoise-config' "$list")" = \
  "$(($(cat "$source_dir"/presets/*.preset | grep -c '^operation=zenith:denoise') + 2))" # "Mine" and "My own"
check presets-of-gimp-kept grep -q '"Mine"' "$list"

start_scm >start.scm
gimp_run cases.log "(begin (load \"$work/start.scm\") (load \"$here/gimp2.scm\") (load \"$here/case.scm\") (load \"$here/cases.scm\"))"
expect_all
check log-quiet quiet cases.log

# The document's examples.
mkdir -p doc/photos doc/clean
cp in/rgb.png doc/photo.png
cp in/rgb.png doc/photos/a.png
cp in/alpha.png doc/photos/b.png
echo 'no picture' >doc/photos/broken.png
size=$(stat -c %s in/rgb.png)
head -c $((size * 2 / 3)) in/rgb.png >doc/photos/cut.png
cd doc || exit 1
prepare_filters
for example in gimp2-file gimp2-filters; do
  doc_block "$example" >"../$example.scm"
  [ -s "../$example.scm" ] || not_ok "doc-$example" "it is not in docs/scripting.md"
done
cp "$source_dir/docs/samples/folder-gimp2.scm" ../gimp2-folder.scm
gimp_run ../doc.log "(load \"$work/gimp2-file.scm\")" "(load \"$work/gimp2-filters.scm\")" \
  "(load \"$work/gimp2-folder.scm\")" "(load \"$work/gimp2-folder.scm\")"
cd ..
check doc-gimp2-success test "$(grep -c 'executed successfully' doc.log)" = 4
check doc-gimp2-file-result changed in/rgb.png doc/photo-clean.png
check_filters
check doc-gimp2-folder-a changed in/rgb.png doc/clean/a.png
check doc-gimp2-folder-b test -s doc/clean/b.png
check doc-gimp2-folder-cut grep -q 'failed: photos/cut.png' doc.log
check doc-gimp2-folder-no-half-picture test ! -e doc/clean/cut.png
check doc-gimp2-folder-broken grep -q 'failed: photos/broken.png' doc.log
check_same_as_batch doc/photos/a.png doc/clean/a.png
check doc-gimp2-folder-count grep -q '2 done, 0 there already, 2 failed' doc.log
check doc-gimp2-folder-resume grep -q '0 done, 2 there already, 2 failed' doc.log

finish
