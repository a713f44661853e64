#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# zenith-batch on folders: report, resume, presets, shards; hostile names, links and folders.
#
#   test_folder.sh BUILD_DIR
. "$(dirname "$0")/lib.sh"
cd "$tmp/in" || exit 2

# picture NAME [SIZE]
picture() { convert -size "${2:-40x30}" plasma:red-blue -seed 3 -depth 8 $plain "PNG24:$1"; }
mkdir sub sub/deep
picture a.png
convert a.png -quality 92 b.jpg
convert a.png c.tif
cp a.png d.PNG
head -c 600 a.png >cut.png
echo "this is no picture" >text.jpg
echo notes >notes.txt
cp a.png sub/inside.png
cp a.png sub/deep/er.png
sums "$tmp/in" >"$tmp/before"

# ---- report, resume ------------------------------------------------------------------------------------------

go 0 "dry run of a good file" $fast --dry-run a.png "$tmp/dry/out"
says "what would be done" '^would do: a.png'
check "a dry run makes no folder" "there is one" test ! -e "$tmp/dry"
case $(uname -m) in aarch64 | arm*) foreign=avx2 ;; *) foreign=neon ;; esac
ZENITH_ENGINE=$foreign go 2 "an engine that this machine lacks" $fast a.png "$tmp/dry/none.png"
says "which engine" "$foreign" stderr
check "nothing is written then" "there is a file" test ! -e "$tmp/dry/none.png"
go 1 "a folder with broken files" $fast "$tmp/in" "$tmp/out"
says "count" '^4 done, 0 done before, 2 skipped, in [0-9:]+ \('
says "what is left out" '6 pictures, 0 of them done before; 1 subfolder is not entered; 1 other file is left out'
says "which file is left out" '^left out: notes.txt$'
says "cut.png is listed" '^  cut.png: the file is cut or damaged: .'
says "text.jpg is listed" '^  text.jpg: it is no picture of a known format'
check "nothing is left where it was started" "$(ls)" test ! -e RAM
check "only results and the journal" "$(ls -A "$tmp/out" | tr '\n' ' ')" test "$(ls -A "$tmp/out" | LC_ALL=C sort | tr '\n' ' ')" = ".zenith-batch a.png b.jpg c.tif d.PNG "
sums "$tmp/in" >"$tmp/after"
check "the first folder is as it was" "$(diff "$tmp/before" "$tmp/after")" cmp "$tmp/before" "$tmp/after"
check "pixels changed" "they are equal" test "$(compare -metric AE a.png "$tmp/out/a.png" null: 2>&1)" != 0
first=$(sums "$tmp/out")
stamp=$(stat -c %Y.%i "$tmp/out/a.png")
go 1 "again" $fast "$tmp/in" "$tmp/out"
says "again: nothing is done twice" '^0 done, 4 done before, 2 skipped'
check "again: a result is left alone" "it was written anew" test "$(stat -c %Y.%i "$tmp/out/a.png")" = "$stamp"
go 1 "a text file as the picture" $fast notes.txt "$tmp/notes.png"
says "it is the one that is blamed" '^  notes.txt: it is no picture of a known format'
mkdir "$tmp/left" && touch "$tmp/left/"{a,b,c,d,e,f,g,h,i,j,k,l}.txt && cp a.png "$tmp/left/p.png"
go 0 "many files that are no pictures" $fast "$tmp/left" "$tmp/left-out"
says "ten of them are named" '^left out: j.txt$'
says "the others are counted" '^left out: 2 more$'
rm cut.png text.jpg
go 0 "without broken files" $fast "$tmp/in" "$tmp/out"
go 0 "dry run, all done" $fast --dry-run "$tmp/in" "$tmp/out"
says "dry run: done before" '^done before: a.png'
touch a.png
go 0 "a newer picture" $fast "$tmp/in" "$tmp/out"
says "a newer picture is done again" '^1 done, 3 done before'
rm "$tmp/out/b.jpg"
go 0 "a missing result" $fast "$tmp/in" "$tmp/out"
says "a missing result is made" '^1 done, 3 done before'
check "the same bytes as the first time" "they differ" test "$first" = "$(sums "$tmp/out")"

