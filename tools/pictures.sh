#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pictures.sh - makes the pictures of README.md: docs/images/before-after.jpg and docs/images/gimp.png.
# Needs what `./run demo` and `./run test` install.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
mkdir -p docs/images
[ -s out/contact-sheet.png ] || ./run demo
tiles=()
crop() { tiles+=('(' "$1" -crop "$2" +repage -set label "$3" ')'); } # at 100 %
crop out/astronaut-noisy.png 256x192+150+30 "noise added"
crop out/astronaut-denoise-fast.png 256x192+150+30 "denoise, fast"
crop out/astronaut-denoise-balanced.png 256x192+150+30 "denoise, balanced"
crop samples/astronaut.png 256x192+150+30 "the original"
crop out/chelsea-noisy.png 256x192+80+50 "noise added"
crop out/chelsea-denoise-fast.png 256x192+80+50 "denoise, fast"
crop out/chelsea-denoise-balanced.png 256x192+80+50 "denoise, balanced"
crop samples/chelsea.png 256x192+80+50 "the original"
montage -font /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf "${tiles[@]}" -tile 4x -geometry +4+4 -background white -quality 88 docs/images/before-after.jpg
ZENITH_BUILD=$root/build ZENITH_MODELS=$root/models ZENITH_PRESETS=$root/presets tests/plugin/screenshot.sh docs/images/gimp.png
ls -l docs/images
