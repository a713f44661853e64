#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs.sh - the pages of this tree: every link and picture is there, every anchor is a heading, and the pages stay short.
# Prints one line per rule.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 2
passed=0 failed=0
most_words=25000 most_lines=90 # of all pages; of README.md
most_help=200 most_picture=60000 most_pictures=1500000 # words of a page of the manual, which Help opens alone; bytes

check() { # NAME WRONG: nothing is wrong
  if [ -z "$2" ]; then echo "ok $1" && passed=$((passed + 1)); else echo "not ok $1: $2" && failed=$((failed + 1)); fi
}
# anchors PAGE: of its headings, as GitHub makes them.
anchors() { sed -nE 's/^#+ //p' "$1" | tr 'A-Z' 'a-z' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'; }
# links PAGE: what its links lead to, but for the web; code is left out.
links() {
  awk '/^ *```/ { code = !code; next } !code' "$1" | sed 's/`[^`]*`//g' | tr '\n' ' ' | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//' | grep -vE '^(https?|mailto):'
}
# dead PAGE...: links that lead nowhere.
dead() {
  local page link file
  for page; do
    while read -r link; do
      file=${link%%#*}
      if [ -n "$file" ]; then file=$(dirname "$page")/$file; else file=$page; fi
      if [ ! -e "$file" ]; then
        echo "$page: $link;"
      elif [[ $link == *'#'* ]] && ! anchors "$file" | grep -qxF -e "${link#*#}"; then
        echo "$page: no heading $link;"
      fi
    done < <(links "$page")
  done
}

pages=(README.md ARCHITECTURE.md CONTRIBUTING.md NEWS.md SECURITY.md SPEED.md docs/*.md docs/speed/*.md)
manual=(docs/manual/*.md docs/manual/de/*.md)
cards=("${manual[@]}" models/*.md training/*.md training/*/*.md docs/samples/*.md)
check "links of ${#pages[@]} pages and ${#cards[@]} cards" "$(dead "${pages[@]}" "${cards[@]}" | head -n 5 | tr '\n' ' ')"
words=$(cat "${pages[@]}" | wc -w)
check "$words words, at most $most_words" "$([ "$words" -le $most_words ] || echo "too many")"
lines=$(wc -l <README.md)
check "README.md: $lines lines, at most $most_lines" "$([ "$lines" -le $most_lines ] || echo "too many")"

# The manual: short pages and pictures, complete in German, a page for each filter.
bad=$(for f in "${manual[@]}"; do [ "$(wc -w <"$f")" -le $most_help ] || echo "$f"; done)
check "${#manual[@]} pages of the manual, each of at most $most_help words" "${bad//$'\n'/ }"
bad=$(find docs/manual/images -type f -size +${most_picture}c; du -cb docs/manual/images/* | awk -v most=$most_pictures 'END { if ($1 > most) print $1 " bytes" }')
check "its pictures are small" "${bad//$'\n'/ }"
# what LANGUAGE.md must have in common with the English page: the filter, and how many pictures
common() { grep -o '^<!-- controls .*' "$1"; grep -c '^!\[' "$1"; }
bad=$(for f in docs/manual/*.md; do [ "$(common "$f")" = "$(common "docs/manual/de/${f##*/}" 2>&1)" ] || echo "$f"; done)
check "it is complete in German" "${bad//$'\n'/ }"
bad=$(sed -nE 's/.*\.page *= "([^"]*)".*/\1/p' lib/filters/zenith-filters.c | while read -r page; do [ -s "docs/manual/$page.md" ] || echo "$page"; done)
check "each filter has its page" "${bad//$'\n'/ }"
bad=$(grep -ohE 'procedure *= "[^"]*"' lib/filters/zenith-filters.c | cut -d'"' -f2 | grep -v enlarge-image | while read -r name; do
  grep -qxF -e "<!-- controls $name -->" docs/manual/*.md || echo "$name"
done)
check "and there are its controls" "${bad//$'\n'/ }"

# Every variable of the environment that the code reads has its row, or is one of those for tests; and the other way round.
# read_in FOLDER...: their names; told: those that the two pages tell.
read_in() { grep -rohE --include='*.[ch]' '"ZENITH_[A-Z_]+"' "$@" | tr -d '"' | sort -u; }
told() { sed -nE '/^## The environment/,/^## /s/^\| ([^|]*) \|.*/\1/p; /^Only tests and measurements/,/^$/p' docs/scripting.md CONTRIBUTING.md | grep -oE '`ZENITH_[A-Z_]+`' | tr -d '`' | sort; }
variables=$(read_in engine gegl-ops plugin batch lib)
check "$(wc -w <<<"$variables") variables are told once each" "$(diff <(echo "$variables") <(told) | grep '^[<>]' | tr '\n' ' ')"

# The check itself must be able to fail.
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
printf '# A page\n\nSee [here](there.md), [this](#a-page) and\n[that](page.md#gone), not `[x](y)`.\n' >"$tmp/page.md"
check "a dead link and a dead anchor are seen" "$([ "$(dead "$tmp/page.md" | wc -l)" = 2 ] || dead "$tmp/page.md" | tr '\n' ' ')"
echo 'getenv ("ZENITH_UNHEARD_OF");' >"$tmp/new.c"
check "a variable that nobody tells is seen" "$(comm -23 <(read_in "$tmp") <(told) | grep -qx ZENITH_UNHEARD_OF || echo "it is not")"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
