#!/bin/sh
# SPDX-License-Identifier: MIT
#
# fresh-root.sh DIR - a root of this machine's own Debian release with GIMP and gegl, for the test of the packages.
#
# Needs:  root, apt, mmdebstrap or the network to get it; about a gigabyte; two minutes.
# Keeps:  a DIR that is ready is left as it is.
# Exit:   0 ready; 77 it cannot be made here, with one sentence on stdout why; 1 it failed, with the log's name on stderr.

set -u
dir=${1:?usage: fresh-root.sh DIR}
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
log=$dir.log

cannot () { echo "cannot make a fresh root: $*"; exit 77; }

[ ! -e "$dir/.zenith-root" ] || exit 0
[ "$(id -u)" = 0 ] || cannot "chroot and package installation need root"
command -v apt-get >/dev/null || cannot "this machine has no apt"
[ ! -e "$dir" ] || [ -e "$log" ] || cannot "$dir exists and was not made by this script"
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
command -v mmdebstrap >/dev/null || apt-get install -y --no-install-recommends mmdebstrap >"$log" 2>&1 ||
  cannot "mmdebstrap is not installed and apt cannot install it (see $log)"

release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || cannot "the package debian-archive-keyring is missing"
sources=$(mktemp) && trap 'rm -f "$sources" "$sources.opt"' EXIT
apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
  awk -v release="$release" -v key="$keyring" 'index ($2, release) == 1 && !seen[$0]++ { print "deb [signed-by=" key "] " $1 " " $2 " " $3 }' >"$sources"
grep -q " $release main\$" "$sources" || cannot "apt on this machine has no source for '$release main'"
apt-config dump 2>/dev/null | grep -iE '^Acquire::(http|https|ftp)::.*Proxy' >"$sources.opt"

if ! mmdebstrap --mode=root --variant=apt --include=gegl,gimp,libgexiv2-2 --aptopt='Apt::Install-Recommends "false"' --aptopt="$sources.opt" \
  "$release" "$dir" "$sources" >"$log" 2>&1; then
  grep -qiE 'could not resolve|failed to fetch|unable to (connect|fetch)|connection (refused|timed out)' "$log" &&
    { rm -rf "$dir"; cannot "the package archive cannot be reached (see $log)"; }
  echo "fresh-root.sh: failed, see $log" >&2
  exit 1
fi
: >"$dir/.zenith-root"
