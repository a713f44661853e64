#!/bin/sh
# SPDX-License-Identifier: MIT
#
# po.sh - every text, including the engine's, is translated into every language, and appears translated.
#
# Needs:  gettext, gegl; ZENITH_BUILD as lib.sh says.  For German in GIMP 2.10: the package locales.
# Skips:  everything without gettext; German where it cannot be had.
# Time:   ten seconds.

set -u
. "$(dirname "$0")/lib.sh"
command -v msgfmt >/dev/null && command -v xgettext >/dev/null || { skip po "gettext is not installed"; finish; }
: "${ZENITH_BUILD:?the build directory}"
export LC_ALL=C.UTF-8 # for what gettext's programs say
ZENITH_BUILD=$(cd "$ZENITH_BUILD" && pwd)
temporary=$(mktemp -d) && tmp=$temporary
cd "$source_dir" || exit 1

# The texts of the source now, with the keywords of po/meson.build.
keywords=$(grep -o "'[A-Za-z_]*:[0-9]'" po/meson.build | sed "s/'//g; s/^/--keyword=/")
xgettext --from-code=UTF-8 --keyword=_ --keyword=N_ $keywords -f po/POTFILES -o "$tmp/now.pot" 2>"$tmp/xgettext.log"
check texts test "$(grep -c '^msgid ' "$tmp/now.pot")" -gt 400

