#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# flatpak.sh - what can be said of the Flatpak without GIMP's runtime, which only Flathub has: the manifest is one, its
# options are meson's, and the metainfo of its id is valid.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 2
id=org.gimp.GIMP.Plugin.Zenith manifest=tools/flatpak/org.gimp.GIMP.Plugin.Zenith.json
passed=0 failed=0 skipped=0
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
check() { if [ -z "$2" ]; then echo "ok $1" && passed=$((passed + 1)); else echo "not ok $1: $2" && failed=$((failed + 1)); fi; }
skip() { echo "skip $1: $2 is not installed" && skipped=$((skipped + 1)); }

# of MANIFEST KEY...: a value
of() { python3 -c 'import json, sys
v = json.load(open(sys.argv[1]))
for k in sys.argv[2:]: v = v[int(k) if k.isdigit() else k]
print("\n".join(v) if isinstance(v, list) else v)' "$@"; }

check "id and branch" "$([ "$(of $manifest id) $(of $manifest branch)" = "$id 3" ] || echo "$(of $manifest id)")"
bad=
while IFS= read -r option; do
  option=${option%%=*}
  grep -q "^option('${option#-D}'" meson_options.txt || bad="$bad $option"
done < <(of $manifest modules 0 config-opts | grep '^-D')
check "its options are those of meson_options.txt" "$bad"
plugins=$(of $manifest modules 0 config-opts | sed -n 's/-Dgimp3_plugin_dir=//p')
check "the plug-in is where GIMP's Flatpak merges them" "$([ "$plugins" = "$(of $manifest build-options prefix)/plug-ins" ] || echo "$plugins")"
if command -v flatpak-builder >/dev/null; then
  check "flatpak-builder reads it" "$(cd "$tmp" && flatpak-builder --show-manifest "$root/$manifest" 2>&1 >/dev/null | head -n 3)"
else
  skip "flatpak-builder reads it" flatpak-builder
fi
if command -v appstreamcli >/dev/null; then
  for name in org.gimp.GIMP.plugin.zenith $id; do # as plugin/meson.build makes it
    sed "s/<id>.*</<id>$name</" plugin/zenith.gimp.metainfo.xml >"$tmp/$name.metainfo.xml"
    check "metainfo of $name" "$(appstreamcli validate --no-net --no-color "$tmp/$name.metainfo.xml" >"$tmp/said" 2>&1 || cat "$tmp/said")"
  done
else
  skip "metainfo" appstreamcli
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
