#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# wine.sh PROGRAM.exe [ARGUMENT...] - runs a program for Windows on x86-64 that is below this tree.
#
# On x86-64 with Debian's wine.  Elsewhere, as root, with box64 and the wine of amd64, in a Debian 13 root that is made once
# (.cache/wine-root, 1.3 GB, some minutes); on aarch64, box64 has AVX2, and computes x87's 80 bits in 64.
# Exit: the program's; 77: it cannot be run here, with the reason.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$root/.cache/wine-root
export WINEDEBUG=${WINEDEBUG:--all}
cannot() { echo "wine.sh: $*" >&2 && exit 77; }

if [ "$(uname -m)" = x86_64 ]; then
  command -v wine >/dev/null || cannot "wine is not installed"
  exec wine "$@"
fi
[ "$(id -u)" = 0 ] || cannot "a Debian root with box64 needs root"
if [ ! -e "$dir/.ready" ]; then
  command -v mmdebstrap >/dev/null || cannot "mmdebstrap is not installed"
  mkdir -p "$root/.cache"
  mmdebstrap --mode=root --variant=apt --architectures="$(dpkg --print-architecture),amd64" \
    --include=box64,wine64:amd64,libgcc-s1:amd64,libstdc++6:amd64 --aptopt='Apt::Install-Recommends "false"' \
    trixie "$dir" >"$dir.log" 2>&1 || cannot "the root cannot be made, see $dir.log"
  # a script, which box64 does not see through
  printf '#!/bin/sh\nexec box64 /usr/lib/wine/wineserver64 "$@"\n' >"$dir/usr/lib/wine/wineserver"
  touch "$dir/.ready"
fi
mkdir -p "$dir$root" "$dir/tmp/home"
exec unshare -m sh -c '
  dir=$1 root=$2
  shift 2
  for d in /proc /sys /dev "$root"; do mount --bind "$d" "$dir$d" || exit 77; done
  exec chroot "$dir" env -i LC_ALL=C.UTF-8 PATH=/usr/bin:/bin HOME=/tmp/home WINEPREFIX=/tmp/home/wine WINEDEBUG="$WINEDEBUG" BOX64_LOG=0 BOX64_NOBANNER=1 \
    ZENITH_MODELS="${ZENITH_MODELS:-}" sh -c "cd \"\$1\" && shift && exec box64 /usr/lib/wine/wine64 \"\$@\"" x "$root" "$@"
' x "$dir" "$root" "$@"
