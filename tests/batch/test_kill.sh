#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# zenith-batch is killed, stopped and out of disk space: no result is ever incomplete, and the next run continues.
#
#   test_kill.sh BUILD_DIR [KILLS]
. "$(dirname "$0")/lib.sh"
kills=${2:-20}
cd "$tmp/in" || exit 2
for i in $(seq 12); do
  case $((i % 3)) in
    0) convert -size $((200 + i * 20))x150 plasma:red-blue -seed "$i" -depth 8 $plain "PNG24:$i.png" ;;
    1) convert -size $((200 + i * 20))x150 plasma:red-blue -seed "$i" -quality 92 "$i.jpg" ;;
    2) convert -size $((200 + i * 20))x150 plasma:red-blue -seed "$i" -depth 16 "$i.tif" ;;
  esac
done
go 0 "undisturbed" $fast "$tmp/in" "$tmp/want"
sums "$tmp/want" >"$tmp/want-sums"

# whole FOLDER: each result there is one of the undisturbed run's, to the byte.
whole() { ! sums "$1" | grep -vxFf "$tmp/want-sums" | grep -q .; }

# ---- kill -9 at any time -------------------------------------------------------------------------------------

start=$(date +%s%N)
go 0 "for the time" $fast "$tmp/in" "$tmp/out"
took=$((($(date +%s%N) - start) / 1000000))
rm -r "$tmp/out"
damaged=0 progress=0
for i in $(seq "$kills"); do
  before=$(find "$tmp/out" -type f ! -name '.zenith-*' 2>/dev/null | wc -l)
  "$batch" $fast "$tmp/in" "$tmp/out" >/dev/null 2>&1 &
  pid=$!
  sleep "$(awk -v t="$took" -v r=$RANDOM 'BEGIN { printf "%.3f", t / 1000 * r / 32768 }')"
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  [ ! -d "$tmp/out" ] || whole "$tmp/out" || damaged=$((damaged + 1))
  now=$(find "$tmp/out" -type f ! -name '.zenith-*' 2>/dev/null | wc -l)
  # where nothing grew, the machine may be slower now
  if [ "$now" -gt "$before" ]; then progress=$((progress + 1)); else took=$((took + took / 5)); fi
  [ "$now" -lt 12 ] || rm -r "$tmp/out" # from the start again
done
check "$kills kills: every result is whole" "$damaged times not" test $damaged = 0
check "$kills kills: some came in the middle" "results grew in $progress runs" test $progress -ge 1
go 0 "after the kills" $fast "$tmp/in" "$tmp/out"
check "all are there, the same bytes" "they differ" test "$(sums "$tmp/out")" = "$(cat "$tmp/want-sums")"
check "no temporary files are left" "$(clutter "$tmp/out")" test "$(clutter "$tmp/out")" = 0
go 0 "and then" $fast "$tmp/in" "$tmp/out"
says "nothing is left to do" '^0 done, 12 done before'

