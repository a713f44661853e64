#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# writers.sh BUILD [TIMES] - every program that writes a file is killed, and gets a full disk: at random times, and at
# random write calls (fail_io.c). A file with a result's name is complete: the old result or the new one. Then the same
# command, undisturbed, completes the work.  Of the times, two thirds are kills.
set -u
. "$(dirname "$0")/programs.sh"
shim fail_io
times=${2:-24}
RANDOM=${SEED:-1}

# results FOLDER: what counts as a result there, with its sum; the rest is temporary by its name.
results() {
  (cd "$1" 2>/dev/null && find . -type f ! -name '*.part-*' ! -name '.zenith-*' -exec md5sum {} + | sort -k 2)
}
# whole: every result in $out is an old one or a new one.
whole() { ! results "$out" | grep -vxFf <(cat "$tmp/old-sums" "$tmp/new-sums") | grep -q .; }

# begin WITH-OLD: an empty folder, or one with the results of other options.
begin() {
  rm -rf "$out"
  mkdir "$out"
  : >"$tmp/old-sums"
  if [ "$1" = 1 ]; then
    (cd "$tmp/new" && find . -type f ! -name '.zenith-*' | while read -r f; do
      mkdir -p "$out/$(dirname "$f")" && echo "an older result" >"$out/$f"
    done)
    results "$out" >"$tmp/old-sums"
  fi
}

program() {
  local name=$1 start took calls bad="" hit=0 got n i moment
  shift 2
  wanted "$name" || return 0
  case $name in "zenith info" | gegl | "gegl, "*) return 0 ;; esac # they write nothing, or not with our code
  rm -rf "$out" && mkdir "$out"
  start=$(date +%s%N)
  LD_PRELOAD=$build/tests/libfail_io.so ZN_COUNT_IO=$tmp/count "$@" >"$tmp/said" 2>&1 ||
    { not_ok "$name" "exit status $?: $(tail -n 1 "$tmp/said")"; return; }
  took=$((($(date +%s%N) - start) / 1000000))
  calls=$(cat "$tmp/count")
  rm -rf "$tmp/new" && mv "$out" "$tmp/new"
  results "$tmp/new" >"$tmp/new-sums"
  [ -s "$tmp/new-sums" ] && [ "$calls" -gt 2 ] || { not_ok "$name" "it wrote nothing, in $calls calls"; return; }

  for i in $(seq "$times"); do
    begin $((i % 2))
    case $((i % 3)) in
      0) # any moment
        "$@" >/dev/null 2>&1 &
        moment=$(awk -v t="$took" -v r=$RANDOM 'BEGIN { printf "%.3f", t / 1000 * r / 32768 }')
        sleep "$moment"
        kill -9 $! 2>/dev/null
        wait $! 2>/dev/null
        ;;
      1) # a moment of writing
        n=$((1 + RANDOM % (2 * calls))) moment="call $n"
        LD_PRELOAD=$build/tests/libfail_io.so ZN_IO_DOES=kill ZN_IO_AT=$n "$@" >/dev/null 2>&1 && bad="$bad $moment: not killed;"
        hit=$((hit + 1))
        ;;
      2)
        n=$((1 + RANDOM % calls)) moment="full at $n"
        LD_PRELOAD=$build/tests/libfail_io.so ZN_IO_DOES=full ZN_IO_AT=$n "$@" >"$tmp/said" 2>&1
        got=$?
        case $got in
          0) [ "$(results "$out")" = "$(cat "$tmp/new-sums")" ] || bad="$bad $moment: exit status 0 without the results;" ;;
          1 | 2) [ -s "$tmp/said" ] || bad="$bad $moment: no sentence;" ;;
          *) bad="$bad $moment: exit status $got;" ;;
        esac
        ;;
    esac
    whole || bad="$bad $moment: $(results "$out" | grep -vxFf <(cat "$tmp/old-sums" "$tmp/new-sums") | head -n 1) is half;"
    if [ $((i % 4)) = 0 ]; then # once more, undisturbed
      "$@" >"$tmp/said" 2>&1 || bad="$bad after $moment: exit status $?;"
      [ "$(results "$out")" = "$(cat "$tmp/new-sums")" ] || bad="$bad after $moment: other results;"
    fi
  done 2>/dev/null # the shell's words about what was killed
  if [ -z "$bad" ] && [ $hit -gt 0 ]; then
    ok "$name: $((times - (times + 1) / 3)) kills and $(((times + 1) / 3)) full disks, in $took ms and $calls calls"
  else
    not_ok "$name" "$bad"
  fi
}

# The check itself must be able to fail: tar writes under the final name.
head -c 600k /dev/zero >"$tmp/zeros"
probe=$(times=6 && ONLY= && program "probe" "" tar -C "$tmp" -cf "$out/copy" zeros)
if grep -q '^not ok probe.* is half' <<<"$probe"; then ok "half a result is seen"; else not_ok "half a result is seen" "$probe"; fi
programs
finish
