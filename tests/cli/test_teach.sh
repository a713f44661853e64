#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_teach.sh ZENITH BUILD_TESTS - `zenith teach` as a user runs it, with a tiny autoencoder of random weights.
set -u
awk() { LC_ALL=C command awk "$@"; } # numbers have a point
zenith=$(realpath "$1")
maker=$(realpath "$2")/make_pictures
here=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
passed=0 failed=0
cd "$tmp" || exit 1
if [ ! -x "$maker" ]; then
  echo "skip teach: this build has no libpng"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
cp "$here/tests/data/golden/diffae.ckpt" tiny.ckpt
export ZENITH_MODELS=$tmp/models XDG_DATA_HOME=$tmp/data
unset ZENITH_ENGINE
mkdir light dark empty one models
"$maker" light 12 170 16 16 && "$maker" dark 12 80 16 16 && "$maker" one 1 80 16 16 || exit 1

result() { # result STATUS NAME WHY
  if [ "$1" -eq 0 ]; then
    echo "ok $2"
    passed=$((passed + 1))
  else
    echo "not ok $2: $3"
    failed=$((failed + 1))
  fi
}

# refused STATUS PATTERN NAME ARGUMENT...: that status, one line on stderr that matches, and no new attribute file.
refused() {
  local want=$1 pattern=$2 name=$3 got=0
  shift 3
  "$zenith" teach "$@" >/dev/null 2>err || got=$?
  [ "$got" -eq "$want" ] && grep -qE -- "$pattern" err && [ "$(wc -l <err)" -eq 1 ] && [ -z "$(find "$tmp" -name 'no*.attributes.safetensors*')" ]
  result $? "$name" "exit status $got, not $want, or not /$pattern/: $(head -c 300 err)"
}

teach() { "$zenith" teach "$@" --weights tiny.ckpt --whole >out 2>err; }
file=data/zenith/models/light.attributes.safetensors

teach light --with light --without dark
result $? "teach" "$(cat err)"
grep -qE '^light: 12 faces with, 12 without; AUROC [01]\.[0-9]{3} \+- 0\.[0-9]{3} on faces that were left out \(in 10 parts\)' out
result $? "it says how well it separates" "$(cat out)"
[ -s "$file" ]
result $? "the attribute is in the user's folder" "$(find . -name '*.attributes.*')"
"$zenith" info "$file" >info 2>&1 && grep -q '^F32 *\[1, 24\] directions' info && grep -q '^F32 *\[24\] std' info && grep -q '^F32 *\[1\] step' info && grep -q '^F32 *\[1\] guide' info
result $? "with directions, deviations, step and guidance" "$(cat info)"
# The last numbers: guide after the 24 of the direction, step at the end; 0.3 sqrt(24) of the way with guidance 2.
numbers=$(tail -c 296 "$file" | LC_ALL=C od -A n -t f4 -v | xargs)
echo "$numbers" | LC_ALL=C awk '{ exit !(NF == 74 && $25 == 2 && $74 > 1.469 && $74 < 1.47 && $1 != $26 && $26 != $50) }'
result $? "and their values" "$numbers"
grep -aq '"names":"light","model":"tiny"' "$file"
result $? "and says its name and its model" "$(head -c 100 "$file" | tr -d '\0')"
cp "$file" first
teach light --with light --without dark --threads 1 && cmp -s "$file" first
result $? "again: the same bits" "$(cat err)"
teach light --with dark --without light && ! cmp -s "$file" first
result $? "another lesson takes its place" "$(cat err)"

echo "this is a text" >light/broken.png
teach light --with light --without dark && grep -q 'broken.png is left out: it cannot be read' err && grep -q '12 faces with' out
result $? "a picture that cannot be read is left out" "$(cat out err)"
rm light/broken.png
mkdir wide && "$maker" wide 8 128 40 24
teach wide --with wide --without dark && grep -q '8 faces with' out
result $? "the middle of larger pictures" "$(cat out err)"
"$zenith" teach wide2 --with wide --without dark --weights tiny.ckpt >out 2>err && grep -q 'was not searched for' err
result $? "no finder: it says so" "$(cat out err)"
cp "$here/tests/data/golden/find-spot.safetensors" models/zenith-find.safetensors
"$zenith" teach nospot --with wide --without dark --weights tiny.ckpt >out 2>err
[ $? -eq 1 ] && grep -q '007.png is left out: no face was found' err && tail -n 1 err | grep -q 'no PNG or JPEG picture of a face in wide'
result $? "pictures without a face are left out" "$(cat out err)"

