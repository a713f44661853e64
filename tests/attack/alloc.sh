#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# alloc.sh BUILD [FOLDER [TIMES]] - one allocation of a program fails (fail_alloc.c), TIMES different ones of each program.
# The result is the same, or there is an error message and no result; in gegl the picture passes through, with a
# message.  FOLDER keeps which allocation is next, so that later calls try others.
set -u
. "$(dirname "$0")/programs.sh"
shim fail_alloc
state=${2:-$tmp/state} times=${3:-20}
mkdir -p "$state"

program() {
  local name=$1 module=$2 count n i got bad="" file=$state/${1// /-}.next env=()
  shift 2
  wanted "$name" || return 0
  [ -z "$module" ] || env=("ZN_FAIL_IN=$module")
  rm -rf "$out" && mkdir "$out"
  env "${env[@]}" LD_PRELOAD="$build/tests/libfail_alloc.so" ZN_COUNT_ALLOC="$tmp/count" "$@" >"$tmp/want-said" 2>"$tmp/err" ||
    { not_ok "$name" "exit status $?: $(tail -n 1 "$tmp/err")"; return; }
  rm -rf "$tmp/want" && mv "$out" "$tmp/want"
  count=$(cat "$tmp/count")
  [ "${count:-0}" -gt 10 ] || { not_ok "$name" "only ${count:-no} allocations were seen"; return; }
  n=$(cat "$file" 2>/dev/null || echo 0)
  for i in $(seq "$times"); do
    n=$((n % count + 1))
    rm -rf "$out" && mkdir "$out"
    got=0
    env "${env[@]}" LD_PRELOAD="$build/tests/libfail_alloc.so" ZN_FAIL_ALLOC=$n "$@" >"$tmp/said" 2>"$tmp/err" || got=$?
    case $got in
      0) # an operation that lacks memory says so and lets the picture pass
        diff -r -x '.zenith-*' "$tmp/want" "$out" >/dev/null || { [ -n "$(ls "$out")" ] && grep -q '^zenith:' "$tmp/err"; } ||
          bad="$bad $n: another result;"
        ;;
      1 | 2)
        cat "$tmp/said" "$tmp/err" | grep -q . || bad="$bad $n: no sentence;"
        # a file with a result's name is complete; of several results some may exist
        (cd "$out" && find . -type f ! -name '.zenith-*' -exec cmp -s {} "$tmp/want/{}" \; -o -type f ! -name '.zenith-*' -print) |
          grep -q . && bad="$bad $n: a result that is not whole;"
        ;;
      *) bad="$bad $n: exit status $got;" ;;
    esac
    # a step that has no common divisor with the count would do; the golden ratio spreads best
    n=$(((n + count * 618 / 1000) % count))
  done
  echo "$n" >"$file"
  if [ -z "$bad" ]; then ok "$name: $times of $count allocations fail"; else not_ok "$name" "$(head -c 400 <<<"$bad")"; fi
}
programs
finish