# ---- the journal ---------------------------------------------------------------------------------------------

go 0 "other settings" $fast --set strength=0.5 "$tmp/in" "$tmp/out"
says "other settings do all again" '^4 done, 0 done before'
check "with another result" "it is the same" test "$first" != "$(sums "$tmp/out")"
go 0 "dry run, other settings" $fast --dry-run "$tmp/in" "$tmp/out"
says "dry run: again" '^would do again: a.png'
go 0 "the first settings" $fast "$tmp/in" "$tmp/out"
check "back to the first bytes" "they differ" test "$first" = "$(sums "$tmp/out")"
# A line that was cut, one that makes no sense, and a file that is not ours.
go 0 "another folder" $fast "$tmp/in" "$tmp/torn"
cp "$tmp/torn/.zenith-batch" "$tmp/journal"
head -c -30 "$tmp/journal" >"$tmp/torn/.zenith-batch"
printf 'a.png\tnonsense\n' >>"$tmp/torn/.zenith-batch.9-of-9"
head -c 3000 /dev/urandom >>"$tmp/torn/.zenith-batch.8-of-9"
last=$(tail -n 1 "$tmp/journal" | cut -f 1)
# Engines round differently: the journal and the results know theirs.  What another one did is kept, and said; with an
# engine that is given it is done again.
cp -r "$tmp/in" "$tmp/e-in" && rm "$tmp/e-in/a.png"
ZENITH_ENGINE=scalar go 0 "on one engine" $fast "$tmp/e-in" "$tmp/e-out"
check "the journal names the engine" "$(tail -n 1 "$tmp/e-out/.zenith-batch")" grep -q ' computed-by=scalar fp32' "$tmp/e-out/.zenith-batch"
check "so does a result" "$(exiftool -s -HistoryParameters "$tmp/e-out/b.jpg")" \
  test -n "$(exiftool -s -HistoryParameters "$tmp/e-out/b.jpg" | grep 'computed-by=scalar fp32')"
cp "$tmp/in/a.png" "$tmp/e-in"
other=$("$build/engine/zenith" engines | sed -n 's/^\* \([a-z0-9]*\) .*/\1/p')
if [ "$other" != scalar ]; then
  go 0 "go on on another engine" $fast "$tmp/e-in" "$tmp/e-out"
  says "what is there stays" '^1 done, 3 done before'
  says "and is said" "computed by different engines, which round differently: .*3 by scalar fp32"
  go 0 "the engine is given" $fast --set engine=$other "$tmp/e-in" "$tmp/e-out"
  says "others are computed again" '^3 done, 1 done before'
  go 0 "again" $fast --set engine=$other "$tmp/e-in" "$tmp/e-out"
  says "once" '^0 done, 4 done before'
fi
go 1 "a cut journal" $fast "$tmp/in" "$tmp/torn"
says "what no line tells of is not replaced" "^  $last: .*did not write.*--overwrite"
go 0 "--overwrite" $fast --overwrite "$tmp/in" "$tmp/torn"
says "--overwrite replaces it" '^1 done, 3 done before'
go 0 "after that" $fast "$tmp/in" "$tmp/torn"
says "the new line was not glued to the cut one" '^0 done, 4 done before'
cp -r "$tmp/out" "$tmp/copy" # with other times
go 0 "a copied result folder" $fast "$tmp/in" "$tmp/copy"
says "is known by its content" '^0 done, 4 done before'
echo mine >"$tmp/copy/a.png"
go 1 "a result that was changed" $fast --set strength=0.5 "$tmp/in" "$tmp/copy"
says "is not replaced" '^  a.png: .*changed since'
check "and stays" "$(head -c 20 "$tmp/copy/a.png")" test "$(cat "$tmp/copy/a.png")" = mine

# ---- presets -------------------------------------------------------------------------------------------------

