#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh PROGRAM SECONDS SEEDS [OPTION...] - libFuzzer from the seeds, and from what earlier runs found, in .cache.
set -u
program=$1 seconds=$2 seeds=$3
shift 3
found=$(cd "$(dirname "$0")/../.." && pwd)/.cache/fuzz-corpus-$(basename "$program" | sed 's/^fuzz_//')
mkdir -p "$found"
if ASAN_OPTIONS=allocator_may_return_null=1 "$program" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 \
  -print_final_stats=1 "$@" "$found" "$seeds"; then
  echo "1 passed, 0 failed, 0 skipped"
else
  echo "not ok $(basename "$program")"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
