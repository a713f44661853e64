# SPDX-License-Identifier: MIT
# lib.sh - what the tests of zenith-batch share; sourced with the build directory as $1.
#
# Results are lines "ok NAME", "not ok NAME: why", "skip NAME: why"; finish() prints
# "N passed, M failed, K skipped" and exits with 1 if anything failed.
set -u
awk() { LC_ALL=C command awk "$@"; } # numbers have a point
build=$(cd "${1:?usage: $0 BUILD_DIR}" && pwd) || exit 2
root=$(cd "$(dirname "$0")/../.." && pwd)
batch=$build/batch/zenith-batch
passed=0 failed=0 skipped=0

finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}
ok() { echo "ok $1" && passed=$((passed + 1)); }
not_ok() { echo "not ok $1: $2" && failed=$((failed + 1)); }
skip() { echo "skip $1: $2" && skipped=$((skipped + 1)); }

# check NAME WHY COMMAND...: the command must succeed.
check() {
  local name=$1 why=$2
  shift 2
  if "$@" >/dev/null 2>&1; then ok "$name"; else not_ok "$name" "$why"; fi
}

# go WANT-STATUS NAME ARGUMENTS...: runs zenith-batch; what it says is in $tmp/said and $tmp/stderr.
go() {
  local want=$1 name=$2 status
  shift 2
  "$batch" "$@" >"$tmp/said" 2>"$tmp/stderr" </dev/null
  status=$?
  check "$name: exit status" "$status, not $want: $(tail -n 3 "$tmp/said" "$tmp/stderr" | tr '\n' ' ')" test $status = "$want"
}
# says NAME PATTERN [FILE]: what the last go said has such a line.
says() { check "$1" "$(tail -n 6 "$tmp/said" "$tmp/stderr" | tr '\n' ' ')" grep -qaE -e "$2" "$tmp/${3:-said}"; }

# sums FOLDER: what is in it, to compare.
sums() { (cd "$1" && find . -type f ! -name '.zenith-*' -exec md5sum -z {} + | sort -z | tr '\0' '\n'); }

# clutter FOLDER: files of ours that are no results and no journal.
clutter() { find "$1" -name '.zenith-part-*' | wc -l; }

[ -x "$batch" ] || { skip batch "this build has no zenith-batch; meson says which library it misses" && finish; }
for tool in convert identify exiftool; do
  command -v $tool >/dev/null || { skip batch "there is no $tool" && finish; }
done

tmp=$(mktemp -d) || exit 2
trap 'clean_up' EXIT
clean_up() { rm -rf "$tmp"; }
# A network of a few channels, and nothing of this user's.
mkdir "$tmp/models" "$tmp/in"
ln -s "$root/tests/data/golden/denoise.safetensors" "$tmp/models/denoise-fast.safetensors"
# Of GEGL's own modules the two that are needed: it starts twice as fast.
mkdir "$tmp/gegl"
ln -s "$(pkg-config --variable=pluginsdir gegl-0.4)"/gegl-co*.so "$tmp/gegl"
export GEGL_PATH="$build/gegl-ops:$tmp/gegl"
export ZENITH_MODELS="$tmp/models" ZENITH_PRESETS="$root/presets" XDG_DATA_HOME="$tmp/data" XDG_CACHE_HOME="$tmp/cache"
export GEGL_USE_OPENCL=no
unset ZENITH_ENGINE ZENITH_MEMORY ZENITH_CACHE
fast="--model fast --set sigma=30"
plain="-strip -define png:exclude-chunks=all"
