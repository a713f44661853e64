#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_cli.sh ZENITH - the `zenith` program as a user runs it: what it prints, and its exit status.
set -u
zenith=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
golden=$here/tests/data/golden
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
export ZENITH_MODELS=$here/models

# expect STATUS PATTERN NAME COMMAND...: exit status and a line (of stdout or stderr) that matches.  What fails says so in one line
# that names a file once.
expect() {
  local want=$1 pattern=$2 name=$3 got=0
  shift 3
  "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
  if [ "$got" -ne "$want" ]; then
    echo "not ok $name: exit status $got, not $want: $(head -c 300 "$tmp/err")"
    failed=$((failed + 1))
  elif [ -n "$pattern" ] && ! cat "$tmp/out" "$tmp/err" | grep -qE -- "$pattern"; then
    echo "not ok $name: nothing matches '$pattern' in: $(cat "$tmp/out" "$tmp/err" | head -c 300)"
    failed=$((failed + 1))
  elif [ "$want" -eq 1 ] && [ "$(wc -l <"$tmp/err")" -ne 1 ]; then
    echo "not ok $name: $(wc -l <"$tmp/err") lines on stderr, not one"
    failed=$((failed + 1))
  elif [ "$want" -eq 1 ] && grep -qE '(^| )(/[^ :,]+)[:, ].* \2([:, ]|$)' "$tmp/err"; then
    echo "not ok $name: it names a file twice: $(cat "$tmp/err")"
    failed=$((failed + 1))
  else
    echo "ok $name"
    passed=$((passed + 1))
  fi
}

# also PATTERN NAME: another line of what the command before printed.
also() {
  cat "$tmp/out" "$tmp/err" >"$tmp/before"
  expect 0 "$1" "$2" cat "$tmp/before"
}

