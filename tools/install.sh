# SPDX-License-Identifier: MIT
# install.sh - `./run install` and `./run uninstall`, sourced by ./run.
#
# What was installed is noted in zenith/installed of the data folder, one path a line; folders that were not there before end
# in "/".  `uninstall` removes what is in that list.

user_data=${XDG_DATA_HOME:-$HOME/.local/share}
user_config=${XDG_CONFIG_HOME:-$HOME/.config}

# The profile folder of a GIMP, whose plug-ins it finds: profile 2 or 3.
profile() {
  case $1 in
    2) echo "${GIMP2_DIRECTORY:-$user_config/GIMP/2.10}" ;;
    3) echo "${GIMP3_DIRECTORY:-$user_config/GIMP/$(pkg-config --modversion gimp-3.0 2>/dev/null | cut -d. -f1,2)}" ;;
  esac
}

# make_profile DIR CONSOLE: GIMP sets its profile up only where there is no folder of that name yet.  So GIMP itself makes it
# before a plug-in goes there.
make_profile() {
  local dir=$1 console=$2 quit=(-b '(gimp-quit 0)')
  [ ! -d "$dir" ] || return 0
  command -v "$console" >/dev/null || die "$console is not installed, and only GIMP can set up its profile $dir: start GIMP once, then run this again"
  [ "$console" = gimp-console-2.10 ] || quit=(--quit)
  echo "GIMP was never started here: letting it set up its profile, $dir"
  timeout 300 "$console" -i -d -f "${quit[@]}" >"$root/.cache/gimp-profile.log" 2>&1 || true
  [ -f "$dir/gimprc" ] || [ -d "$dir/brushes" ] ||
    die "GIMP did not set up its profile $dir (see .cache/gimp-profile.log): start GIMP once, then run this again"
}

# absolute PATH
absolute() { case $1 in /*) echo "${1%/}" ;; *) echo "$PWD/${1%/}" ;; esac; }

# manifest [PREFIX]
manifest() { echo "${1:-$user_data}${1:+/share}/zenith/installed"; }

# missing_folders: of the files on stdin, the folders above them that are not there, each with "/" at its end.
missing_folders() {
  local f
  while IFS= read -r f; do
    f=${f%/*}
    while [ -n "$f" ] && [ ! -d "$f" ]; do
      echo "$f/"
      f=${f%/*}
    done
  done | sort -u
}

# take_away: deletes the files listed on stdin, then the folders, as far as they are empty.
take_away() {
  local list f
  list=$(cat)
  while IFS= read -r f; do
    case $f in */ | '') ;; /*) rm -f -- "$f" ;; esac
  done <<<"$list"
  while IFS= read -r f; do
    case $f in /*/) rmdir -- "$f" 2>/dev/null || true ;; esac
  done < <(sort -r <<<"$list")
}

# build_for OPTION...: the build with these of meson's options; what depends on the prefix is compiled again.
build_for() {
  # the tests' build has kernels for two GPUs only, which is enough for the test of install
  if [ -z "${ZENITH_TEST_KERNELS:-}" ] && grep -q gpu_archs "$build/set-up-with"; then
    targets=installed compile "$build" gcc "${gpu_all[@]}" || die "the build failed; see .cache/build.log"
  fi
  { meson configure "$build" "$@" && ninja -C "$build" installed; } >"$root/.cache/install.log" 2>&1 ||
    { tail -n 20 "$root/.cache/install.log"; die "the build failed; see .cache/install.log"; }
}

