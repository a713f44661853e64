#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# includes.sh [BUILD] - the rules of ARCHITECTURE.md about who may include and call whom: includes by grep, calls by the
# symbols of the objects in BUILD, a build of this tree (without it they are not checked).  Prints one line per rule.
set -u
build=${1:-}
[ -z "$build" ] || build=$(cd "$build" && pwd) || exit 1
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0 skipped=0

# rule NAME PATTERN FILE...: no line of the files may match.
rule() {
  local name=$1 pattern=$2 hits
  shift 2
  hits=$(grep -nE "$pattern" "$@" /dev/null 2>/dev/null)
  if [ -z "$hits" ]; then
    echo "ok $name"
    passed=$((passed + 1))
  else
    echo "not ok $name: $(echo "$hits" | head -n 3 | tr '\n' ' ')"
    failed=$((failed + 1))
  fi
}

inc='^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]'
engine=$(find engine -name '*.[ch]' -o -name '*.cu')
rule "the engine knows nothing of GLib, GEGL and GIMP" "${inc}(glib|gio|gobject|gegl|babl|libgimp|gtk)" $engine
rule "core includes core and zenith.h alone" "${inc}\.\./(\.\./)?(backend|special|ops|handle|models|autograd|train|pipeline|cpu|cuda|vulkan)" $(find engine/core -name '*.[ch]')
rule "text includes core and zenith.h alone" "${inc}\.\./(backend|special|ops|handle|models|autograd|train|pipeline|cpu|cuda|vulkan)" $(find engine/text -name '*.[ch]')
rule "models never include a device or a pipeline" "${inc}.*(cpu/|cuda/|vulkan/|pipeline/|handle\.h)" $(find engine/models -name '*.[ch]')
# The graph is recorded from the forward (autograd/record.h).
rule "models see of training the outline alone" "${inc}.*(train/|autograd/[^o])" $(find engine/models -name '*.[ch]')
rule "autograd never includes a model, a pipeline or an instruction set" "${inc}.*(models/|pipeline/|train/|cpu/simd|cpu/arm|cpu/x86|cuda/|vulkan/)" $(find engine/autograd -name '*.[ch]')
rule "a device never names a model" "${inc}.*(models/|autograd/|train/|pipeline/|handle\.h|ops\.h)" $(find engine/cpu engine/cuda engine/vulkan -name '*.[ch]' -o -name '*.cu' 2>/dev/null)
rule "the pipeline never includes a device" "${inc}.*(cpu/|cuda/|vulkan/)" $(find engine/pipeline -name '*.[ch]')
# Of pipeline/, what runs several networks is a layer of its own, above lib.c: it uses zenith.h like a front end.
composites='(session|fields|autoencoder|denoise|enhance|face|generate|restore|upscale)(_[a-z]+)?'
parts=$(find engine/pipeline -name '*.[ch]' | grep -vE "/$composites\.[ch]$")
rule "what runs one model knows no session" "${inc}.*(zenith_composite\.h|session\.h)" $parts
rule "composites see sessions, zenith.h and core alone" "${inc}.*(models/|backend\.h|special\.h|handle\.h|ops\.h|model\.h|request\.h|tile\.h|forward\.h)" \
  $(find engine/pipeline -name '*.[ch]' | grep -E "/$composites\.[ch]$" | grep -v /session)
