#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The autoencoders of docs/vae.md compared with PyTorch, in one run: errors, times, memory.

    tools/vae_bench.py ZENITH [--engine cuda] [--only NAME...] [--quick] [--size N] [--seconds N]
    tools/vae_bench.py ZENITH --warm [--only NAME...] [--seconds N]
    tools/vae_bench.py ZENITH --large [--engine cuda] [--latent WxH] [--bounds 8G 5G auto]

Networks of the published sizes with random weights (vae_nets.py).  Errors are relative to PyTorch in fp32 (without TF32).
Times on a GPU are device times: PyTorch eager, as a CUDA graph and compiled (max-autotune), fp16 and channels_last; ours in
every precision.  Memory is that of a decoding at twice the size (1024): what PyTorch's allocator had at most in eager mode, after a
first run that chose algorithms, with the weights of the decoder; ours is the bound that a plan states plus the weights, and,
seen from outside, by how much free memory fell while it ran, less what it fell by for a tiny network (the driver's context, the
kernels).  With --engine cpu, or another name of a CPU engine: wall times with all threads, fp32.

--large decodes a picture of 24 megapixels (a latent of 750x500) with Wan 2.1's network in fp16, once under each bound of memory
(ZENITH_CUDA_MEMORY): time, tiles, memory, and how far the pictures differ; strips of the first across all rows and all columns of
tiles are compared with PyTorch, which has the attention over the whole latent and no tiles.  A seam shows as a "step": the
mean difference of neighbouring columns (rows) in what two results differ by, over the median (vae_tiles.py).

--warm only compiles, into $TORCHINDUCTOR_CACHE_DIR: with the same folder, the run that measures compiles in less time.  Choices
that were measured are forgotten, so that it may run while the GPU does other work.

A part that fails prints a line, and the rest continues.  torch.compile is stopped when --seconds have passed since the
start. The exit status is 1 if a part failed or an error is larger than allowed: fp32 1e-4, fp16 and bf16 1e-2, or 1.5
times what PyTorch has in that precision (random weights amplify roundings); fp8 and int8 are stated in dB."""
import argparse
import copy
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import torch
import torch._inductor.config
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench_gpu  # noqa: E402
import vae_nets  # noqa: E402
import vae_tiles  # noqa: E402

NETS = {  # name: class, id, latent channels, scale
    "wan21": (vae_nets.Wan, "wan-vae", 16, 8),
    "wan2d": (vae_nets.Wan2d, "wan2d-vae", 4, 16),
    "flux": (vae_nets.Kl, "flux-ae", 16, 8),
}
MOST = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2, "bf16": 1e-2}
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
RUN_LIMIT = 60        # seconds of one run of ours at the usual sizes
LARGE_LIMIT = 300     # and of a large one
COMPILE_LEAST = 25    # seconds: with fewer left torch.compile is not begun
HALO = 16             # latent pixels around a strip: more than Wan's levels reach
STRIP = 32            # latent pixels across a strip
whole_attend = vae_nets.attend
began = time.monotonic()
failed = []


def say(text):
    print(text, flush=True)


def part(f, *args):
    """What f returns; a failure is a line, and None."""
    try:
        return f(*args)
    except Exception as e:  # whatever a part raises, the other parts are worth their time
        failed.append(f.__name__)
        say(f"  {f.__name__} FAILED: {type(e).__name__}: {(str(e).strip().splitlines() or ['no reason given'])[0]}")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return None


class Half(torch.nn.Module):
    """One half as a module, without the weights of the other: what is compiled."""

    def __init__(self, net, half):
        super().__init__()
        self.net, self.which = copy.deepcopy(net), half      # a module has a method half()
        delattr(self.net, "encoder" if half == "decode" else "decoder")

    def forward(self, x):
        return getattr(self.net, self.which)(x)


class FreeMemory:
    """By how much the free memory of the GPU fell at most while something ran; 0 without one."""

    def free(self):
        return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0

    def __enter__(self):
        self.before = self.least = self.free()
        self.done = False
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def watch(self):
        while not self.done:
            self.least = min(self.least, self.free())
            time.sleep(0.001)

    def __exit__(self, *_):
        self.done = True
        self.thread.join()
        self.fell = self.before - self.least


def ours(a, id, half, size, precision, path):
    """What `zenith bench` found; it prints why not."""
    r = bench_gpu.ours(a.zenith, f"{id}-{half}", f"{size}x{size}", precision, "--weights", path, engine=a.engine, timeout=RUN_LIMIT)
    if not r:
        failed.append(f"{id}-{half} {precision}")
    return r


def run_ours(a, id, half, precision, path, value, out, limit, env=None, more=()):
    """Writes the result for a file; the error's text, or what it noted."""
    name_in, name_out = ("x", "z") if half == "encode" else ("z", "x")
    return subprocess.run([a.zenith, "run", f"{id}-{half}", "--weights", path, "--engine", a.engine, "--set", f"precision={precision}",
                           *(["--set", "scale=1"] if id == "flux-ae" else []), "--in", f"{name_in}={value}", "--out",
                           f"{name_out}={out}", *more], capture_output=True, text=True, timeout=limit, env=env)


