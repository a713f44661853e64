#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One evaluation of Z-Image's transformer on a GPU, compared with PyTorch, in one run.

    tools/zimage_bench.py ZENITH [--layers 30] [--size 1024] [--precision bf16 fp8 int4] [--cpu]

The network has the published widths (3840 channels, 30 heads, feed-forward layers of 10240) and random weights in bf16; both programs
read the same tensors.  PyTorch: scaled_dot_product_attention, blocks compiled, one CUDA graph for the whole evaluation.  Times are device
times of `z-image-step`: the latent and 64 caption tokens in, the velocity out.  The error is relative to PyTorch in bf16, so fp32
has about bf16's own.  --cpu tries the script on a processor: small width, no times."""
import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu_time import graph, median_ms  # noqa: E402

CAPTION, LATENT, REFINERS, FEATURES = 64, 16, 2, 2560


def rms(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


class Block(torch.nn.Module):
    def __init__(self, width, head, feed, cond):
        super().__init__()
        linear = lambda i, o, bias=False: torch.nn.Linear(i, o, bias=bias)
        self.head = head
        self.attention = torch.nn.ModuleDict(dict(to_q=linear(width, width), to_k=linear(width, width), to_v=linear(width, width),
                                                  norm_q=torch.nn.RMSNorm(head), norm_k=torch.nn.RMSNorm(head)))
        self.attention["to_out"] = torch.nn.ModuleList([linear(width, width)])
        self.feed_forward = torch.nn.ModuleDict(dict(w1=linear(width, feed), w2=linear(feed, width), w3=linear(width, feed)))
        for name in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
            setattr(self, name, torch.nn.RMSNorm(width))
        self.adaLN_modulation = torch.nn.ModuleList([linear(cond, 4 * width, True)])

    def forward(self, x, cond, cos, sin):
        """x [tokens,width]"""
        a, f = self.attention, self.feed_forward
        scale_a, gate_a, scale_f, gate_f = self.adaLN_modulation[0](cond).chunk(4)
        h = rms(x, self.attention_norm1.weight) * (1 + scale_a)

        def heads(v, norm):
            v = v.view(len(v), -1, self.head)
            if norm is None:
                return v.transpose(0, 1)
            v = rms(v, norm.weight).float()
            even, odd = v[..., ::2], v[..., 1::2]
            c, s = cos[:, None], sin[:, None]
            return torch.stack([even * c - odd * s, even * s + odd * c], -1).flatten(2).to(x.dtype).transpose(0, 1)

        q, k, v = (heads(a[n](h), a[m] if m else None) for n, m in (("to_q", "norm_q"), ("to_k", "norm_k"), ("to_v", None)))
        h = F.scaled_dot_product_attention(q[None], k[None], v[None])[0].transpose(0, 1).flatten(1)
        x = x + gate_a.tanh() * rms(a["to_out"][0](h), self.attention_norm2.weight)
        h = rms(x, self.ffn_norm1.weight) * (1 + scale_f)
        h = f["w2"](F.silu(f["w1"](h)) * f["w3"](h))
        return x + gate_f.tanh() * rms(h, self.ffn_norm2.weight)


class Step(torch.nn.Module):
    def __init__(self, width, head, feed, layers, time_width, mid):
        super().__init__()
        linear = torch.nn.Linear
        self.t = torch.nn.ModuleList([linear(time_width, mid), torch.nn.SiLU(), linear(mid, time_width)])
        self.embed, self.last = linear(4 * LATENT, width), linear(width, 4 * LATENT)
        self.final = linear(time_width, width)
        self.refiner = torch.nn.ModuleList(Block(width, head, feed, time_width) for _ in range(REFINERS))
        self.layers = torch.nn.ModuleList(Block(width, head, feed, time_width) for _ in range(layers))

    def forward(self, x, t, cap, rope):
        """x [h,w,16], t [1,time], cap [tokens,width], rope [tokens,head]: cosines, then sines"""
        h, w, c = x.shape
        cond = self.t[2](F.silu(self.t[0](t)))[0]
        tokens = x.view(h // 2, 2, w // 2, 2, c).permute(0, 2, 1, 3, 4).reshape(h * w // 4, 4 * c)
        tokens = self.embed(tokens)
        cos, sin = rope.chunk(2, 1)
        for b in self.refiner:
            tokens = b(tokens, cond, cos[:len(tokens)], sin[:len(tokens)])
        every = torch.cat([tokens, cap])
        for b in self.layers:
            every = b(every, cond, cos, sin)
        y = F.layer_norm(every[:len(tokens)], every.shape[1:], eps=1e-6) * (1 + self.final(F.silu(cond)))
        return self.last(y).view(h // 2, w // 2, 2, 2, c).permute(0, 2, 1, 3, 4).reshape(h, w, c)


def published(state):
    """The tensors under their published names."""
    names = dict(t="t_embedder.mlp", embed="all_x_embedder.2-1", last="all_final_layer.2-1.linear", layers="layers",
                 final="all_final_layer.2-1.adaLN_modulation.1", refiner="noise_refiner")
    return {f"{names[k.split('.')[0]]}.{k.split('.', 1)[1]}": v for k, v in state.items()}


@torch.no_grad()
def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("zenith")
    p.add_argument("--layers", type=int, default=30)
    p.add_argument("--size", type=int, default=1024)
    p.add_argument("--precision", nargs="*", default=["bf16", "fp8", "int4"])
    p.add_argument("--eager", action="store_true", help="without torch.compile")
    p.add_argument("--cpu", action="store_true")
    a = p.parse_args()
    device, kind = ("cpu", torch.float32) if a.cpu else ("cuda", torch.bfloat16)
    width, head, feed, time_width, mid = (64, 32, 128, 32, 48) if a.cpu else (3840, 128, 10240, 256, 1024)
    torch.manual_seed(1)
    with torch.device(device):
        torch.set_default_dtype(kind)
        net = Step(width, head, feed, a.layers, time_width, mid).eval()
        for q in net.parameters():
            if q.dim() == 2:
                q.normal_(std=q.shape[1] ** -0.5)
        side, tokens = a.size // 8, (a.size // 16) ** 2
        if tokens % 32:
            sys.exit("the number of tokens must be a multiple of 32")
        angle = torch.rand(tokens + CAPTION, head // 2, dtype=torch.float32) * 6
        x = dict(x=torch.randn(side, side, LATENT), time=torch.randn(1, time_width).clamp(-1, 1), tokens=torch.randn(CAPTION, width),
                 rope=torch.cat([angle.cos(), angle.sin()], 1))
    torch.set_default_dtype(torch.float32)
    run = lambda: net(*x.values())
    y = run()
    if not a.cpu:
        print(f"PyTorch {torch.__version__} bf16, {a.layers} layers, {a.size}x{a.size}: eager {median_ms(run, 12):.2f} ms", flush=True)
        if not a.eager:
            began = time.time()
            for b in (*net.refiner, *net.layers):
                b.compile(dynamic=False)
            run()
            print(f"  compiled, as a CUDA graph {median_ms(graph(run), 12):.2f} ms ({time.time() - began:.0f} s to compile)", flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as d:
        d = Path(d)
        state = {k: v.cpu().contiguous() for k, v in published(net.state_dict()).items()}
        state["cap_embedder.1.weight"] = torch.zeros(width, FEATURES, dtype=kind)     # says how wide captions are
        state["x_pad_token"] = torch.zeros(1, width, dtype=kind)
        save_file(state, d / "z-image.safetensors")
        del state, net
        if not a.cpu:
            torch.cuda.empty_cache()
        inputs = []
        for k, v in x.items():
            v = v.float().cpu().numpy()
            np.save(d / f"{k}.npy", np.ascontiguousarray(v if v.ndim == 3 else v[None]))
            inputs += ["--in", f"{k}={d / k}.npy"]
        common = ["--weights", d / "z-image.safetensors", *([] if a.cpu else ["--engine", "cuda"])]
        for precision in ["fp32"] if a.cpu else a.precision:
            began = time.time()
            r = subprocess.run([a.zenith, "run", "z-image-step", *common, "--set", f"precision={precision}", *inputs, "--out", f"y={d}/y.npy"],
                               capture_output=True, text=True)
            if r.returncode:
                print(f"  {precision}: {r.stderr.strip()}", flush=True)
                continue
            took = time.time() - began
            got, want = torch.from_numpy(np.load(d / "y.npy")), y.float().cpu()
            error = ((got - want).square().mean() / want.square().mean()).sqrt().item()
            line = f"Zenith {precision}: relative error {error:.2e}"
            if not a.cpu:
                b = subprocess.run([a.zenith, "bench", "z-image-step", *common, "--set", f"precision={precision}", "--size", f"{a.size}x{a.size}",
                                    "--json"], capture_output=True, text=True)
                if b.returncode:
                    line += f"; {b.stderr.strip()}"
                else:
                    j = json.loads(b.stdout)
                    line += f"; {j['device_ms']:.2f} ms, {2 * j['gmac'] / j['device_ms']:.0f} TFLOP/s, arena {j['peak_bytes'] >> 20} MiB"
            print(f"{line}; opened, run and closed in {took:.1f} s", flush=True)


main()