# What can be trained, and the network itself, come from the models' descriptions: arch.h, never one model.
rule "training sees of models arch.h alone, no pipeline and no instruction set" "${inc}.*(models/[^a]|pipeline/|cpu/simd|cpu/arm|cpu/x86|cuda/|vulkan/)" $(find engine/train -name '*.[ch]')
rule "the command line sees zenith.h alone" "${inc}.*(core/|text/|models/|autograd/|train/|pipeline/|cpu/|cuda/|vulkan/|backend\.h|special\.h|ops\.h|handle\.h)" $(find engine/cli -name '*.[ch]')
rule "the operations see zenith.h alone" "${inc}.*(core/|text/|models/|autograd/|train/|pipeline/|cpu/|cuda/|vulkan/|backend\.h|special\.h|ops\.h|handle\.h)" $(find gegl-ops -name '*.[ch]')
rule "plug-in, filters, pictures and batch see of the engine zenith_number.h alone" "${inc}.*(zenith\.h|zenith_[^n]|core/|engine/)" $(find plugin lib batch -name '*.[ch]')
rule "filters, pictures and batch know nothing of GIMP" "${inc}(libgimp|gtk)" $(find lib batch -name '*.[ch]')
# The thread pool's pause instruction is the one exception.
rule "no device #ifdef outside cpu, cuda" '#[[:space:]]*(if|ifdef|ifndef|elif).*(__x86_64__|__aarch64__|__ARM|__AVX|__SSE|CUDA|__CUDACC__)' \
  $(find engine gegl-ops lib plugin batch -name '*.[ch]' -not -path 'engine/cpu/*' -not -path 'engine/cuda/*' -not -name threads.c)
# Operations that every backend must have: between the first and the table of those that it may have.
n=$(sed -n '/(\*conv2d)/,/zn_special/p' engine/backend.h | grep -c '^    void (\*')
if [ "$n" -gt 5 ] && [ "$n" -le 14 ]; then
  echo "ok a backend has at most 14 operations: $n"
  passed=$((passed + 1))
else
  echo "not ok a backend has at most 14 operations: $n"
  failed=$((failed + 1))
fi
rule "no Python outside tools and training" '.' $(git ls-files '*.py' 2>/dev/null | grep -vE '^(tools|training)/')
rule "presets name operations, not models' files" '\.(safetensors|pth|npy)' $(find presets -name '*.preset' 2>/dev/null)

# Calls: a symbol that a higher layer defines may not be referenced from a lower one.  Devices are one layer and do not
# know each other.
layers='core=0 text=1 cpu=1 cuda=1 vulkan=1 ops=2 autograd=3 models=4 train=5 pipeline=6 lib=7 composite=8 selftest=9 cli=10'

