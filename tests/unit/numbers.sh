#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# numbers.sh BUILD - numbers in text go through zenith_number.h, which knows no locale: no other object of BUILD, a build of
# this tree, reads one with the C library or GLib, and none but the main of zenith-batch changes the locale.  By the symbols
# that the objects use.  Prints one line per rule.
set -u
build=$(cd "${1:?numbers.sh BUILD}" && pwd) || exit 1
passed=0 failed=0 skipped=0

# glibc has these under several names: strtod, __strtod_internal, __isoc99_sscanf, __isoc23_sscanf.
reads='(__)?(strto(d|f|ld|f[0-9]+x?)|wcsto(d|f|ld)|atof)(_l|_internal)?|(__isoc[0-9]+_)?v?[fsw]*scanf|g_strtod|g_ascii_formatd|g_ascii_dtostr|g_ascii_strtod'
locale='setlocale|newlocale|uselocale|duplocale|localeconv|nl_langinfo(_l)?|gtk_disable_setlocale'

# uses PATTERN OBJECT...: prints "OBJECT: SYMBOL".
uses() {
  local pattern=$1
  shift
  nm -A -u "$@" 2>/dev/null | sed -nE "s/^([^:]*\/)?([^:\/]+):.* U (($pattern)(@.*)?)\$/\2: \3/p"
}

# rule NAME LEAST PATTERN OBJECT...: none of the objects, at least LEAST of them, uses such a symbol.
rule() {
  local name=$1 least=$2 hits
  hits=$(uses "${@:3}" | sort -u | head -n 3 | tr '\n' ' ')
  if [ "$(($# - 3))" -ge "$least" ] && [ -z "$hits" ]; then
    echo "ok $name, in $(($# - 3)) objects"
    passed=$((passed + 1))
  else
    echo "not ok $name, in $(($# - 3)) objects: $hits"
    failed=$((failed + 1))
  fi
}

# part FOLDER LEAST: the objects of a part of the tree; a build without it is a skip.  The build folder also keeps those of
# files that are gone.
part() {
  local folder=$1 least=$2
  local objects=()
  mapfile -t objects < <(sed -nE 's|^ *"output": "('"$folder"'/[^"]*\.o)".*|\1|p' "$build/compile_commands.json" |
    while read -r object; do [ ! -f "$build/$object" ] || echo "$build/$object"; done)
  if [ "${#objects[@]}" -eq 0 ]; then
    echo "skip $folder: not in this build"
    skipped=$((skipped + 2))
    return
  fi
  rule "$folder reads numbers with zenith_number.h alone" "$least" "$reads" "${objects[@]}"
  mapfile -t objects < <(printf '%s\n' "${objects[@]}" | grep -v '/zenith-batch\.p/main\.c\.o$') # reads file names
  rule "$folder does not touch the locale" "$((least - 1))" "$locale" "${objects[@]}"
}

part engine 100
part gegl-ops 20
part lib/filters 5
part lib/pictures 5
part batch 7

# The checks themselves must be able to fail.
probe=$(mktemp -d)
cat >"$probe/probe.c" <<'END'
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
double probe(const char *text);
double probe(const char *text)
{
    double v = 0;
    return setlocale(LC_ALL, "") && sscanf(text, "%lf", &v) == 1 ? v : strtod(text, NULL);
}
END
if ! "${CC:-cc}" -c "$probe/probe.c" -o "$probe/probe.c.o" 2>/dev/null; then
  echo "skip a number read by the C library is seen: no compiler"
  skipped=$((skipped + 1))
elif [ "$(uses "$reads" "$probe/probe.c.o" | wc -l)" = 2 ] && [ "$(uses "$locale" "$probe/probe.c.o")" = "probe.c.o: setlocale" ]; then
  echo "ok a number read by the C library is seen"
  passed=$((passed + 1))
else
  echo "not ok a number read by the C library is seen: $(uses "$reads|$locale" "$probe/probe.c.o" | tr '\n' ' ')"
  failed=$((failed + 1))
fi
rm -r "$probe"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
