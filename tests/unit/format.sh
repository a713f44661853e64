#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every C and CUDA source has the layout of clang-format. Versions differ, so only Debian 12's decides.
set -u
cd "$(dirname "$0")/../.." || exit 1

if ! clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
  echo "skip layout: needs clang-format 14, Debian 12's"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
bad=$(git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format --dry-run 2>&1 | sed -nE 's/^([^:]+):[0-9]+:.*/\1/p' | sort -u)
# The check itself must be able to fail.
probe=$(printf 'int  f( int x ){return x;}\n' | clang-format --dry-run 2>&1)
if [ -z "$probe" ]; then
  echo "not ok layout: a badly laid out line was not seen"
elif [ -n "$bad" ]; then
  echo "not ok layout: run clang-format -i on" $bad
else
  echo "ok layout"
  echo "1 passed, 0 failed, 0 skipped"
  exit 0
fi
echo "0 passed, 1 failed, 0 skipped"
exit 1