# calls OBJECT...: prints "OBJECT: SYMBOL of OBJECT" for every reference that goes up, or from device to device, and
# symbols that are defined twice (an archive links without a word).
calls() {
  nm -A -g "$@" 2>/dev/null | awk -v layers="$layers" -v composites="^pipeline_$composites\\.c\\.o$" '
    BEGIN { n = split(layers, list, " "); for (i = 1; i <= n; i++) { split(list[i], kv, "="); rank[kv[1]] = kv[2] } }
    # "path/cpu_conv.c.o: 0001 T zn_cpu_conv2d": the folder of a source is the first word of its object, but for those of
    # instruction sets, which are built apart.
    { object = $1; sub(/:.*/, "", object); symbol = $NF; kind = $(NF - 1)
      name = object; sub(/.*\//, "", name)
      folder = name; sub(/[_.].*/, "", folder)
      if (folder == "arm" || folder == "x86") folder = "cpu"
      if (name ~ composites) folder = "composite"
      if (!(folder in rank)) { print name ": a folder without a layer"; next }
      if (kind == "U") { uses[++m] = object; used[m] = symbol; from[m] = folder }
      else {
        if (symbol in at) print name ": " symbol " is also in " where[symbol]
        at[symbol] = folder; where[symbol] = name } }
    END { for (i = 1; i <= m; i++) { s = used[i]
            if (s in at && (rank[at[s]] > rank[from[i]] || (rank[at[s]] == rank[from[i]] && at[s] != from[i]))) {
              name = uses[i]; sub(/.*\//, "", name)
              print name ": " s " of " where[s] } } }'
}

# circles OBJECT...: prints "OBJECT and OBJECT" for two files that call each other.  The readers of weight files are behind one
# table: these know each other.
circles() {
  nm -A -g "$@" 2>/dev/null | awk '
    { object = $1; sub(/:.*/, "", object); sub(/.*\//, "", object); symbol = $NF
      if (object ~ /^core_/) next
      if ($(NF - 1) == "U") { uses[++m] = object; used[m] = symbol } else where[symbol] = object }
    END { for (i = 1; i <= m; i++) if (used[i] in where && where[used[i]] != uses[i]) calls[uses[i], where[used[i]]] = 1
          for (pair in calls) { split(pair, of, SUBSEP); if (of[1] < of[2] && (of[2], of[1]) in calls) print of[1] " and " of[2] } }'
}

if [ -n "$build" ]; then
  hits=$(nm -g --defined-only "$build/engine/libzenith.a" 2>/dev/null | awk 'NF == 3 && $3 !~ /^zn_/ { print $3 }' | head -n 3 | tr '\n' ' ')
  if [ -z "$hits" ]; then
    echo "ok only zn_ symbols are exported"
    passed=$((passed + 1))
  else
    echo "not ok only zn_ symbols are exported: $hits"
    failed=$((failed + 1))
  fi
  # What the library really consists of: a build folder keeps the objects of files that are gone.
  mapfile -t objects < <(ar t "$build/engine/libzenith.a"; ls "$build"/engine/zenith.p/*.c.o)
  hits=$(calls "${objects[@]}" | head -n 3 | tr '\n' ' ')
  if [ "${#objects[@]}" -gt 50 ] && [ -z "$hits" ]; then
    echo "ok nothing calls upward, in ${#objects[@]} objects"
    passed=$((passed + 1))
  else
    echo "not ok nothing calls upward, in ${#objects[@]} objects: $hits"
    failed=$((failed + 1))
  fi
  hits=$(circles "${objects[@]}" | head -n 3 | tr '\n' ' ')
  if [ -z "$hits" ]; then
    echo "ok no two files call each other"
    passed=$((passed + 1))
  else
    echo "not ok no two files call each other: $hits"
    failed=$((failed + 1))
  fi
else
  echo "skip nothing calls upward, only zn_ symbols are exported: no build is given"
  skipped=$((skipped + 2))
fi

# The checks themselves must be able to fail.
probe=$(mktemp -d)
echo 'void zn_tile_probe(void); void zn_tile_probe(void) {}' >"$probe/pipeline_tile.c"
echo 'void zn_tile_probe(void); void zn_arena_probe(void); void zn_arena_probe(void) { zn_tile_probe(); }' >"$probe/core_arena.c"
if ! (cd "$probe" && "${CC:-cc}" -c pipeline_tile.c -o pipeline_tile.c.o && "${CC:-cc}" -c core_arena.c -o core_arena.c.o) 2>/dev/null; then
  echo "skip a call upward is seen: no compiler"
  skipped=$((skipped + 1))
elif [ "$(calls "$probe"/*.o)" = "core_arena.c.o: zn_tile_probe of pipeline_tile.c.o" ]; then
  echo "ok a call upward is seen"
  passed=$((passed + 1))
else
  echo "not ok a call upward is seen: $(calls "$probe"/*.o | head -n 3)"
  failed=$((failed + 1))
fi
echo 'void zn_arena_probe(void); void zn_tile_probe(void); void zn_tile_probe(void) { zn_arena_probe(); }' >"$probe/pipeline_tile.c"
mv "$probe/core_arena.c" "$probe/pipeline_arena.c"
if ! (cd "$probe" && rm -f ./*.o && for f in tile arena; do "${CC:-cc}" -c pipeline_$f.c -o pipeline_$f.c.o || exit 1; done) 2>/dev/null; then
  echo "skip a circle is seen: no compiler"
  skipped=$((skipped + 1))
elif [ "$(circles "$probe"/*.o)" = "pipeline_arena.c.o and pipeline_tile.c.o" ]; then
  echo "ok a circle is seen"
  passed=$((passed + 1))
else
  echo "not ok a circle is seen: $(circles "$probe"/*.o | head -n 3)"
  failed=$((failed + 1))
fi
echo '#include "../cpu/kernels.h"' >"$probe/bad.c"
if grep -qE "${inc}.*(cpu/|cuda/|vulkan/|pipeline/|handle\.h)" "$probe/bad.c"; then
  echo "ok a broken rule is seen"
  passed=$((passed + 1))
else
  echo "not ok a broken rule is seen: the pattern missed it"
  failed=$((failed + 1))
fi
rm -r "$probe"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