# ---- errors ----------------------------------------------------------------------------------------------------

def reference(gpu, net, half, value):
    """PyTorch's result in fp32, [h, w, c], on the CPU."""
    on = "cuda" if gpu else "cpu"
    try:
        return getattr(net.to(on), half)(value.to(on))[0].permute(1, 2, 0).cpu()
    finally:
        net.cpu()


def rounded(gpu, net, half, value, precision, want):
    """The error of PyTorch itself with weights of that type, or with all of it on a GPU."""
    type_ = TYPES.get(precision)
    if not type_ or type_ == torch.float32:
        return 0
    net = copy.deepcopy(net).to(type_)
    if gpu:
        got = getattr(net.cuda(), half)(value.cuda().to(type_)).float().cpu()
    else:
        got = getattr(net.float(), half)(value)
    return ((got[0].permute(1, 2, 0) - want).norm() / want.norm()).item()


def error(a, path, id, half, value, want, net, precision, d):
    r = run_ours(a, id, half, precision, path, f"{d}/in.npy", f"{d}/out.npy", RUN_LIMIT)
    if r.returncode:
        raise RuntimeError(f"{precision}: {r.stderr.strip()}")
    e = torch.from_numpy(np.load(f"{d}/out.npy")) - want
    e = (e.norm() / want.norm()).item()
    theirs = rounded(a.gpu, net, half, value, precision, want)
    bad = not e <= max(MOST.get(precision, 1), 1.5 * theirs)
    if bad:
        failed.append(f"error of {id}-{half} {precision}")
    say(f"  {precision:5} relative error {e:.1e}, {-20 * math.log10(max(e, 1e-30)):.1f} dB{' TOO LARGE' if bad else ''}"
        f"{f', PyTorch {theirs:.1e}' if theirs else ''}{'; ' + r.stderr.strip() if r.stderr.strip() else ''}")


def errors(a, path, id, half, value, net):
    want = reference(a.gpu, net, half, value)
    with tempfile.TemporaryDirectory() as d:
        np.save(f"{d}/in.npy", value[0].permute(1, 2, 0).contiguous().numpy())
        for precision in a.precision:
            part(error, a, path, id, half, value, want, net, precision, d)


# ---- a GPU ------------------------------------------------------------------------------------------------------

def context(a):
    """Bytes that free memory falls by for a network of next to nothing."""
    with FreeMemory() as m:
        bench_gpu.ours(a.zenith, "taesd-decode", "64x64", "fp16", engine=a.engine, timeout=RUN_LIMIT)
    return m.fell


def our_time(a, path, id, half, size, precision):
    r = ours(a, id, half, size, precision, path)
    if r:
        say(f"  Zenith  {precision:5}           {r['device_ms']:9.3f} ms {r['gflops'] / 1e3:7.1f} TFLOP/s, in all {r['ms']:.2f} ms, {r['tiles']} tile(s)")
        return r["device_ms"]
    return None


