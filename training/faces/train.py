"""Train the face autoencoder for a given time.

    python train.py --data DIR --table faces128.csv --out OUT --minutes 16
    python train.py ... --init CHECKPOINT                  # go on from a checkpoint's average, with a new schedule

The learning rate follows a cosine over the wall clock, so a run always ends annealed. On CUDA a step (pictures,
augmentation, noise, forward, backward, update) is one CUDA graph; master weights, average and moments are flat float32
vectors, the network runs in fp16 with a scaled loss. Hidden matrices are stepped by Muon, the rest by Adam.
OUT gets the average's weights as parts of less than 16 MiB, a log and a sheet, every --every seconds.
"""
import argparse
import copy
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import data
import diffusion
import export
import nets
import sheet


def training_loss(net, faces, abar, n, aux):
    x, y = faces.batch(n)
    code = net.encoder(x)
    # one time of each of n equal shares: less variance than independent times
    t = ((torch.arange(n, device=x.device) + torch.rand(n, device=x.device)) * (diffusion.STEPS / n)).long().clamp(max=999)
    a = abar[t][:, None, None, None]
    noise = torch.randn_like(x)
    v = net(a.sqrt() * x + (1 - a).sqrt() * noise, t, code)
    mse = F.mse_loss(v, a.sqrt() * noise - (1 - a).sqrt() * x)
    attributes = data.attribute_loss(F.linear(code, net.aux.weight.float(), net.aux.bias.float()), y)
    return mse + aux * attributes, mse, attributes


# ---- flat state ----------------------------------------------------------------------------------

def flat_of(p):
    """Convolutions as [out, height, width, in], so that they lie channels_last; padded, so that the next one is aligned
    (cuDNN has no tensor-core kernels for weights at odd addresses)."""
    v = (p.permute(0, 2, 3, 1) if p.dim() == 4 else p).reshape(-1)
    return F.pad(v, (0, -len(v) % 64)) if len(v) % 64 else v


def padded(p):
    return p.numel() + -p.numel() % 64


def unflatten(net, flat):
    """Make the parameters of net views of flat."""
    at = 0
    for p in net.parameters():
        part = flat[at:at + p.numel()]
        at += padded(p)
        if p.dim() == 4:
            o, i, h, w = p.shape
            p.data = part.view(o, h, w, i).permute(0, 3, 1, 2)
        else:
            p.data = part.view(p.shape)


def orthogonal(g, steps=5):
    """The nearest orthogonal matrices of a batch [G,R,C], by the quintic Newton-Schulz iteration of Muon."""
    x = g.bfloat16() if g.is_cuda else g
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + torch.baddbmm(a, a, a, beta=-4.775, alpha=2.0315) @ x
    return (x.mT if tall else x).to(g.dtype)


class Matrices:
    """Where the hidden matrices lie in the flat vector, grouped by shape: Muon's share. The first and last layers, the
    time embedding, biases and norms are Adam's."""

    OTHERS = ("input_blocks.0.", "encoder.input_blocks.0.", "out.2.", "encoder.out.3.", "time_embed.", "aux.")

    def __init__(self, net):
        self.groups, at = {}, 0
        for name, p in net.named_parameters():
            if p.dim() >= 2 and not name.startswith(self.OTHERS):
                self.groups.setdefault((p.shape[0], p[0].numel()), []).append(at)
            at += padded(p)

    def orthogonalise(self, update, momentum, master, decay):
        """Overwrite these parts of update; scaled so that their root mean square is that of an Adam step."""
        for (r, c), starts in self.groups.items():
            o = orthogonal(torch.stack([momentum[s:s + r * c].view(r, c) for s in starts]))
            o *= 0.2 * max(r, c) ** 0.5
            o = o.view(len(starts), -1)
            torch._foreach_copy_([update[s:s + r * c] for s in starts], list(o.unbind(0)))
            torch._foreach_add_([update[s:s + r * c] for s in starts], [master[s:s + r * c] for s in starts], alpha=decay)


