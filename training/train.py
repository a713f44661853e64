"""Train one network for a given time and write its .safetensors.

    python train.py denoise-fast --photos DIR... --test KODAK24_DIR --minutes 7 --out DIR

The learning rate follows a cosine over the wall clock, so a run always ends annealed (--hold 0.7: only after 70 % of
it); --part 0:0.4 does only the first 40 % of it, and --init with --part 0.4:1 goes on from there, later or on another
machine.
--resume continues from a checkpoint in --out; --init starts from shipped weights, of fewer blocks if need be.
On CUDA a step (crops, noise, forward, backward, update) is one CUDA graph; the master weights,
their average and the Adam moments are flat float32 vectors, the network itself runs in 16 bits: the denoisers in fp16,
whose loss is scaled so that small gradients survive, the autoencoder in bf16.
"""
import argparse
import copy
import functools
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import data
import evaluate
import export
import latent_nets
import nets


# ---- losses --------------------------------------------------------------------------------------

def denoiser_loss(work, x, pool=1, pairs=None, share=0.0):
    """Minus PSNR of each crop, or of `pool` crops of one photograph together, as a picture is measured: then its
    texture counts as much as its sky. The floor keeps almost clean crops from dominating the gradient. Of the crops, or
    groups of them, a share are pairs of cameras.py instead."""
    noisy, sigma = data.noise(x, pool)
    k = round(share * len(x) / pool) if pairs else 0
    if k:
        own = [v.view(pool, -1, *v.shape[1:])[:, k:] for v in (x, noisy, sigma)]
        new = [v.view(pool, k, *v.shape[1:]) for v in pairs.sample(pool * k, x.shape[-1])]
        x, noisy, sigma = (torch.cat([b.to(a.dtype), a], 1).flatten(0, 1) for a, b in zip(own, new))
    if x.is_cuda:
        import kernels
        y = kernels.forward(work, noisy, sigma)
    else:
        y = work(noisy, sigma)
    mse = (y - x).square().flatten(1).mean(1).view(pool, -1)
    mse = torch.cat([mse[:, :k], mse[:, k:].mean(0).expand(pool, -1)], 1)      # pairs are of different photographs and levels
    return 10 * torch.log10(mse + 1e-5).mean()


def autoencoder_loss(work, x):
    """L1, log-MSE and the L1 of gradients at three scales; latents are held near unit variance
    inside the clamp, and a little noise makes them robust to 8-bit storage."""
    kind = next(work.parameters()).dtype
    z = work.encode(x.to(kind, memory_format=torch.channels_last)).float()
    mean, var = z.mean((0, 2, 3)), z.var((0, 2, 3))
    shape = (mean.square() + (var - 1).square()).mean() + 10 * F.relu(z.abs() - 2.6).square().mean()
    z = 3 * torch.tanh((z + 0.02 * torch.randn_like(z)) / 3)
    y = work.decoder(z.to(kind, memory_format=torch.channels_last)).float()
    return picture_loss(y, x) + 0.01 * shape


def picture_loss(y, x):
    d = y - x
    loss = d.abs().mean() + 0.02 * torch.log(d.square().flatten(1).mean(1) + 1e-5).mean()
    for _ in range(3):
        loss = loss + 0.2 * ((d[..., 1:] - d[..., :-1]).abs().mean() + (d[..., 1:, :] - d[..., :-1, :]).abs().mean())
        d = F.avg_pool2d(d, 2)
    return loss


def error_loss(y, x):
    """Log of the mean squared error of each crop: what PSNR measures. A little of the first differences' L1 keeps edges."""
    d = y - x
    edges = (d[..., 1:] - d[..., :-1]).abs().mean() + (d[..., 1:, :] - d[..., :-1, :]).abs().mean()
    return 0.1 * torch.log(d.square().flatten(1).mean(1) + 1e-5).mean() + 0.5 * edges


def channels_last(work):
    kind = next(work.parameters()).dtype
    return lambda v: v.to(kind, memory_format=torch.channels_last)


def held(z):
    """What pulls each channel of z to mean 0, variance 1, and inside the clamp."""
    mean, var = z.mean((0, 2, 3)), z.var((0, 2, 3))
    return (mean.square() + (var - 1).square()).mean() + 10 * F.relu(z.abs() - 2.6).square().mean()


