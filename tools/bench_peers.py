#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Zenith compared with ONNX Runtime, OpenVINO, ncnn and PyTorch, on the same networks, in one run.

    tools/bench_peers.py ZENITH [--rounds N] [--threads 1,2] [--engines auto,avx2] [--precisions auto,bf16]
                         [--only taesd-decode,...] [--peers OpenVINO,...]

The machines this runs on are noisy, so the programs alternate, round by round; the median of each is shown, and the
ratio of the medians.  `./run bench peers` makes the virtual environment and calls this.
Networks: TAESD with 4 latent channels (random weights; speed does not depend on them) at 512x512, and, where the
published weights are available, FFDNet at one megapixel against our denoisers.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from golden import Block, Clamp, decoder, encoder  # noqa: E402

try:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnxruntime = None
try:
    import ncnn
except ImportError:
    ncnn = None
try:
    import openvino
except ImportError:
    openvino = None


# ---- the networks, as a list of plain layers: what every peer is built from ------------------------------------

def flatten(net):
    """('conv', module, relu, add) | ('up',) | ('clamp',): add = index of an earlier layer's output, -1 none."""
    layers = []
    for m in net:
        if isinstance(m, nn.Conv2d):
            layers.append(["conv", m, False, None])
        elif isinstance(m, nn.ReLU):
            layers[-1][2] = True
        elif isinstance(m, nn.Upsample):
            layers.append(["up"])
        elif isinstance(m, Clamp):
            layers.append(["clamp"])
        elif isinstance(m, Block):
            start = len(layers)
            for c in (m.conv[0], m.conv[2]):
                layers.append(["conv", c, True, None])
            layers.append(["conv", m.conv[4], True, start])  # adds the input of layer `start`, then ReLU
        else:
            raise TypeError(m)
    return layers


def ffdnet(path):
    state = torch.load(path, map_location="cpu")
    keys = sorted({k.rsplit(".", 1)[0] for k in state}, key=lambda k: int(k.split(".")[1]))
    net = nn.Sequential()
    for i, k in enumerate(keys):
        w, b = state[k + ".weight"], state[k + ".bias"]
        conv = nn.Conv2d(w.shape[1], w.shape[0], 3, padding=1)
        conv.weight.data, conv.bias.data = w.float(), b.float()
        net.append(conv)
        if i + 1 < len(keys):
            net.append(nn.ReLU())
    return net


# ---- peers: each is a function that runs once on x -------------------------------------------------------------

def make_torch(net, x, threads):
    torch.set_num_threads(threads)
    net = net.eval().to(memory_format=torch.channels_last)
    t = torch.from_numpy(x).to(memory_format=torch.channels_last)

    def run():
        torch.set_num_threads(threads)
        with torch.inference_mode():
            return net(t).numpy()

    return run