go 0 "a preset by its name" --preset "Film scan, color noise only" --model fast a.png "$tmp/p1"
go 0 "a preset by its file" --preset film-scan --model fast a.png "$tmp/p2"
check "are the same" "they differ" cmp "$tmp/p1/a.png" "$tmp/p2/a.png"
mkdir -p "$XDG_DATA_HOME/zenith/presets"
printf 'name=My own\noperation=zenith:denoise\nmodel=fast\nstrength=0.7\nsigma=20\n' >"$XDG_DATA_HOME/zenith/presets/mine.preset"
go 0 "a preset of one's own" --preset "My own" a.png "$tmp/p3"
check "does what it says" "$(cat "$tmp/p3/.zenith-batch")" grep -q 'strength=0.7 .*sigma=20' "$tmp/p3/.zenith-batch"
printf '\xef\xbb\xbfname=Notepad\r\noperation=zenith:denoise\r\nmodel=fast\r\nsigma=20\r\n' >"$XDG_DATA_HOME/zenith/presets/windows.preset"
go 0 "a preset that was written on Windows" --preset Notepad a.png "$tmp/p5"
go 0 "the list of presets" --list-presets
says "has one's own" '^My own'
says "and the shipped ones" '^High ISO photo: '
go 0 "an operation" --operation zenith:denoise $fast a.png "$tmp/p4"
# bad PATTERN OPTION...
bad() {
  local pattern=$1
  shift
  go 2 "$*" "$@" "$tmp/in" "$tmp/bad"
  says "$*: a sentence" "$pattern" stderr
}
bad "no preset 'Nowhere'; there are: .*High ISO photo" --preset Nowhere
bad 'zenith:diffae-sample takes no picture: use gegl' --operation zenith:diffae-sample
bad "no operation 'gegl:save'; there are: zenith:denoise, .*zenith:diffae-manipulate, .*zenith:z-image" --operation gegl:save
bad "cannot be given together" --operation zenith:denoise --preset Gentle
bad "no property 'hardness'" --set hardness=1
bad "cannot be '9'; allowed: 0 to 1.5" --set strength=9
bad "is not like strength=0.8" --set strength
bad "fast, balanced, best" --model huge
bad "jobs is 1 to" --jobs 0
bad "makes no sense" --shard 3/2
bad "makes no sense" --shard 0/2
bad "nknown option" --nonsense
check "wrong usage makes no folder" "there is one" test ! -e "$tmp/bad"

# ---- faces ---------------------------------------------------------------------------------------------------

# The filter is tried on a picture without a face before it meets the pictures.
mkdir "$tmp/faces"
convert "$root/docs/samples/astronaut.png" -crop 200x200+124+24 +repage $plain "$tmp/faces/face.png"
convert -size 80x60 gradient: $plain "PNG24:$tmp/faces/none.png"
smile="--operation zenith:diffae-manipulate --set amount=1 --set steps=2 --set stochastic-steps=2"
face="--operation zenith:diffae-reconstruct --set steps=2 --set stochastic-steps=2"
export ZENITH_MODELS="$root/models:$tmp/models"
go 1 "a face and none" $smile "$tmp/faces" "$tmp/smile"
says "where there is no face, it is said" '^  none.png: .*No face was found: give its frame'
check "the other has changed" "$(ls "$tmp/smile")" test "$(compare -metric AE "$tmp/faces/face.png" "$tmp/smile/face.png" null: 2>&1)" -gt 1000
go 0 "a given frame" $face --set frame-x=40 --set frame-y=30 --set frame-size=40 "$tmp/faces/none.png" "$tmp/frame.png"
GEGL_PATH="$build/gegl-ops:$(pkg-config --variable=pluginsdir gegl-0.4)" go 0 "two faces" \
  --operation zenith:diffae-interpolate --set steps=2 --set stochastic-steps=2 --set find=no \
  --set "path=$tmp/faces/face.png" "$tmp/faces/face.png" "$tmp/two.png"
bad "no attribute 'nothing'; there are: smile" $smile --set attribute=nothing
bad "no weights 'nothing'" $smile --model nothing
export ZENITH_MODELS="$tmp/models"

