#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# zenith-batch with zenith:z-image: a folder of prompts to a folder of pictures.
#
#   test_prompts.sh BUILD_DIR
. "$(dirname "$0")/lib.sh"
python3 "$root/tools/make_tiny_zimage.py" "$tmp/models/z-image" || { not_ok model "it could not be made" && finish; }
rm "$tmp/gegl"/*
ln -s "$(pkg-config --variable=pluginsdir gegl-0.4)"/*.so "$tmp/gegl"
z="--operation zenith:z-image --set width=80 --set height=48 --set steps=2 --set seed=7"

mkdir -p "$tmp/in/deep"
echo 'a red fox' >"$tmp/in/fox.txt"
printf '  a red fox \n\n' >"$tmp/in/same.txt"
printf 'eine Eule im Schnee, \xe7\x8c\xab' >"$tmp/in/owl.txt"
echo 'a whale' >"$tmp/in/deep/whale.txt"
printf '\xff\xfe' >"$tmp/in/bytes.txt"
echo ' ' >"$tmp/in/empty.txt"
head -c 5000 /dev/zero | tr '\0' a >"$tmp/in/long.txt"
convert -size 32x32 xc:red "$tmp/in/picture.png"

go 1 "prompts" $z --recursive "$tmp/in" "$tmp/out"
says "prompts: the count" '^4 done, 0 done before, 3 skipped'
says "prompts: not UTF-8" 'bytes.png: it is no text in UTF-8'
says "prompts: empty" 'empty.png: there is no prompt in it'
says "prompts: too long" 'long.png: a prompt has at most 4000 bytes'
says "prompts: pictures are left out" '1 other file is left out'
for name in fox owl same deep/whale; do
  check "prompts: $name" "$(identify "$tmp/out/$name.png" 2>&1)" test "$(identify -format %wx%h "$tmp/out/$name.png")" = 80x48
done
check "prompts: white space around one does not count" "they differ" \
  test "$(identify -format %# "$tmp/out/fox.png")" = "$(identify -format %# "$tmp/out/same.png")"
check "prompts: another prompt is another picture" "they are the same" \
  test "$(identify -format %# "$tmp/out/fox.png")" != "$(identify -format %# "$tmp/out/owl.png")"
check "prompts: marked" "$(exiftool -History "$tmp/out/fox.png" 2>&1 | head -c 300)" \
  sh -c "exiftool -HistoryParameters '$tmp/out/fox.png' | grep -q 'zenith:z-image.*seed=7'"

go 1 "prompts again" $z --recursive "$tmp/in" "$tmp/out"
says "prompts again: nothing is done twice" '^0 done, 4 done before, 3 skipped'
go 0 "one prompt" $z "$tmp/in/fox.txt" "$tmp/one.png"
check "one prompt: the same picture" "they differ" \
  test "$(identify -format %# "$tmp/out/fox.png")" = "$(identify -format %# "$tmp/one.png")"

go 0 "pictures that change" --operation zenith:z-image --set prompt=fog --set change=0.5 --set steps=2 "$tmp/in/picture.png" "$tmp/changed.png"
check "pictures that change: they do" "it is the same" \
  test "$(identify -format %# "$tmp/in/picture.png")" != "$(identify -format %# "$tmp/changed.png")"

go 2 "without weights" $z --set weights=/nowhere "$tmp/in" "$tmp/none"
says "without weights: one sentence" 'lacks tokenizer.*12\.3 GB.*Apache' stderr
finish
