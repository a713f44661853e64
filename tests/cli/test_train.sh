#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_train.sh ZENITH - `zenith train` as a user runs it: it learns, is reproducible bit for bit, continues where it
# was stopped, and reports errors.
set -u
awk() { LC_ALL=C command awk "$@"; } # numbers have a point
zenith=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
cd "$tmp" || exit 1

result() { # result STATUS NAME WHY
  if [ "$1" -eq 0 ]; then
    echo "ok $2"
    passed=$((passed + 1))
  else
    echo "not ok $2: $3"
    failed=$((failed + 1))
  fi
}

# works NAME COMMAND...: status 0; stdout and stderr stay in files of that name.
works() {
  local name=$1 got=0
  shift
  "$@" >"$name.out" 2>"$name.err" || got=$?
  result "$got" "$name" "exit status $got: $(head -c 300 "$name.err")"
}

# refused STATUS PATTERN NAME COMMAND...: that status, one line on stderr that matches, no file out.safetensors
refused() {
  local want=$1 pattern=$2 name=$3 got=0
  shift 3
  "$@" >/dev/null 2>err || got=$?
  [ "$got" -eq "$want" ] && grep -qE -- "$pattern" err && [ "$(wc -l <err)" -eq 1 ] && [ ! -e out.safetensors ]
  result $? "$name" "exit status $got, not $want, or not /$pattern/: $(head -c 300 err)"
}

same() { # same NAME A B
  cmp -s "$2" "$3"
  result $? "$1" "$2 and $3 differ"
}

small=(zenith-prune --residual --base 4 --size 32 --batch 2 --seed 5 --wave 0.4,1.2 --spread 4,16)

# The restoration task: less error after more steps; the progress line has loss, speed and time left.
works restore "$zenith" train "${small[@]}" --steps 60 --rate 5e-3 --out long.safetensors
works one-step "$zenith" train "${small[@]}" --steps 1 --rate 5e-3 --out short.safetensors
grep -qE '^step 60 of 60  loss [0-9.]+  [0-9.]+ steps/s  [0-9]+:[0-9]{2} left  gates open [0-9]+ %' restore.err
result $? "progress line" "$(head -c 200 restore.err)"
[ "$(grep -cE '(Gaussian noise 0.3|shot noise 5 %|box blur 3x3) +MSE' restore.out)" -eq 3 ]
result $? "three damages are tested" "$(cat restore.out)"
awk '/Gaussian/ { sub(":", "", $7); print $7 }' one-step.out restore.out | { read -r before; read -r after; awk "BEGIN { exit !($after < 0.9 * $before) }"; }
result $? "the error falls" "$(cat one-step.out restore.out)"

# Bits: again, with another number of threads, and in two pieces.
works again "$zenith" train "${small[@]}" --steps 60 --rate 5e-3 --out again.safetensors
same "same seed, same bits" long.safetensors again.safetensors
works one-thread "$zenith" train "${small[@]}" --steps 60 --rate 5e-3 --threads 1 --out one.safetensors
works two-threads "$zenith" train "${small[@]}" --steps 60 --rate 5e-3 --threads 2 --out two.safetensors
same "one or two threads, same bits" one.safetensors two.safetensors
works with-checkpoint "$zenith" train "${small[@]}" --steps 60 --rate 5e-3 --checkpoint part.ckpt --every 40 --out part.safetensors
works resumed "$zenith" train "${small[@]}" --steps 60 --rate 5e-3 --resume part.ckpt --threads 1 --out whole.safetensors
same "resumed, same bits" long.safetensors whole.safetensors
"$zenith" train "${small[@]}" --steps 1000000 --checkpoint stopped.ckpt --every 5 --out stopped.safetensors >/dev/null 2>stopped.err &
pid=$!
until [ -s stopped.ckpt ] || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -INT $pid
wait $pid
[ $? -eq 1 ] && grep -q 'interrupted at step .*--resume stopped.ckpt' stopped.err && [ -s stopped.ckpt ]
result $? "Ctrl-C leaves a checkpoint" "$(head -c 300 stopped.err)"
works other-seed "$zenith" train "${small[@]}" --seed 6 --steps 60 --rate 5e-3 --out other.safetensors
! cmp -s long.safetensors other.safetensors
result $? "another seed, other bits" "two seeds gave the same file"