def make_onnx(net, x):
    nodes, weights, outs = [], [], ["x"]
    for i, layer in enumerate(flatten(net)):
        src, dst = outs[-1], f"t{i}"
        if layer[0] == "up":
            weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), f"scale{i}"))
            nodes.append(helper.make_node("Resize", [src, "", f"scale{i}"], [dst], mode="nearest",
                                          coordinate_transformation_mode="asymmetric", nearest_mode="floor"))
        elif layer[0] == "clamp":
            weights.append(numpy_helper.from_array(np.array(3, np.float32), f"three{i}"))
            nodes += [helper.make_node("Div", [src, f"three{i}"], [dst + "a"]),
                      helper.make_node("Tanh", [dst + "a"], [dst + "b"]),
                      helper.make_node("Mul", [dst + "b", f"three{i}"], [dst])]
        else:
            _, m, relu, add = layer
            names = [src, f"w{i}"]
            weights.append(numpy_helper.from_array(m.weight.detach().numpy(), f"w{i}"))
            if m.bias is not None:
                names.append(f"b{i}")
                weights.append(numpy_helper.from_array(m.bias.detach().numpy(), f"b{i}"))
            out = dst + ("c" if relu or add is not None else "")
            nodes.append(helper.make_node("Conv", names, [out], kernel_shape=list(m.kernel_size),
                                          pads=[m.padding[0], m.padding[1]] * 2, strides=list(m.stride)))
            if add is not None:
                nodes.append(helper.make_node("Add", [out, outs[add]], [dst + "s"]))
                out = dst + "s"
            if relu:
                nodes.append(helper.make_node("Relu", [out], [dst]))
        outs.append(dst)
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info(outs[-1], TensorProto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model.SerializeToString()


def make_openvino(net, x, threads, precision):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(make_onnx(net, x))
        file.flush()
        compiled = openvino.Core().compile_model(file.name, "CPU", {"INFERENCE_NUM_THREADS": threads,
                                                                    "INFERENCE_PRECISION_HINT": precision})
    return lambda: compiled([x])[0]


def make_ort(net, x, threads):
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = threads
    o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(make_onnx(net, x), o, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def make_ncnn(net, x, threads, fp16):
    """fp16: ncnn's own half-precision storage and arithmetic, its fastest setting; otherwise float32 throughout."""
    lines, blob, count = [], b"", 0
    outs = ["x"]
    layers = flatten(net)
    uses = {0: 1}
    for i, layer in enumerate(layers):
        uses[i] = uses.get(i, 0) + (1 if i else 0)
        if layer[0] == "conv" and layer[3] is not None:
            uses[layer[3]] = uses.get(layer[3], 0) + 1
    names = {}  # blob index -> names still to hand out (ncnn wants a Split for every second use)

    def take(i):
        return names[i].pop(0)

    def publish(i, name):
        nonlocal count
        n = uses.get(i, 0)
        if n > 1:
            split = [f"{name}_{k}" for k in range(n)]
            lines.append(f"Split s{i} 1 {n} {name} {' '.join(split)}")
            count += n
            names[i] = split
        else:
            names[i] = [name]

    lines.append("Input x 0 1 x")
    count += 1
    publish(0, "x")
    for i, layer in enumerate(layers):
        dst = f"t{i}"
        if layer[0] == "up":
            lines.append(f"Interp l{i} 1 1 {take(i)} {dst} 0=1 1=2.0 2=2.0")
            count += 1
        elif layer[0] == "clamp":
            lines.append(f"BinaryOp a{i} 1 1 {take(i)} {dst}a 0=3 1=1 2=3.0")
            lines.append(f"TanH b{i} 1 1 {dst}a {dst}b")
            lines.append(f"BinaryOp c{i} 1 1 {dst}b {dst} 0=2 1=1 2=3.0")
            count += 3
        else:
            _, m, relu, add = layer
            out = dst if add is None else dst + "c"
            act = " 9=1" if relu and add is None else ""
            lines.append(f"Convolution l{i} 1 1 {take(i)} {out} 0={m.out_channels} 1={m.kernel_size[0]} 3={m.stride[0]} "
                         f"4={m.padding[0]} 5={int(m.bias is not None)} 6={m.weight.numel()}{act}")
            count += 1
            blob += struct.pack("<I", 0) + m.weight.detach().numpy().astype("<f4").tobytes()
            if m.bias is not None:
                blob += m.bias.detach().numpy().astype("<f4").tobytes()
            if add is not None:
                lines.append(f"BinaryOp p{i} 2 1 {out} {take(add)} {dst}s 0=0")
                lines.append(f"ReLU r{i} 1 1 {dst}s {dst}")
                count += 2
        outs.append(dst)
        publish(i + 1, dst)
    last = outs[-1]
    folder = tempfile.mkdtemp()
    with open(folder + "/n.param", "w") as f:
        f.write(f"7767517\n{len(lines)} {count}\n" + "\n".join(lines) + "\n")
    with open(folder + "/n.bin", "wb") as f:
        f.write(blob)
    n = ncnn.Net()
    n.opt.num_threads = threads
    n.opt.use_fp16_packed = n.opt.use_fp16_storage = n.opt.use_fp16_arithmetic = fp16
    n.opt.use_bf16_storage = False
    assert n.load_param(folder + "/n.param") == 0 and n.load_model(folder + "/n.bin") == 0
    mat = ncnn.Mat(x[0]).clone()

    def run():
        ex = n.create_extractor()
        ex.input("x", mat)
        return np.array(ex.extract(last)[1])[None]

    run.keep = (n, mat)
    return run


# ---- alternating ---------------------------------------------------------------------------------------------------

def timed(run):
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def zenith_ms(args, model, threads, size, engine, precision, *extra):
    out = subprocess.run([args.zenith, "bench", model, "--threads", str(threads), "--size", size, "--engine", engine,
                          "--json", *extra], check=True, capture_output=True, text=True,
                         env={**os.environ, "ZENITH_PRECISION": precision}).stdout
    return json.loads(out.strip().splitlines()[-1])["ms"]


def row(args, label, ours, net, x, threads):
    """ours: list of (name, function giving milliseconds)."""
    peers = []
    with torch.inference_mode():
        want = net.eval()(torch.from_numpy(x)).numpy()
    def add(name, make):
        if args.peers and name not in args.peers.split(","):
            return
        try:
            run = make()
            got = run()
            err = np.abs(got - want).max() / np.abs(want).max()
            assert err < (0.05 if "16" in name else 1e-3), f"{name} is off by {err}"
            peers.append((name, run))
        except Exception as e:  # a peer that is absent or fails is named, not hidden
            print(f"  {name}: not measured: {e}", flush=True)

    if onnxruntime:
        add("ONNX Runtime", lambda: make_ort(net, x, threads))
    if openvino and onnxruntime:
        add("OpenVINO", lambda: make_openvino(net, x, threads, "f32"))
        add("OpenVINO bf16", lambda: make_openvino(net, x, threads, "bf16"))
    if ncnn:
        add("ncnn", lambda: make_ncnn(net, x, threads, False))
        add("ncnn fp16", lambda: make_ncnn(net, x, threads, True))
    add("PyTorch", lambda: make_torch(net, x, threads))
    times = {name: [] for name, _ in ours + peers}
    for _ in range(args.rounds):
        for name, f in ours:
            times[name].append(f())
        for name, run in peers:
            times[name].append(min(timed(run), timed(run)))
    print(f"{label}, {threads} thread{'s' if threads > 1 else ''}")
    for name, _ in ours:
        mine = statistics.median(times[name])
        print(f"  {name:24s} {mine:9.1f} ms")
        for peer, _ in peers:
            ms = statistics.median(times[peer])
            print(f"    {peer:22s} {ms:9.1f} ms   {ms / mine:5.2f}x")
    sys.stdout.flush()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("zenith")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", default=f"1,{os.cpu_count()}")
    p.add_argument("--only", default="")
    p.add_argument("--data", default=os.path.join(os.path.dirname(__file__), "..", "..", "shared", "data"))
    p.add_argument("--engines", default="auto")
    p.add_argument("--precisions", default="auto")
    p.add_argument("--peers", default="")
    args = p.parse_args()
    kinds = [(e, p) for e in args.engines.split(",") for p in args.precisions.split(",")]
    only = args.only.split(",") if args.only else []
    torch.manual_seed(0)
    cases = [("taesd-encode", encoder(4, 64), (1, 3, 512, 512)), ("taesd-decode", decoder(4, 64), (1, 4, 64, 64))]
    print("versions:", "torch", torch.__version__, "onnxruntime", getattr(onnxruntime, "__version__", "absent"),
          "ncnn", getattr(ncnn, "__version__", "absent"), "openvino", getattr(openvino, "__version__", "absent"))
    for threads in sorted({int(t) for t in args.threads.split(",")}):
        for model, net, shape in cases:
            if only and model not in only:
                continue
            x = np.random.default_rng(0).random(shape, np.float32)
            ours = [(f"zenith {e} {p}",
                     lambda e=e, p=p: zenith_ms(args, model, threads, "512x512", e, p, "--weights", "random:"))
                    for e, p in kinds]
            row(args, f"{model} 512x512", ours, net, x, threads)
        path = os.path.join(args.data, "weights", "ffdnet_color.pth")
        if os.path.exists(path) and (not only or "denoise" in only):
            net = ffdnet(path)
            x = np.random.default_rng(0).random((1, 13, 512, 512), np.float32)
            ours = [(f"{m} {e} {p}",
                     lambda m=m, e=e, p=p: zenith_ms(args, m, threads, "1024x1024", e, p, "--set", "sigma=25"))
                    for m in ("denoise-fast", "denoise-balanced") for e, p in kinds]
            row(args, "one megapixel; peers run FFDNet", ours, net, x, threads)


if __name__ == "__main__":
    main()