def their_times(net, half, value, precision):
    """Eager and graph."""
    type_ = TYPES[precision]
    found = bench_gpu.eager(bench_gpu.to_gpu(Half(net, half).eval(), type_), bench_gpu.to_gpu(value, type_))
    for k, v in found.items():
        say(f"  PyTorch {precision:5} {k:9} {v:9.3f} ms")
    return found


def stop(*_):
    raise TimeoutError("stopped: no time left")


def compiled_time(a, net, half, value):
    left = a.seconds - (time.monotonic() - began)
    if left < COMPILE_LEAST:
        raise TimeoutError(f"not begun: {left:.0f} s of --seconds {a.seconds} are left")
    start = time.monotonic()
    module = bench_gpu.to_gpu(Half(net, half).eval())
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, left)
    try:
        found = bench_gpu.compiled(module, bench_gpu.to_gpu(value))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        torch._dynamo.reset()
    say(f"  PyTorch fp16  compiled  {found['compiled']:9.3f} ms (max-autotune, {time.monotonic() - start:.0f} s to compile)")
    return found


def sum_up(id, half, size, mine, theirs, type_="fp16"):
    """The line that is looked for; type_ is that of PyTorch's times."""
    for precision, ms in mine.items():
        say(f"RESULT {id}-{half} {size}x{size} {precision}: Zenith {ms:.3f} ms" +
            "".join(f"; PyTorch {type_} {k} {v:.3f} ms, {v / ms:.2f}x" for k, v in theirs.items()))


def memory(a, path, id, size, net, value):
    their, r = None, None
    try:
        module, x = bench_gpu.to_gpu(Half(net, "decode").eval()), bench_gpu.to_gpu(value)
        module(x)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        module(x)
        torch.cuda.synchronize()
        their = torch.cuda.max_memory_allocated()
        say(f"  PyTorch fp16 eager {size}x{size}: {their / 2**20:.0f} MiB at most")
    finally:
        module = x = None
        torch.cuda.empty_cache()
        tiny = context(a)
        with FreeMemory() as m:
            r = ours(a, id, "decode", size, "fp16", path)
        if r:
            bound = r["peak_bytes"] + r["weight_bytes"]
            beside = f", {bound / their:.2f} of PyTorch's {their / 2**20:.0f} MiB" if their else ""
            say(f"RESULT memory {id}-decode {size}x{size} fp16: Zenith {bound / 2**20:.0f} MiB ({r['weight_bytes'] / 2**20:.0f} of them "
                f"weights){beside}; free memory fell by {m.fell / 2**20:.0f}, of which {tiny / 2**20:.0f} context; "
                f"{r['tiles']} tile(s), {r['device_ms']:.2f} ms")


def times(a, path, id, half, size, net, value, precisions, theirs="fp16"):
    """Ours and PyTorch's, but for torch.compile."""
    mine = {p: part(our_time, a, path, id, half, size, p) for p in precisions}
    mine = {k: v for k, v in mine.items() if v}
    found = part(their_times, net, half, value, theirs) or {}
    sum_up(id, half, size, mine, found, theirs)
    return mine, found


def add_compiled(a, id, half, size, net, value, mine, theirs):
    found = part(compiled_time, a, net, half, value)
    if found:
        sum_up(id, half, size, mine, {**theirs, **found})


def on_gpu(a, path, id, z, scale, size, net):
    """The most wanted first; torch.compile of the decoder, which takes most of the time, before what can be left out."""
    halves = ("decode", "encode")
    value, found = {h: example(h, size, z, scale) for h in halves}, {}
    say(f"{id}, {size}x{size}, PyTorch {torch.__version__}")
    for half in halves if not a.no_times else ():
        found[half] = times(a, path, id, half, size, net, value[half], ("fp16", "fp8", "bf16") if half == "decode" else ("fp16", "fp8"))
        if half == "decode":
            part(memory, a, path, id, 2 * size, net, example(half, 2 * size, z, scale))
    if not a.no_errors:
        part(errors, a, path, id, "decode", value["decode"], net)
    if found and not a.quick:
        add_compiled(a, id, "decode", size, net, value["decode"], *found["decode"])
    if not a.no_errors:
        part(errors, a, path, id, "encode", value["encode"], net)
    for half in halves if found else ():
        times(a, path, id, half, size, net, value[half], ("fp32",), "fp32")
    if found and not a.quick:
        add_compiled(a, id, "encode", size, net, value["encode"], *found["encode"])