# ---- wrong usage ---------------------------------------------------------------------------------------------

go 2 "no arguments"
go 2 "one argument" "$tmp/in"
go 2 "no such folder" $fast "$tmp/nowhere" "$tmp/out"
says "no such folder: a sentence" "nowhere': No such file" stderr
go 2 "the same folder" $fast "$tmp/in" "$tmp/in/"
says "the same folder: a sentence" "its pictures would be lost" stderr
ln -s "$tmp/in" "$tmp/alias"
go 2 "the same folder by another name" $fast "$tmp/in" "$tmp/alias"
mkdir "$tmp/none"
go 2 "no pictures" $fast "$tmp/none" "$tmp/out2"
go 2 "a file where the second folder should be" $fast "$tmp/in" notes.txt
go 2 "a folder that cannot be made" $fast "$tmp/in" notes.txt/out
go 2 "a folder that cannot be written" $fast "$tmp/in" /proc/self
says "a sentence about it" "nothing can be written to the result folder" stderr
sums "$tmp/in" >"$tmp/before"
if ZENITH_MODELS=$tmp/none "$build/engine/zenith" engines 2>/dev/null | grep -qE '^\*? *cuda +usable'; then
  skip "cuda without a GPU" "this machine has one"
else
  ZENITH_ENGINE=cuda go 2 "cuda without a GPU" $fast "$tmp/in" "$tmp/cuda"
  check "cuda: a sentence" "$(cat "$tmp/stderr")" grep -qiE 'cuda|GPU' "$tmp/stderr"
  check "cuda: no unchanged file" "$(ls "$tmp/cuda")" test -z "$(ls "$tmp/cuda" 2>/dev/null)"
fi
go 2 "no weights" --model best "$tmp/in" "$tmp/weights"
says "no weights: a sentence" 'denoise-best' stderr

# ---- one picture, in place -----------------------------------------------------------------------------------

cp a.png "$tmp/self.png"
before=$(md5sum <"$tmp/self.png")
go 2 "IN is OUT" $fast "$tmp/self.png" "$tmp/self.png"
says "IN is OUT: a sentence" 'would replace the picture itself; --in-place' stderr
check "IN is OUT: nothing is lost" "it changed" test "$before" = "$(md5sum <"$tmp/self.png")"
ln "$tmp/self.png" "$tmp/hard.png"
go 2 "IN is OUT by another name" $fast "$tmp/self.png" "$tmp/hard.png"
chmod 640 "$tmp/self.png"
go 0 "--in-place" $fast --in-place "$tmp/self.png" "$tmp/self.png"
check "--in-place: done" "it is the same" test "$before" != "$(md5sum <"$tmp/self.png")"
check "--in-place: its mode stays" "$(stat -c %a "$tmp/self.png")" test "$(stat -c %a "$tmp/self.png")" = 640
check "--in-place: other names of the old file keep it" "changed" test "$before" = "$(md5sum <"$tmp/hard.png")"
head -c 500 a.png >"$tmp/half.png"
before=$(md5sum <"$tmp/half.png")
go 1 "--in-place of a cut file" $fast --in-place "$tmp/half.png" "$tmp/half.png"
check "leaves it alone" "it changed" test "$before" = "$(md5sum <"$tmp/half.png")"
go 2 "--in-place of a folder" $fast --in-place "$tmp/in" "$tmp/out"
go 0 "one picture with a name" $fast a.png "$tmp/named.png"
check "no journal beside it" "there is one" test ! -e "$tmp/.zenith-batch"
check "the same as in a folder" "they differ" cmp "$tmp/named.png" "$tmp/out/a.png"
go 0 "its old result is replaced" $fast --set strength=0.5 a.png "$tmp/named.png"
check "by the new one" "it is the old one" test -n "$(cmp "$tmp/named.png" "$tmp/out/a.png")"

# ---- hostile names -------------------------------------------------------------------------------------------

