#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# worlds.sh BUILD - odd surroundings: a FIFO where a file is expected, OUT inside IN, a clock that jumps, a full /tmp, no
# threads to be had, shards and MLX files that are not what they say.  Each ends with its result or its sentence.
set -u
. "$(dirname "$0")/programs.sh"
mkdir -p "$out"

# expect NAME STATUS PATTERN COMMAND...: within two minutes, with that exit status and a line like this.
expect() {
  local name=$1 want=$2 pattern=$3 got=0
  shift 3
  timeout -k 5 120 "$@" >"$tmp/said" 2>&1 </dev/null || got=$?
  if [ "$got" != "$want" ]; then
    not_ok "$name" "exit status $got, not $want: $(tail -n 2 "$tmp/said" | tr '\n' ' ')"
  elif [ -n "$pattern" ] && ! grep -qaE -- "$pattern" "$tmp/said"; then
    not_ok "$name" "nothing like '$pattern': $(tail -n 2 "$tmp/said" | tr '\n' ' ')"
  else
    ok "$name"
  fi
}

# ---- a FIFO where a file is expected ---------------------------------------------------------------------------------

p=$tmp/pipes
no_file='not a file but a folder, a device, a pipe'
mkdir "$p" "$p/pictures" "$p/shards"
for f in x.npy prompt.txt tokenizer.json x.png x.jpg x.safetensors x.pth x.gguf shards/m.safetensors.index.json \
  shards/m-00001-of-00001.safetensors pictures/a.png pictures/b.jpg; do
  mkfifo "$p/$f"
done
echo "a cat" >"$tmp/prompt.txt"
good=$root/tests/data/text/tokenizer.json
expect "FIFO: an array" 1 "$no_file" "$zenith" run denoise-fast --in "x=$p/x.npy" --out "y=$out/y.npy"
expect "FIFO: a prompt" 1 "$no_file" "$zenith" run z-image-tokens --weights "$good" --in "prompt=$p/prompt.txt" --out "tokens=$out/t.npy"
expect "FIFO: a tokenizer" 1 "$no_file" "$zenith" run z-image-tokens --weights "$p/tokenizer.json" --in "prompt=$tmp/prompt.txt" --out "tokens=$out/t.npy"
for f in x.safetensors x.pth x.gguf shards/m.safetensors.index.json; do
  expect "FIFO: weights, $f" 1 "$no_file" "$zenith" info "$p/$f"
done
expect "FIFO: weights, a folder of them" 1 "$no_file" "$zenith" info "$p/shards"
expect "FIFO: pictures to train with" 1 'no PNG or JPEG picture' "$zenith" train zenith-ae --pictures "$p/pictures" --base 4 --size 32 \
  --batch 1 --steps 1 --out "$out/w.safetensors"
expect "FIFO: pictures to teach with" 1 "zenith: " "$zenith" teach thing --with "$p/pictures" --without "$p/pictures" --whole \
  --weights "$golden/diffae.ckpt" --out "$out/thing.attributes.safetensors"
expect "FIFO: a folder of a model that lacks all" 1 . "$zenith" info z-image "$p"
mkfifo "$tmp/models/denoise-best.safetensors"
expect "FIFO: an installed model" 1 'no weights' "$zenith" run denoise-best --in "x=$tmp/x.npy" --out "y=$out/y.npy"

