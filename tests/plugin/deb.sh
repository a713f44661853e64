#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deb.sh FOLDER VERSION - the packages of ./run deb in a fresh root: installed, used, removed, nothing left.
#
# Needs:  root; mmdebstrap and the network the first time (debian-root.sh); lintian and appstreamcli for their checks.
#         ZENITH_ROOT          the root's folder (default: .cache/fresh of the source)
#         ZENITH_ROOT_RELEASE  the release they are for (default: this machine's)
# Skips:  the root's tests if it cannot be made; lintian and AppStream where they are not installed.
# Time:   half a minute; the first time two minutes more.

set -u
. "$(dirname "$0")/lib.sh"
folder=${1:?the folder of the packages}
version=${2:?their version}
folder=$(cd "$folder" && pwd)
temporary=$(mktemp -d) && work=$temporary
arch=$(dpkg --print-architecture)
names='zenith libzenith-dev zenith-models gegl-zenith gimp-plugin-zenith'
debs=
for name in $names; do
  deb=$folder/${name}_${version}_$arch.deb
  [ "$name" != zenith-models ] || deb=$folder/${name}_${version}_all.deb
  check "made-$name" test -s "$deb"
  debs="$debs $deb"
done

if command -v lintian >/dev/null; then
  # what Debian's archive wants and a package outside of it cannot have
  lintian --allow-root --suppress-tags initial-upload-closes-no-bugs,bogus-mail-host,bad-distribution-in-changes-file,maintainer-address-malformed,bogus-mail-host-in-debian-changelog \
    --fail-on none $debs >"$work/lintian" 2>&1
  grep -E '^[EW]:' "$work/lintian" >"$work/lintian-bad"
  if [ -s "$work/lintian-bad" ]; then not_ok lintian "$(head -5 "$work/lintian-bad" | tr '\n' ' ')"; else ok lintian; fi
else
  skip lintian "it is not installed"
fi
if command -v appstreamcli >/dev/null; then
  dpkg-deb -x "$folder/gimp-plugin-zenith_${version}_$arch.deb" "$work/x"
  check appstream appstreamcli validate --no-net "$work"/x/usr/share/metainfo/*.xml
else
  skip appstream "appstreamcli is not installed"
fi

root=${ZENITH_ROOT:-$source_dir/.cache/fresh}
why=$(ZENITH_ROOT_RELEASE=${ZENITH_ROOT_RELEASE:-$(. /etc/os-release && echo "$VERSION_CODENAME")} ZENITH_ROOT_PACKAGES="gegl gimp libgexiv2-2" "$here/debian-root.sh" "$root")
case $? in
  0) ;;
  77) skip root "$why"; finish ;;
  *) not_ok root "it could not be made"; finish ;;
esac

# GIMP 3's own plug-ins in Python would leave their compiled modules beside them
inside () { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/home LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 "$@"; }
tree () { (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/log \
  -o -path ./var/cache \) -prune -o -print | sort); }
into () { log=$1; shift; "$@" >"$log" 2>&1 || { tail -3 "$log"; false; }; }

rm -rf "$root/tmp/home" "$root/tmp/debs"
mkdir -p "$root/tmp/home" "$root/tmp/debs"
inside dpkg --purge $names >/dev/null 2>&1
tree >"$work/before"
cp $debs "$root/tmp/debs/"
check installs into "$work/dpkg.log" inside sh -c 'dpkg -i /tmp/debs/*.deb'
check engine into "$work/engines.log" inside zenith engines
check models grep -q . "$work/engines.log"
image -size 96x64 gradient:orange-navy -seed 7 -attenuate 0.7 +noise Gaussian -depth 8 $plain "PNG24:$root/tmp/home/in.png"
inside sh -c 'cd /tmp/home && gegl in.png -o by-gegl.png -- zenith:denoise model=fast' >"$work/gegl.log" 2>&1
check filters-with-gegl changed "$root/tmp/home/in.png" "$root/tmp/home/by-gegl.png"
check filters-a-file into "$work/batch.log" inside zenith-batch --preset 'High ISO photo' /tmp/home/in.png /tmp/home/by-batch.png
check filtered changed "$root/tmp/home/in.png" "$root/tmp/home/by-batch.png"
if [ -x "$root/usr/bin/gimp-console-2.10" ]; then
  inside timeout 300 gimp-console-2.10 -i -d -f -b '(let* ((i (car (gimp-file-load 1 "/tmp/home/in.png" "in.png"))) (d (car (gimp-image-get-active-drawable i)))) (plug-in-zenith-apply-preset 1 i d "Strong") (gimp-file-save 1 i d "/tmp/home/by-gimp.png" "by-gimp.png"))' -b '(gimp-quit 0)' >"$work/gimp.log" 2>&1 </dev/null
else
  inside timeout 300 gimp-console-3.0 -i -d -f --quit --batch-interpreter plug-in-script-fu-eval -b '(script-fu-use-v3) (let* ((i (gimp-file-load 1 "/tmp/home/in.png"))) (plug-in-zenith-apply-preset #:run-mode 1 #:image i #:drawables (gimp-image-get-selected-drawables i) #:preset "Strong") (gimp-file-save 1 i "/tmp/home/by-gimp.png"))' >"$work/gimp.log" 2>&1 </dev/null
fi
check filters-in-gimp changed "$root/tmp/home/in.png" "$root/tmp/home/by-gimp.png"
check help-page test -s "$root/usr/share/doc/zenith/html/denoise.html"
check removes into "$work/purge.log" inside dpkg --purge $names
rm -rf "$root/tmp/home" "$root/tmp/debs"
tree >"$work/after"
check nothing-left diff "$work/before" "$work/after"

finish
