#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# foreign.sh CACHE SECONDS [FOLDER] - the readers on x86-64, where an integer division by zero traps: on that machine the
# other parts of ./run attack already run there; elsewhere in emulation, built here with division by zero trapped in our
# code too, against Debian's own libraries for it, which are unpacked below CACHE (450 MB; no root, nothing installed).
# FOLDER keeps what broke something.
set -u
cache=${1:?usage: foreign.sh CACHE SECONDS [FOLDER]} seconds=${2:?usage: foreign.sh CACHE SECONDS [FOLDER]}
source=$(cd "$(dirname "$0")/../.." && pwd)
kept=${3:-$cache/attack-x86_64}
arch=x86_64-linux-gnu
world=$cache/root-amd64
packages="libc6-dev libgegl-dev libgexiv2-dev libpng-dev libjpeg-dev libtiff-dev libwebp-dev zlib1g-dev"
skip() { echo "skip x86-64: $1" && echo "0 passed, 0 failed, 1 skipped" && exit 0; }
passed=0 failed=0
tally() { # LOG: adds up the last line of a program
  local line
  line=$(grep -E '^[0-9]+ passed, ' "$1" | tail -n 1)
  if [ -z "$line" ]; then
    echo "not ok x86-64: it did not get to its end: $(tail -n 1 "$1")"
    failed=$((failed + 1))
    return
  fi
  passed=$((passed + ${line%% passed*}))
  line=${line#*, }
  failed=$((failed + ${line%% failed*}))
}

[ "$(uname -m)" != x86_64 ] || skip "the other parts ran on it"
command -v qemu-x86_64 >/dev/null || skip "there is no qemu-user"
command -v $arch-gcc >/dev/null || skip "there is no gcc-x86-64-linux-gnu"
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || skip "this is no Debian, whose packages are used"

# ---- Debian's libraries for x86-64 -----------------------------------------------------------------------------------

unpack() {
  local options deb link to
  rm -rf "$world.new"
  mkdir -p "$world.new/lists/partial" "$world.new/archives/partial" "$world.new/root"
  : >"$world.new/status"
  options="-q -o Dir::State::lists=$world.new/lists -o Dir::Cache=$world.new -o Dir::State::status=$world.new/status
    -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Sandbox::User= -o APT::Install-Recommends=false -o Debug::NoLocking=1"
  apt-get $options update && apt-get $options -y --download-only install $packages || return 1
  for deb in "$world.new"/archives/*.deb; do
    dpkg-deb -x "$deb" "$world.new/root" || return 1
  done
  find "$world.new/root" -type l -lname '/*' | while read -r link; do # they mean this folder, not this machine's
    to=$(readlink "$link")
    ln -snf "$(realpath -m --relative-to="$(dirname "$link")" "$world.new/root$to")" "$link"
  done
  mv "$world.new/root" "$world" && rm -rf "$world.new"
}
[ -d "$world" ] || unpack >"$cache/root-amd64.log" 2>&1 || skip "its libraries cannot be had (see $cache/root-amd64.log)"

# ---- built for it -----------------------------------------------------------------------------------------------------

build=$cache/build-x86_64
cat >"$cache/cross-amd64.ini" <<TEXT
[binaries]
c = '$arch-gcc'
ar = '$arch-ar'
strip = '$arch-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-x86_64', '-cpu', 'max', '-L', '$world']
[properties]
sys_root = '$world'
pkg_config_libdir = '$world/usr/lib/$arch/pkgconfig:$world/usr/share/pkgconfig'
[built-in options]
c_args = ['--sysroot=$world', '-fsanitize=integer-divide-by-zero', '-fsanitize-undefined-trap-on-error', '-g1']
c_link_args = ['--sysroot=$world', '-Wl,-rpath-link,$world/lib/$arch', '-Wl,-rpath-link,$world/usr/lib/$arch']
[host_machine]
system = 'linux'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
TEXT
{
  [ -f "$build/build.ninja" ] || meson setup "$build" "$source" --cross-file "$cache/cross-amd64.ini" -Dgimp2=disabled -Dgimp3=disabled \
    -Dcuda=disabled || exit 1
  ninja -C "$build" tests/attack_readers tests/attack_files tests/test_costs
} >"$cache/build-x86_64.log" 2>&1 || { echo "not ok x86-64: it cannot be built; see $cache/build-x86_64.log"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# ---- run --------------------------------------------------------------------------------------------------------------

emulate() { QEMU_LD_PREFIX=$world qemu-x86_64 -cpu max -L "$world" -E "LD_LIBRARY_PATH=$world/usr/lib/$arch:$world/lib/$arch" "$@"; }
export BABL_PATH=$world/usr/lib/$arch/babl-0.1 GEGL_PATH=/nowhere
mkdir -p "$kept"
log=$cache/attack-x86_64.log

# The check itself must be able to fail.
printf 'int main(int n, char **v) { return (int)(long)v / (n - 1); }\n' >"$cache/divide.c"
$arch-gcc --sysroot="$world" -O0 -o "$cache/divide" "$cache/divide.c" 2>"$log"
(emulate "$cache/divide") >/dev/null 2>&1
if [ $? = 136 ]; then
  echo "ok x86-64: a division by zero ends a program" && passed=$((passed + 1))
else
  echo "not ok x86-64: a division by zero ends no program" && failed=$((failed + 1))
fi
for part in "tests/test_costs" \
  "tests/attack_files $kept $((seconds * 6 / 10 + 1)) batch-png batch-jpeg batch-tiff batch-webp batch-costly" "tests/attack_readers $kept $((seconds * 4 / 10 + 1))"; do
  emulate "$build"/$part >"$log" 2>&1
  grep -vE ' passed, |^ok ' "$log"
  tally "$log"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