common=(--weights tiny.ckpt --whole)
refused 2 'takes a name and two folders' "no folder" nothing --with light
refused 1 'no PNG or JPEG picture of a face in empty' "an empty folder" nothing --with light --without empty "${common[@]}"
refused 1 'nowhere cannot be read' "no such folder" nothing --with nowhere --without dark "${common[@]}"
refused 1 '12 faces with and 1 without: it takes at least 5' "one picture" nothing --with light --without one "${common[@]}"
refused 1 'do not differ' "the same pictures twice" nothing --with light --without light "${common[@]}"
refused 1 'no name of an attribute' "a name with a slash" ../nothing --with light --without dark "${common[@]}"
refused 1 'no name of an attribute' "a name with a quote" 'no"thing' --with light --without dark "${common[@]}"
refused 1 'encoder' "weights of something else" nothing --with light --without dark --weights "$here/tests/data/golden/denoise.safetensors" --whole
refused 1 "no weights 'zenith-face'" "no weights" nothing --with light --without dark --whole
cp "$file" models/tiny.attributes.safetensors
refused 1 "tiny has an attribute 'light' already" "a name that is taken" light --with light --without dark "${common[@]}"
rm models/tiny.attributes.safetensors
cp "$file" before
(ulimit -f 0; trap '' XFSZ; exec "$zenith" teach light --with light --without dark "${common[@]}" >/dev/null 2>&1)
[ $? -eq 1 ] && cmp -s "$file" before && [ -z "$(find data -name '*.part')" ]
result $? "a full disk leaves the older file" "$(ls data/zenith/models)"
XDG_DATA_HOME=$tmp/tiny.ckpt refused 1 'cannot be made' "a folder that cannot be made" nothing --with light --without dark "${common[@]}"
# The shipped encoder sees brightness, so codes and sides are not mixed up on the way.
mkdir bright dim
"$maker" bright 10 180 128 128 && "$maker" dim 10 70 128 128 || exit 1
ZENITH_MODELS=$here/models "$zenith" teach bright --with bright --without dim --whole --out bright.attributes.safetensors >out 2>err &&
  grep -qE '^bright: 10 faces with, 10 without; AUROC (0\.9[5-9][0-9]|1\.000) ' out && [ -s bright.attributes.safetensors ]
result $? "brightness with the shipped model" "$(cat out err)"
ZENITH_MODELS=$here/models "$zenith" teach bright --with bright --without dim --out none.attributes.safetensors >out 2>err
[ $? -eq 1 ] && grep -q '009.png is left out: no face was found' err && [ ! -e none.attributes.safetensors ]
result $? "a picture of the model's size is not taken for a face" "$(cat out err)"
# The latent network of the same pictures; what it draws is a face of the model.
mkdir all
"$maker" all 24 120 16 16
"$zenith" convert tiny.ckpt tiny.safetensors --type fp32 >/dev/null 2>err &&
  "$zenith" train diffae-latent --pictures all --whole --weights tiny.safetensors --steps 5 --batch 8 --out mine.safetensors >out 2>err &&
  grep -q '^24 codes' err && grep -q 'held out: [0-9.]* before, [0-9.]* now' out &&
  "$zenith" face new.ppm mode=sample n=2 model=./mine.safetensors steps=2 latent-steps=2 2>err && [ -s new.ppm ]
result $? "a latent network is trained" "$(head -c 300 err)"
! "$zenith" train diffae-latent --pictures one --whole --weights tiny.safetensors --out no.safetensors >/dev/null 2>err && grep -q 'at least 20' err && [ ! -e no.safetensors ]
result $? "one face is too few" "$(head -c 300 err)"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