class Trainer:
    B1, B2, EPS = 0.9, 0.98, 1e-8

    def __init__(self, net, loss, device, average=0.999, decay=0.05, kind=torch.float16):
        self.loss, self.average, self.decay = loss, average, decay
        self.cuda = device == "cuda"
        self.matrices = Matrices(net)
        net = net.to(device)
        self.master = torch.cat([flat_of(p.detach()) for p in net.parameters()])
        self.ema = self.master.clone()
        self.m, self.v, self.mu = (torch.zeros_like(self.master) for _ in range(3))
        self.work = copy.deepcopy(net).to(kind if self.cuda else torch.float32)
        self.flat = torch.cat([flat_of(p.detach()) for p in self.work.parameters()])
        unflatten(self.work, self.flat)
        self.params = list(self.work.parameters())
        # the average, for looking at it
        self.shown = copy.deepcopy(self.work).eval().requires_grad_(False)
        self.shown_flat = self.flat.clone()
        unflatten(self.shown, self.shown_flat)
        scalar = lambda v: torch.tensor(v, device=device, dtype=torch.float32)
        self.t, self.lr, self.norm, self.skipped = scalar(0), scalar(0), scalar(0), scalar(0)
        self.scale = scalar(65536 if self.cuda else 1)
        self.means = torch.zeros(2, device=device)
        self.steps = 0

    def step(self):
        loss, *shown = self.loss(self.work)
        g = torch.autograd.grad(loss * self.scale, self.params)
        g = torch.cat([flat_of(i) for i in g]).float() / self.scale
        with torch.no_grad():
            # clip at three times the usual norm; a step that is not finite is left out
            norm = g.norm()
            fine = torch.isfinite(norm)
            usual = torch.where(self.norm > 0, self.norm, norm)
            norm = torch.where(fine, norm, usual)
            self.scale.copy_(torch.where(fine, self.scale * 1.0005, self.scale / 2).clamp(1, 1 << 20))
            self.skipped += ~fine
            g = torch.where(fine, g * torch.clamp(3 * usual / (norm + 1e-12), max=1.0), 0.0)
            self.norm.copy_(torch.where(fine, torch.lerp(usual, torch.minimum(norm, 3 * usual), 0.02), self.norm))
            self.t += 1
            self.m.lerp_(g, 1 - self.B1)
            self.v.lerp_(g * g, 1 - self.B2)
            root = (self.v / (1 - self.B2 ** self.t)).sqrt_().add_(self.EPS)
            update = self.m / root / (1 - self.B1 ** self.t)
            self.mu.mul_(0.95).add_(g)
            self.matrices.orthogonalise(update, torch.add(g, self.mu, alpha=0.95), self.master, self.decay)
            self.master.sub_(update * self.lr)
            self.ema.lerp_(self.master, 1 - torch.clamp((1 + self.t) / (10 + self.t), max=self.average))
            self.flat.copy_(self.master)
            now = torch.stack(shown).detach()
            self.means.lerp_(torch.where(fine, now, self.means), torch.clamp(1 / self.t, min=0.005))

    def prepare(self):
        """On CUDA, capture the step."""
        if not self.cuda:
            self.go = self.step
            return
        keep = [self.master, self.ema, self.m, self.v, self.mu, self.flat, self.t, self.lr, self.norm, self.means, self.scale,
                self.skipped]
        saved = [k.clone() for k in keep]
        self.lr.zero_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        for k, s in zip(keep, saved):
            k.copy_(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()
        self.go = self.graph.replay

    def average_net(self):
        self.shown_flat.copy_(self.ema)
        return self.shown


def profile(trainer, n):
    """Where the time of a step goes, by kernel."""
    from torch.profiler import ProfilerActivity
    trainer.lr.zero_()
    torch.cuda.synchronize()
    start = time.time()
    for _ in range(20):
        trainer.go()
    torch.cuda.synchronize()
    ms = (time.time() - start) * 50
    print(f"# {ms:.2f} ms a step, {n * 1000 / ms:.0f} pictures/s, {torch.cuda.max_memory_allocated() >> 20} MiB")
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as p:
        for _ in range(2):
            trainer.go()
        torch.cuda.synchronize()
    rows = sorted(p.key_averages(), key=lambda r: -r.self_device_time_total)
    total = sum(r.self_device_time_total for r in rows)
    print(f"# {total / 2000:.2f} ms of kernels, {sum(r.count for r in rows) // 2} launches")
    for r in rows[:32]:
        print(f"# {r.self_device_time_total / 2000:7.3f} ms {r.count // 2:5d}x {r.key[:100]}", flush=True)


def look(net, faces, n, out):
    """Reconstruction of held-out faces at 20 steps, and a sheet: originals, reconstructions, from the code alone."""
    rows = faces.of("test")[:n]
    if not len(rows):
        return "no test faces"
    x = faces.get(rows)
    with torch.no_grad():
        z = net.encoder(x)
    ts = diffusion.bent(20 if x.is_cuda else 5)
    how = dict(order=2, ends=False)
    back = diffusion.sample(net, diffusion.reverse(net, x, z, ts, **how), z, ts, **how)
    noise = torch.randn(x.shape, generator=torch.Generator(x.device).manual_seed(1), device=x.device)
    alone = diffusion.sample(net, noise, z, ts, **how)
    sheet.save(out / "progress.jpg", [x[:12], back[:12], alone[:12]])
    return f"reconstruction {diffusion.psnr(back, x):.2f} dB {diffusion.ssim(back, x):.4f}, code alone {diffusion.psnr(alone, x):.2f} dB"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, help="folder of data.py decode")
    p.add_argument("--table", required=True, help="faces128.csv")
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, required=True)
    p.add_argument("--config", default="face", choices=nets.CONFIGS)
    p.add_argument("--init", help="checkpoint (file, or folder of parts) to go on from")
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--lr", type=float, default=1.5e-3)
    p.add_argument("--aux", type=float, default=0.1, help="weight of the attributes' mean loss")
    p.add_argument("--kind", default="float16", choices=("float16", "bfloat16"))
    p.add_argument("--every", type=float, default=120)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--profile", action="store_true")
    a = p.parse_args()
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    log = open(out / "train.log", "a")

    def say(text):
        print(text, flush=True)
        print(text, file=log, flush=True)

    began = time.time()
    torch.backends.cudnn.benchmark = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(a.seed)
    net = nets.build(a.config, len(data.NAMES))
    before = {"steps": 0, "pictures": 0}
    if a.init:
        tensors, about = export.read(a.init)
        net.load_state_dict({k: v.float() for k, v in tensors.items()})
        before = {k: int(about.get(k, 0)) for k in before}
    faces = data.Faces(a.data, a.table, device)
    abar = diffusion.ABAR.float().to(device)
    trainer = Trainer(net, lambda work: training_loss(work, faces, abar, a.batch, a.aux), device, kind=getattr(torch, a.kind))
    trainer.prepare()
    if a.profile and trainer.cuda:
        state = {k: getattr(trainer, k).clone() for k in ("m", "v", "mu", "t", "norm", "means", "scale", "ema")}
        profile(trainer, a.batch)
        for k, v in state.items():
            getattr(trainer, k).copy_(v)
    say(f"# {int(faces.count)} faces, {trainer.master.numel():,} parameters, {a.minutes} minutes, batch {a.batch}, lr {a.lr}, "
        f"aux {a.aux}, {a.kind}, init {a.init}, ready after {time.time() - began:.0f} s")

    def save():
        net = trainer.average_net()
        export.write(out, net, a.config, steps=before["steps"] + trainer.steps,
                     pictures=before["pictures"] + trainer.steps * a.batch)
        return look(net, faces, a.batch, out)

    start = shown = polled = time.time()
    while True:
        now = time.time()
        done = (now - start) / (60 * a.minutes)
        if done >= 1:
            break
        if now - polled > 5:
            count = int(faces.count)
            if faces.poll() != count:
                say(f"# {int(faces.count)} faces from step {trainer.steps}")
            if (out / "minutes").exists():      # another end than planned
                a.minutes = float((out / "minutes").read_text())
            polled = now
        warm = min(1.0, (trainer.steps + 10) / 400)
        trainer.lr.fill_(a.lr * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done))))
        for _ in range(10 if trainer.cuda else 1):
            trainer.go()
            trainer.steps += 1
        means = trainer.means.tolist()          # waits for the device
        if not all(map(math.isfinite, means)):
            raise SystemExit(f"loss is not finite at step {trainer.steps}")
        if time.time() - shown > a.every or trainer.steps in (200, 1000):
            t = time.time() - start
            text = save() if trainer.steps > 1000 or not trainer.cuda else ""
            say(f"step {trainer.steps} {t:.0f} s {trainer.steps / t:.2f} steps/s v {means[0]:.5f} attributes {means[1]:.4f} "
                f"scale {float(trainer.scale):.0f} skipped {int(trainer.skipped)} norm {float(trainer.norm):.4f} {text}")
            shown = time.time() if trainer.steps not in (200, 1000) else shown
    text = save()
    say(f"end step {trainer.steps} pictures {before['pictures'] + trainer.steps * a.batch} "
        f"{(time.time() - start) / max(1, trainer.steps) * 1000:.2f} ms a step v {means[0]:.5f} attributes {means[1]:.4f} {text}")
    (out / "done").write_text(text)


if __name__ == "__main__":
    main()
