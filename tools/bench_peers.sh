#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The peers come from PyPI into a virtual environment of their own, in .cache/peers.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.cache/peers
if [ ! -x "$venv/bin/python" ] || [ ! -f "$venv/ready" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet numpy torch onnx onnxruntime safetensors
  "$venv/bin/pip" install --quiet ncnn || echo "ncnn cannot be installed here"
  "$venv/bin/pip" install --quiet openvino || echo "openvino cannot be installed here"
  touch "$venv/ready"
fi
exec "$venv/bin/python" "$root/tools/bench_peers.py" "$root/build/engine/zenith" "$@"
