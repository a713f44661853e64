# SPDX-License-Identifier: MIT
# deb.sh - `./run deb` and `./run test-deb`, sourced by ./run.
#
#   zenith               the program, its manual page
#   libzenith-dev        the engine for C programs: static library, headers, pkg-config
#   zenith-models        the weights, for every architecture
#   gegl-zenith          the GEGL operations, zenith-batch, presets, translations
#   gimp-plugin-zenith   the plug-in for the GIMP of this release, help, AppStream data
#
# They are for the Debian release that they are built on.

deb_version() { echo "$(sed -n "s/^ *version: '\(.*\)',/\1/p" "$root/meson.build" | head -n 1)-1~deb${debian%%.*}"; }

# package NAME ARCHITECTURE SECTION DEPENDS SHORT LONG: what lies in $stage/NAME becomes a package in out/.
package() {
  local name=$1 arch=$2 section=$3 depends=$4 short=$5 long=$6 dir=$stage/$1 doc files shlibs=
  doc=$dir/usr/share/doc/$name
  mkdir -p "$doc" "$dir/DEBIAN"
  cp "$root/tools/deb-copyright" "$doc/copyright"
  printf 'zenith (%s) unstable; urgency=low\n\n  * Packages made by ./run deb; NEWS.md says what is new.\n\n -- The Zenith authors <zenith@localhost>  %s\n' \
    "$version" "$(LC_ALL=C date -R -u -d "@$stamp")" | gzip -9n >"$doc/changelog.Debian.gz"

  # no process substitution: a bare root has no /dev/fd
  mapfile -t files <<<"$(find "$dir/usr" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' _ {} \; -print)"
  if [ -n "${files[0]}" ]; then
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "${files[@]}"
    mkdir -p "$stage/shlibs/debian"
    printf 'Source: zenith\n\nPackage: %s\nArchitecture: any\n' "$name" >"$stage/shlibs/debian/control"
    shlibs=$(cd "$stage/shlibs" && dpkg-shlibdeps --warnings=0 -O "${files[@]/#/-e}" 2>>"$root/.cache/deb.log" | sed -n 's/^shlibs:Depends=//p')
  fi
  depends=$(printf '%s\n%s\n' "$shlibs" "$depends" | sed '/^$/d' | paste -sd, | sed 's/,\([^ ]\)/, \1/g')
  {
    printf 'Package: %s\nSource: zenith\nVersion: %s\nArchitecture: %s\nMaintainer: The Zenith authors <zenith@localhost>\n' "$name" "$version" "$arch"
    printf 'Installed-Size: %s\n' "$(du -sk --apparent-size "$dir/usr" | cut -f1)"
    [ -z "$depends" ] || printf 'Depends: %s\n' "$depends"
    printf 'Section: %s\nPriority: optional\nDescription: %s\n %s\n' "$section" "$short" "$long"
  } >"$dir/DEBIAN/control"
  (cd "$dir" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$dir/DEBIAN/md5sums"
  find "$dir" -type d -exec chmod 755 {} +
  find "$dir" -type f ! -perm -u+x -exec chmod 644 {} +
  find "$dir" -exec touch -h -d "@$stamp" {} +
  # weights hardly shrink, however long xz tries
  dpkg-deb --root-owner-group -Zxz "-z$([ "$name" = zenith-models ] && echo 0 || echo 6)" --build "$dir" "$root/out/${name}_${version}_$arch.deb" >>"$root/.cache/deb.log"
  echo "out/${name}_${version}_$arch.deb"
}

# take PACKAGE PATH...: of what was installed into $stage/all.
take() {
  local name=$1 p
  shift
  for p in "$@"; do
    p=${p#/}
    [ -e "$stage/all/$p" ] || die "nothing was installed as /$p"
    mkdir -p "$stage/$name/${p%/*}"
    mv "$stage/all/$p" "$stage/$name/${p%/*}/"
  done
}

# manual PACKAGE PAGE
manual() {
  mkdir -p "$stage/$1/usr/share/man/man1"
  gzip -9nc "$root/docs/$2" >"$stage/$1/usr/share/man/man1/$2.gz"
}

cmd_deb() {
  local stage=$root/.cache/deb dir=$build arch lib gimp version stamp left
  need dpkg-dev binutils
  main_build "${pkg_gegl[@]}" "${pkg_gimp[@]}" "${pkg_batch[@]}"
  command -v dpkg-deb >/dev/null || die "Debian packages are made on Debian: there is no dpkg-deb"
  arch=$(dpkg --print-architecture) lib=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
  version=$(deb_version) stamp=$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)
  mkdir -p "$root/.cache" "$root/out"
  : >"$root/.cache/deb.log"
  build_for -Dprefix=/usr "-Dlibdir=${lib#usr/}" -Ddatadir=share -Dgegl_ops_dir= -Dgimp2_plugin_dir= -Dgimp3_plugin_dir= -Dpresets_dir=
  rm -rf "$stage"
  mkdir -p "$stage"
  DESTDIR=$stage/all meson install -C "$dir" --no-rebuild >>"$root/.cache/deb.log" 2>&1 || die "see .cache/deb.log"

  take zenith usr/bin/zenith
  manual zenith zenith.1
  mkdir -p "$stage/libzenith-dev/$lib/pkgconfig" "$stage/libzenith-dev/usr/include"
  # a library of its own members: meson's is thin
  (cd "$dir/engine" && ar t libzenith.a | sed "s|^|$dir/engine/|" | sed "s|$dir/engine//|/|" | xargs ar rcsD "$stage/libzenith-dev/$lib/libzenith.a")
  strip --strip-debug "$stage/libzenith-dev/$lib/libzenith.a"
  cp "$root/engine/zenith.h" "$root/engine/zenith_bench.h" "$root/engine/zenith_train.h" "$stage/libzenith-dev/usr/include/"
  printf 'prefix=/usr\nlibdir=/%s\nName: zenith\nDescription: neural networks for pictures\nVersion: %s\nLibs: -L${libdir} -lzenith -lpthread -lm -ldl\n' \
    "$lib" "${version%%-*}" >"$stage/libzenith-dev/$lib/pkgconfig/zenith.pc"
  take zenith-models usr/share/zenith/models
  take gegl-zenith usr/bin/zenith-batch "$lib/gegl-0.4/zenith-ops.so" usr/share/zenith/presets usr/share/locale
  manual gegl-zenith zenith-batch.1
  for gimp in "$stage"/all/usr/lib/gimp/*/plug-ins "$stage/all/$lib"/gimp/*/plug-ins; do
    [ ! -d "$gimp" ] || take gimp-plugin-zenith "${gimp#"$stage/all/"}"
  done
  take gimp-plugin-zenith usr/share/doc/zenith/html usr/share/metainfo
  mkdir -p "$stage/gimp-plugin-zenith/usr/share/doc/gimp-plugin-zenith"
  left=$(find "$stage/all" ! -type d)
  [ -z "$left" ] || die "no package has: $left"

  package zenith "$arch" graphics "zenith-models (>= $version)" "neural networks for pictures, command line" \
    "Runs, measures and trains the networks of Zenith: denoisers, small
 autoencoders and a face model. It needs no Python and no server, and uses
 NEON, AVX2, AVX-512 or an NVIDIA GPU where it finds them."
  package libzenith-dev "$arch" libdevel "" "neural networks for pictures, library for C" \
    "The engine of Zenith as a static library with its headers."
  package zenith-models all graphics "" "weights of the neural networks of Zenith" \
    "Denoisers in three sizes, a small autoencoder and a face model, each with
 a card that says how it was made and what it can do."
  package gegl-zenith "$arch" graphics "zenith-models (>= $version)" "neural filters for GEGL, and for folders of pictures" \
    "The GEGL operations zenith:denoise, zenith:latent-preview and zenith:diffae-*,
 presets for them, and zenith-batch, which filters folders of pictures and
 keeps their metadata."
  package gimp-plugin-zenith "$arch" graphics "gegl-zenith (= $version)
gimp" "neural filters for GIMP" \
    "Removes the noise of cameras, phones, film and compression from photographs
 and changes faces, in the menu Filters, Zenith. Everything is computed on
 this computer."
  rm -rf "$stage"
}

# cmd_test_deb [13]: of this release; or, on another, of Debian 13, built in the root that tests/plugin/gimp3.sh uses.
cmd_test_deb() {
  local folder=$root/out inside=${ZENITH_TRIXIE:-$root/.cache/trixie}
  need mmdebstrap lintian "${pkg_picture[@]}"
  if [ "${1:-$debian}" = "$debian" ]; then
    cmd_deb || exit 1
  elif [ "$1" = 13 ]; then
    "$root/tests/plugin/debian-root.sh" "$inside" --copy zenith/packages || die "there is no root with Debian 13"
    chroot "$inside" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 /zenith/packages/run deb || exit 1
    debian=13 folder=$inside/zenith/packages/out
    export ZENITH_ROOT=${ZENITH_ROOT:-$root/.cache/fresh-13} ZENITH_ROOT_RELEASE=trixie
  else
    die "usage: ./run test-deb [13]"
  fi
  tallies=$root/.cache/tallies
  : >"$tallies"
  suite "packages in a fresh root" "$root/tests/plugin/deb.sh" "$folder" "$(deb_version)"
  total
}
