#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The examples of docs/latent.md, with the shipped weights: every line that begins with gegl, and the graph.
#
#   run_examples.sh BUILD_DIR [GEGL]
set -u
awk() { LC_ALL=C command awk "$@"; } # numbers have a point
build=$(cd "${1:?usage: run_examples.sh BUILD_DIR [GEGL]}" && pwd) || exit 2
gegl=${2:-gegl}
root=$(cd "$(dirname "$0")/../.." && pwd)
passed=0 failed=0 skipped=0

finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}
check() { # NAME WHY COMMAND...
  local name=$1 why=$2
  shift 2
  if "$@" >/dev/null 2>&1; then echo "ok $name" && passed=$((passed + 1)); else echo "not ok $name: $why" && failed=$((failed + 1)); fi
}
differ() { ! cmp -s "$1" "$2"; }

command -v "$gegl" >/dev/null || { echo "skip examples: there is no gegl command" && skipped=1 && finish; }
"$gegl" --exists gegl:mix gegl:tile gegl:tiff-load >/dev/null 2>&1 || { echo "skip examples: this GEGL lacks an operation" && skipped=1 && finish; }
tmp=$(mktemp -d) || exit 2
trap 'rm -r "$tmp"' EXIT
. "$root/tests/gegl/modules.sh"
gegl_modules "$tmp/gegl"
export GEGL_PATH="$build/gegl-ops:$tmp/gegl"
export ZENITH_MODELS="$root/models" XDG_DATA_HOME="$tmp/data" XDG_CACHE_HOME="$tmp/cache" GEGL_USE_OPENCL=no
mkdir "$tmp/cache"
cd "$tmp" || exit 2
run() {
  "$gegl" "$@" 2>&1 >/dev/null | grep -v -e 'GeglBuffers leaked' -e gegl_tile_cache_destroy -e '^$' >stderr
  status=${PIPESTATUS[0]}
}
run "$root/docs/samples/astronaut.png" -o a.png -- gegl:crop x=100 width=256 height=256 gegl:translate x=-100
run "$root/docs/samples/coffee.png" -o b.png -- gegl:crop width=256 height=256
run -o mask.png -- gegl:checkerboard x=128 y=128 color1=white color2=black gegl:crop width=256 height=256

mapfile -t lines < <(grep '^gegl ' "$root/docs/latent.md")
check "there are examples" "${#lines[@]} lines" test "${#lines[@]}" -ge 12
for line in "${lines[@]}"; do
  read -r -a words <<<"$line"
  out=$(sed 's/.*-o \([^ ]*\).*/\1/' <<<"$line")
  run "${words[@]:1}"
  check "$out" "stderr is: $(head -n 1 stderr)" test -s "$out" -a ! -s stderr
done
mv blend.png line.png
sed -n '/^```xml/,/^```/p' "$root/docs/latent.md" | grep -v '^```' >blend.xml
run -i blend.xml -o blend.png
check "the graph in a file gives the same picture" "$(head -n 1 stderr)" cmp line.png blend.png

# What the lines claim.
run a.png -o plain-a.png -- zenith:latent-encode zenith:latent-decode
run b.png -o plain-b.png -- zenith:latent-encode zenith:latent-decode
check "a reloaded latent is the same" "they differ" cmp plain-a.png reloaded.png
check "so are its planes" "they differ" cmp plain-a.png replaned.png
for name in blend sharper smoother masked crossed; do
  check "$name is another picture" "it is not" differ plain-a.png $name.png
done
blend() { # RATIO
  run a.png -o edge.png -- zenith:latent-encode planes=true gegl:mix "ratio=$1" aux=[ gegl:load path=b.png zenith:latent-encode planes=true ] zenith:latent-decode planes=true
}
blend 0
check "nothing of the second picture" "they differ" cmp plain-a.png edge.png
blend 1
check "nothing of the first picture" "they differ" cmp plain-b.png edge.png
line=$(grep '^gegl b.png -o masked.png' "$root/docs/latent.md")
read -r -a words <<<"$line"
rm mask.png masked.png
run -o mask.png -- gegl:color value=white gegl:crop width=256 height=256
check "a white mask" "status $status: $(tail -n 1 stderr)" test -s mask.png
run "${words[@]:1}"
check "a white mask: the first picture" "they differ, status $status: $(tail -n 1 stderr)" cmp plain-a.png masked.png
mv masked.png white.png
run -o mask.png -- gegl:color value=black gegl:crop width=256 height=256
run "${words[@]:1}"
check "a black mask: another one" "they are equal" differ white.png masked.png

psnr() { # MODEL
  ZENITH_VERBOSE=1 run a.png -o out.png -- zenith:latent-preview model="$1" mode=difference
  sed -n 's/.*PSNR \([0-9.]*\) dB.*/\1/p' stderr
}
for model in zenith zenith-lite zenith-tae zenith-f2; do
  value=$(psnr $model)
  check "$model keeps the picture" "PSNR '$value'" awk "BEGIN { exit !(${value:-0} > 25) }"
done
finish
