#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/denoise-folder.sh on a folder with good, broken and oddly named files.
#
#   test_folder.sh BUILD_DIR
set -u
build=$(cd "${1:?usage: test_folder.sh BUILD_DIR}" && pwd) || exit 2
root=$(cd "$(dirname "$0")/../.." && pwd)
passed=0 failed=0 skipped=0

finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}
# check NAME WHY COMMAND...: the command must succeed.
check() {
  local name=$1 why=$2
  shift 2
  if "$@" >/dev/null 2>&1; then
    echo "ok $name" && passed=$((passed + 1))
  else
    echo "not ok $name: $why" && failed=$((failed + 1))
  fi
}
for tool in gegl convert identify; do
  command -v $tool >/dev/null || { echo "skip folder: there is no $tool" && skipped=1 && finish; }
done

tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/models" "$tmp/in" "$tmp/in/sub"
ln -s "$root/tests/data/golden/denoise.safetensors" "$tmp/models/denoise-fast.safetensors"
export GEGL_PATH="$build/gegl-ops:$(pkg-config --variable=pluginsdir gegl-0.4)"
export ZENITH_MODELS="$tmp/models" XDG_DATA_HOME="$tmp/data" GEGL_USE_OPENCL=no LC_ALL=C.UTF-8

cd "$tmp/in" || exit 2
odd=$'a b \'c\' "d" $e [f] *.jpg'
plain="-strip -define png:exclude-chunks=all"
convert -size 60x50 plasma:red-blue -seed 1 -depth 8 $plain PNG24:eight.png
convert -size 60x50 plasma:red-blue -seed 2 -depth 16 $plain PNG48:sixteen.png
convert -size 60x50 plasma:grey20-white -seed 3 -colorspace Gray -depth 8 $plain -define png:color-type=0 grey.png
convert -size 60x50 plasma:red-blue -seed 4 -alpha set -channel A -evaluate set 40% -depth 8 $plain PNG32:alpha.png
convert -size 60x50 plasma:red-blue -seed 5 -depth 16 deep.tif
convert -size 60x50 plasma:red-blue -seed 6 -depth 8 flat.TIF
convert -size 300x200 plasma:red-blue -seed 7 -quality 92 "./$odd"
head -c 4000 "./$odd" >cut.jpg
head -c 600 sixteen.png >cut.png
echo "this is no picture" >text.jpg
: >empty.png
echo notes >notes.txt
convert -size 20x20 xc:red sub/inside.png
# A photo with a note of the camera's: turn it.
printf '\377\330\377\341\000\042Exif\000\000II*\000\010\000\000\000\001\000\022\001\003\000\001\000\000\000\006\000\000\000\000\000\000\000' >turned.jpg
convert -size 80x40 plasma:red-blue -seed 8 -strip jpg:- | tail -c +3 >>turned.jpg
(cd "$tmp" && find in -type f -exec md5sum {} +) | sort >"$tmp/before"
good=8 bad=4

# go WANT-STATUS NAME ARGUMENTS...
go() {
  local want=$1 name=$2 status
  shift 2
  "$root/tools/denoise-folder.sh" "$@" >"$tmp/said" 2>"$tmp/stderr" </dev/null
  status=$?
  check "$name: exit status" "$status, not $want: $(tail -n 2 "$tmp/said" "$tmp/stderr" | tr '\n' ' ')" test $status = "$want"
}
op="zenith:denoise model=fast sigma=30"

go 1 "a folder with broken files" "$tmp/in" "$tmp/out" $op
check "count" "$(tail -n 7 "$tmp/said")" grep -q "^$good done, 0 done before, $bad skipped" "$tmp/said"
check "what is left out is said" "$(head -n 1 "$tmp/said")" grep -q '1 subfolders are not entered; 1 other files are left out' "$tmp/said"
for name in cut.jpg cut.png text.jpg empty.png; do
  check "$name is listed" "$(tail -n 5 "$tmp/said")" grep -q "^  $name: ." "$tmp/said"
  check "$name leaves nothing" "there is one" test ! -e "$tmp/out/$name"
done
check "a line for each file" "$(grep -c '^\[' "$tmp/said")" test "$(grep -c '^\[[0-9]*/12\] ' "$tmp/said")" = 12
check "time left" "$(grep '^\[3' "$tmp/said")" grep -qE '^\[3/12\] .*\(about [0-9]+:[0-9][0-9] left\)$' "$tmp/said"
check "an odd name" "$(ls "$tmp/out")" test -s "$tmp/out/$odd"
check "no partial file" "$(ls -A "$tmp/out")" test "$(ls -A "$tmp/out" | wc -l)" = "$good"
(cd "$tmp" && find in -type f -exec md5sum {} +) | sort >"$tmp/after"
check "the first folder is as it was" "$(diff "$tmp/before" "$tmp/after")" cmp "$tmp/before" "$tmp/after"
check "pixels changed" "they are equal" test -n "$(cmp "$tmp/in/eight.png" "$tmp/out/eight.png")"