cmd_install() {
  local prefix=${1:-} list old now options
  main_build "${pkg_gegl[@]}" "${pkg_gimp[@]}" "${pkg_batch[@]}"
  if [ -n "$prefix" ]; then
    prefix=$(absolute "$prefix")
    options=("-Dprefix=$prefix" -Ddatadir=share -Dgegl_ops_dir= -Dgimp2_plugin_dir= -Dgimp3_plugin_dir= -Dpresets_dir=)
  else
    # the user's own presets are in zenith/presets: the shipped ones go beside them
    options=("-Dprefix=$HOME/.local" "-Ddatadir=$user_data" "-Dgegl_ops_dir=$user_data/gegl-0.4/plug-ins"
      "-Dgimp2_plugin_dir=$(profile 2)/plug-ins" "-Dgimp3_plugin_dir=$(profile 3)/plug-ins"
      "-Dpresets_dir=$user_data/zenith/shipped-presets")
    [ ! -x "$build/plugin/zenith-gimp2" ] || make_profile "$(profile 2)" gimp-console-2.10
    [ ! -x "$build/plugin/zenith-gimp3" ] || make_profile "$(profile 3)" gimp-console-3.0
  fi
  build_for "${options[@]}"

  list=$(manifest "$prefix")
  old=$(cat "$list" 2>/dev/null || true)
  DESTDIR=$root/.cache/staged meson install -C "$build" --no-rebuild >>"$root/.cache/install.log" 2>&1 || die "see .cache/install.log"
  now=$({ find "$root/.cache/staged" ! -type d -printf '/%P\n'; echo "$list"; } | sort -u)
  rm -rf "$root/.cache/staged"
  { echo "$now"; missing_folders <<<"$now"; grep '/$' <<<"$old" || true; } | sort -u >"$root/.cache/installed"
  meson install -C "$build" --no-rebuild >>"$root/.cache/install.log" 2>&1 ||
    { tail -n 5 "$root/.cache/install.log"; die "nothing could be installed into ${prefix:-$HOME}; see .cache/install.log"; }
  # what an earlier installation had and this one has not
  comm -23 <(grep -v '/$' <<<"$old" | sort) <(sort "$root/.cache/installed") | take_away
  install -D -m 644 "$root/.cache/installed" "$list"
  if [ "$(id -u)" -eq 0 ] && [ "$(stat -c %u "$root")" -ne 0 ]; then # with sudo: the owner goes on building here
    find "$build" -xdev -user root -exec chown -h --reference="$root" {} +
    find "$root/.cache" -maxdepth 1 -user root -exec chown -h --reference="$root" {} +
  fi

  echo "installed${prefix:+ into $prefix}:"
  grep -v '/$' "$list" | sed 's/^/  /'
  if [ -z "$prefix" ]; then
    echo "in GIMP: Filters > Zenith.  ./run uninstall takes all of it away again."
  else
    found_by_gimp "$prefix"
    echo "./run uninstall $prefix takes all of it away again."
  fi
}

# A GIMP of another prefix does not look into this one.
found_by_gimp() {
  local prefix=$1 module gimp=
  for module in gimp-2.0 gimp-3.0; do
    [ "$(pkg-config --variable=prefix "$module" 2>/dev/null)" != "$prefix" ] || gimp=$module
  done
  [ -z "$gimp" ] || return 0
  cat <<TEXT
GIMP and GEGL of another prefix do not look there by themselves:
  GIMP   Preferences > Folders > Plug-ins: add $(grep -m1 -E 'plug-ins/zenith-gimp' "$(manifest "$prefix")" | sed 's|/zenith-gimp[23]/.*||')
  GEGL   export GEGL_PATH=$(grep -m1 'zenith-ops.so' "$(manifest "$prefix")" | sed 's|/zenith-ops.so||'):$(pkg-config --variable=pluginsdir gegl-0.4)
TEXT
}

# left_behind: what is the user's own, or GIMP's, after uninstalling for one user.
left_behind() {
  local own settings
  own=$({ find "$user_data/zenith" ! -type d 2>/dev/null || true; } | sort)
  [ -z "$own" ] || printf 'left, for it is yours:\n%s\n' "$(sed 's/^/  /' <<<"$own")"
  settings=$({ find "$(profile 2)/filters" "$(profile 3)/filters" "$user_config"/GIMP/*/filters -maxdepth 1 -name 'GimpGegl-zenith-*' 2>/dev/null || true; } | sort -u)
  [ -z "$settings" ] ||
    printf 'left, for they are GIMP'"'"'s settings of these filters, with presets that you may have saved there; rm deletes them:\n%s\n' \
      "$(sed 's/^/  /' <<<"$settings")"
}

cmd_uninstall() {
  local prefix=${1:-} list link=$user_data/gegl-0.4/plug-ins/zenith-ops.so
  [ -z "$prefix" ] || prefix=$(absolute "$prefix")
  list=$(manifest "$prefix")
  [ -f "$list" ] || die "there is nothing to take away: no $list"
  [ -w "$list" ] && [ -w "${list%/*}" ] || die "$list belongs to $(stat -c %U "$list"), who can uninstall it"
  echo "uninstalling:"
  grep -v '/$' "$list" | sed 's/^/  /'
  { # GEGL makes the folder of its plug-ins itself, but only looks into it; our own cache is tuned again
    cat "$list"
    # what the plug-in made for GIMP 3 when it was asked to (zenith-setup.c)
    if [ -L "$link" ] && grep -qxF -e "$(readlink "$link")" "$list"; then
      printf '%s\n' "$link" "${link%/*}/"
    fi
    if [ -z "$prefix" ]; then
      printf '%s/\n' "$user_data/gegl-0.4/plug-ins" "$user_data/gegl-0.4" "${XDG_CACHE_HOME:-$HOME/.cache}/zenith"
      find "${XDG_CACHE_HOME:-$HOME/.cache}/zenith" -maxdepth 1 -name 'cuda-*.txt' 2>/dev/null || true
    fi
  } | take_away
  [ -n "$prefix" ] || left_behind
}