# Older results stay while another preset is at work.
for i in 1 2 3; do
  "$batch" $fast --set strength=0.5 "$tmp/in" "$tmp/out" >/dev/null 2>&1 &
  pid=$!
  sleep "$(awk -v t="$took" -v i="$i" 'BEGIN { printf "%.3f", t / 1000 * i / 4 }')"
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
done
n=0
for f in "$tmp"/out/*; do identify -regard-warnings "$f" >/dev/null 2>&1 && n=$((n + 1)); done
check "killed while it does all again: old or new, all are whole" "$n of 12" test $n = 12

# ---- stopped -------------------------------------------------------------------------------------------------

# On a busy machine it may be done before the signal comes: then once more.
for _ in 1 2 3 4 5 6 7 8; do
  rm -r "$tmp/out"
  "$batch" $fast --jobs 1 --set sigma=0 "$tmp/in" "$tmp/out" >"$tmp/said" 2>"$tmp/stderr" &
  pid=$!
  until [ -n "$(ls "$tmp/out" 2>/dev/null)" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
  kill -TERM $pid
  wait $pid
  status=$?
  [ $status = 0 ] || break
done
check "stopped: by the signal" "$status" test $status = 143
says "stopped: it says how to go on" 'stopped; run it again to go on'
check "stopped: nothing half is left" "$(ls -A "$tmp/out")" test "$(clutter "$tmp/out")" = 0

# A picture that is filtered when the signal comes is written with its history, or not at all.
if [ -f "$build/tests/libstuck.so" ] && ! nm "$batch" 2>/dev/null | grep -q __asan_init; then
  "$batch" $fast 1.jpg "$tmp/late-want" >/dev/null 2>&1
  LD_PRELOAD="$build/tests/libstuck.so" ZN_STOPPED=1 "$batch" $fast 1.jpg "$tmp/late" >"$tmp/said" 2>&1
  check "a signal before the encoder: whole or absent" "$(ls -lA "$tmp/late")" \
    sh -c "[ ! -e '$tmp/late/1.jpg' ] || cmp '$tmp/late/1.jpg' '$tmp/late-want/1.jpg'"
fi
# A decoder that never comes back does not hold it up; what is done stays done.
if [ -f "$build/tests/libstuck.so" ] && "$batch" --help | grep -q WebP && ! nm "$batch" 2>/dev/null | grep -q __asan_init; then
  mkdir "$tmp/stuck"
  cp 1.jpg "$tmp/stuck/1.jpg"
  convert -size 20x20 xc:red "$tmp/stuck/2.webp"
  for signal in TERM INT; do
    rm -rf "$tmp/stuck-out" "$tmp/sign"
    (
      trap - INT
      LD_PRELOAD="$build/tests/libstuck.so" ZN_STUCK="$tmp/sign" exec timeout --foreground -s KILL 300 "$batch" $fast "$tmp/stuck" "$tmp/stuck-out"
    ) >"$tmp/said" 2>"$tmp/stderr" &
    pid=$!
    until { [ -e "$tmp/sign" ] && [ -e "$tmp/stuck-out/1.jpg" ]; } || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    pkill -$signal -P $pid 2>/dev/null
    wait $pid
    says "a stuck decoder, SIG$signal: the report" '^[01] done, 0 done before, 0 skipped'
    says "a stuck decoder, SIG$signal: how to go on" '^[12] pictures? w.* not done: stopped'
    check "a stuck decoder, SIG$signal: nothing half is left" "$(ls -A "$tmp/stuck-out")" test "$(clutter "$tmp/stuck-out")" = 0
  done
  go 0 "then it goes on" $fast "$tmp/stuck" "$tmp/stuck-out"
  says "where it was" '^1 done, 1 done before, 0 skipped'
else
  skip "a stuck decoder" "needs WebP, and a build without sanitizers"
fi

# ---- a full disk ---------------------------------------------------------------------------------------------

mkdir "$tmp/small"
clean_up() {
  umount "$tmp/small" 2>/dev/null
  rm -rf "$tmp"
}
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=400k tmpfs "$tmp/small" 2>/dev/null; then
  mkdir "$tmp/small/out"
  "$batch" $fast 1.jpg "$tmp/small/out" >/dev/null 2>&1
  before=$(md5sum <"$tmp/small/out/1.jpg")
  go 1 "a full disk" $fast "$tmp/in" "$tmp/small/out"
  says "a full disk: a line" '^  [0-9]+\.[a-z]+: .*: No space left on device'
  says "a full disk: the rest is not tried" '^[0-9]+ pictures? (was|were) not done: .*No space left'
  check "a full disk: what is there is whole" "$(ls -lA "$tmp/small/out")" whole "$tmp/small/out"
  check "a full disk: no temporary files" "$(ls -lA "$tmp/small/out")" test "$(clutter "$tmp/small/out")" = 0
  # To the last byte: a good result stays when its successor does not fit.
  head -c 400k /dev/zero >"$tmp/small/filler" 2>/dev/null
  go 1 "a full disk, another preset" $fast --set strength=0.5 1.jpg "$tmp/small/out"
  check "the good result stays" "it changed" test "$before" = "$(md5sum <"$tmp/small/out/1.jpg")"
  rm -f "$tmp/small/filler" "$tmp"/small/out/*.tif
else
  skip "a full disk" "only root can mount a small one"
fi
# The same for everyone: a limit on the size of files.
rm -rf "$tmp/out"
(
  ulimit -f 40
  "$batch" $fast "$tmp/in" "$tmp/out" >"$tmp/said" 2>"$tmp/stderr"
)
check "files that may not grow: exit status" "$?" test $? = 1
says "files that may not grow: a line" 'could not be written: |: File too large'
check "files that may not grow: GEGL lost no pixel" "$(tail -n 1 "$tmp/stderr")" sh -c "! grep -q 'tile data' '$tmp/stderr'"
check "files that may not grow: the others are whole" "$(ls "$tmp/out")" whole "$tmp/out"
check "files that may not grow: no temporary files" "$(ls -A "$tmp/out")" test "$(clutter "$tmp/out")" = 0
finish