mkdir "$tmp/odd"
i=0
for name in -dash.png --preset=x.png $'new\nline.png' $'bad\377\376utf8.png' "a b 'c' \"d\" \$e [f] * ;&|.png" 'perc%41ent.png' $'tab\tescape\033[31m.png' \
  'back\slash.png' '~.png' "$(printf 'l%.0s' $(seq 200)).png"; do
  cp a.png "$tmp/odd/$name" && i=$((i + 1))
done
go 0 "odd names" $fast "$tmp/odd" "$tmp/odd-out"
check "all of them are there" "$(ls "$tmp/odd-out")" test "$(find "$tmp/odd-out" -name '*.png' -printf x | wc -c)" = $i
check "with their names" "they differ" diff <(ls -b "$tmp/odd") <(ls -b "$tmp/odd-out")
go 0 "odd names, again" $fast "$tmp/odd" "$tmp/odd-out"
says "odd names are known again" "^0 done, $i done before"
echo no >"$tmp/odd/"$'new\nline.png'
echo no >"$tmp/odd/"$'tab\tescape\033[31m.png'
go 1 "an odd name in the list" $fast "$tmp/odd" "$tmp/odd-out"
says "is one line" '^  new\?line.png: it is no picture'
check "and nothing that moves the cursor" "there is" sh -c "! grep -q '$(printf '\033')' '$tmp/said'"
(cd "$tmp/odd" && go 0 "a dash on the command line" $fast -- -dash.png "$tmp/dash-out")

# ---- hostile folders -----------------------------------------------------------------------------------------

mkdir -p "$tmp/trap-out/a.png" "$tmp/elsewhere"
echo precious >"$tmp/elsewhere/precious"
ln -s "$tmp/elsewhere/precious" "$tmp/trap-out/b.jpg"
ln -s /nowhere "$tmp/trap-out/c.tif"
mkfifo "$tmp/trap-out/d.PNG"
ln -s "$tmp/elsewhere" "$tmp/trap-out/sub"
go 1 "traps in OUT" $fast --recursive "$tmp/in" "$tmp/trap-out"
says "a folder named like a result" '^  a.png: .*there is a folder of that name'
says "a link named like a result" '^  b.jpg: .*there is a link of that name'
says "a link to nowhere" '^  c.tif: .*there is a link of that name'
says "a pipe named like a result" '^  d.PNG: .*there is something that is no file of that name'
says "a link for a subfolder" '^  sub/inside.png: .*there is a link where its folder should be'
check "nothing was touched" "$(ls -A "$tmp/elsewhere")" test "$(ls -A "$tmp/elsewhere") $(cat "$tmp/elsewhere/precious")" = "precious precious"
mkdir "$tmp/j-out"
ln -s "$tmp/elsewhere/precious" "$tmp/j-out/.zenith-batch"
go 2 "a link named like the journal" $fast "$tmp/in" "$tmp/j-out"
check "was not written through" "$(cat "$tmp/elsewhere/precious")" test "$(cat "$tmp/elsewhere/precious")" = precious
mkfifo "$tmp/in/pipe.png"
mkdir "$tmp/in/folder.png"
ln -s /nowhere "$tmp/in/gone.png"
ln -s "$tmp/in/a.png" "$tmp/in/link.png"
go 1 "traps in IN" $fast "$tmp/in" "$tmp/trap2"
says "a pipe" '^  pipe.png: it is not a regular file'
says "a file that is not there any more" '^  gone.png: it cannot be opened: No such file'
check "a link is followed" "there is no result" cmp "$tmp/trap2/a.png" "$tmp/trap2/link.png"
rm -r "$tmp/in/pipe.png" "$tmp/in/folder.png" "$tmp/in/gone.png" "$tmp/in/link.png"

