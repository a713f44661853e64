"""Measure a checkpoint on the held-out faces.

    python eval.py --net CHECKPOINT --data DIR --table faces128.csv --out DIR [--judge FILE] [--judge-seconds 40]

Writes DIR/eval.json, sheet.jpg (private people: never publish it), judge.safetensors, codes.safetensors. On a CPU take few faces
(--faces 16 --attributes smile) and let it read the codes and the judge of an earlier call.
"""
import argparse
import json
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import data
import diffusion
import export
import judge as judges
import sheet


def batches(f, n, *tensors):
    return torch.cat([f(*parts) for parts in zip(*(t.split(n) for t in tensors))])


def auroc(score, label):
    order = torch.argsort(torch.argsort(score.double())).double() + 1
    n1, n0 = label.sum().double(), (~label).sum().double()
    return float((order[label].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def correlation(a, b):
    return float(torch.corrcoef(torch.stack([a.double(), b.double()]))[0, 1])


def fit(codes, faces, rows, name):
    """Weights and bias that read an attribute from normalised codes: logistic or ridge regression."""
    i = data.NAMES.index(name)
    if i < data.BINARY:
        y = faces.labels[rows, i].float()
        w = torch.zeros(codes.shape[1] + 1, device=codes.device, requires_grad=True)
        opt = torch.optim.LBFGS([w], max_iter=100, line_search_fn="strong_wolfe")
        weight = torch.where(y > 0, 0.5 / y.mean(), 0.5 / (1 - y.mean()))

        def closure():
            opt.zero_grad()
            loss = F.binary_cross_entropy_with_logits(codes @ w[:-1] + w[-1], y, weight) + 1e-3 * w[:-1].square().sum()
            loss.backward()
            return loss
        opt.step(closure)
        w = w.detach()
        return w[:-1], w[-1]
    y = faces.targets[rows, i].double()
    x = codes.double()
    a = x.T @ x / len(x) + 0.01 * torch.eye(x.shape[1], device=x.device, dtype=x.dtype)
    return torch.linalg.solve(a, x.T @ (y - y.mean()) / len(x)).float(), y.mean().float()


def quality(score, faces, rows, name):
    i = data.NAMES.index(name)
    if i < data.BINARY:
        return {"auroc": auroc(score, faces.labels[rows, i])}
    out = {"correlation": correlation(score, faces.values[rows, i])}
    if name == "age":
        out["auroc"] = auroc(score, faces.labels[rows, i])
        est = torch.tensor([float(faces.rows[r]["age_est"]) >= 45 for r in rows.tolist()], device=rows.device)
        out["auroc_by_estimate"] = auroc(score, est)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", required=True)
    p.add_argument("--data", required=True)
    p.add_argument("--table", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--judge", help="a judge trained before")
    p.add_argument("--judge-seconds", type=float, default=40)
    p.add_argument("--faces", type=int, default=200, help="held-out faces to edit")
    p.add_argument("--reconstruct", type=int, default=673, help="held-out faces to reconstruct; 0: leave that out")
    p.add_argument("--steps", type=int, default=20, help="of an edit")
    p.add_argument("--official", action="store_true", help="edits by the official DDIM instead of the second order")
    p.add_argument("--attributes", default=",".join(data.SLIDERS))
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--no-codes", action="store_true", help="do not keep the codes")
    a = p.parse_args()
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    began = time.time()
    net, about = export.network(a.net, device)
    faces = data.Faces(a.data, a.table, device)
    R = {"steps": about.get("steps"), "pictures": about.get("pictures")}

    def note(key, value):
        R[key] = value
        text = json.dumps(value)
        print(f"{time.time() - began:6.1f} s {key} {text}", flush=True)
        (out / "eval.json").write_text(json.dumps(R, indent=1))

    # ---- codes and directions
    train, test = faces.of("train"), faces.of("test")
    encode = torch.no_grad()(lambda rows: batches(lambda r: net.encoder(faces.get(r)), a.batch, rows))
    kept = out / "codes.safetensors"
    if kept.exists():
        z = load_file(kept)
        ztrain, ztest = z["train"].float().to(device), z["test"].float().to(device)
    else:
        ztrain, ztest = encode(train), encode(test)
        if not a.no_codes:
            save_file({"train": ztrain.half().cpu(), "test": ztest.half().cpu()}, kept)
    mean, std = ztrain.mean(0), ztrain.std(0)
    ntrain, ntest = (ztrain - mean) / std, (ztest - mean) / std
    note("code", {"std_mean": float(std.mean()), "std_min": float(std.min()), "std_max": float(std.max())})
    W = {}
    for name in data.NAMES:
        W[name], b = fit(ntrain, faces, train, name)
        note(f"direction {name}", quality(ntest @ W[name] + b, faces, test, name))
    apart = torch.linalg.pinv(torch.stack([F.normalize(W[n], dim=0) for n in data.NAMES]))        # [512,A]: moves one, holds the others
    save_file({"mean": mean.cpu(), "std": std.cpu(), "directions": torch.stack([W[n] for n in data.NAMES]).cpu(),
               "apart": apart.T.contiguous().cpu()}, out / "directions.safetensors")

    # ---- reconstruction
    ts, how = (diffusion.times(a.steps), {}) if a.official else (diffusion.bent(a.steps), dict(order=2, ends=False))

    def reconstruct(ts, m, **how):
        x, z = faces.get(test[:m]), ztest[:m]
        f = lambda x, z: diffusion.sample(net, diffusion.reverse(net, x, z, ts, **how), z, ts, **how)
        y = batches(f, a.batch, x, z)
        return {"psnr": diffusion.psnr(y, x), "ssim": diffusion.ssim(y, x)}

    if a.reconstruct:
        few = min(a.batch, a.reconstruct)
        note("reconstruction 20", reconstruct(diffusion.times(20), a.reconstruct))
        note("reconstruction 50", reconstruct(diffusion.times(50), a.reconstruct))
        for steps in (8, 10, 14, 20):
            note(f"reconstruction {steps} second order", reconstruct(diffusion.bent(steps), few, order=2, ends=False))
    x, z = faces.get(test[:a.faces]), ztest[:a.faces]
    g = torch.Generator(device).manual_seed(1)
    noise = torch.randn(min(a.batch, len(x)), *x.shape[1:], device=device, generator=g)
    alone = diffusion.sample(net, noise, z[:len(noise)], ts, **how)
    note("code alone", {"psnr": diffusion.psnr(alone, x[:len(noise)]), "ssim": diffusion.ssim(alone, x[:len(noise)])})

    # ---- the judge
    if a.judge:
        judge = judges.load(a.judge, device)
    else:
        judge, steps = judges.train(faces, a.judge_seconds)
        judges.save(judge, out / "judge.safetensors")
        note("judge steps", steps)
    see = torch.no_grad()(lambda x: batches(lambda v: judge(v.contiguous(memory_format=torch.channels_last)).float(), a.batch, x))
    seen = see(faces.get(test))
    for i, name in enumerate(data.NAMES):
        note(f"judge {name}", quality(seen[:, i], faces, test, name))
    spread = seen.std(0)
    limit = torch.zeros(len(data.NAMES), device=device)
    limit[data.BINARY:] = ((faces.threshold - faces.mean) / faces.std)[data.BINARY:].to(device)

    # ---- edits
    xT = batches(lambda x, z: diffusion.reverse(net, x, z, ts, **how), a.batch, x, z)
    plain = batches(lambda x, z: diffusion.sample(net, x, z, ts, **how), a.batch, xT, z)
    was = see(x)
    sliders = [data.NAMES.index(n) for n in data.SLIDERS]
    others = lambda i, y: float(((see(y) - was).abs() / spread)[:, [j for j in sliders if j != i]].mean())
    note("others reconstruction", others(-1, plain))
    rows = [x[:12], plain[:12], alone[:12]]
    for name in a.attributes.split(","):
        i = data.NAMES.index(name)
        side = torch.where(was[:, i] > limit[i], -1.0, 1.0)
        for kind, d in (("plain", W[name]), ("apart", apart[:, i])):
            for amount, guide in ((0.3, 2.0), (0.3, 3.0)) if device == "cuda" else ((0.3, 3.0),):
                z1 = ((z - mean) / std + (side * amount * math.sqrt(z.shape[1]))[:, None] * F.normalize(d, dim=0)) * std + mean
                guided = lambda z: dict(base=z, scale=guide) if guide != 1 else {}
                f = lambda x, z1, z: diffusion.sample(net, x, z1, ts, **how, **guided(z))
                y = batches(f, a.batch, xT, z1, z)
                j = see(y)[:, i]
                up, hit = side > 0, (j - limit[i]) * side > 0
                note(f"edit {name} {kind} {amount} guide {guide}", {
                    "flips": float(hit.float().mean()), "flips_up": float(hit[up].float().mean()), "flips_down": float(hit[~up].float().mean()),
                    "moved": float(((j - was[:, i]) * side).mean() / spread[i]), "others": others(i, y), "psnr": diffusion.psnr(y, x)})
                if kind == "apart" and (amount, guide) == (0.3, 3.0):
                    rows.append(y[:12])
        sheet.save(out / "sheet.jpg", rows)

    # ---- interpolation
    smooth = []
    for k in range(0, min(8, len(x) - 1), 2):
        us = torch.linspace(0, 1, 12).tolist()
        s = torch.stack([diffusion.slerp(xT[k], xT[k + 1], u) for u in us])
        c = torch.stack([z[k] * (1 - u) + z[k + 1] * u for u in us])
        y = diffusion.sample(net, s, c, ts, **how)
        smooth.append(float((y[2:] - 2 * y[1:-1] + y[:-2]).abs().mean()))
        rows.append(y)
    note("interpolation second difference", smooth)
    sheet.save(out / "sheet.jpg", rows)


if __name__ == "__main__":
    main()