# npy FILE H W C: an array of zeros (the numbers do not matter here), and damaged ones from it.
npy() {
  local head="{'descr': '${5:-<f4}', 'fortran_order': ${6:-False}, 'shape': ($2, $3, $4), }" n
  n=$((118 - ${#head} - 1))
  { printf '\x93NUMPY\x01\x00\x76\x00%s%*s\n' "$head" "$n" ""; head -c $(($2 * $3 * $4 * 4)) /dev/zero; } >"$1"
}
npy "$tmp/x.npy" 16 24 3
npy "$tmp/one.npy" 1 1 3
npy "$tmp/four.npy" 16 24 4
npy "$tmp/odd.npy" 3 5 3
npy "$tmp/f8.npy" 4 4 3 '<f8'
npy "$tmp/fortran.npy" 4 4 3 '<f4' True
npy "$tmp/huge.npy" 4 4 3
sed -i "s/(4, 4, 3)/(400000000, 4, 3)/" "$tmp/huge.npy"
head -c 200 "$tmp/x.npy" >"$tmp/short.npy"
echo "this is a text" >"$tmp/text.npy"
cp "$tmp/text.npy" "$tmp/text.safetensors"
: >"$tmp/empty.pth"
head -c 5000 "$golden/taesd_encoder.pth" >"$tmp/cut.pth"
enc=$golden/taesd_encoder.pth

expect 0 '^\* (neon|avx2|avx512|scalar|cuda)' "engines" "$zenith" engines
expect 0 'scalar +usable' "engines names the reference" "$zenith" engines
expect 0 '^taesd-encode  *[1-9][0-9]*  found at' "models" "$zenith" models
also '^without weights:' "models without weights are one group"
expect 0 '' "models: at most 100 columns, but for a long path" \
  sh -c "! '$zenith' models | sed 's/^ *//' | grep ' ' | awk 'length > 100' | grep ."
expect 0 '^[^ ]* *2005061  found at' "models: the parameters are those of the file" sh -c "'$zenith' models | grep '^denoise-balanced '"
expect 0 'taesd or taesdxl encoder, 4 latent channels' "info" "$zenith" info "$enc"
weights=$here/tests/data/weights
expect 0 'classifier .*: 40 attributes, code of 24 numbers' "info of a classifier" "$zenith" info "$weights/diffae-cls.ckpt"
expect 0 'latent network of 4 layers, code of 24 numbers' "info of a latent network" "$zenith" info "$weights/diffae-latent.ckpt"
expect 0 'statistics of the codes' "info of latent.pkl" "$zenith" info "$weights/diffae-latent.pkl"
expect 0 'diffusion autoencoder, latent network of 4 layers, statistics of codes.*averaged weights' "info of a checkpoint" \
  "$zenith" info "$golden/diffae.ckpt"
expect 0 'face.safetensors: 422 tensors; .*face.attributes.safetensors: 40 attributes' "convert" \
  "$zenith" convert "$golden/diffae.ckpt" "$weights/diffae-cls.ckpt" "$tmp/face.safetensors"
expect 0 'diffusion autoencoder, latent network of 4 layers, statistics of codes' "what it wrote" "$zenith" info "$tmp/face.safetensors"
expect 0 'taesd or taesdxl encoder' "convert any model" sh -c "'$zenith' convert '$enc' '$tmp/t.safetensors' --type bf16 && '$zenith' info '$tmp/t.safetensors'"
expect 0 'tensors' "convert to int4" "$zenith" convert "$here/tests/data/golden/zimage_dit.safetensors" "$tmp/t.safetensors" --type int4
expect 2 'must be fp16, bf16, fp32, fp8, int8 or int4' "convert to nonsense" "$zenith" convert "$enc" "$tmp/t.safetensors" --type fp7
expect 2 'takes weight files and a new one' "convert one file" "$zenith" convert "$enc"
expect 1 'must end in' "convert to another kind of file" "$zenith" convert "$enc" "$tmp/t.pth"
expect 0 'Usage|zenith run MODEL' "help" "$zenith" help
expect 2 'zenith engines' "no command" "$zenith"
expect 0 '^scalar: [1-9][0-9]* passed, 0 failed' "part of the self-test" "$zenith" selftest --engine scalar --only rope
# parts_of NAME N: the cases of all parts are those of the whole, each once.
parts_of() {
  local i
  diff <("$zenith" selftest --engine scalar --only "$1" | grep '^ok' | sort) \
    <(for ((i = 1; i <= $2; i++)); do "$zenith" selftest --engine scalar --only "$1 $i/$2"; done | grep '^ok' | sort)
}
expect 0 '' "the self-test in parts" parts_of rope 3
expect 1 "no case begins with 'nonsense'" "no such part" "$zenith" selftest --engine scalar --only nonsense
expect 2 "unknown command 'nonsense'" "unknown command" "$zenith" nonsense
expect 2 'unknown option --nonsense' "unknown option" "$zenith" run taesd-encode --nonsense 1
expect 2 "no model 'nonsense'" "unknown model" "$zenith" run nonsense --in x=a --out y=b
expect 2 'needs --in x=' "no input" "$zenith" run taesd-encode --weights "$enc" --out "z=$tmp/z.npy"
expect 2 'needs --out z=' "no output" "$zenith" run taesd-encode --weights "$enc" --in "x=$tmp/x.npy"
expect 2 "no input 'q=" "an input that is none" "$zenith" run taesd-encode --weights "$enc" --in "q=$tmp/x.npy" --out "z=$tmp/z.npy"
expect 2 'makes no sense' "threads=0" "$zenith" bench --threads 0
# A prompt to tokens: <|im_start|> is token 557 of this vocabulary, 198 a line end.
tokens_run() { "$zenith" run z-image-tokens --weights "${2:-$here/tests/data/text/tokenizer.json}" --in "prompt=$1" --out "tokens=$tmp/t.npy" "${@:3}"; }
echo "a cat" >"$tmp/prompt.txt"
printf 'a\0b' >"$tmp/zero.txt"
printf 'a\377b' >"$tmp/latin1.txt"
expect 0 '' "tokens of a prompt" tokens_run "$tmp/prompt.txt"
expect 0 '00 40 0b 44 00 00 a8 42' "the first of them" od -An -tx1 -j128 -N8 "$tmp/t.npy"
expect 0 'the first 4 of 21' "no more tokens than asked for" tokens_run "$tmp/prompt.txt" "" --set limit=4
expect 2 'no setting' "a setting that tokens lack" tokens_run "$tmp/prompt.txt" "" --set steps=3
expect 1 'zero byte' "a prompt with a zero byte" tokens_run "$tmp/zero.txt"
expect 1 'not UTF-8' "a prompt in Latin-1" tokens_run "$tmp/latin1.txt"
expect 1 'prompt.txt: not a tokenizer.json' "a text as tokenizer" tokens_run "$tmp/prompt.txt" "$tmp/prompt.txt"
expect 2 'takes --weights tokenizer.json' "tokens without an input" "$zenith" run z-image-tokens --out "tokens=$tmp/t.npy"

# From a prompt to a latent with made-up weights: the three parts take each other's files.
tokens_run "$tmp/prompt.txt"
npy "$tmp/latent.npy" 6 10 16
expect 0 '' "features of a prompt" "$zenith" run z-image-text --weights random: --in "tokens=$tmp/t.npy" --out "cap=$tmp/cap.npy"
expect 0 '\(21, 1, 64\)' "one row a token" head -c 128 "$tmp/cap.npy"
expect 0 '' "a latent from a prompt" "$zenith" run z-image-sample --weights random: --set steps=2 --in "x=$tmp/latent.npy" --in "cap=$tmp/cap.npy" --out "z=$tmp/z.npy"
expect 0 '\(6, 10, 16\)' "of the size of its noise" head -c 128 "$tmp/z.npy"
tiny=$tmp/tiny-z-image
expect 0 '' "a tiny Z-Image" python3 "$here/tools/make_tiny_zimage.py" "$tiny"
expect 0 'text encoder *found at .*1024x1024 takes [0-9.]* GB' "info on its folder" sh -c "'$zenith' info '$tiny' | tr '\\n' ' '"
mv "$tiny/transformer" "$tmp/away"
expect 1 'transformer *missing .12.3 GB in 3 files., looked for as transformer/ in .*tiny-z-image' "a part that is missing" "$zenith" info "$tiny"
expect 1 'lacks transformer/ .12.3 GB.*Apache license 2.0.*tiny-z-image' "where to get it" "$zenith" info "$tiny"
mv "$tmp/away" "$tiny/transformer"
expect 0 'transformer .* 33[0-9][0-9] MiB of weights .int4.' "made-up weights of the published sizes" "$zenith" info z-image random: --set precision=int4 --size 1024x1024
also '1024x1024 takes [1-9]\.[0-9] GB' "they fit into 10 GB"
streamed () {
  ZENITH_MEMORY=$1 "$zenith" info z-image random: --engine scalar --set precision=int4 --size 1024x1024 2>&1 | tr '\n' ' '
}
expect 0 'transformer .* 2[0-9][0-9] MiB of weights .int4, streamed.*reads the layers from disk; that is slower' "said before the start" streamed 2300
expect 0 'takes 5[.][0-9] GB: .*the transformer stays in memory for the decoder' "what is open at once" streamed 9000
expect 0 'takes 4[.][0-9] GB: one of these after the other; a prompt' "what does not fit together is closed" streamed 5000
expect 0 'z-image-text needs 15[0-9] MiB .*beside 79[0-9] MiB of weights, where 11[0-9] are allowed.*41 MiB are taken' "with less still, refused" streamed 950
# the same from the beginning to the end
generate() { "$zenith" generate "$@" --set weights="$tiny" --set steps=2 --set seed=3; }
expect 0 '' "generate: a new picture" generate "$tmp/fox.ppm" --set prompt="a red fox" --set width=40 --set height=24
expect 0 '^40 24$' "of the size that was asked for" head -n 2 "$tmp/fox.ppm"
expect 0 '' "generate: floats" generate "$tmp/fox.npy" --set prompt="a red fox" --set width=40 --set height=24
expect 0 '' "generate: from a picture" generate "$tmp/fox.npy" "$tmp/hen.npy" --set prompt="a hen" --set change=0.5
if "$zenith" generate "$tmp/fox.png" --set prompt= 2>&1 | grep -q 'no prompt'; then # libpng is here
  expect 0 '' "generate: PNG" generate "$tmp/fox.png" --set prompt="a red fox" --set width=40 --set height=24
  expect 0 '' "generate: from PNG" generate "$tmp/fox.png" "$tmp/same.ppm" --set prompt="a red fox" --set change=0
  expect 0 '' "the same pixels as PPM" cmp "$tmp/fox.ppm" "$tmp/same.ppm"
fi
expect 0 '' "generate: three seeds" generate "$tmp/seeds.npy" --set prompt="a red fox" --set width=40 --set height=24 n=3
expect 0 '' "the first is the one alone" cmp "$tmp/fox.npy" "$tmp/seeds-1.npy"
expect 0 '' "the others are others" sh -c "! cmp -s '$tmp/seeds-2.npy' '$tmp/seeds-1.npy' && ! cmp -s '$tmp/seeds-3.npy' '$tmp/seeds-2.npy'"
expect 0 '' "generate: a larger canvas" generate "$tmp/fox.npy" "$tmp/wide.npy" --set prompt="a wood" left=16 bottom=9
expect 0 '\(33, 56, 3\)' "of its size" head -c 128 "$tmp/wide.npy"
expect 1 'enlarged as a whole' "generate: a part is not enlarged" generate "$tmp/fox.npy" "$tmp/wide.npy" --set prompt="a wood" left=16 scale=2
npy "$tmp/black.npy" 24 40 3
expect 0 '' "generate: nothing is selected" generate "$tmp/fox.npy" "$tmp/kept.npy" --set prompt="a hat" --in "mask=$tmp/black.npy"
expect 0 '' "nothing changes" cmp "$tmp/fox.npy" "$tmp/kept.npy"
expect 0 '' "generate: a mask" generate "$tmp/fox.npy" "$tmp/hat.npy" --set prompt="a hat" --in "mask=$tmp/fox.npy"
expect 0 '' "something changes" sh -c "! cmp -s '$tmp/fox.npy' '$tmp/hat.npy'"
expect 1 'mask has 5 x 3' "generate: a mask of another size" generate "$tmp/fox.npy" "$tmp/x.npy" --set prompt=x --in "mask=$tmp/odd.npy"
expect 1 'has 16 channels' "generate: no picture" generate "$tmp/latent.npy" "$tmp/x.npy" --set prompt=x
expect 1 'no prompt' "generate: no prompt" generate "$tmp/x.npy"
expect 1 'written as' "generate: an unknown format" generate "$tmp/x.gif" --set prompt=x
expect 1 'lacks tokenizer' "generate: no model" "$zenith" generate "$tmp/x.npy" --set prompt=x --set weights="$tmp"
expect 2 "has no setting 'colour'; it has prompt, seed," "generate: no such setting" generate "$tmp/x.npy" --set colour=red
expect 2 "steps must be a whole number, not '1.5'" "generate: half a step" generate "$tmp/x.npy" --set steps=1.5
expect 2 "change must be a number from 0 to 1, not '2'" "generate: out of range" generate "$tmp/x.npy" --set change=2
expect 2 'generate .IN. OUT' "generate: too many pictures" generate a b c
# pictures in, pictures out, with the shipped models
better() { ZENITH_MODELS=$here/models "$zenith" "$@"; }
npy "$tmp/grey.npy" 21 33 3
for command in denoise restore "upscale scale=3 model=small"; do
  expect 0 '' "$command" better $command "$tmp/grey.npy" "$tmp/better.npy"
done
expect 0 '\(63, 99, 3\)' "three times as large" head -c 128 "$tmp/better.npy"
expect 0 'measured noise, of 255: red' "denoise: what was measured" better denoise "$tmp/grey.npy" "$tmp/better.npy" --set model=fast --progress
expect 0 'found: blur unclear, no JPEG artifacts, little noise' "restore: what was found" better restore "$tmp/grey.npy" "$tmp/better.npy" --progress
expect 0 'strength .* 0 to 1.5 \(1\)$' "help: the settings of a command, with their defaults" "$zenith" denoise --help
expect 0 'model .*\(faithful\)' "help: the same" "$zenith" help upscale
expect 0 '^  zenith find PICTURE' "help: a command without settings" "$zenith" find -h
expect 2 "unknown command 'nonsense'" "help: no such command" "$zenith" help nonsense
expect 0 '' "denoise: strength 0" better denoise "$tmp/grey.npy" "$tmp/better.npy" --set strength=0
expect 0 '' "the picture itself" cmp "$tmp/grey.npy" "$tmp/better.npy"
expect 2 "scale must be a number from 2 to 4, not '5'" "upscale: out of range" better upscale "$tmp/grey.npy" "$tmp/x.npy" scale=5
expect 1 "model must be one of fast, balanced, best, not 'worst'" "denoise: no such model" better denoise "$tmp/grey.npy" "$tmp/x.npy" --set model=worst
expect 2 "has no setting 'sale'; it has scale," "upscale: no such setting" better upscale "$tmp/grey.npy" "$tmp/x.npy" sale=2
expect 2 'zenith restore IN OUT' "restore: one picture" better restore "$tmp/grey.npy"
{ head -c -20000 "$golden/denoise.safetensors"; head -c 20000 /dev/zero | tr '\0' '\377'; } >"$tmp/nan.safetensors"
expect 1 "network's result is not finite" "weights that are no numbers" better denoise "$tmp/grey.npy" "$tmp/better.npy" weights="$tmp/nan.safetensors" sigma=9
expect 1 'A frame of 65536 x 65536 pixels is too large for a picture of 33 x 21' "a frame of millions of pixels around a small picture" \
  better face "$tmp/grey.npy" "$tmp/better.npy" attribute=smile amount=1 frame-x=9 frame-y=9 frame-size=65536
# What a picture loses is said.
as_it_is() { better denoise "$1" "$2" strength=0; }
{ head -c 128 "$tmp/x.npy"; printf '\x00\x00\xc0\x7f'; tail -c +133 "$tmp/x.npy"; } >"$tmp/nan.npy"
expect 0 '1 values of .*nan.npy are infinite or not a number' "denoise: a pixel that is not finite" as_it_is "$tmp/nan.npy" "$tmp/better.npy"
base64 -d <<<'iVBORw0KGgoAAAANSUhEUgAAAAYAAAAECAYAAACtBE5DAAAAFUlEQVQI12M8wcXFgA0wMeAApEsAAFbqAOS85MOpAAAAAElFTkSuQmCC' >"$tmp/glass.png"
head -c 9000 "$here/docs/images/enlarge.jpg" >"$tmp/cut.jpg"
if "$zenith" find "$tmp/glass.png" 2>&1 | grep -q 'no .npy file'; then
  echo "skip pictures that lose something: this build reads none"
  skipped=$((skipped + 1))
else
  expect 0 'transparent parts are laid on white' "a transparent PNG" env MALLOC_PERTURB_=90 ZENITH_MODELS="$here/models" "$zenith" denoise \
    "$tmp/glass.png" "$tmp/white.ppm" strength=0
  expect 0 '' "is white, whatever the memory held" test "$(tail -c 72 "$tmp/white.ppm" | tr -d '\377' | wc -c)" = 0
  # A phone's picture, of 16 x 8 pixels, that EXIF turns; three pixels of 16 bits with a profile.
  expect 1 'zenith-batch reads TIFF and WebP' "a TIFF file" as_it_is "$tmp/none.tif" "$tmp/white.ppm"
  base64 -d <<<'/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/wAALCAAIABABAREA/8QAFQABAQAAAAAAAAAAAAAAAAAAAAX/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/9oACAEBAAA/AKo//9k=' >"$tmp/phone.jpg"
  expect 0 '' "EXIF's orientation" as_it_is "$tmp/phone.jpg" "$tmp/phone.ppm"
  expect 0 '' "turns the picture" test "$(sed -n 2p "$tmp/phone.ppm")" = "8 16"
  base64 -d <<<'iVBORw0KGgoAAAANSUhEUgAAAAMAAAABEAIAAADEEl+gAAAAkmlDQ1BwAAB4AQGEAHv/AAAAhAAAAAACEAAAbW50clJHQiBYWVogAAAAAAAAAAAAAAAAYWNzcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAPbWAAEAAAAA0y0AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAATkQI8lCAMbIAAAAWSURBVHjaY2BgZGT6/5/5JYhkvwgiATuxB8k5nOyfAAAAAElFTkSuQmCC' >"$tmp/deep.png"
  expect 0 '' "16 bits and a profile" as_it_is "$tmp/deep.png" "$tmp/deep2.png"
  expect 0 '' "the profile is kept" grep -q iCCP "$tmp/deep2.png"
  expect 0 '' "16 bits, from there on" as_it_is "$tmp/deep2.png" "$tmp/deep.ppm"
  expect 0 '' "are kept" test "$(tail -c 19 "$tmp/deep.ppm" | od -An -tx1 | tr -d ' \n')" = 0a00010102ffff03e90102ffff07d10102ffff
  expect 0 '' "a profile that libpng knows" as_it_is "$here/docs/samples/chelsea.png" "$tmp/known.png"
  limited() { (ulimit -f 4; as_it_is "$here/docs/samples/chelsea.png" "$tmp/full.png"); }
  expect 1 'full.png could not be written whole: ' "a PNG beyond a limit of file sizes" limited
  : >"$tmp/empty.png"
  mkdir "$tmp/folder.png"
  expect 1 'none.png: it cannot be opened: ' "no such picture" as_it_is "$tmp/none.png" "$tmp/white.ppm"
  expect 1 'empty.png: it is empty' "an empty picture" as_it_is "$tmp/empty.png" "$tmp/white.ppm"
  expect 1 'folder.png: it is not a file but a folder' "a folder as a picture" as_it_is "$tmp/folder.png" "$tmp/white.ppm"
  expect 1 'cut.jpg: it cannot be read as a picture: Premature end' "a JPEG that is cut" as_it_is "$tmp/cut.jpg" "$tmp/white.ppm"
  # marker NAME TEXT: a JPEG with more after its first marker.
  marker() { { printf '\xff\xd8' && printf "$2" && tail -c +3 "$tmp/phone.jpg"; } >"$tmp/$1.jpg"; }
  marker many "$(printf '\\xff\\xe1\\x00\\x02%.0s' $(seq 6000))"
  expect 1 'many.jpg: .*too many markers' "a JPEG of markers: libjpeg's work grows with their square" as_it_is "$tmp/many.jpg" "$tmp/white.ppm"
  marker grey "\\xff\\xe2\\x00\\x94ICC_PROFILE\\x00\\x01\\x01$(printf 'GRAY%.0s' $(seq 33))"
  expect 0 'grey.jpg: its colour profile is not one of RGB and is left out' "a profile of grey" as_it_is "$tmp/grey.jpg" "$tmp/grey.png"
  marker profile "\\xff\\xe2\\x00\\x94ICC_PROFILE\\x00\\x01\\x01$(printf 'RGB %.0s' $(seq 33))"
  expect 0 'colour profile is damaged: it is left out' "a profile that is none" as_it_is "$tmp/profile.jpg" "$tmp/profile.png"
fi
# text in, picture out, on each engine
for engine in scalar auto; do
  expect 0 '' "tokens of the tiny model" tokens_run "$tmp/prompt.txt" "$tiny/tokenizer/tokenizer.json"
  expect 0 '' "$engine: features" "$zenith" run z-image-text --engine $engine --weights "$tiny/text_encoder" --in "tokens=$tmp/t.npy" --out "cap=$tmp/cap.npy"
  expect 0 '' "$engine: latent" "$zenith" run z-image-sample --engine $engine --weights "$tiny/transformer" --set steps=3 --in "x=$tmp/latent.npy" --in "cap=$tmp/cap.npy" --out "z=$tmp/z.npy"
  expect 0 '' "$engine: picture" "$zenith" run flux-ae-decode --engine $engine --weights "$tiny/vae" --in "z=$tmp/z.npy" --out "x=$tmp/picture-$engine.npy"
done
# the same from the other forms of files: packed or as float32, the same numbers make the same picture, byte by byte
chain() { # TEXT TRANSFORMER PICTURE ARGUMENT...
  "$zenith" run z-image-text --weights "$1" --in "tokens=$tmp/t.npy" --out "cap=$tmp/cap-chain.npy" "${@:4}" &&
    "$zenith" run z-image-sample --weights "$2" --set steps=3 --in "x=$tmp/noise.npy" --in "cap=$tmp/cap-chain.npy" --out "z=$tmp/z-chain.npy" "${@:4}" &&
    "$zenith" run flux-ae-decode --weights "$tiny/vae" --in "z=$tmp/z-chain.npy" --out "x=$tmp/$3.npy"
}
nearer() { # DECIBELS PICTURE PICTURE: -1..1
  python3 - "$@" <<'END'
import array, math, sys
a, b = (array.array("f", open(p, "rb").read()[128:]) for p in sys.argv[2:])
error = sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)
db = 10 * math.log10(4 / error) if error else 999
print(f"{db:.1f} dB", file=sys.stderr)
sys.exit(len(a) != len(b) or not db >= float(sys.argv[1]))
END
}
npy "$tmp/noise.npy" 8 12 16
python3 -c 'import array, random, sys; r = random.Random(1); sys.stdout.buffer.write(array.array("f", (r.gauss(0, 1) for _ in range(8 * 12 * 16))).tobytes())' |
  dd of="$tmp/noise.npy" bs=128 seek=1 conv=notrunc status=none
tokens_run "$tmp/prompt.txt"
expect 0 '' "a model of 256 channels" python3 "$here/tools/make_tiny_zimage.py" "$tmp/wide" 2 256
expect 0 '' "its picture" chain "$tmp/wide/text_encoder" "$tmp/wide/transformer" wide
for form in q8_0:48 q4_0:22 q4_k:24 mlx4:22; do
  kind=${form%:*} packed=$tmp/${form%:*}
  expect 0 '' "$kind: packed" python3 "$here/tools/pack_tiny_zimage.py" "$tmp/wide" "$packed" "$kind"
  text=$packed/z-image-text.gguf dit=$packed/z-image.gguf
  [ $kind = mlx4 ] && text=$packed/text_encoder dit=$packed/transformer
  expect 0 'transformer *found at' "$kind: found" "$zenith" info "$packed"
  expect 0 '' "$kind: picture" chain "$text" "$dit" "$kind"
  expect 0 '' "$kind: picture of the same numbers" chain "$packed/plain/text_encoder" "$packed/plain/transformer" plain
  expect 0 '' "$kind: it is the same" cmp "$tmp/$kind.npy" "$tmp/plain.npy"
  expect 0 'dB' "$kind: near to that of bf16" nearer "${form#*:}" "$tmp/$kind.npy" "$tmp/wide.npy"
done
for form in int8:48 int4:20; do
  kind=${form%:*}
  expect 0 '' "$kind: converted" sh -c "'$zenith' convert '$tmp/wide/text_encoder' '$tmp/ct.safetensors' --type $kind && '$zenith' convert '$tmp/wide/transformer' '$tmp/cd.safetensors' --type $kind"
  expect 0 '' "$kind: picture" chain "$tmp/ct.safetensors" "$tmp/cd.safetensors" "$kind" --set "precision=$kind"
  expect 0 'dB' "$kind: near to that of bf16" nearer "${form#*:}" "$tmp/$kind.npy" "$tmp/wide.npy"
done
expect 0 '' "from its own latent, changed a little" "$zenith" run z-image-sample --weights "$tiny/transformer" --set change=0.5 --in "x=$tmp/latent.npy" --in "cap=$tmp/cap.npy" --in "start=$tmp/z.npy" --out "z=$tmp/z2.npy"
expect 0 '' "features of a prompt again" "$zenith" run z-image-text --weights random: --in "tokens=$tmp/t.npy" --out "cap=$tmp/cap.npy"
expect 1 'z-image-sample' "a latent of half a patch" "$zenith" run z-image-sample --weights random: --in "x=$tmp/odd.npy" --in "cap=$tmp/cap.npy" --out "z=$tmp/z.npy"

# 65,536 frames of 32,769 rows: more rows than an array has.  The file has no blocks on the disk.
head='{"z":{"dtype":"U8","shape":[1,1,65536,32769,1],"data_offsets":[0,2147549184]}}'
{ printf "\\x$(printf %02x ${#head})\0\0\0\0\0\0\0"; printf %s "$head"; } >"$tmp/tall.safetensors"
truncate -s $((8 + ${#head} + 2147549184)) "$tmp/tall.safetensors"
expect 1 'is no latent' "a latent with too many rows" "$zenith" run zenith-decode --in "z=$tmp/tall.safetensors" --out "x=$tmp/x2.npy"
rm "$tmp/tall.safetensors"

enc_run() { "$zenith" run taesd-encode --weights "${2:-$enc}" --in "x=$1" --out "z=$tmp/z.npy"; }
expect 0 '' "run" enc_run "$tmp/x.npy"
expect 0 '' "run on one pixel" enc_run "$tmp/one.npy"
expect 0 '' "run on 3 x 5" enc_run "$tmp/odd.npy"
expect 1 'takes 3 channels, not 4' "wrong channels" enc_run "$tmp/four.npy"
expect 1 'float32' "doubles" enc_run "$tmp/f8.npy"
expect 1 'Fortran' "Fortran order" enc_run "$tmp/fortran.npy"
expect 1 'ends before' "a short array" enc_run "$tmp/short.npy"
expect 1 'too large|ends before' "an array larger than its file" enc_run "$tmp/huge.npy"
head -c -100 "$tmp/x.npy" >"$tmp/100short.npy"
{ cat "$tmp/x.npy"; printf 'abcdef'; } >"$tmp/6long.npy"
expect 1 'ends before' "an array 100 bytes short" enc_run "$tmp/100short.npy"
expect 1 'goes on after' "an array 6 bytes long" enc_run "$tmp/6long.npy"
expect 1 'not a .npy' "a text as array" enc_run "$tmp/text.npy"
expect 1 'is not a file but a folder' "a folder as array" enc_run "$tmp"
expect 1 'cannot be opened' "no such array" enc_run "$tmp/none.npy"
for name in dec.0.0.pw1 dec.0.0.pw2 mid.0.pw1; do
  LC_ALL=C sed "s/\"${name}.weight\"/\"${name}.height\"/" "$here/models/denoise-fast.safetensors" >"$tmp/lacks.safetensors"
  expect 1 "there is no tensor '$name.weight'" "a block without its $name" "$zenith" denoise "$tmp/x.npy" "$tmp/y.npy" model=fast sigma=9 weights="$tmp/lacks.safetensors"
done
expect 1 'text.safetensors' "a text as weights" enc_run "$tmp/x.npy" "$tmp/text.safetensors"
expect 1 'empty.pth' "an empty file as weights" enc_run "$tmp/x.npy" "$tmp/empty.pth"
expect 1 'cut.pth' "half a file as weights" enc_run "$tmp/x.npy" "$tmp/cut.pth"
expect 1 'not the weights of a TAESD encoder' "wrong weights" enc_run "$tmp/x.npy" "$golden/taesd_decoder.pth"
expect 1 'nowhere' "no such weights" enc_run "$tmp/x.npy" /nowhere/at/all.pth
# A video has four axes: 5 frames of 16 x 24 make 2 of the latent.
npy "$tmp/video.npy" 80 24 3
sed "s/(80, 24, 3), }   /(5, 16, 24, 3), }/" "$tmp/video.npy" >"$tmp/5frames.npy"
sed "s/(80, 24, 3), }   /(10, 8, 24, 3), }/" "$tmp/video.npy" >"$tmp/10frames.npy"
video_run() { "$zenith" run wan-vae-encode --weights "$golden/wan21.pth" --in "x=$1" --out "z=$tmp/video-z.npy"; }
expect 0 '' "a video of 10 frames" video_run "$tmp/10frames.npy"
expect 0 '' "its latent has four, the last of a frame that is repeated" grep -aq "(4, 1, 3, 16)" "$tmp/video-z.npy"
expect 0 '' "a video" video_run "$tmp/5frames.npy"
expect 0 '' "its latent has two frames" grep -aq "(2, 2, 3, 16)" "$tmp/video-z.npy"
decode() { "$zenith" video decode "$1" "$2" --weights "$golden/wan21.pth"; }
{ head -c 128 "$tmp/video-z.npy"; printf '\x00\x00\xc0\x7f'; tail -c +133 "$tmp/video-z.npy"; } >"$tmp/nan-z.npy"
expect 0 '1 values of .*nan-z.npy are infinite or not a number' "a latent that is not finite" decode "$tmp/nan-z.npy" "$tmp/nan-frames"
{ head -c 128 "$tmp/video-z.npy"; printf '\xff\xff\x7f\x7f%.0s' $(seq 192); } >"$tmp/large-z.npy"
expect 1 'result is not finite' "a latent whose frames are not finite" decode "$tmp/large-z.npy" "$tmp/large-frames"
expect 1 'result is not finite' "the same as an array" decode "$tmp/large-z.npy" "$tmp/large.npy"
expect 1 'result is not finite' "the same by run" "$zenith" run wan-vae-decode --weights "$golden/wan21.pth" --in "z=$tmp/large-z.npy" --out "x=$tmp/large.npy"
expect 0 '' "no file is left" test ! -e "$tmp/large.npy"
# A folder of pictures is a video, too: black is -1.
mkdir "$tmp/frames"
for i in 1 2 3 4 5; do
  base64 -d <<<'iVBORw0KGgoAAAANSUhEUgAAABAAAAAICAIAAAB/FOjAAAAADklEQVR42mNgGAWDAQAAAYgAAe8J4icAAAAASUVORK5CYII=' >"$tmp/frames/$i.png"
done
npy "$tmp/black.npy" 40 16 3
sed "s/(40, 16, 3), }  /(5, 8, 16, 3), }/" "$tmp/black.npy" | head -c 128 >"$tmp/5black.npy"
printf '\x00\x00\x80\xbf%.0s' $(seq 1920) >>"$tmp/5black.npy"
if "$zenith" find "$tmp/frames/1.png" 2>&1 | grep -q 'no .npy file'; then
  echo "skip a folder of frames: this build reads no pictures"
  skipped=$((skipped + 1))
else
  expect 0 '' "a folder of frames" video_run "$tmp/frames"
  mv "$tmp/video-z.npy" "$tmp/folder-z.npy"
  expect 0 '' "the same frames as an array" video_run "$tmp/5black.npy"
  expect 0 '' "make the same latent" cmp "$tmp/video-z.npy" "$tmp/folder-z.npy"
  # Folders in and out: 3 frames of 16 x 8 are padded to 5 of 16 x 16 for Wan 2.2, and come back as they were.
  mkdir "$tmp/three"
  for i in 2 10 9; do cp "$tmp/frames/1.png" "$tmp/three/$i.png"; done
  video() { "$zenith" video "$@" --weights "$golden/wan22.pth"; }
  expect 0 '3 frames in' "there and back" video roundtrip "$tmp/three" "$tmp/back"
  expect 0 '' "three frames" test "$(cd "$tmp/back" && echo *)" = "000001.png 000002.png 000003.png"
  expect 0 '' "frames to latents" video encode "$tmp/three" "$tmp/three.npy"
  expect 0 '' "two of them, of 1 x 1" grep -aq "(2, 1, 1, 48)" "$tmp/three.npy"
  expect 0 '5 frames in' "latents to frames" video decode "$tmp/three.npy" "$tmp/decoded"
  expect 1 'there are frames in .* already' "frames are not written over" video decode "$tmp/three.npy" "$tmp/decoded"
  expect 1 'cannot be made' "a folder that cannot be made" video decode "$tmp/three.npy" "$tmp/three.npy/x"
  expect 2 'zenith video encode' "a video to nothing" video encode "$tmp/three"
  base64 -d <<<'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAADElEQVR42mNgGB4AAADIAAGTvaWOAAAAAElFTkSuQmCC' >"$tmp/three/10.png"
  expect 1 '10.png is 8 x 8 where the first frame is 16 x 8' "the last frame is the one with the highest number" video roundtrip "$tmp/three" "$tmp/wrong"
  base64 -d <<<'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAADElEQVR42mNgGB4AAADIAAGTvaWOAAAAAElFTkSuQmCC' >"$tmp/frames/5.png"
  expect 1 '5.png is 8 x 8 where the first frame is 16 x 8' "a frame of another size" video_run "$tmp/frames"
  echo text >"$tmp/frames/5.png"
  expect 1 'frames/5.png: it cannot be read' "a frame that is none" video_run "$tmp/frames"
fi
expect 1 'there are no PNG or JPEG files' "a folder without frames" video_run "$golden"
{ head -c 2048 "$tmp/5frames.npy"; printf '\x00\x00\xc0\x7f%.0s' 1 2 3; tail -c +2061 "$tmp/5frames.npy"; } >"$tmp/nan.npy"
expect 0 '3 values of x are infinite or not a number' "a video with numbers that are none" video_run "$tmp/nan.npy"
# The only tensor of a PyTorch file is a latent: 2 frames of 3 x 2, at 8 times the size one below the other.
expect 0 'latent video of Wan 2.1, 2 frames of 3 x 2 .wan-latent-rgb' "info on a latent" "$zenith" info "$golden/wan-latent.pth"
expect 0 '' "a latent as colours" "$zenith" run wan-latent-rgb --in "z=$golden/wan-latent.pth" --out "x=$tmp/rgb.npy"
expect 0 '' "their size" grep -aq "(32, 24, 3)" "$tmp/rgb.npy"
expect 1 '4 channels' "a latent of 16 channels for SDXL" "$zenith" run sdxl-latent-rgb --in "z=$golden/wan-latent.pth" --out "x=$tmp/rgb.npy"
expect 0 '' "its colours as FLUX.1 would have them" "$zenith" run flux-latent-rgb --in "z=$golden/wan-latent.pth" --out "x=$tmp/rgb.npy"
expect 1 'view.weight' "no view in the weights" "$zenith" run latent-rgb --weights "$golden/wan21.pth" --in "z=$golden/wan-latent.pth" --out "x=$tmp/rgb.npy"
expect 0 '' "a latent decoded" "$zenith" run wan-vae-decode --weights "$golden/wan21.pth" --in "z=$golden/wan-latent.pth" --out "x=$tmp/rgb.npy"
expect 0 '' "its frames" grep -aq "(5, 16, 24, 3)" "$tmp/rgb.npy"
real=$here/../shared/data/weights/test_latents_wan.pth
if [ -r "$real" ]; then
  expect 0 'latent video of Wan 2.1, 16 frames of 64 x 40' "info on a real latent" "$zenith" info "$real"
  expect 0 '' "a real latent as colours" "$zenith" run wan-latent-rgb --in "z=$real" --out "x=$tmp/rgb.npy"
  expect 0 '' "the size of its frames" grep -aq "(5120, 512, 3)" "$tmp/rgb.npy"
else
  echo "skip a real latent: there is no $real"
  skipped=$((skipped + 1))
fi
expect 1 'is no latent' "weights as a latent" "$zenith" run wan-latent-rgb --in "z=$golden/wan21.pth" --out "x=$tmp/rgb.npy"
expect 1 'takes no video' "a video for a model of pictures" enc_run "$tmp/5frames.npy"
expect 1 'not the weights of a Wan VAE' "wrong weights for a video" \
  "$zenith" run wan-vae-encode --weights "$enc" --in "x=$tmp/5frames.npy" --out "z=$tmp/video-z.npy"
expect 1 'cannot be written' "an output that cannot be written" \
  "$zenith" run taesd-encode --weights "$enc" --in "x=$tmp/x.npy" --out z=/nowhere/z.npy
expect 1 'no weights .denoise-best' "weights that are nowhere" env ZENITH_MODELS=/nowhere HOME=/nowhere XDG_DATA_HOME= \
  "$zenith" run denoise-best --in "x=$tmp/x.npy" --out "y=$tmp/y.npy"
expect 1 'ZENITH_MEMORY must be a size in mebibytes.*lots' "a bound of memory that is none" env ZENITH_MEMORY=lots \
  "$zenith" run denoise-fast --weights "$golden/denoise.safetensors" --engine scalar --in "x=$tmp/x.npy" --out "y=$tmp/y.npy"
# The bound counts weights and a run together; every shipped model works in 64 MiB.
expect 1 'the weights of denoise-best take [0-9]+ MiB on the scalar engine where 8 are allowed; set ZENITH_MEMORY to more' \
  "weights over the bound" env ZENITH_MEMORY=8 "$zenith" run denoise-best --engine scalar --in "x=$tmp/x.npy" --out "y=$tmp/y.npy"
for model in denoise-fast denoise-balanced denoise-best; do
  expect 0 '' "$model in 64 MiB" env ZENITH_MEMORY=64 "$zenith" run $model --set sigma=9 --in "x=$tmp/x.npy" --out "y=$tmp/y.npy"
done
expect 0 '' "zenith-tae in 64 MiB" env ZENITH_MEMORY=64 "$zenith" run taesd-encode --in "x=$tmp/x.npy" --out "z=$tmp/z.npy"
expect 1 'no setting .nonsense' "a setting that is none" \
  "$zenith" run denoise-fast --weights "$golden/denoise.safetensors" --set nonsense=1 --in "x=$tmp/x.npy" --out "y=$tmp/y.npy"
expect 1 'from 0 to 255' "a setting out of range" \
  "$zenith" run denoise-fast --weights "$golden/denoise.safetensors" --set sigma=-3 --in "x=$tmp/x.npy" --out "y=$tmp/y.npy"
npy "$tmp/map3.npy" 16 24 3
npy "$tmp/map5.npy" 16 24 5
npy "$tmp/mapw.npy" 16 16 3
map_run() { "$zenith" run denoise-fast --weights "$golden/denoise.safetensors" --in "x=$tmp/x.npy" --in "map=$1" --out "y=$tmp/y.npy"; }
expect 0 '' "a map of the noise" map_run "$tmp/map3.npy"
expect 1 'takes 3 channels, not 5, as .map.' "a map of 5 channels" map_run "$tmp/map5.npy"
expect 1 'is 16 x 16, the picture 24 x 16' "a map of another size" map_run "$tmp/mapw.npy"
# One NaN and one infinity: said, and the result is finite.
{ head -c 128 "$tmp/x.npy"; printf '\x00\x00\xc0\x7f\x00\x00\x80\x7f'; tail -c +137 "$tmp/x.npy"; } >"$tmp/nan.npy"
finite() { "$zenith" run denoise-fast --weights "$golden/denoise.safetensors" --set sigma=9 --in "x=$1" --out "y=$2"; }
expect 1 "network's result is not finite" "a result that is not finite" "$zenith" run denoise-fast --weights "$tmp/nan.safetensors" --set sigma=9 --in "x=$tmp/x.npy" --out "y=$tmp/none.npy"
expect 0 '2 values of x are infinite or not a number' "pixels that are not finite" finite "$tmp/nan.npy" "$tmp/y1.npy"
expect 0 '' "the same with zeros" finite "$tmp/x.npy" "$tmp/y2.npy"
expect 0 '' "pixels that are not finite count as 0" cmp "$tmp/y1.npy" "$tmp/y2.npy"
# A result is written whole or not at all.
cp "$tmp/y1.npy" "$tmp/keep.npy"
limited() { (ulimit -f 4; finite "$tmp/x.npy" "$tmp/keep.npy"); }
expect 1 'keep.npy could not be written whole: ' "a limit of file sizes" limited
expect 0 '' "a full disk leaves the older result" cmp "$tmp/keep.npy" "$tmp/y1.npy"
expect 0 '' "and no part of the new one" test -z "$(ls "$tmp" | grep part-)"
expect 0 '' "a result may go to a device" finite "$tmp/x.npy" /dev/null
[ ! -c /dev/full ] || expect 1 'what it prints could not be written' "nowhere to print to" sh -c "'$zenith' info '$enc' >/dev/full"
(
  video_run() { "$zenith" run wan-vae-encode --weights "$golden/wan21.pth" --in "x=$tmp/5frames.npy" --out "z=$1" --progress; }
  video_run "$tmp/open-z.npy" 2>/dev/null && video_run "$tmp/closed-z.npy" 0<&- 1>&- 2>&-
)
expect 0 '' "closed standard files: no message in the result" cmp "$tmp/open-z.npy" "$tmp/closed-z.npy"
ln -s keep.npy "$tmp/link.npy"
expect 0 '' "or through a link" finite "$tmp/x.npy" "$tmp/link.npy"
expect 0 '' "which stays one" test -L "$tmp/link.npy"
expect 0 '^[0-9]+ MiB, and [0-9]+ MiB of weights; [0-9.e+]+ billion' "--progress says first what the run takes" \
  "$zenith" run taesd-encode --weights "$enc" --progress --in "x=$tmp/x.npy" --out "z=$tmp/z.npy"
expect 0 '' "denoise with an estimated sigma" \
  "$zenith" run denoise-fast --weights "$golden/denoise.safetensors" --in "x=$tmp/x.npy" --out "y=$tmp/y.npy"
den() { "$zenith" run denoise-fast --weights "$golden/denoise.safetensors" --engine scalar --set sigma=5 --in "x=$tmp/x.npy" --out "y=$tmp/y.npy" "$@"; }
expect 0 '' "float32 by name" den --set precision=fp32
expect 0 '' "weights stored in 8 bits" den --set precision=int8
expect 1 'scalar engine has no precision tf32: that takes a GPU' "a precision that the engine lacks" den --set precision=tf32
expect 1 'precision must be auto, fp32' "a precision that is none" den --set precision=fp64
expect 1 'no precision tf32 .from ZENITH_PRECISION.' "ZENITH_PRECISION" env ZENITH_PRECISION=tf32 \
  "$zenith" run denoise-fast --weights "$golden/denoise.safetensors" --engine scalar --in "x=$tmp/x.npy" --out "y=$tmp/y.npy"
expect 1 "no engine 'nonsense'" "an engine that is none" "$zenith" bench identity --engine nonsense
expect 1 '(needs|not)' "an engine of another CPU" "$zenith" bench identity --engine "$(uname -m | grep -q x86 && echo neon || echo avx2)"
expect 0 'scalar' "ZENITH_ENGINE" env ZENITH_ENGINE=scalar "$zenith" bench identity --size 8x8
expect 0 '"model":"taesd-decode".*"ms":.*"least_ms":[0-9.]+,"cpu_ms":[0-9.]+,"gmac":.*"gflops":.*"peak_gflops":.*"peak_bytes":' "bench --json" \
  "$zenith" bench taesd-decode --weights "$golden/taesd_decoder.pth" --json --size 64x64
expect 0 'conv 3x3/1 8>8' "bench --layers" \
  "$zenith" bench taesd-decode --weights "$golden/taesd_decoder.pth" --layers --size 64x64
# Faces: a detector made by hand, for which a white spot of 15 pixels is one.
npy "$tmp/black.npy" 128 128 3
cp "$tmp/black.npy" "$tmp/spot.npy"
ones=$(printf '\\x00\\x00\\x80\\x3f%.0s' $(seq 45))
for row in $(seq 49 63); do
  printf "$ones" | dd of="$tmp/spot.npy" bs=1 seek=$((128 + (row * 128 + 57) * 12)) conv=notrunc status=none
done
find_face() { "$zenith" find --weights "$golden/find-spot.safetensors" "$@"; }
expect 0 '^x=7[0-9.]+ y=6[0-9.]+ size=64.00 angle=20.00 score=0.99' "find" find_face "$tmp/spot.npy"
expect 0 'spot.npy: x=7' "find in several pictures" find_face "$tmp/spot.npy" "$tmp/spot.npy"
mapfile -t many < <(yes "$tmp/spot.npy" | head -n 99)
many_faces() { find_face "${many[@]}" | wc -l; }
expect 0 '^99$' "find in many pictures" many_faces
expect 1 'black.npy: no face was found' "no face" find_face "$tmp/black.npy"
expect 1 'has 4 channels' "a face in four channels" find_face "$tmp/four.npy"
expect 1 'no .npy file' "a face in a text" find_face "$tmp/text.safetensors"
expect 1 'zenith-find' "find with weights of something else" "$zenith" find --weights "$enc" "$tmp/spot.npy"
expect 2 'find takes pictures' "find without a picture" "$zenith" find
# Wrong weight files of the finder: error messages.
hostile() { sed "$1" "$golden/find-spot.safetensors" >"$tmp/hostile.safetensors"; "$zenith" find --weights "$tmp/hostile.safetensors" "$tmp/spot.npy"; }
expect 1 'threshold of zenith-find' "a threshold that is no number" hostile 's/"threshold":"0.5"/"threshold":"nan"/'
expect 1 'do not form blocks' "a convolution too few" hostile 's/detect.conv2/detect.conv9/g'
expect 1 'points.conv3 is missing' "a hole in the second network" hostile 's/points.conv3/points.con_3/g'
# The time of an edit, with a tiny network.
mkdir "$tmp/edit"
cp "$golden/find-spot.safetensors" "$tmp/edit/zenith-find.safetensors"
"$zenith" convert "$weights/diffae-cls.ckpt" "$tmp/edit/zenith-face.attributes.safetensors" >/dev/null
cp "$golden/diffae.ckpt" "$tmp/edit/zenith-face.ckpt"
face_edit() { ZENITH_MODELS=$tmp/edit "$zenith" bench face-edit "$@"; }
expect 0 'no face in any of four turns: its middle is edited' "bench face-edit" face_edit --size 101x77
expect 0 '128x128, a face was found' "bench face-edit of a picture" face_edit "$tmp/spot.npy"
also '^loaded, median of [0-9]+ .*shown after [0-9.]+, edited after [0-9.]+ ms' "bench face-edit tells both times"
also '^computed by [a-z0-9]+ fp32, a picture' "bench face-edit says what the networks compute in"
also '^of load: engine [0-9.]+  networks [0-9.]+ ms' "bench face-edit says what loading is made of"
expect 1 'has 4 channels' "bench face-edit of four channels" face_edit "$tmp/four.npy"
expect 1 "no weights 'zenith-face'" "bench face-edit without weights" env ZENITH_MODELS="$tmp" HOME="$tmp" "$zenith" bench face-edit
expect 1 'There is no attribute' "bench face-edit with the attributes of another model" \
  env ZENITH_MODELS="$here/models" "$zenith" bench face-edit --weights "$golden/diffae.ckpt" "$tmp/spot.npy"
expect 2 'face-edit takes' "bench face-edit of two pictures" face_edit "$tmp/spot.npy" "$tmp/spot.npy"
# The edit itself, on files.
name=$(grep -ao '"names":"[^,"]*' "$tmp/edit/zenith-face.attributes.safetensors" | cut -d'"' -f4)
face() { ZENITH_MODELS=$tmp/edit "$zenith" face "$@" --set steps=4 --set stochastic-steps=4; }
expect 0 '' "face" face "$tmp/spot.npy" "$tmp/edited.npy" attribute="$name" amount=1
expect 0 '' "something changes" sh -c "! cmp -s '$tmp/spot.npy' '$tmp/edited.npy'"
expect 0 '' "face: by options" face "$tmp/spot.npy" "$tmp/same.npy" --set attribute="$name" --set amount=1
expect 0 '' "the same" cmp "$tmp/edited.npy" "$tmp/same.npy"
expect 0 '' "face: nothing" face "$tmp/spot.npy" "$tmp/same.npy" attribute="$name" amount=0
expect 0 '' "nothing changes" cmp "$tmp/spot.npy" "$tmp/same.npy"
expect 0 'MiB of weights' "face: reconstruct, progress" face "$tmp/spot.npy" "$tmp/drawn.ppm" mode=reconstruct --progress
expect 0 '^128 128$' "of the input's size" head -n 2 "$tmp/drawn.ppm"
expect 0 '' "face: a strip" face "$tmp/spot.npy" "$tmp/strip.ppm" mode=interpolate strip=3 find=none --in "second=$tmp/black.npy"
expect 0 '^384 128$' "three pictures wide" head -n 2 "$tmp/strip.ppm"
expect 0 '' "face: a new one" face "$tmp/new.ppm" mode=sample seed=4 latent-steps=4
expect 0 '^32 32$' "of the model's size" head -n 2 "$tmp/new.ppm"
expect 1 'No face was found' "face: none" face "$tmp/black.npy" "$tmp/x.npy" attribute="$name" amount=1
expect 1 'No face was found in the second' "face: none in the second" face "$tmp/spot.npy" "$tmp/x.npy" mode=interpolate --in "second=$tmp/black.npy"
expect 1 "There is no attribute 'beards'; there are: " "face: no such attribute" face "$tmp/spot.npy" "$tmp/x.npy" attribute=beards amount=1
expect 1 'outside the picture' "face: a frame outside" face "$tmp/spot.npy" "$tmp/x.npy" mode=reconstruct frame-x=500 frame-size=60
expect 1 'has 4 channels' "face: four channels" face "$tmp/four.npy" "$tmp/x.npy" attribute="$name" amount=1
expect 1 'written as' "face: an unknown format" face "$tmp/spot.npy" "$tmp/x.gif" attribute="$name" amount=1
expect 2 "mode must be manipulate.*, not 'paint'" "face: no such mode" face "$tmp/spot.npy" "$tmp/x.npy" mode=paint
expect 2 'amount comes after an attribute' "face: an amount alone" face "$tmp/spot.npy" "$tmp/x.npy" amount=1
expect 2 "amount must be a number from -1 to 1, not '2'" "face: too much" face "$tmp/spot.npy" "$tmp/x.npy" attribute="$name" amount=2
expect 2 "has no setting 'grin'; it has mode," "face: no such setting" face "$tmp/spot.npy" "$tmp/x.npy" grin=1
expect 1 "There is no attribute 'gender'; there are: " "face: a slider without its attribute" face "$tmp/spot.npy" "$tmp/x.npy" gender=1
expect 2 'zenith face .IN. OUT' "face: one file" face "$tmp/spot.npy"
expect 2 'is for mode=interpolate' "face: a second picture of no use" face "$tmp/spot.npy" "$tmp/x.npy" --in "second=$tmp/black.npy"
expect 2 'takes a second picture: --in second=' "face: no second picture" face "$tmp/spot.npy" "$tmp/x.npy" mode=interpolate
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
