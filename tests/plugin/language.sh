#!/bin/sh
# SPDX-License-Identifier: MIT
#
# language.sh LOCALE - each filter with its defaults, each preset, one script and
# one batch, in another language: 2.10 or 3, the GIMP whose plug-in is built.
#
# Needs:  GIMP, imagemagick, pkg-config; the locale, system's or in $LOCPATH.
#         Environment as lib.sh says; ZENITH_BUILD is required.
# Skips:  everything, if GIMP or the plug-in for it is not there.
# Time:   ten seconds.

set -u
export LC_ALL="${1:?usage: language.sh LOCALE}"
. "$(dirname "$0")/lib.sh"
. "$here/expect.sh"

gimp=2 console=gimp-console-2.10
[ -e "${ZENITH_BUILD:?the build directory}/plugin/zenith-gimp2" ] || gimp=3 console=gimp-console-$gimp3
command -v "$console" >/dev/null && [ -e "$ZENITH_BUILD/plugin/zenith-gimp$gimp" ] ||
  { skip language "there is no GIMP, or no plug-in for it"; finish; }
# an unknown locale is silently C
check locale test -z "$(locale 2>&1 >/dev/null)"

set_up "zenith-gimp$gimp"
cd "$work" || exit 1
. "$here/host.sh"
image -size 96x64 gradient:orange-navy -seed 7 -attenuate 0.7 +noise Gaussian -depth 8 $plain "PNG24:in/rgb.png" &&
image "$source_dir/docs/samples/astronaut.png" -crop 200x200+124+24 +repage $plain "PNG24:in/portrait.png" ||
  { not_ok pictures "ImageMagick cannot make the test pictures"; finish; }
python3 "$source_dir/tools/make_tiny_zimage.py" "$work/z-image" || { not_ok pictures "no tiny Z-Image"; finish; }

# Of the presets for faces, the slowest, which differ in their attribute alone, one; with CI all.
[ -n "${CI:-}" ] || left_out='eyes-open gentle-smile'
start_scm >start.scm
doc_block "gimp$gimp-file" >script.scm
cp in/rgb.png photo.png
if [ "$gimp" = 2 ]; then
  gimp_run log "(begin (load \"$work/start.scm\") (load \"$here/gimp2.scm\") (load \"$here/case.scm\") (load \"$here/language.scm\"))" \
    "(load \"$work/script.scm\")"
else
  cat start.scm "$here/gimp3.scm" "$here/case.scm" "$here/language.scm" >all.scm
  gimp_run log "(script-fu-use-v3) (load \"$work/all.scm\")" "(load \"$work/script.scm\")"
fi
for case in denoise latent generate; do
  check "$case" done_ok "$case"
  check "$case-changed" changed in/rgb.png "out/$case.png"
done
for case in reconstruct face blend new-face; do
  check "$case" done_ok "$case"
  check "$case-changed" changed in/portrait.png "out/$case.png"
done
preset_names | tr -d '"' >names
echo FILM-SCAN >>names
while read -r name; do
  check "preset $name" done_ok "preset $name"
  check "preset $name changed" changed in/rgb.png "out/preset $name.png"
done <names
check script changed photo.png photo-clean.png
check log-quiet quiet log

# The same picture comes from zenith-batch, whose numbers never have a comma; İ and ı are other letters than i.
if [ -x "$ZENITH_BUILD/batch/zenith-batch" ]; then
  cp in/rgb.png IN.PNG
  check batch "$ZENITH_BUILD/batch/zenith-batch" --preset FILM-SCAN --set strength=0.5 IN.PNG OUT.TIFF
  check batch-changed changed in/rgb.png OUT.TIFF
  "$ZENITH_BUILD/batch/zenith-batch" --preset FILM-SCAN IN.PNG same.png >/dev/null 2>&1
  check batch-same same "out/preset FILM-SCAN.png" same.png
else
  skip batch "this build has no zenith-batch"
fi
finish
