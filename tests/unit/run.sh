#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh - ./run where packages are missing and another program has apt's locks: it waits, and says for whom; and the time that
# it announces for a build.  apt-get and all others it would start are stand-ins; nothing is installed.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

check() { # NAME COMMAND...
  local name=$1
  shift
  if "$@"; then
    echo "ok $name" && passed=$((passed + 1))
  else
    echo "not ok $name: $(tail -n 3 "$tmp/said" | tr '\n' ' ')" && failed=$((failed + 1))
  fi
}
# program NAME: a stand-in, whose text is on stdin.
program() { { echo '#!/bin/sh' && cat; } >"$tmp/bin/$1" && chmod +x "$tmp/bin/$1"; }

mkdir -p "$tmp/bin" "$tmp/source"
cp -r "$root/run" "$root/tools" "$tmp/source"
program id <<<'[ "$*" = -u ] && echo 0 || echo root'
program dpkg-query <<<'echo not-installed'
program sleep <<<"echo \"\$1\" >>$tmp/slept"
program meson <<<"echo reached >>$tmp/meson; exit 1"
# apt-get: says what the files lock-1, lock-2, ... hold, one at each call, and fails; then it works
program apt-get <<TEXT
n=\$((\$(cat $tmp/calls 2>/dev/null || echo 0) + 1))
echo \$n >$tmp/calls
[ ! -e $tmp/lock-\$n ] || { cat $tmp/lock-\$n; exit 100; }
TEXT
# go: ./run, with these locks
go() { (cd "$tmp/source" && rm -f "$tmp/calls" "$tmp/slept" "$tmp/meson" && PATH=$tmp/bin:$PATH LC_ALL=${1:-C.UTF-8} ./run zenith engines >"$tmp/said" 2>&1); }

frontend='E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (apt-get)'
printf '%s\n' "$frontend" 'N: Be aware that removing the lock file is not a solution and may break your system.' \
  'E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?' | tee "$tmp/lock-1" >"$tmp/lock-2"
printf '%s\n' 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 12 (packagekitd)' \
  'E: Unable to lock directory /var/lib/apt/lists/' >"$tmp/lock-3"
go
check "it waits for the lock" test "$(wc -l <"$tmp/slept")" = 3
check "it says for whom" grep -qx 'waiting: process 4711 (apt-get) is installing packages (it has the lock /var/lib/dpkg/lock-frontend)' "$tmp/said"
check "once" test "$(grep -c '4711' "$tmp/said")" = 1
check "the lock of the lists, too" grep -q 'waiting: process 12 (packagekitd) .*/var/lib/apt/lists/lock)' "$tmp/said"
check "then it goes on" test -s "$tmp/meson"
rm "$tmp"/lock-*

echo 'E: Could not get lock /var/lib/dpkg/lock-frontend - open (11: Resource temporarily unavailable)' >"$tmp/lock-1"
go
check "a holder that has no name" grep -qx 'waiting: another program is installing packages (it has the lock /var/lib/dpkg/lock-frontend)' "$tmp/said"
rm "$tmp"/lock-*

for i in 1 2 3; do echo 'E: Unable to locate package meson' >"$tmp/lock-$i"; done
go
check "another error is no lock" test ! -e "$tmp/slept" -a ! -e "$tmp/meson"
check "and is said" grep -q 'apt-get could not install' "$tmp/said"
rm "$tmp"/lock-*

for i in $(seq 400); do echo "$frontend" >"$tmp/lock-$i"; done
go
check "half an hour is enough" grep -q 'was not free for half an hour' "$tmp/said"
check "... and no more" test "$(wc -l <"$tmp/slept")" -lt 400
rm "$tmp"/lock-*

# The time of a build: half a second a file and processor.
program meson <<<'mkdir -p "$2" && : >"$2/build.ninja"'
program ninja <<<"case \"\$*\" in *' -n'*) cat $tmp/steps ;; *) exit 1 ;; esac"
announced() { # FILES PROCESSORS
  echo "[$1/$1] Linking target zenith" >"$tmp/steps"
  program nproc <<<"echo $2"
  rm -rf "$tmp/source/build"
  go
  sed -n 's/^building //p' "$tmp/said"
}
check "a build's time on four processors" test "$(announced 300 4)" = "300 files on 4 processors: about 40 s if nothing else runs, once"
check "a build's time on one" test "$(announced 600 1)" = "600 files on one processor: about 5 minutes if nothing else runs, once"
check "a few files are not announced" test -z "$(announced 12 2)"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
