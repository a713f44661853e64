#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The rules of ARCHITECTURE.md about who may include whom, checked by grep.  Prints one line per rule.
set -u
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0

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
rule "core includes core and zenith.h alone" "${inc}\.\./(\.\./)?(backend|ops|handle|models|autograd|train|pipeline|cpu|cuda)" $(find engine/core -name '*.[ch]')
rule "models never include a device or a pipeline" "${inc}.*(cpu/|cuda/|pipeline/|handle\.h)" $(find engine/models -name '*.[ch]')
# A model states its training graph with autograd/graph.h, as it states its forward with ops.h; net.h knows the CPU.
rule "models see of training the graph alone" "${inc}.*(train/|autograd/[^g])" $(find engine/models -name '*.[ch]')
rule "autograd never includes a model, a pipeline or an instruction set" "${inc}.*(models/|pipeline/|train/|cpu/simd|cpu/arm|cpu/x86|cuda/)" $(find engine/autograd -name '*.[ch]')
rule "a device never names a model" "${inc}.*(models/|autograd/|train/|pipeline/|handle\.h|ops\.h)" $(find engine/cpu engine/cuda -name '*.[ch]' -o -name '*.cu' 2>/dev/null)
rule "the pipeline never includes a device" "${inc}.*(cpu/|cuda/)" $(find engine/pipeline -name '*.[ch]')
# What can be trained, and the network itself, come from the models' descriptions: arch.h, never one model.
rule "training sees of models arch.h alone, no pipeline and no instruction set" "${inc}.*(models/[^a]|pipeline/|cpu/simd|cpu/arm|cpu/x86|cuda/)" $(find engine/train -name '*.[ch]')
rule "the command line sees zenith.h alone" "${inc}.*(core/|models/|autograd/|train/|pipeline/|cpu/|cuda/|backend\.h|ops\.h|handle\.h)" $(find engine/cli -name '*.[ch]')
rule "the operations see zenith.h alone" "${inc}.*(core/|models/|autograd/|train/|pipeline/|cpu/|cuda/|backend\.h|ops\.h|handle\.h)" $(find gegl-ops -name '*.[ch]')
rule "the plug-in never includes the engine" "${inc}.*(zenith\.h|core/|engine/)" $(find plugin -name '*.[ch]')
# The thread pool's pause instruction is the one exception.
rule "no device #ifdef outside cpu, cuda" '#[[:space:]]*(if|ifdef|ifndef|elif).*(__x86_64__|__aarch64__|__ARM|__AVX|__SSE|CUDA|__CUDACC__)' \
  $(find engine gegl-ops plugin -name '*.[ch]' -not -path 'engine/cpu/*' -not -path 'engine/cuda/*' -not -name threads.c)
rule "no Python outside tools and training" '.' $(git ls-files '*.py' 2>/dev/null | grep -vE '^(tools|training)/')
rule "presets name operations, not models' files" '\.(safetensors|pth|npy)' $(find presets -name '*.preset' 2>/dev/null)

# The check itself must be able to fail.
probe=$(mktemp -d)
echo '#include "../cpu/kernels.h"' >"$probe/bad.c"
if grep -qE "${inc}.*(cpu/|cuda/|pipeline/|handle\.h)" "$probe/bad.c"; then
  echo "ok a broken rule is seen"
  passed=$((passed + 1))
else
  echo "not ok a broken rule is seen: the pattern missed it"
  failed=$((failed + 1))
fi
rm -r "$probe"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
