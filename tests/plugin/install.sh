#!/bin/sh
# SPDX-License-Identifier: MIT
#
# install.sh - `./run install` and `./run uninstall` for a user who never started GIMP.
#
# Needs:  what ./run install needs, all of it there already; gimp (2.10 or 3).
# Skips:  everything, if there is no GIMP; the other user, if this is not root or there is no `setpriv`.
# Time:   a minute; it sets the build's prefix twice.

set -u
. "$(dirname "$0")/lib.sh"

console=$(command -v gimp-console-2.10 || command -v gimp-console-3.0) ||
  { skip install "there is no GIMP"; finish; }
work=$(mktemp -d) && temporary=$work
chmod 755 "$work"
export HOME="$work/home"
unset XDG_DATA_HOME XDG_CONFIG_HOME XDG_CACHE_HOME GIMP2_DIRECTORY GIMP3_DIRECTORY ZENITH_MODELS ZENITH_PRESETS GEGL_PATH DISPLAY
export ZENITH_TEST_KERNELS=1 # for all GPUs, nvcc would take ten minutes
mkdir "$HOME"
run=$source_dir/run
data=$HOME/.local/share

# what GIMP makes when it is started for the first time
mkdir "$work/fresh"
HOME=$work/fresh timeout 300 "$console" -i -d -f -b '(gimp-quit 0)' >"$work/fresh.log" 2>&1 </dev/null
into () { log=$1; shift; "$@" >"$log" 2>&1 || { tail -3 "$log"; false; }; }
folders () { (cd "$1/.config/GIMP" && find . -type d ! -path '*zenith*' | sort); }
dead_links () { # FOLDER: pages that others link to and that are not there
  grep -ho 'href="[^":#]*\.html' "$1"/*.html | cut -d'"' -f2 | sort -u | while read -r page; do
    [ -e "$1/$page" ] || echo "$page"
  done
}

check install into "$work/install.log" "$run" install
check profile-whole test "$(folders "$HOME")" = "$(folders "$work/fresh")"
check profile-has-brushes test -d "$(echo "$HOME"/.config/GIMP/*/brushes)"
check listed-plug-in grep -q 'plug-ins/zenith-gimp[23]/zenith-gimp[23]$' "$work/install.log"
find "$HOME/.local" "$HOME"/.config/GIMP/*/plug-ins ! -type d | sort >"$work/there"
sed -n 's/^  //p' "$work/install.log" | sort >"$work/listed"
check all-listed cmp "$work/there" "$work/listed"
check quick-again into "$work/again.log" "$run" install
sed -n 's/^  //p' "$work/again.log" | sort >"$work/listed-again"
check same-list cmp "$work/listed" "$work/listed-again"

# GIMP and GEGL find everything by themselves
image -size 96x64 gradient:orange-navy -seed 7 -attenuate 0.7 +noise Gaussian -depth 8 $plain "PNG24:$work/in.png"
gegl "$work/in.png" -o "$work/out.png" -- zenith:denoise model=fast >"$work/gegl.log" 2>&1
check gegl-finds-it changed "$work/in.png" "$work/out.png"
mkdir -p "$data/zenith/presets"
printf 'name=My own\noperation=zenith:denoise\nstrength=0.7\n' >"$data/zenith/presets/mine.preset"
# each attribute once, though the user's folder and the installed one are the same
gegl "$work/in.png" -o "$work/face.png" -- zenith:diffae-manipulate attribute=nothing amount=1 find=false >"$work/attributes.log" 2>&1
check attributes-once test "$(grep -o 'smile' "$work/attributes.log" | wc -l)" = 1
check folders-once test "$(ZENITH_MODELS= "$HOME/.local/bin/zenith" models 2>&1 | grep -c "$data/zenith/models.*$data/zenith/models")" = 0
check batch-finds-it into "$work/batch.log" "$HOME/.local/bin/zenith-batch" --preset 'High ISO photo' "$work/in.png" "$work/batch.png"
case $console in
  *2.10) timeout 300 "$console" -i -d -f -b '(gimp-message (if (= 1 (car (gimp-procedural-db-proc-exists "plug-in-zenith-denoise"))) "zenith there" "zenith absent"))' -b '(gimp-quit 0)' ;;
  *) timeout 300 "$console" -i -d -f --quit --batch-interpreter plug-in-script-fu-eval -b '(script-fu-use-v3) (gimp-message (if (defined? (quote plug-in-zenith-denoise)) "zenith there" "zenith absent"))' ;;
esac >"$work/gimp.log" 2>&1 </dev/null
check gimp-finds-it grep -q 'zenith there' "$work/gimp.log"

# what GIMP and a GPU leave
settings=$(echo "$HOME"/.config/GIMP/*)/filters/GimpGegl-zenith-denoise-config.settings
mkdir -p "${settings%/*}" "$HOME/.cache/zenith"
[ -e "$settings" ] || printf '# settings\n' >"$settings"
echo tuned >"$HOME/.cache/zenith/cuda-any-1.txt"
check uninstall into "$work/uninstall.log" "$run" uninstall
left=$(find "$HOME" \( -name '*zenith*' -o -name 'gegl-0.4' -path "$data/*" \) ! -path "$data/zenith" | sort)
check nothing-left test -z "$(echo "$left" | grep -v "^${settings%/*}/GimpGegl-zenith-[a-z-]*\.settings\$")"
all_named () { for file in $left; do grep -qxF "  $file" "$work/uninstall.log" || { echo "$file"; return 1; }; done; }
check settings-named all_named
check settings-there grep -qxF "  $settings" "$work/uninstall.log"
check own-preset-stays test -f "$data/zenith/presets/mine.preset"
check own-preset-alone test "$(find "$data/zenith" ! -type d)" = "$data/zenith/presets/mine.preset"
check own-preset-named grep -qxF "  $data/zenith/presets/mine.preset" "$work/uninstall.log"
"$run" uninstall >"$work/twice.log" 2>&1 && not_ok uninstall-twice "no error"
check uninstall-twice grep -q 'nothing to take away' "$work/twice.log"

# into a prefix, and all of it out again
check prefix into "$work/prefix.log" "$run" install "$work/prefix"
check prefix-plug-in test -n "$(find "$work/prefix/lib" -path '*/gimp/[23].0/plug-ins/zenith-gimp[23]/zenith-gimp[23]')"
html=$work/prefix/share/doc/zenith/html
check help-pages test -s "$html/latent.html"
check help-links test -z "$(dead_links "$html")"
# the link that the plug-in makes where GIMP does not look
link=$data/gegl-0.4/plug-ins/zenith-ops.so
mkdir -p "${link%/*}"
ln -s "$(find "$work/prefix/lib" -name zenith-ops.so)" "$link"
check prefix-uninstall into /dev/null "$run" uninstall "$work/prefix"
check prefix-gone test ! -e "$work/prefix"
check prefix-link-gone test ! -L "$link"

# somebody else in this checkout
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  mkdir "$work/nobody" && chown 65534 "$work/nobody"
  HOME=$work/nobody setpriv --reuid 65534 --clear-groups "$run" install >"$work/other.log" 2>&1
  check other-user-status test "$?" = 1
  if grep -q 'git clone' "$work/other.log"; then ok other-user-told; else not_ok other-user-told "$(head -c 300 "$work/other.log")"; fi
else
  skip other-user "needs root and setpriv"
fi

finish