def warm(a, z, scale, size, net):
    """Compiles, so that a later run finds the binaries of kernels; what was measured, perhaps beside other work, is forgotten."""
    for half in ("decode", "encode"):
        part(compiled_time, a, net, half, example(half, size, z, scale))
    for folder, _, names in os.walk(os.environ["TORCHINDUCTOR_CACHE_DIR"], topdown=False):
        if os.path.basename(folder) in ("cache", "fxgraph", "aotautograd"):
            shutil.rmtree(folder)
        else:
            for name in names:
                if name.endswith(".best_config"):
                    os.remove(os.path.join(folder, name))


# ---- the CPU ----------------------------------------------------------------------------------------------------

def cpu_times(a, path, id, half, size, net, value):
    def measure_one(f):
        """Milliseconds: the median of wall times, the least CPU time."""
        f()
        wall, cpu = [], []
        while len(wall) < 3 or (sum(wall) < 3 and len(wall) < 30):
            start, cpu_start = time.perf_counter(), time.process_time()
            f()
            wall.append(time.perf_counter() - start)
            cpu.append(time.process_time() - cpu_start)
        return 1e3 * sorted(wall)[len(wall) // 2], 1e3 * min(cpu)

    module = Half(net, half).eval()
    mine = ours(a, id, half, size, "fp32", path)
    if not mine:
        return
    found = {"NCHW": measure_one(lambda: module(value))}
    last = module.to(memory_format=torch.channels_last)
    found["channels_last"] = measure_one(lambda: last(value.to(memory_format=torch.channels_last)))
    if not a.quick:
        try:
            fast = torch.compile(last)
            found["compiled"] = measure_one(lambda: fast(value.to(memory_format=torch.channels_last)))
        except Exception as e:  # a machine without a compiler
            say(f"  PyTorch compiled: {str(e).splitlines()[0]}")
    wall, cpu = (min(v[i] for v in found.values()) for i in range(2))
    say(f"  Zenith {mine['ms']:.0f} ms ({mine['cpu_ms']:.0f} of CPU time) on {mine['threads']} threads, PyTorch on {torch.get_num_threads()}: "
        + ", ".join(f"{k} {v[0]:.0f} ms ({v[1]:.0f})" for k, v in found.items())
        + f": {wall / mine['ms']:.2f}x, of CPU time {cpu / mine['cpu_ms']:.2f}x; load {os.getloadavg()[0]:.1f}")


def on_cpu(a, path, id, z, scale, size, net):
    for half in ("decode", "encode"):
        value = example(half, size, z, scale)
        say(f"{id}-{half} {size}x{size}")
        if not a.no_errors:
            part(errors, a, path, id, half, value, net)
        if not a.no_times:
            part(cpu_times, a, path, id, half, size, net, value)


# ---- a large picture --------------------------------------------------------------------------------------------

def bounded(a, bound):
    """The environment of a run under that bound; "auto": the engine's own."""
    variable = "ZENITH_CUDA_MEMORY" if a.gpu else "ZENITH_MEMORY"
    env = {k: v for k, v in os.environ.items() if k != variable}
    return env if bound == "auto" else {**env, variable: bound}


def large_run(a, path, id, bound, d, tiny):
    """The picture under that bound."""
    out, env, start = f"{d}/{bound}.npy", bounded(a, bound), time.monotonic()
    with FreeMemory() as m:
        r = run_ours(a, id, "decode", a.large_precision, path, f"{d}/z.npy", out, LARGE_LIMIT, env, ("--progress",))
    if r.returncode:
        raise RuntimeError(f"bound {bound}: {(r.stderr.strip().splitlines() or ['killed'])[-1]}")
    say(f"  bound {bound}: {time.monotonic() - start:.1f} s with start, loading and writing; {r.stderr.strip().splitlines()[0]}; "
        f"free memory fell by {m.fell / 2**20:.0f} MiB, of which {tiny / 2**20:.0f} context")
    return np.load(out, mmap_mode="r")


def large_time(a, path, id, bound, width, height):
    r = subprocess.run([a.zenith, "bench", f"{id}-decode", "--weights", path, "--engine", a.engine, "--size", f"{width}x{height}", "--json",
                        "--set", f"precision={a.large_precision}"], capture_output=True, text=True, timeout=LARGE_LIMIT, env=bounded(a, bound))
    if r.returncode:
        raise RuntimeError(f"bound {bound}: {r.stderr.strip()}")
    r = json.loads(r.stdout)
    say(f"RESULT large {id}-decode {width}x{height} {a.large_precision}, bound {bound}: {r['ms'] / 1e3:.2f} s with the transfers, {r['tiles']} tile(s), "
        f"{(r['peak_bytes'] + r['weight_bytes']) / 2**20:.0f} MiB planned with weights, {r['gmac'] / 1e3:.1f} TMAC")


def differ(what, x, y):
    """One line about two pictures or strips."""
    off = np.asarray(x, dtype=np.float32) - np.asarray(y, dtype=np.float32)
    say(f"RESULT large {what}: relative {np.linalg.norm(off) / max(np.linalg.norm(y), 1e-30):.1e}, largest {np.abs(off).max():.1e}, "
        f"step {vae_tiles.step(off, vae_tiles.FACTOR) if np.abs(off).max() > 0 else 'none: they are equal'}")


def strips(height, width):
    """(rows, columns) of the latent: one across all columns, one across all rows."""
    y, x = max(0, (height - STRIP) // 2), max(0, (width - STRIP) // 2)
    return (slice(y, y + STRIP), slice(0, width)), (slice(0, height), slice(x, x + STRIP))


def cut(picture, rows, columns):
    f = vae_tiles.FACTOR
    return picture[f * rows.start:f * rows.stop, f * columns.start:f * columns.stop]


def strip_of_pytorch(net, middle, rows, columns):
    """The picture of a strip: the levels see it with all that they reach."""
    h, w = middle.shape[2:]
    y0, y1, x0, x1 = max(0, rows.start - HALO), min(h, rows.stop + HALO), max(0, columns.start - HALO), min(w, columns.stop + HALO)
    f, decoder = vae_tiles.FACTOR, net.decoder
    got = decoder.head(decoder.upsamples(middle[:, :, y0:y1, x0:x1].float())).clamp(-1, 1)[0].permute(1, 2, 0)
    return got[f * (rows.start - y0):f * (min(h, rows.stop) - y0), f * (columns.start - x0):f * (min(w, columns.stop) - x0)].cpu().numpy()


def beside_pytorch(a, net, value, got):
    """The middle over the whole latent in fp16 (in fp32 it would take minutes), the levels of a strip in fp32."""
    type_ = torch.float16 if a.gpu else torch.float32
    decoder, on, start = copy.deepcopy(net), "cuda" if a.gpu else "cpu", time.monotonic()
    decoder.to(on).to(type_)
    z = value.to(on).to(type_)
    vae_nets.attend = attend_in_parts
    middle = decoder.decoder.middle(decoder.decoder.conv1(decoder.conv2(z * decoder.deviation + decoder.mean)))
    middle.sum().item()  # waits
    decoder.float()
    say(f"  PyTorch's middle over {z.shape[3]}x{z.shape[2]} latent pixels: {time.monotonic() - start:.1f} s")
    for name, (rows, columns) in zip(("columns", "rows"), strips(*z.shape[2:])):
        differ(f"beside PyTorch, strip across all {name}", cut(got, rows, columns), strip_of_pytorch(decoder, middle, rows, columns))


def attend_in_parts(q, k, v, heads=1):
    """vae_nets.attend, in parts that PyTorch can hold if it makes the matrix; its kernels that do not want channels side by side."""
    k, v = k.contiguous(), v.contiguous()
    return torch.cat([whole_attend(some.contiguous(), k, v, heads) for some in q.split(8192, dim=1)], dim=1)


def large(a, path, id, z, net):
    w, h = map(int, a.latent.split("x"))
    f = vae_tiles.FACTOR
    value = torch.randn(1, z, h, w, generator=torch.Generator().manual_seed(2))
    say(f"{id}-decode {f * w}x{f * h}, {f * f * w * h / 1e6:.1f} megapixels")
    tiny = part(context, a) or 0
    with tempfile.TemporaryDirectory() as d:
        np.save(f"{d}/z.npy", value[0].permute(1, 2, 0).contiguous().numpy())
        got = {bound: part(large_run, a, path, id, bound, d, tiny) for bound in a.bounds}
        got = {k: v for k, v in got.items() if v is not None}
        for bound in got:
            part(large_time, a, path, id, bound, f * w, f * h)
        first = next(iter(got), None)
        for bound in list(got)[1:]:
            for name, at in zip(("columns", "rows"), strips(h, w)):
                part(differ, f"bound {first} beside {bound}, strip across all {name}", cut(got[first], *at), cut(got[bound], *at))
            whole = max(float(np.abs(got[first][i:i + 256] - got[bound][i:i + 256]).max()) for i in range(0, f * h, 256))
            say(f"RESULT large bound {first} beside {bound}, all pixels: largest difference {whole:.1e} (of a range of 2)")
        if first:
            part(beside_pytorch, a, net, value, got[first])


# ---- main --------------------------------------------------------------------------------------------------------

def example(half, size, z, scale):
    g = torch.Generator().manual_seed(2)
    return torch.rand(1, 3, size, size, generator=g) * 2 - 1 if half == "encode" else \
        torch.randn(1, z, size // scale, size // scale, generator=g)


def measure(a, name):
    build, id, z, scale = NETS[name]
    torch.manual_seed(1)
    net = build().eval()
    with tempfile.TemporaryDirectory() as d, torch.no_grad():
        for k, v in net.named_parameters():
            if k.endswith("gamma") or ("norm" in k and k.endswith("weight")):
                v.copy_(1 + 0.1 * torch.randn_like(v))
        path = f"{d}/w.safetensors"
        save_file({k: v.contiguous() for k, v in net.state_dict().items()}, path)
        if a.warm:
            warm(a, z, scale, a.size, net)
        elif a.large:
            large(a, path, id, z, net)
        else:
            (on_gpu if a.gpu else on_cpu)(a, path, id, z, scale, a.size, net)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("zenith")
    p.add_argument("--engine", default="cuda")
    p.add_argument("--only", nargs="*", default=list(NETS), choices=list(NETS))
    p.add_argument("--precision", nargs="*")
    p.add_argument("--quick", action="store_true", help="without torch.compile")
    p.add_argument("--size", type=int, default=512)
    p.add_argument("--seconds", type=float, default=140)
    p.add_argument("--warm", action="store_true", help="only compile, into $TORCHINDUCTOR_CACHE_DIR")
    p.add_argument("--no-errors", action="store_true")
    p.add_argument("--no-times", action="store_true")
    p.add_argument("--large", action="store_true")
    p.add_argument("--latent", default="750x500", help="of --large, width and height")
    p.add_argument("--bounds", nargs="*", default=["8G", "5G", "auto"])
    a = p.parse_args()
    if a.warm and not os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        p.error("--warm needs TORCHINDUCTOR_CACHE_DIR")
    a.gpu = a.engine == "cuda"
    a.large_precision = "fp16" if a.gpu else "fp32"
    a.precision = a.precision or (["fp16", "bf16", "fp8", "fp32", "tf32"] if a.gpu else ["fp32", "fp16", "bf16", "int8"])
    torch._inductor.config.autotune_num_choices_displayed = 1
    torch.backends.cudnn.benchmark = not a.large
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for name in ["wan21"] if a.large else a.only:
        part(measure, a, name)
    say(f"{time.monotonic() - began:.0f} s; failed: {', '.join(failed) or 'nothing'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