have_batch=
[ ! -x "$batch" ] || ! command -v convert >/dev/null || have_batch=1
if [ -n "$have_batch" ]; then
  go="$batch --model fast --set sigma=30"
  convert "$root/docs/samples/chelsea.png" -resize '64x48!' -strip "PNG24:$tmp/in/a.png"
  convert "$tmp/in/a.png" -quality 90 "$tmp/in/b.jpg"
  expect "FIFO: pictures" 1 'x.png: it is not a regular file' $go "$p/x.png" "$p/x.jpg" "$out"
  mkdir "$tmp/journal"
  mkfifo "$tmp/journal/.zenith-batch"
  expect "FIFO: a journal" 2 'zenith-batch is not a regular file' $go "$tmp/in" "$tmp/journal"
  mkdir "$tmp/presets"
  cp "$root"/presets/*.preset "$tmp/presets" && mkfifo "$tmp/presets/pipe.preset"
  expect "FIFO: a preset" 0 'pipe.preset.*not a regular file' env ZENITH_PRESETS="$tmp/presets" "$batch" --list-presets
  if command -v gegl >/dev/null; then
    with_gegl="env GEGL_PATH=$build/gegl-ops:$(pkg-config --variable=pluginsdir gegl-0.4) gegl $tmp/in/a.png -o $out/g.png --"
    expect "FIFO: an operation's weights" 0 "$no_file" $with_gegl zenith:latent-preview weights="$p/x.safetensors"
    expect "FIFO: an operation's second picture" 0 'zenith:' $with_gegl zenith:diffae-interpolate path="$p/x.png"
  fi
  mkdir "$tmp/prompts"
  mkfifo "$tmp/prompts/a.txt"
  expect "FIFO: prompts in a folder" 2 'zenith-batch: ' "$batch" --operation zenith:z-image "$tmp/prompts" "$tmp/none"

  # ---- OUT inside IN -------------------------------------------------------------------------------------------------

  cp -r "$tmp/in" "$tmp/album"
  for options in "" --recursive; do
    rm -rf "$tmp/album/out"
    expect "OUT inside IN $options" 0 '^2 done, 0 done before, 0 skipped' $go $options "$tmp/album" "$tmp/album/out"
    expect "OUT inside IN $options: again" 0 '^0 done, 2 done before, 0 skipped' $go $options "$tmp/album" "$tmp/album/out"
    mkdir -p "$tmp/album/far"
    rm -rf "$tmp/album/out"
    expect "OUT deep inside IN $options" 0 '^2 done, 0 done before, 0 skipped' $go $options "$tmp/album" "$tmp/album/far/out"
    rm -rf "$tmp/album/far"
  done
  expect "IN is OUT" 2 'cannot be the folder for the results too' $go "$tmp/album" "$tmp/album"
  ln -s "$tmp/album" "$tmp/album-link"
  expect "IN is OUT, by a link" 2 'cannot be the folder for the results too' $go "$tmp/album" "$tmp/album-link"
  expect "IN inside OUT" 0 '^2 done' $go "$tmp/in" "$tmp"
else
  skip "FIFO: zenith-batch; OUT inside IN" "this build has no zenith-batch, or there is no ImageMagick"
fi

# ---- a clock that jumps, no threads ------------------------------------------------------------------------------------

if [ -f "$build/tests/libodd_world.so" ] && ! nm "$zenith" 2>/dev/null | grep -q __asan_init; then
  jumps="env LD_PRELOAD=$build/tests/libodd_world.so ZN_CLOCK_JUMPS=1"
  expect "a clock that jumps: training" 0 . $jumps "$zenith" train zenith-ae --base 4 --size 32 --batch 1 --steps 2 --threads 2 \
    --out "$out/w.safetensors"
  expect "a clock that jumps: a run" 0 '' $jumps "$zenith" run denoise-fast --set sigma=9 --progress --in "x=$tmp/x.npy" --out "y=$out/y.npy"
  for n in 0 1; do
    expect "$n threads: a run" 0 '' env LD_PRELOAD="$build/tests/libodd_world.so" ZN_THREADS=$n "$zenith" run denoise-fast --threads 4 \
      --set sigma=9 --in "x=$tmp/x.npy" --out "y=$out/y.npy"
  done
  if [ -n "$have_batch" ]; then
    expect "a clock that jumps: a batch" 0 '^2 done' $jumps $go "$tmp/in" "$tmp/jumped"
    expect "a clock that jumps: nothing is left to do" 0 '^0 done, 2 done before' $jumps $go "$tmp/in" "$tmp/jumped"
    for n in 0 1 2 3 4; do
      rm -rf "$tmp/few"
      timeout 120 env LD_PRELOAD="$build/tests/libodd_world.so" ZN_THREADS=$n $go "$tmp/in" "$tmp/few" >"$tmp/said" 2>&1
      case "$?: $(tail -n 1 "$tmp/said")" in
        "0: 2 done"* | "2: zenith-batch: no thread can be started"*) ok "$n threads: a batch" ;;
        *) not_ok "$n threads: a batch" "$(tail -n 1 "$tmp/said")" ;;
      esac
    done
  fi
else
  skip "a clock that jumps, no threads" "needs libodd_world.so, and a build without sanitizers"
fi

# ---- a full /tmp -------------------------------------------------------------------------------------------------------

# A /tmp of its own, without room for a byte; what is read and written is elsewhere.
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs -o size=4k tmpfs /mnt 2>/dev/null && elsewhere=$(mktemp -d /var/tmp/zenith-XXXXXX); then
  cp -r "$tmp/." "$elsewhere"
  full() { # COMMAND...: the command's ${tmp} paths are below $elsewhere
    unshare -m sh -c 'mount -t tmpfs -o size=4k tmpfs /tmp && { head -c 8k /dev/zero >/tmp/filler 2>/dev/null; exec "$@"; }' sh \
      env ZENITH_MODELS="$elsewhere/models" XDG_DATA_HOME="$elsewhere/data" XDG_CACHE_HOME="$elsewhere/cache" \
      GEGL_PATH="$build/gegl-ops:$(pkg-config --variable=pluginsdir gegl-0.4 2>/dev/null)" "$@"
  }
  export -f full
  export elsewhere build
  expect "a full /tmp: a run" 0 '' bash -c 'full "$@"' sh "$zenith" run denoise-fast --set sigma=9 --in "x=$elsewhere/x.npy" --out "y=$elsewhere/y.npy"
  expect "a full /tmp: the result there" 1 'No space left' bash -c 'full "$@"' sh "$zenith" run denoise-fast --set sigma=9 \
    --in "x=$elsewhere/x.npy" --out "y=/tmp/y.npy"
  if [ -n "$have_batch" ]; then
    expect "a full /tmp: a batch" 0 '^2 done' bash -c 'full "$@"' sh $go "$elsewhere/in" "$elsewhere/full-out"
    expect "a full /tmp: a batch into it" 1 'No space left' bash -c 'full "$@"' sh $go "$elsewhere/in" /tmp/out
  fi
  rm -rf "$elsewhere"
else
  skip "a full /tmp" "only root can mount a small one"
fi

# ---- shards and MLX ----------------------------------------------------------------------------------------------------

# shards NAME PATTERN INDEX: `zenith info` of an index with the two shards of tests/data beside it.
cp -r "$root/tests/data/weights/shards" "$tmp/set"
shards() {
  printf '%s' "$3" >"$tmp/set/s.safetensors.index.json"
  expect "shards: $1" 1 "$2" "$zenith" info "$tmp/set/s.safetensors.index.json"
}
expect "shards: as they are" 0 . "$zenith" info "$tmp/set/s.safetensors.index.json"
ln -s /dev/zero "$tmp/set/zero.safetensors"
mkfifo "$tmp/set/pipe.safetensors"
shards "one that is a device" "$no_file" '{"weight_map":{"t":"zero.safetensors"}}'
shards "one that is a pipe" "$no_file" '{"weight_map":{"t":"pipe.safetensors"}}'
shards "one that is missing" 'No such file' '{"weight_map":{"t":"none.safetensors"}}'
shards "outside of the folder" . '{"weight_map":{"t":"../x.safetensors"}}'
shards "an absolute path" . '{"weight_map":{"t":"/etc/passwd"}}'
shards "the index itself" . '{"weight_map":{"t":"s.safetensors.index.json"}}'
shards "a tensor that is not there" 'is not in' '{"weight_map":{"no such":"s-00001-of-00002.safetensors"}}'
shards "no map" . '{"metadata":{}}'
# mlx NAME STATUS WEIGHT SCALES BIASES: a matrix of two rows; the shapes of its three tensors, of 4, 2 and 2 bytes each.
mlx() {
  local head size
  head="{\"m.weight\":{\"dtype\":\"U32\",\"shape\":$3,\"data_offsets\":[0,32]},\"m.scales\":{\"dtype\":\"F16\",\"shape\":$4,\"data_offsets\":[32,36]},\"m.biases\":{\"dtype\":\"F16\",\"shape\":$5,\"data_offsets\":[36,40]}}"
  size=${#head}
  { printf "\\x$(printf %02x $((size % 256)))\\x$(printf %02x $((size / 256)))\\0\\0\\0\\0\\0\\0%s" "$head"; head -c 40 /dev/zero; } >"$tmp/mlx.safetensors"
  expect "MLX: $1" "$2" . "$zenith" info "$tmp/mlx.safetensors"
}
mlx "as it is" 0 "[2,4]" "[2,1]" "[2,1]"
mlx "scales of another shape" 0 "[2,4]" "[1,2]" "[2,1]"
mlx "scales that are too many" 1 "[2,4]" "[2,4000000000]" "[2,1]"
mlx "a shape that wraps" 1 "[4294967296,4294967296]" "[2,1]" "[2,1]"
mlx "a row of no words" 1 "[2,0]" "[2,1]" "[2,1]"
finish
