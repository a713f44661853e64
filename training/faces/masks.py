"""Where the face is in an aligned picture, read from its code: a linear layer on the normalised code, the logits of SIDE x SIDE cells.

It is learned without labels. Each face has colours of its own: those of the middle of the face, and those of the border of the frame. Where a pixel is more
like the first, it is face. Where that is likely in general is learned at the same time: first an ellipse, then what the layer predicts for this face
(expectation maximisation in ROUNDS rounds). The middle, with eyes and mouth, is always face.
"""
import torch
import torch.nn.functional as F

SIDE, ROUNDS, BINS = 32, 3, 12


def ellipse(cx, cy, rx, ry, soft, device):
    y, x = torch.meshgrid(torch.arange(128, device=device) + 0.5, torch.arange(128, device=device) + 0.5, indexing="ij")
    d = (((x - cx) / rx) ** 2 + ((y - cy) / ry) ** 2).sqrt()
    return torch.sigmoid((1 - d) / soft)


def blur(x, sigma):
    r = int(3 * sigma)
    g = torch.exp(-torch.arange(-r, r + 1, device=x.device).float() ** 2 / (2 * sigma ** 2))
    g, c = g / g.sum(), x.shape[1]
    x = F.conv2d(F.pad(x, (r, r, 0, 0), mode="replicate"), g.view(1, 1, 1, -1).expand(c, 1, 1, -1), groups=c)
    return F.conv2d(F.pad(x, (0, 0, r, r), mode="replicate"), g.view(1, 1, -1, 1).expand(c, 1, -1, 1), groups=c)


def colours(x):
    """Brightness and two differences of colours, [N,3,H,W], as bins."""
    r, g, b = ((x + 1) / 2).unbind(1)
    y = 0.3 * r + 0.59 * g + 0.11 * b
    scale = lambda v, a: ((v * a + 0.5) * BINS).clamp(0, BINS - 1).long()
    return ((y * 0.999 * BINS).clamp(0, BINS - 1).long() * BINS + scale(r - y, 1.6)) * BINS + scale(b - y, 1.6)


def histogram(bins, weight):
    h = torch.zeros(len(bins), BINS ** 3, device=bins.device).scatter_add_(1, bins.flatten(1), weight.expand(len(bins), 128, 128).reshape(len(bins), -1))
    h = blur3(h.view(-1, 1, BINS, BINS, BINS)).flatten(1)
    return h / h.sum(1, keepdim=True) + 1e-5


def blur3(h):
    k = torch.tensor([0.25, 0.5, 0.25], device=h.device)
    for shape in ((3, 1, 1), (1, 3, 1), (1, 1, 3)):
        h = F.conv3d(h, k.view(1, 1, *shape), padding=tuple(s // 2 for s in shape))
    return h


def posterior(x, prior, core, outside):
    """Where the pixels of x are face, [N,128,128], given how likely that is before looking at colours."""
    bins = colours(x)
    flat = bins.flatten(1)
    for _ in range(2):
        inside = histogram(bins, core * 0.3 + 0.7 * prior * prior)
        around = histogram(bins, outside * 0.3 + 0.7 * (1 - prior) ** 2 + 1e-4)
        ratio = (inside.gather(1, flat) / around.gather(1, flat)).log().view_as(prior).clamp(-4, 4)
        prior = torch.sigmoid(torch.logit(prior.clamp(0.01, 0.99)) + blur(0.6 * ratio[:, None], 1.2)[:, 0])
    return torch.maximum(prior, core)


def eyes(device):
    """Logits of the ellipses around the eyes that are face in the engine (face_move.c), [SIDE*SIDE]."""
    t = (torch.arange(SIDE, device=device) + 0.5) / SIDE
    each = [(1 - (((t[None, :] - x) / 0.133) ** 2 + ((t[:, None] - 0.28) / 0.1) ** 2).sqrt()) / 0.06 for x in (0.32, 0.68)]
    return torch.stack(each).amax(0).clamp(max=3).flatten()


def closed(logits):
    """Logits [N,SIDE*SIDE] with the eyes, and without holes, as in the engine: at least the largest value on the best way to the edge."""
    v = torch.maximum(logits, eyes(logits.device)).view(-1, SIDE, SIDE)
    filled = torch.full_like(v, float("inf"))
    filled[:, 0], filled[:, -1], filled[:, :, 0], filled[:, :, -1] = v[:, 0], v[:, -1], v[:, :, 0], v[:, :, -1]
    while True:
        f = filled[:, 1:-1, 1:-1]
        least = torch.stack([filled[:, :-2, 1:-1], filled[:, 2:, 1:-1], filled[:, 1:-1, :-2], filled[:, 1:-1, 2:]]).amin(0)
        new = torch.minimum(f, torch.maximum(least, v[:, 1:-1, 1:-1]))
        if torch.equal(new, f):
            return filled.flatten(1)
        filled[:, 1:-1, 1:-1] = new


def at_size(logits, size=128):
    """Masks [N,size,size] of logits [N,SIDE*SIDE]."""
    return torch.sigmoid(F.interpolate(logits.view(-1, 1, SIDE, SIDE), (size, size), mode="bilinear", align_corners=False))[:, 0]


def learn(faces, rows, codes, steps=400, batch=512):
    """weight [SIDE*SIDE,512], bias: logits of the mask from normalised codes of these faces."""
    device = codes.device
    core = torch.stack([ellipse(64, 68, 29, 41, 0.06, device), ellipse(41, 36, 17, 13, 0.06, device), ellipse(87, 36, 17, 13, 0.06, device)]).amax(0)
    outside = 1 - ellipse(64, 62, 58, 72, 0.05, device)
    prior = ellipse(64, 63, 47, 60, 0.12, device)
    layer = torch.nn.Linear(codes.shape[1], SIDE * SIDE, device=device)
    for round_ in range(ROUNDS):
        seen = []
        for k in range(0, len(rows), 256):
            z = codes[k:k + 256]
            p = prior.expand(len(z), 128, 128) if not round_ else at_size(layer(z)).detach()
            seen.append(F.avg_pool2d(posterior(faces.get(rows[k:k + 256]), p, core, outside)[:, None], 128 // SIDE).flatten(1))
        seen = torch.cat(seen)
        torch.nn.init.zeros_(layer.weight)
        layer.bias.data = torch.logit(seen.mean(0).clamp(0.02, 0.98))
        opt = torch.optim.AdamW(layer.parameters(), 2e-3, weight_decay=0.1)
        for i in range(steps):
            for g in opt.param_groups:
                g["lr"] = 2e-3 * (1 - i / steps)
            pick = torch.randint(len(codes), (batch,), device=device)
            loss = F.binary_cross_entropy_with_logits(layer(codes[pick]), seen[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return layer.weight.detach(), layer.bias.detach(), float(loss)
