#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# registry.sh WORLD=BUILD... - every test in tests/ is one that meson lists for a world of ./run test (tools/registry.py), or
# one that the table below gives to a file, which starts it.  Without builds: every test is named in a meson.build of tests/.
set -u
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0 skipped=0

ok() { echo "ok $1" && passed=$((passed + 1)); }
not_ok() { echo "not ok $1: $2" && failed=$((failed + 1)); }

# a file in tests/, and who uses it
others='
batch/lib.sh            tests/batch/test_folder.sh
batch/slurm.sh          tests/batch/test_cluster.sh
attack/programs.sh      tests/attack/alloc.sh
gegl/modules.sh         tests/plugin/lib.sh
plugin/lib.sh           tests/plugin/gimp2.sh
plugin/host.sh          tests/plugin/gimp2.sh
plugin/expect.sh        tests/plugin/gimp2.sh
plugin/dialog.sh        tests/plugin/gimp3.sh
plugin/debian-root.sh   tests/plugin/gimp3.sh
plugin/gimp2.sh         tests/plugin/meson.build
plugin/gimp3.sh         tools/commands.sh
plugin/deb.sh           tools/deb.sh
plugin/screenshot.sh    tools/screenshots.sh
unit/registry.sh        tools/commands.sh
unit/test_gpu_host.c    tests/cli/test_cuda.sh
attack/large.c          tools/commands.sh
attack/foreign.sh       tools/commands.sh
'
# name FILE: as the file that uses it writes it.
name() { case $1 in attack/large.c) echo attack_large ;; *.c) basename "$1" .c ;; *) basename "$1" ;; esac; }

# missing FILE...: those that nothing runs.
missing() {
  local f
  for f in "$@"; do
    grep -qxF -e "$f" <<<"$listed" || grep -qE -e "^$f " <<<"$others" || echo "$f"
  done
}

# named: the files of tests/ that a meson.build there names, whole or as 'NAME' of test_NAME.c.
named() {
  local f all stem
  all=$(cat tests/meson.build tests/*/meson.build)
  (cd tests && find . -type f -name '*.[cs]*' | sed 's|^\./||') | while read -r f; do
    stem=$(basename "${f%.*}")
    if grep -qE "['/]$(basename "$f")'|'(${stem#test_}|${stem#fuzz_})'" <<<"$all"; then echo "$f"; fi
  done
}

if [ $# -gt 0 ]; then listed=$(tools/registry.py --files "$@") || exit 1; else listed=$(named); fi
if [ "$(wc -l <<<"$listed")" -gt 50 ]; then ok "meson lists tests"; else not_ok "meson lists tests" "$(wc -l <<<"$listed") files"; fi
mapfile -t files < <(cd tests && { find . -name 'test_*.c' -o -name 'fuzz_*.c' -o -name '*.sh' | sed 's|^\./||'
  grep -lE '^int main *\(' attack/*.c; } | sort)
bad=$(missing "${files[@]}" | tr '\n' ' ')
if [ -z "$bad" ]; then
  ok "each of ${#files[@]} files is run"
else
  not_ok "each of ${#files[@]} files is run" "nothing runs $bad; add it to tests/meson.build"
fi
while read -r f by; do
  [ -n "$f" ] || continue
  if [ ! -e "tests/$f" ] || ! grep -qF -e "$(name "$f")" "$by"; then not_ok "$f" "$by does not use it"; fi
done <<<"$others"

# The table of CONTRIBUTING.md.  Debian 13 has another GIMP, and so other suites.
if [ $# = 0 ]; then
  echo "skip the table of CONTRIBUTING.md: it is made of builds" && skipped=1
elif ! tools/registry.py "$@" | cut -f4 | grep -qx 'gimp 2.10'; then
  echo "skip the table of CONTRIBUTING.md: it is that of a build with GIMP 2.10" && skipped=1
elif [ "$(sed -n '/^| suites /,/^$/p' CONTRIBUTING.md | grep .)" = "$(tools/registry.py --table "$@")" ]; then
  ok "the table of CONTRIBUTING.md"
else
  not_ok "the table of CONTRIBUTING.md" "it is not what tools/registry.py --table $* prints"
fi

# The check itself must be able to fail.
if [ "$(missing unit/test_text.c unit/test_that_nobody_runs.c)" = unit/test_that_nobody_runs.c ]; then
  ok "a test that nothing runs is seen"
else
  not_ok "a test that nothing runs is seen" "$(missing unit/test_text.c unit/test_that_nobody_runs.c | tr '\n' ' ')"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