def stored(z):
    """z as a decoder gets it; the noise stands for 8-bit storage (which has a deviation of 0.007) and small edits."""
    return 3 * torch.tanh((z + 0.015 * torch.randn_like(z)) / 3)


def latent_loss(work, x):
    to = channels_last(work)
    z = work.encode(to(x)).float()
    return error_loss(work.decoder(to(stored(z))).float(), x) + 0.01 * held(z)


def family_loss(work, x, share=0.25):
    """Every member decodes its own latents and, for a share of the crops, another's; all encoders follow the first."""
    to = channels_last(work)
    members = list(work.members.values())
    latents = [m.encode(to(x)).float() for m in members]
    own = round(len(x) * (1 - share))
    loss = 0.0
    for i, m in enumerate(members):
        other = latents[(i + 1) % len(members)]
        z = torch.cat([latents[i][:own], other[own:]])
        loss = loss + error_loss(m.decoder(to(stored(z))).float(), x) + 0.01 * held(latents[i])
        if i:
            loss = loss + 0.05 * (latents[i] - latents[0].detach()).square().mean()
    return loss


def student_loss(work, x, teacher):
    """Both halves learn to stand in for the teacher's: the decoder turns the teacher's latents, and for a quarter of the crops the
    encoder's, into the picture; the encoder gives the teacher's latents, of which the teacher's decoder makes the picture for some
    of the crops. The decoder does not teach the encoder: the two would agree on latents of their own."""
    to = channels_last(work)
    with torch.no_grad():
        goal = teacher.encode(to(x)).float()
    z = work.encode(to(x)).float()
    quarter = max(1, len(x) // 4)
    y = work.decoder(to(stored(torch.cat([z[:quarter].detach(), goal[quarter:]])))).float()
    back = teacher.decode(to(z[:quarter])).float()
    return error_loss(y, x) + 0.5 * error_loss(back, x[:quarter]) + 0.1 * torch.log((z - goal).square().mean() + 1e-4)


# ---- flat state ----------------------------------------------------------------------------------

def laid(p):
    """A kernel [o,i,h,w] with its input channels last, as convolutions read it on a GPU: no copy for each of them in each step."""
    return p.permute(0, 2, 3, 1) if p.dim() == 4 else p


def trained(net):
    """Names and parameters, without those that --freeze leaves as they are."""
    return [(name, p) for name, p in net.named_parameters() if p.requires_grad]


def flatten(net):
    return torch.cat([laid(p.detach()).flatten() for _, p in trained(net)])


def unflatten(net, flat):
    """Make the parameters of net views of flat."""
    at = 0
    for _, p in trained(net):
        view = flat[at:at + p.numel()].view(laid(p).shape)
        p.data = view.permute(0, 3, 1, 2) if p.dim() == 4 else view
        at += p.numel()


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
    """Where the hidden matrices of a network lie in its flat vector, grouped by shape: Muon's share. The rest
    (depthwise kernels, biases, first and last layer) is Adam's."""

    def __init__(self, net):
        self.groups, at = {}, 0
        for name, p in trained(net):
            if p.dim() == 4 and p.shape[1] > 1 and "intro" not in name and "outro" not in name:
                self.groups.setdefault((p.shape[0], p[0].numel()), []).append(at)
            at += p.numel()

    def orthogonalise(self, update, momentum):
        """Overwrite these parts of update; scaled so that their root mean square is that of an Adam step."""
        for (r, c), starts in self.groups.items():
            o = orthogonal(torch.stack([momentum[s:s + r * c].view(r, c) for s in starts]))
            o *= 0.2 * max(r, c) ** 0.5
            for s, k in zip(starts, o):
                update[s:s + r * c].copy_(k.reshape(-1))


class Trainer:
    B1, B2, EPS = 0.9, 0.98, 1e-8

    def __init__(self, net, loss, device, average=0.999, muon=False, kind=torch.bfloat16):
        self.loss, self.device, self.average = loss, device, average
        self.matrices = Matrices(net) if muon else None
        self.cuda = device == "cuda"
        net = net.to(device)
        self.master = flatten(net)
        self.ema = self.master.clone()
        self.m, self.v = torch.zeros_like(self.master), torch.zeros_like(self.master)
        self.mu = torch.zeros_like(self.master)
        self.work = copy.deepcopy(net).to(kind if self.cuda else torch.float32, memory_format=torch.channels_last)
        self.flat = flatten(self.work)
        unflatten(self.work, self.flat)
        self.params = [p for _, p in trained(self.work)]
        self.shown = net.eval()                     # float32, shows the average
        unflatten(self.shown, self.ema)
        scalar = lambda v: torch.tensor(v, device=device, dtype=torch.float32)
        self.t, self.lr, self.norm, self.mean_loss = scalar(0), scalar(0), scalar(0), scalar(0)
        self.scale = scalar(1024)                   # of the loss: as large as the gradients allow
        self.steps = 0

    def step(self):
        loss = self.loss(self.work, self.sample())
        g = torch.cat([laid(i).reshape(-1) for i in torch.autograd.grad(loss * self.scale, self.params)]).float() / self.scale
        with torch.no_grad():
            # clip at three times the usual norm; a step that is not finite is left out
            norm = g.norm()
            fine = torch.isfinite(norm)
            usual = torch.where(self.norm > 0, self.norm, norm)
            norm = torch.where(fine, norm, usual)
            self.scale.copy_(torch.where(fine, self.scale * 1.0005, self.scale / 2).clamp(64, 32768))
            g = torch.where(fine, g * torch.clamp(3 * usual / (norm + 1e-12), max=1.0), 0.0)
            self.norm.copy_(torch.where(fine, torch.lerp(usual, torch.minimum(norm, 3 * usual), 0.02), self.norm))
            self.t += 1
            self.m.lerp_(g, 1 - self.B1)
            self.v.lerp_(g * g, 1 - self.B2)
            root = (self.v / (1 - self.B2 ** self.t)).sqrt_().add_(self.EPS)
            update = self.m / root / (1 - self.B1 ** self.t)
            if self.matrices:
                self.mu.mul_(0.95).add_(g)
                self.matrices.orthogonalise(update, torch.add(g, self.mu, alpha=0.95))
            self.master.sub_(update * self.lr)
            self.ema.lerp_(self.master, 1 - torch.clamp((1 + self.t) / (10 + self.t), max=self.average))
            self.flat.copy_(self.master)
            self.mean_loss.lerp_(torch.where(fine, loss.detach(), self.mean_loss), torch.clamp(1 / self.t, min=0.01))

    def prepare(self, sample):
        """Use these crops; on CUDA, capture the step."""
        self.sample = sample
        if not self.cuda:
            self.go = self.step
            return
        keep = [self.master, self.ema, self.m, self.v, self.mu, self.flat, self.t, self.lr, self.norm, self.mean_loss,
                self.scale]
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

    def state(self):
        return dict(master=self.master, ema=self.ema, m=self.m.bfloat16(), v=self.v.bfloat16(), mu=self.mu.bfloat16(),
                    t=self.t)

    def restore(self, state):
        for k in ("master", "ema", "m", "v", "mu", "t"):
            if k in state:
                getattr(self, k).copy_(state[k])
        self.flat.copy_(self.master)
        self.steps = int(self.t)


# ---- the run -------------------------------------------------------------------------------------

def score(net, name, test, pairs=None, teacher=None):
    x, unit = test
    batch = 6 if x.is_cuda else 1
    if name in latent_nets.FAMILIES:
        return "Kodak24 " + ", ".join(f"{e} > {d} {v:.3f}" for (e, d), v in evaluate.family_scores(net, x, batch).items()) + " dB"
    if teacher:
        return ("Kodak24: teacher %.3f, its latents through our decoder %.3f, ours through its %.3f, both ours %.3f dB"
                % tuple(evaluate.student_scores(net, copy.deepcopy(teacher).float(), x, batch)))
    if name in nets.DENOISERS:
        real = ", ".join(f"{k} {v:.2f}" for k, v in evaluate.real_scores(net, pairs, batch).items()) if pairs else ""
        return ("Kodak24 " + "/".join(f"{v:.3f}" for v in evaluate.denoiser_scores(net, x, unit, batch=batch)) + " dB"
                + (f"; {real}" if real else ""))
    return "Kodak24 %.3f dB, latent mean %.3f deviation %.3f max %.2f" % evaluate.autoencoder_scores(net, x, batch)


def phases(text):
    """'128x32:0.7,192x16:0.3' -> [(side, batch, until)], until as a share of the time."""
    out, until = [], 0.0
    for part in text.split(","):
        shape, share = part.split(":")
        side, batch = map(int, shape.split("x"))
        until += float(share)
        out.append((side, batch, until))
    return out


def share_of_rate(done, hold):
    """The learning rate's share of its peak."""
    return 0.5 * (1 + math.cos(math.pi * max(0, done - hold) / (1 - hold)))


def set_up(a):
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.benchmark = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(a.seed)
    net = nets.build(a.name)
    if a.init:
        if a.name in latent_nets.FAMILIES:              # a folder with a file of each
            for name, member in net.members.items():
                nets.begin_from(member, load_file(Path(a.init) / f"{name}.safetensors"), a.anew)
        grown = () if a.name in latent_nets.FAMILIES else nets.begin_from(net, load_file(a.init), a.anew)
        if grown:
            print(f"# {len(grown)} blocks begin as the identity: {', '.join(grown)}", flush=True)
    for name, p in net.named_parameters():
        p.requires_grad_(not (a.freeze and a.freeze in name))
    denoiser = a.name in nets.DENOISERS
    pairs = data.Pairs(a.cameras, device) if a.cameras else None
    loss = functools.partial(denoiser_loss, pool=a.pool, pairs=pairs, share=a.share) if denoiser else autoencoder_loss
    latent = a.name in latent_nets.LATENTS or a.name in latent_nets.FAMILIES
    if latent:
        loss = family_loss if a.name in latent_nets.FAMILIES else latent_loss
    teacher = None
    if getattr(net, "teacher", None):
        teacher = latent_nets.Teacher(*(Path(a.teacher) / f"{net.teacher}_{half}.pth" for half in ("encoder", "decoder")))
        teacher = teacher.to(device, torch.float16 if device == "cuda" else torch.float32, memory_format=torch.channels_last)
        loss = functools.partial(student_loss, teacher=teacher)
    trainer = Trainer(net, loss, device, muon=a.muon, kind=torch.float16 if denoiser or latent else torch.bfloat16)
    if not denoiser and device == "cuda" and not a.eager:
        torch._dynamo.config.cache_size_limit = 64      # of one block's code: widths, sizes of crops, with gradient and without
        for m in (*trainer.work.modules(), *(teacher.modules() if teacher else ())):
            if isinstance(m, (nets.TinyBlock, latent_nets.Mix, latent_nets.Plain)):
                m.compile(dynamic=False)
    return device, trainer, teacher


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("name", choices=[*nets.DENOISERS, *nets.AUTOENCODERS, *latent_nets.LATENTS, *latent_nets.FAMILIES])
    p.add_argument("--photos", nargs="+", required=True)
    p.add_argument("--test", required=True, help="folder of pictures kept out of training")
    p.add_argument("--teacher", help="folder with the teacher's published files (zenith-f2: taef2_encoder.pth, taef2_decoder.pth)")
    p.add_argument("--real", help="pairs of real.py --save, to see how a denoiser does on noise that is not white")
    p.add_argument("--cameras", help="pairs of cameras.py, at least as large as the crops, for a share of each batch")
    p.add_argument("--share", type=float, default=0.25, help="of the crops that are such pairs")
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, default=7)
    p.add_argument("--steps", type=int, help="end after so many steps, if that is before --minutes")
    p.add_argument("--wall", action="store_true", help="--minutes are those of the whole program, preparations included")
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--hold", type=float, default=0, help="share of the schedule before the learning rate falls")
    p.add_argument("--phases", default="128x32:0.6,192x16:0.4", help="SIDExBATCH:SHARE,...")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--init", help="shipped .safetensors to start from; blocks it lacks begin as the identity")
    p.add_argument("--anew", metavar="PART", help="with --init: tensors with PART in their names begin at random all the same")
    p.add_argument("--freeze", metavar="PART", help="parameters with PART in their names stay as they are")
    p.add_argument("--pool", type=int, default=1, help="crops of one photograph whose errors are taken together")
    p.add_argument("--muon", action="store_true", help="orthogonalised steps for the matrices (Muon), Adam for the rest")
    p.add_argument("--part", default="0:1", help="which part of the schedule this run is (--minutes are this run's)")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--eager", action="store_true", help="no torch.compile (autoencoder)")
    p.add_argument("--limit", type=int, help="use only so many photographs")
    p.add_argument("--every", type=float, default=60, help="seconds between evaluations")
    a = p.parse_args()
    if any(batch % a.pool for _, batch, _ in phases(a.phases)):
        p.error("--pool must divide the batches of --phases")
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    log = open(out / f"{a.name}.log", "a")

    def say(text):
        print(text, flush=True)
        print(text, file=log, flush=True)

    began = time.time()
    device, trainer, teacher = set_up(a)
    if a.resume:
        trainer.restore(export.read_checkpoint(out, a.name))
    crops = data.Crops(a.photos, device, limit=a.limit)
    test = data.test_set(a.test, device)
    pairs = {k: v.to(device) for k, v in load_file(a.real).items()} if a.real else None
    plan = phases(a.phases)
    first_done, last_done = map(float, a.part.split(":"))
    phase = next(i for i, p in enumerate(plan) if first_done < p[2] or i + 1 == len(plan))
    trainer.prepare(crops.sampler(plan[phase][1], plan[phase][0], a.pool))
    say(f"# {a.name}: {crops.count} photographs, {trainer.master.numel():,} parameters, {a.minutes} minutes, "
        f"part {a.part}, lr {a.lr}, hold {a.hold}, pool {a.pool}, phases {a.phases}, ready after {time.time() - began:.0f} s")

    look = crops.sampler(16, 256 if int(crops.smallest.min()) >= 256 else 64)()

    def save():
        """A file for the network, or for each of its members."""
        files = []
        for name, net in trainer.shown.members.items() if a.name in latent_nets.FAMILIES else [(a.name, trainer.shown)]:
            if hasattr(net, "view") and net.encoder.outro.weight.requires_grad:
                with torch.no_grad():
                    net.view.fit(net.encode(look), look)
            files.append(export.write(out, name, net, steps=trainer.steps))
        return files

    start = shown = last = time.time()
    first = trainer.steps
    budget = max(1.0, 60 * a.minutes - (start - began) - 15) if a.wall else 60 * a.minutes      # 15 s for the last evaluation
    spent = 0.0
    while True:
        now = time.time()
        spent += now - last if a.wall else min(now - last, 2.0)     # a process that was stopped for a while loses nothing
        last = now
        done = first_done + (last_done - first_done) * max(spent / budget, (trainer.steps - first) / (a.steps or math.inf))
        if done >= last_done:
            break
        if done >= plan[phase][2] and phase + 1 < len(plan):
            phase += 1
            trainer.prepare(crops.sampler(plan[phase][1], plan[phase][0], a.pool))
            say(f"# phase {plan[phase][:2]} from step {trainer.steps}, {time.time() - now:.1f} s to prepare")
        warm = min(1.0, (trainer.steps - first + 20) / 500)
        trainer.lr.fill_(a.lr * warm * share_of_rate(done, a.hold) + 1e-7)
        for _ in range(20 if trainer.cuda else 1):
            trainer.go()
            trainer.steps += 1
        loss = trainer.mean_loss.item()             # waits for the device
        if time.time() - shown > a.every:
            t = time.time() - start
            rate = (trainer.steps - first) / t
            say(f"step {trainer.steps} {t:.0f} s {rate:.1f} steps/s loss {loss:.4f} "
                f"scale {trainer.scale.item():.0f} {score(trainer.shown, a.name, test, pairs, teacher)}")
            if not math.isfinite(loss):
                raise SystemExit("loss is not finite")
            export.write_checkpoint(out, a.name, trainer.state())
            save()
            shown = time.time()
    export.write_checkpoint(out, a.name, trainer.state())
    paths = save()
    say(f"end step {trainer.steps} loss {loss:.4f} {score(trainer.shown, a.name, test, pairs, teacher)}")
    for path in paths:
        name, net = evaluate.load(path)
        say(f"fp16 file: {name} {score(net.to(device), name, test, pairs, teacher)}; {time.time() - began:.0f} s in all")


if __name__ == "__main__":
    main()