listed () {
  for file in $(grep -lE '(^|[^A-Za-z0-9_])N?_ ?\("|zn_op_request_refuse' lib/filters/*.[ch] gegl-ops/*.[ch] plugin/*.[ch]); do
    grep -qx "$file" po/POTFILES || { echo "$file is not in po/POTFILES"; return 1; }
  done
  # The engine's messages, but those of training, converting and the template, which only the command line has.
  for file in $(grep -rlE '(zn_fail|zn_ctx_fail|zn_bind_fail|zn_cuda_fail|zn_vk_fail|zn_json_fail|zn_tr|ZN_TR) ?\(' engine --include='*.c' |
    grep -vE '^engine/(cli|train|autograd)/|/(convert|savefile|output|status|template)\.c$'); do
    grep -qx "$file" po/POTFILES || { echo "$file is not in po/POTFILES"; return 1; }
  done
}
complete () {
  msgmerge -q -N "po/$1.po" "$tmp/now.pot" -o "$tmp/$1.po" || return 1
  said=$(msgfmt --check-format --check-domain --statistics -o "$tmp/$1.mo" "$tmp/$1.po" 2>&1)
  case $said in *fuzzy*|*untranslated*|*error*) echo "$said: $(msgattrib --untranslated "$tmp/$1.po" | grep '^msgid "..' | head -3)"; return 1 ;; esac
}
check potfiles listed
for language in $(cat po/LINGUAS); do check "complete-$language" complete "$language"; done
check languages test "$(tr '\n' ' ' <po/LINGUAS)" = 'de es fr ja zh_CN '

# One text more must be noticed.
cp "$tmp/now.pot" "$tmp/keep.pot"
printf '\nmsgid "A text that nobody translated"\nmsgstr ""\n' >>"$tmp/now.pot"
if complete de >/dev/null; then not_ok can-fail "an untranslated text passed"; else ok can-fail; fi
cp "$tmp/keep.pot" "$tmp/now.pot"
# So must a translation of a message of the engine that takes other arguments.
refused () {
  sed 's/^msgstr "%s enthält keine Tensoren"/msgstr "%d enthält keine Tensoren"/' po/de.po >"$tmp/wrong.po"
  ! cmp -s po/de.po "$tmp/wrong.po" || { echo "po/de.po has not the sentence"; return 1; }
  ! msgfmt --check-format -o "$tmp/wrong.mo" "$tmp/wrong.po" 2>/dev/null
}
check conversions refused

# msgfmt looks at texts that are marked as formats: all of them are.
marked () {
  awk 'BEGIN { RS = "" } /%[-0-9.$zl]*[cdefgiosuxX]/ && !/c-format/ { print; bad = 1 } END { exit bad }' "$@"
}
printf 'msgid "%%s is lost"\nmsgstr ""\n' >"$tmp/unmarked.pot"
check formats-marked marked "$tmp/now.pot" po/*.po
if marked "$tmp/unmarked.pot" >/dev/null; then not_ok formats-marked-can-fail "a text that is not marked passed"; else ok formats-marked-can-fail; fi

presets_listed () {
  sed -n 's/^\(name\|description\)=\(.*\)/\2/p' presets/*.preset | while IFS= read -r text; do
    grep -qF "N_ (\"$text\")" po/presets.c || { echo "po/presets.c lacks: $text"; return 1; }
  done
}
check presets presets_listed

# gettext translates nothing in the C locale.
export ZENITH_LOCALE="$ZENITH_BUILD/po" ZENITH_MODELS="$source_dir/models" ZENITH_PRESETS="$source_dir/presets"
export GEGL_PATH="$ZENITH_BUILD/gegl-ops:$(pkg-config --variable=pluginsdir gegl-0.4)"
export LC_ALL=de_DE.UTF-8 LANGUAGE=de
if [ "$(locale decimal_point)" = , ]; then
  if [ -e "$ZENITH_BUILD/plugin/zenith-gimp2" ] && command -v gimp-console-2.10 >/dev/null; then
    mkdir -p "$tmp/plug-ins/zenith-gimp2"
    echo 'no weights' >"$tmp/text.safetensors"
    cp "$ZENITH_BUILD/plugin/zenith-gimp2" "$tmp/plug-ins/zenith-gimp2/"
    echo "(plug-in-path \"$tmp/plug-ins:\${gimp_plug_in_dir}/plug-ins\")" >"$tmp/gimprc"
    GIMP2_DIRECTORY=$tmp/gimp2 XDG_DATA_HOME=$tmp/d XDG_CONFIG_HOME=$tmp/c XDG_CACHE_HOME=$tmp/k \
      timeout 300 gimp-console-2.10 -i -d -f --gimprc="$tmp/gimprc" \
      -b '(let* ((i (car (gimp-image-new 9 9 RGB))) (g (car (gimp-layer-group-new i)))) (gimp-image-insert-layer i g 0 0) (plug-in-zenith-apply-preset RUN-NONINTERACTIVE i g "x"))' \
      -b '(let* ((i (car (gimp-image-new 9 9 RGB))) (l (car (gimp-layer-new i 9 9 RGB-IMAGE "l" 100 LAYER-MODE-NORMAL)))) (gimp-image-insert-layer i l 0 0) (plug-in-zenith-latent-preview RUN-NONINTERACTIVE i l "taesana" "reconstruct" "" "auto"))' \
      -b "(let* ((i (car (gimp-image-new 9 9 RGB))) (l (car (gimp-layer-new i 9 9 RGB-IMAGE \"l\" 100 LAYER-MODE-NORMAL)))) (gimp-image-insert-layer i l 0 0) (plug-in-zenith-latent-preview RUN-NONINTERACTIVE i l \"zenith\" \"reconstruct\" \"$tmp/text.safetensors\" \"auto\"))" \
      -b '(gimp-quit 0)' >"$tmp/gimp.log" 2>&1
    check gimp-german grep -q 'Ebenengruppe hat in GIMP 2.10 keine eigenen Pixel' "$tmp/gimp.log"
    check operation-german grep -q 'Latente Vorschau: .*taesd veröffentlicht' "$tmp/gimp.log"
    check engine-german grep -q 'text.safetensors ist eine Textdatei, keine Gewichte; Zenith liest .safetensors, .gguf und' "$tmp/gimp.log"
    check gimp-domain grep -q 'locale-def "zenith"' "$tmp/gimp2/pluginrc"
  else
    skip gimp-german "there is no GIMP 2.10 or no plug-in for it"
  fi
else
  skip german "there is no locale de_DE.UTF-8"
fi

finish