# Left-overs of a killed run go; what somebody else planted under such a name stays.
ln -s "$tmp/elsewhere/precious" "$tmp/out/.zenith-part-planted"
: >"$tmp/out/.zenith-part-0123456789abcdef0123456789abcdef"
touch a.png
go 0 "left-overs" $fast "$tmp/in" "$tmp/out"
check "are swept" "$(ls -A "$tmp/out")" test ! -e "$tmp/out/.zenith-part-0123456789abcdef0123456789abcdef"
check "links are not followed" "$(cat "$tmp/elsewhere/precious")" test "$(cat "$tmp/elsewhere/precious")" = precious
rm -f "$tmp/out/.zenith-part-planted"

# Read-only: to root no folder is, but a file system can be.
mkdir "$tmp/ro"
if [ "$(id -u)" != 0 ]; then
  chmod 555 "$tmp/ro"
elif ! { mount -t tmpfs tmpfs "$tmp/ro" && mount -o remount,ro "$tmp/ro"; } 2>/dev/null; then
  skip "read-only OUT" "no file system can be mounted here"
fi
if ! touch "$tmp/ro/x" 2>/dev/null; then
  go 2 "read-only OUT" $fast "$tmp/in" "$tmp/ro"
  says "read-only OUT: a sentence" 'nothing can be written to the result folder: ' stderr
fi
umount "$tmp/ro" 2>/dev/null