# What comes out is a weight file like any other.
works info "$zenith" info long.safetensors
grep -q 'zenith-prune, base 4' info.out
result $? "info knows it" "$(tail -3 info.out)"
head="{'descr': '<f4', 'fortran_order': False, 'shape': (32, 64, 3), }"
{ printf '\x93NUMPY\x01\x00\x76\x00%s%*s\n' "$head" $((117 - ${#head})) ""; head -c $((32 * 64 * 3 * 4)) /dev/zero; } >x.npy
works run "$zenith" run zenith-prune --weights long.safetensors --in x=x.npy --out y=y.npy
[ "$(stat -c %s y.npy 2>/dev/null)" = "$(stat -c %s x.npy)" ]
result $? "it runs" "no output of the picture's size"
for model in zenith-ae conv-baseline-ae; do
  works "train $model" "$zenith" train "$model" --task reconstruct --base 4 --size 32 --batch 1 --steps 2 --decay 0.01 --loss l1 --out "$model.safetensors"
  works "run $model" "$zenith" run "$model" --weights "$model.safetensors" --in x=x.npy --out y=y.npy
done

for model in zenith-taesd zenith-lite-doc zenith-lite zenith-spectral vanilla-taesd; do
  works "train $model" "$zenith" train "$model" --task reconstruct --activation gelu --windows --size 16 --batch 1 --steps 2 --out "$model.safetensors"
  works "encode $model" "$zenith" run "$model-encode" --weights "$model.safetensors" --in x=x.npy --out z=z.npy
  works "decode $model" "$zenith" run "$model-decode" --weights "$model.safetensors" --in z=z.npy --out x=y.npy
done
# The document's network had the name of one of ours.
cmp zenith-lite.safetensors zenith-lite-doc.safetensors
result $? "the name before trains the same network" "other bytes"
grep -q 'called zenith-lite before is now called zenith-lite-doc' "train zenith-lite.err"
result $? "and says its name" "$(head -c 300 "train zenith-lite.err")"
grep -q 'weights of zenith-lite-doc-encode, which was called zenith-lite-encode before' "encode zenith-lite.err"
result $? "and so does a run" "$(head -c 300 "encode zenith-lite.err")"
[ ! -s "encode zenith-lite-doc.err" ]
result $? "its own name says nothing" "$(head -c 300 "encode zenith-lite-doc.err")"

# A denoiser on a folder with a file that is no picture in it.
mkdir album empty
cp "$here"/docs/samples/*.png "$here"/docs/samples/*.jpg album/ 2>/dev/null
find album -size +600k -delete
echo "not a picture" >album/broken.png
# The head of a PNG of 16384x16384: decoded, 41 bytes would become 3.8 GiB.
printf '\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x40\x00\x00\x00\x40\x00\x08\x02\x00\x00\x00\x26\xaa\x87\xd3\x00\x10\x00\x00\x49\x44\x41\x54' >album/bomb.png
# A progressive JPEG whose last pass is there 5,000 times.
if convert -size 2000x2000 gradient: -interlace JPEG -quality 50 passes.jpg 2>/dev/null; then
  perl -0777 -pe '$at = rindex($_, "\xff\xda"); $pass = substr($_, $at, length($_) - $at - 2); substr($_, -2, 0) = $pass x 5000' \
    passes.jpg >album/passes.jpg
fi
if [ -n "$(find album -name '*.png' ! -name broken.png ! -name bomb.png -o -name '*.jpg' ! -name passes.jpg)" ]; then
  got=0
  "$zenith" train denoise-fast --pictures album --weights "$here/models/denoise-fast.safetensors" --steps 2 --batch 1 --size 32 \
    --out mine.safetensors >album.out 2>album.err || got=$?
  if [ "$got" -eq 1 ] && grep -q 'reads no pictures' album.err; then
    skipped=$((skipped + 1))
    echo "skip denoiser on pictures: this build reads none"
  else
    result "$got" "fine-tuning on pictures" "$(head -c 300 album.err)"
    grep -q 'broken.png is left out' album.err
    result $? "the unreadable file is named" "$(head -c 300 album.err)"
    grep -q 'bomb.png is left out: 16384x16384 pixels are too many for a file of 41 bytes' album.err
    result $? "a picture too large for its file is refused" "$(head -c 300 album.err)"
    if [ -f album/passes.jpg ]; then
      grep -q 'passes.jpg is left out' album.err
      result $? "a JPEG of too many passes is refused" "$(head -c 300 album.err)"
    fi
    grep -qE '^[0-9]+ pictures from album' album.err
    result $? "the others are counted" "$(head -c 300 album.err)"
    # An autoencoder, from weights whose layout says that they are not the first document's; its view stays.
    tune=(--pictures album --weights "$here/tests/data/golden/latent-plain.safetensors" --batch 2 --size 32 --rate 1e-3 --cosine)
    works "fine-tuning an autoencoder" "$zenith" train zenith-lite "${tune[@]}" --steps 60 --out tuned.safetensors
    awk '/squares of these pictures/ { if ($12 < 0.5 * $10) found = 1 } END { exit !found }' FS='[ :,]+' "fine-tuning an autoencoder.out"
    result $? "its error falls" "$(cat "fine-tuning an autoencoder.out")"
    works "encode with it" "$zenith" run zenith-lite-encode --weights tuned.safetensors --in x=x.npy --out z=z.npy
    works "look at that" "$zenith" run latent-rgb --weights tuned.safetensors --in z=z.npy --out x=y.npy
    refused 1 'no pictures to learn from' "an autoencoder without pictures" "$zenith" train zenith --weights "$here/tests/data/golden/latent-plain.safetensors" --steps 1 --out out.safetensors
    works "run mine" "$zenith" run denoise-fast --weights mine.safetensors --in x=x.npy --out y=y.npy
    refused 1 'no PNG or JPEG' "an empty folder" "$zenith" train denoise-fast --pictures empty --weights "$here/models/denoise-fast.safetensors" --steps 1 --out out.safetensors
    refused 1 'cannot be read' "no such folder" "$zenith" train denoise-fast --pictures nowhere --weights "$here/models/denoise-fast.safetensors" --steps 1 --out out.safetensors
  fi
fi

refused 2 'unknown option --stps' "unknown option" "$zenith" train zenith-ae --stps 3 --out out.safetensors
refused 2 "makes no sense" "a number that is none" "$zenith" train zenith-ae --steps many --out out.safetensors
refused 2 'takes a model and --out' "no output" "$zenith" train zenith-ae
refused 2 'one model at a time' "two models" "$zenith" train zenith-ae zenith-prune --out out.safetensors
refused 2 'mse or l1' "unknown loss" "$zenith" train zenith-ae --loss l7 --out out.safetensors
refused 1 '' "unknown model" "$zenith" train nonsense --steps 1 --out out.safetensors
refused 1 'relu, silu, gelu' "unknown activation" "$zenith" train zenith-lite --activation tanh --steps 1 --out out.safetensors
refused 1 '' "unknown task" "$zenith" train zenith-ae --task nonsense --steps 1 --out out.safetensors
refused 1 'nowhere' "no checkpoint" "$zenith" train zenith-ae --resume nowhere --steps 1 --out out.safetensors
refused 1 '' "checkpoint of another network" "$zenith" train zenith-ae --base 8 --size 32 --resume part.ckpt --steps 60 --out out.safetensors
refused 1 '' "a base that is no power of two" "$zenith" train zenith-ae --base 5 --steps 1 --out out.safetensors
refused 1 'not/here' "output that cannot be written" "$zenith" train zenith-ae --base 4 --size 32 --batch 1 --steps 1 --out not/here.safetensors

# The file beside the output has a name that nobody can guess: a link in the place of an old one is not followed.
echo precious >precious
ln -s precious safe.safetensors.part
works "write beside a link" "$zenith" train zenith-ae --base 4 --size 32 --batch 1 --steps 1 --out safe.safetensors
[ "$(cat precious)" = precious ] && [ "$(ls | grep -c 'safe.safetensors.part-')" -eq 0 ]
result $? "a link named like a part file is left alone" "it was written through"
mkdir folder.safetensors
refused 1 'folder.safetensors cannot be written: it is a folder' "a folder as output" "$zenith" train zenith-ae --base 4 --size 32 --batch 1 --steps 1 --out folder.safetensors

# Killed around each of its first writes: whether the output can be written is tried without its name.
io=$(dirname "$zenith")/../tests/libfail_io.so
if [ -f "$io" ] && ! nm "$zenith" 2>/dev/null | grep -q __asan_init; then
  for n in 1 2 3 4 5 6; do
    LD_PRELOAD=$io ZN_IO_DOES=kill ZN_IO_AT=$n "$zenith" train zenith-ae --base 4 --size 32 --batch 1 --steps 1 \
      --checkpoint killed.ckpt --out killed.safetensors >/dev/null 2>&1
  done 2>/dev/null
  [ ! -e killed.safetensors ] && [ ! -e killed.ckpt ]
  result $? "killed at once: nothing has the result's name" "$(ls killed.*)"
fi

# Each allocation fails once.  Where it was needed, the exit status is 1, with an error message and no file; elsewhere
# (a buffer of the C library) the result is the same.
shim=$(dirname "$zenith")/../tests/libfail_alloc.so
every_allocation() { # every_allocation NAME ARGUMENT...
  local name=$1 n i got bad=""
  shift
  LD_PRELOAD=$shim ZN_COUNT_ALLOC=count "$zenith" train "$@" --out whole.ref >/dev/null 2>err || cp /dev/null count
  n=$(cat count)
  for i in $(seq "${n:-0}"); do
    got=0
    rm -f part.ref
    LD_PRELOAD=$shim ZN_FAIL_ALLOC=$i "$zenith" train "$@" --out part.ref >/dev/null 2>err || got=$?
    case $got in
      0) cmp -s whole.ref part.ref || bad="$bad $i:other-result" ;;
      1) [ -e part.ref ] || ! tail -n 1 err | grep -q '^zenith: .' && bad="$bad $i:no-sentence" ;;
      *) bad="$bad $i:status-$got" ;;
    esac
  done
  [ "${n:-0}" -gt 50 ] && [ -z "$bad" ]
  result $? "$name: each of ${n:-no} allocations fails once" "${bad:-too few allocations: $(head -c 200 err)}"
}
if [ -f "$shim" ] && ! nm "$zenith" 2>/dev/null | grep -q __asan_init; then
  quick=(--engine scalar --threads 2 --steps 1 --batch 1 --checkpoint part.ckpt --every 1)
  mkdir -p two
  if ! convert "$here/docs/samples/chelsea.png" -resize 48x32! two/a.jpg 2>/dev/null || ! convert two/a.jpg two/b.png; then
    cp "$here/docs/samples/chelsea.png" two/ # without ImageMagick, the JPEG reader is left out
  fi
  every_allocation "template" template --base 4 --size 16 "${quick[@]}"
  every_allocation "zenith-prune" zenith-prune --base 4 --size 32 "${quick[@]}"
  every_allocation "zenith-spectral" zenith-spectral --base 16 --size 16 --activation gelu --windows "${quick[@]}"
  every_allocation "denoiser" denoise-fast --weights "$here/tests/data/golden/denoise.safetensors" --size 16 --pictures two "${quick[@]}"
else
  skipped=$((skipped + 1))
  echo "skip failing allocations: needs glibc, and a build without sanitizers"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
