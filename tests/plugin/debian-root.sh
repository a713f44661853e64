#!/bin/sh
# SPDX-License-Identifier: MIT
#
# debian-root.sh DIR [--pack | --copy PATH] - a Debian 13 root with GIMP 3, for tests on a
# machine that has another Debian; or
#   ZENITH_ROOT_RELEASE   another release; sid: unstable
# and, for the test of the packages,
#   ZENITH_ROOT_PACKAGES  other packages than what building Zenith needs
#
# Needs:  root, the network, apt, about 1.7 GB of disk, three to four minutes.
# Makes:  DIR, a directory for chroot.  Nothing is mounted into it.
#         With --pack also DIR.tar.zst (about 320 MB), which a later call
#         unpacks in seconds if DIR is gone.
#         With --copy the source as it is, in DIR/PATH; what lay there is deleted.
# Keeps:  a DIR that is ready (and has today's package list) is left as it is.
# Exit:   0 ready; 77 it cannot be made here, with the reason on stdout;
#         1 it was begun and failed, with the log's name on stderr.
#
# Where packages come from is the host's own apt configuration, its release
# name replaced by trixie: mirrors and proxies of the machine stay in use.

set -uf # no word here is a pattern of files

release=${ZENITH_ROOT_RELEASE:-trixie}
packages='ca-certificates gimp libgimp-3.0-dev libgegl-dev gegl meson ninja-build
  pkg-config gcc g++ libc6-dev imagemagick xvfb xauth xdotool openbox x11-utils
  gettext libgexiv2-dev libpng-dev libjpeg-dev libtiff-dev libwebp-dev libimage-exiftool-perl xxd file locales'
packages=${ZENITH_ROOT_PACKAGES:-$packages}
# documents and translations only take room, unless they are what is tested
without=${ZENITH_ROOT_PACKAGES:+--dpkgopt=path-include=/usr/*}
without=${without:---dpkgopt=path-exclude=/usr/share/man/* --dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-exclude=/usr/share/locale/*}

dir=${1:?usage: debian-root.sh DIR [--pack | --copy PATH]}
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
pack=${2:-} copy=${3:-}
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
stamp=$dir/.zenith-root
log=$dir.log
want=$(echo $release $packages)

cannot () { echo "cannot make a Debian root: $*"; exit 77; }

ready () { [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; }

pack_it () {
  [ "$pack" = --pack ] && [ ! -e "$dir.tar.zst" ] || return 0
  tar -C "$dir" --one-file-system --exclude=./zenith -cf "$dir.tar.zst.part" -I 'zstd -T0 -3' . &&
    mv "$dir.tar.zst.part" "$dir.tar.zst"
}

copy_it () {
  [ "$pack" = --copy ] || return 0
  mkdir -p "$dir/$copy" && find "$dir/$copy" -mindepth 1 -delete
  tar -C "$source_dir" --exclude=./.git --exclude=./.cache --exclude=./.carry \
    --exclude='./build*' --exclude=./out -cf - . | tar -C "$dir/$copy" -xf -
}

# Newer GTK reads its symbols in a sandbox of bubblewrap, which needs mounts that this root has not: the same without one.
without_sandbox () {
  [ ! -e "$dir/usr/bin/bwrap" ] || cat >"$dir/usr/bin/bwrap" <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --setenv) export "$2=$3"; shift 3 ;;
    --*bind* | --symlink) shift 3 ;;
    --dev | --proc | --tmpfs | --dir | --chdir | --seccomp) shift 2 ;;
    --*) shift ;;
    *) exec "$@" ;;
  esac
done
END
}

if ready; then pack_it && copy_it; exit; fi

[ "$(id -u)" = 0 ] || cannot "chroot and package installation need root"
command -v apt-get >/dev/null || cannot "this machine has no apt"

if [ -e "$dir.tar.zst" ] && [ ! -e "$dir" ]; then
  mkdir -p "$dir" && tar -C "$dir" -xf "$dir.tar.zst" -I zstd && ready && copy_it && exit 0
  rm -rf "$dir"
fi

# A root left half made is of no use; only one that bears our stamp, or that a
# broken run left behind (log next to it), is ours to remove.
if [ -e "$dir" ]; then
  [ -e "$stamp" ] || [ -e "$log" ] ||
    cannot "$dir exists and was not made by this script"
  rm -rf "$dir"
fi
mkdir -p "$(dirname "$dir")"

if ! command -v mmdebstrap >/dev/null; then
  apt-get install -y --no-install-recommends mmdebstrap >"$log" 2>&1 ||
    cannot "mmdebstrap is not installed and apt cannot install it (see $log)"
fi
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || cannot "the package debian-archive-keyring is missing"

host=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$host" ] || cannot "/etc/os-release names no release"
sources=$(mktemp) && trap 'rm -f "$sources" "$sources.opt"' EXIT
apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
  awk -v host="$host" -v release="$release" -v key="$keyring" '
    (release == "sid" ? $2 == host : index ($2, host) == 1) && !seen[$0]++ { # unstable has no updates beside it
      sub ("^" host, release, $2)
      print "deb [signed-by=" key "] " $1 " " $2 " " $3
    }' >"$sources"
grep -q " $release main\$" "$sources" ||
  cannot "apt on this machine has no source for '$host main' to derive $release from"
apt-config dump 2>/dev/null | grep -iE '^Acquire::(http|https|ftp)::.*Proxy' >"$sources.opt"

# unstable changes daily, and a mirror may stand still; signatures are checked all the same
[ "$release" != sid ] || echo 'Acquire::Check-Valid-Until "false";' >>"$sources.opt"

echo "making a root of $release in $dir (three to four minutes, log $log)" >&2
if ! mmdebstrap --mode=root --variant=apt --include="$(echo $packages | tr ' ' ,)" \
       --aptopt='Apt::Install-Recommends "false"' --aptopt="$sources.opt" $without \
       "$release" "$dir" "$sources" >"$log" 2>&1; then
  if grep -qiE 'could not resolve|failed to fetch|unable to (connect|fetch)|connection (refused|timed out)' "$log"; then
    rm -rf "$dir"
    cannot "the package archive cannot be reached (see $log)"
  fi
  echo "debian-root.sh: failed, see $log" >&2
  tail -5 "$log" >&2
  exit 1
fi
chroot "$dir" gegl --version >>"$log" 2>&1 ||
  { echo "debian-root.sh: gegl does not start in $dir, see $log" >&2; exit 1; }
without_sandbox || exit 1
echo "$want" >"$stamp"
pack_it && copy_it