# A picture that goes away while others are worked on.
mkdir "$tmp/vanish"
picture "$tmp/vanish/0-large.png" 900x700
for i in 1 2 3; do cp a.png "$tmp/vanish/$i.png"; done
mkfifo "$tmp/vanish/gate.png"
# On a busy machine it may be past the first one before that is seen: then once more.
for _ in 1 2 3 4 5 6 7 8; do
  rm -rf "$tmp/vanish-out"
  "$batch" $fast --jobs 1 --set sigma=0 "$tmp/vanish" "$tmp/vanish-out" >"$tmp/said" 2>&1 &
  pid=$!
  until [ -e "$tmp/vanish-out/.zenith-batch" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
  kill -STOP $pid
  [ -e "$tmp/vanish-out/1.png" ] || break
  kill -CONT $pid
  wait $pid
done
rm "$tmp/vanish/3.png"
kill -CONT $pid 2>/dev/null
wait $pid
check "a vanished file: exit status" "$?" test $? = 1
says "a vanished file is a line" '^  3.png: it cannot be opened: No such file'
check "the others are done" "$(ls "$tmp/vanish-out")" test "$(ls "$tmp/vanish-out" | wc -l)" = 3

# ---- below IN, several IN ------------------------------------------------------------------------------------

go 0 "--recursive" $fast --recursive "$tmp/in" "$tmp/in/results"
check "folders below" "$(find "$tmp/in/results")" test -s "$tmp/in/results/sub/deep/er.png" -a -s "$tmp/in/results/sub/inside.png"
go 0 "--recursive, OUT in IN, again" $fast --recursive "$tmp/in" "$tmp/in/results"
says "OUT is not entered" '^0 done, 6 done before'
rm -r "$tmp/in/results"
mkdir "$tmp/in2"
cp b.jpg "$tmp/in2/b.jpg"
cp b.jpg "$tmp/in2/e.jpg"
go 1 "two folders and a file" $fast "$tmp/in" "$tmp/in2" "$tmp/hard.png" "$tmp/several"
says "the second of a name is refused" '^  b.jpg: another picture has the same name'
check "all others are there" "$(ls "$tmp/several")" test "$(ls "$tmp/several" | wc -l)" = 6
mkdir -p "$tmp/nest/x/x"
cp a.png "$tmp/nest/x/p.png"
cp b.jpg "$tmp/nest/x/x/p.png"
before=$(sums "$tmp/nest")
go 1 "a result that would be a picture" $fast --recursive "$tmp/nest/x" "$tmp/nest"
says "is refused" '^  x/p.png: its result would replace a picture'
check "and the picture stays" "changed" test "$(md5sum <a.png)" = "$(md5sum <"$tmp/nest/x/p.png")"

# ---- shards, jobs --------------------------------------------------------------------------------------------

mkdir "$tmp/many"
for i in $(seq 24); do convert -size 40x30 plasma:red-blue -seed "$i" -depth 8 $plain "PNG24:$tmp/many/$i.png"; done
go 0 "24 pictures, one job" $fast --jobs 1 "$tmp/many" "$tmp/seq"
go 0 "24 pictures, eight jobs" $fast --jobs 8 "$tmp/many" "$tmp/par"
check "the same bytes" "they differ" test "$(sums "$tmp/seq")" = "$(sums "$tmp/par")"
total=0
for i in 1 2 3 4 5; do
  "$batch" $fast --shard $i/5 "$tmp/many" "$tmp/shards" >"$tmp/shard$i" 2>&1 &
done
wait
for i in 1 2 3 4 5; do total=$((total + $(sed -n 's/^\([0-9]*\) done, 0 done before, 0 skipped.*/\1/p' "$tmp/shard$i"))); done
check "five shards at once do each picture once" "$total" test $total = 24
check "with the same bytes" "they differ" test "$(sums "$tmp/seq")" = "$(sums "$tmp/shards")"
go 0 "another number of shards" $fast --shard 2/3 "$tmp/many" "$tmp/shards"
says "knows what the others did" '^0 done, [0-9]+ done before, 0 skipped'
# The shard of a name never changes: another version on another machine must agree.
second=$("$batch" $fast --dry-run --shard 2/5 "$tmp/many" "$tmp/x" | sed -n 's/would do: //p' | tr '\n' ' ')
check "shards are stable" "$second" test "$second" = "1.png 23.png 7.png 8.png "

# On a terminal there is a bar, with rate and time left; drawn every 0.2 s, so slowly, in plain C.
if command -v script >/dev/null; then
  TERM=xterm ZENITH_ENGINE=scalar ZENITH_MODELS=$root/models script -qec "'$batch' --model balanced --set sigma=30 --jobs 1 '$tmp/many' '$tmp/bar'" /dev/null >"$tmp/said" 2>&1 </dev/null
  says "a bar" '\[#+\.+\] [0-9]+ of 24 \([0-9]+ %\), [0-9.]+ pictures/(s|min), [0-9:]+ left'
else
  skip "a bar" "there is no script"
fi

# Installed for a user, as ./run install does it: nothing of the checkout is needed.
home=$tmp/home/.local
mkdir -p "$home/bin" "$home/share/gegl-0.4/plug-ins" "$home/share/zenith"
cp "$batch" "$home/bin"
cp "$build/gegl-ops/zenith-ops.so" "$home/share/gegl-0.4/plug-ins"
cp -r "$root/presets" "$home/share/zenith"
cp -rL "$tmp/models" "$home/share/zenith"
(cd / && env -i HOME="$tmp/home" PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$home/bin/zenith-batch" $fast "$tmp/many/1.png" "$tmp/installed") >"$tmp/said" 2>&1
check "installed, without the checkout" "$(tail -n 1 "$tmp/said")" cmp "$tmp/installed/1.png" "$tmp/seq/1.png"

# Memory: many jobs take no more than one and the bound.
mkdir "$tmp/big"
convert -size 1600x1200 plasma:red-blue -seed 3 -depth 8 $plain "PNG24:$tmp/big/1.png"
for i in 2 3 4 5 6 7 8; do cp "$tmp/big/1.png" "$tmp/big/$i.png"; done
peak() { # JOBS: MiB
  ZENITH_MEMORY=60 ZENITH_CACHE=32 "$batch" --model fast --set sigma=30 --jobs "$1" "$tmp/big" "$tmp/big-$1" >"$tmp/said" 2>"$tmp/stderr" &
  local pid=$! most=0 now
  while now=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2>/dev/null) && [ -n "$now" ]; do
    most=$now
    sleep 0.05
  done
  wait $pid
  echo $((most / 1024))
}
one=$(peak 1) eight=$(peak 8)
check "memory does not grow with jobs: $one MiB with one, $eight with eight" "all are not done" \
  test "$(ls "$tmp/big-8" | wc -l)" = 8 -a "$one" -gt 20 -a "$eight" -le $((one + 60))
finish