# is FILE FORMAT: bits, channels.
is() {
  local got
  got=$(identify -format '%[bit-depth] %[channels]' "$tmp/out/$1" 2>/dev/null | awk '{ print $1, $2 }')
  check "$1 keeps its kind" "'$got', not '$2'" test "$got" = "$2"
}
is eight.png "8 srgb"
is sixteen.png "16 srgb"
is grey.png "8 gray"
is alpha.png "8 srgba"
is deep.tif "16 srgb"
is flat.TIF "8 srgb"
check "what the camera noted is kept" "$(identify -format '%[EXIF:Orientation]' "$tmp/out/turned.jpg")" \
  test "$(identify -format '%[EXIF:Orientation] %wx%h' "$tmp/out/turned.jpg")" = "6 80x40"

# Again: nothing is done twice, what failed is tried again.
stamp=$(stat -c %Y.%i "$tmp/out/eight.png")
go 1 "again" "$tmp/in" "$tmp/out" $op
check "again: count" "$(tail -n 7 "$tmp/said")" grep -q "^0 done, $good done before, $bad skipped" "$tmp/said"
check "again: a result is left alone" "it was written anew" test "$(stat -c %Y.%i "$tmp/out/eight.png")" = "$stamp"

rm "$tmp"/in/cut.* "$tmp/in/text.jpg" "$tmp/in/empty.png" "$tmp/out/grey.png"
touch -d '+2 seconds' "$tmp/in/eight.png"
: >"$tmp/out/alpha.png" # as if it had been cut off
go 0 "resume" "$tmp/in" "$tmp/out" $op
check "resume: missing, older and empty ones only" "$(tail -n 2 "$tmp/said")" grep -q "^3 done, $((good - 3)) done before, 0 skipped" "$tmp/said"

# Killed in the middle: no file looks done that is not.
rm -r "$tmp/out"
convert -size 1500x1500 plasma:red-blue -seed 9 -depth 8 PNG24:"$tmp/in/large.png"
: >"$tmp/said" # the last run's lines are not what is waited for
"$root/tools/denoise-folder.sh" "$tmp/in" "$tmp/out" $op >"$tmp/said" 2>&1 </dev/null &
pid=$!
for _ in $(seq 100); do grep -q '^\[2' "$tmp/said" && break || sleep 0.1; done
kill "$pid"
wait "$pid"
check "stopped: exit status" "$?" test $? -ne 0
whole=0
for f in "$tmp"/out/*; do identify -regard-warnings "$f" >/dev/null 2>&1 && whole=$((whole + 1)); done
check "stopped: all results are whole" "$(ls -A "$tmp/out")" test "$whole" = "$(ls "$tmp/out" | wc -l)"
go 0 "stopped, then resumed" "$tmp/in" "$tmp/out" $op
check "resumed: all are there" "$(ls -A "$tmp/out" | tr '\n' ' ')" test "$(ls -A "$tmp/out" | wc -l)" = $((good + 1))

# Wrong usage: a sentence, and status 2.
go 2 "no such folder" "$tmp/nowhere" "$tmp/out" $op
check "no such folder: a sentence" "$(cat "$tmp/stderr")" grep -q "there is no folder '.*nowhere'" "$tmp/stderr"
go 2 "the same folder" "$tmp/in" "$tmp/in" $op
go 2 "no pictures" "$tmp/models" "$tmp/out" $op
go 2 "a file where the second folder should be" "$tmp/in" "$tmp/in/notes.txt/out" $op
check "a sentence about it" "$(cat "$tmp/stderr")" grep -q "cannot be made" "$tmp/stderr"
go 2 "a folder that cannot be written" "$tmp/in" /proc/self $op
check "a sentence about that" "$(cat "$tmp/stderr")" grep -q "nothing can be written" "$tmp/stderr"
go 2 "no arguments"

# A model that is not there fails for each, and says so.
ZENITH_MODELS=$tmp/in
go 1 "no weights" "$tmp/in" "$tmp/other" zenith:denoise model=best
check "no weights: the operation's sentence" "$(tail -n 2 "$tmp/said")" grep -q 'denoise-best' "$tmp/said"
check "no weights: nothing is written" "$(ls -A "$tmp/other")" test -z "$(ls -A "$tmp/other")"
finish
