"""What restorers and upscalers have to undo: smaller pictures, blur, noise, JPEG files, dirt on prints.  Nothing waits for the device, so that a
training step can be captured in a CUDA graph; each kind of damage has its fixed share of a batch."""
import functools

import torch
import torch.nn.functional as F

import data


# ---- scaling down ----------------------------------------------------------------------------------

@functools.lru_cache(None)
def cubic_matrix(size, scale, device="cpu"):
    """[size/scale, size]: bicubic scaling down as Matlab's imresize does it (a = -0.5, widened kernel, mirrored edges)."""
    n = size // scale
    centre = (torch.arange(n, dtype=torch.float64)[:, None] + 0.5) * scale - 0.5
    tap = torch.floor(centre - 2 * scale) + torch.arange(4 * scale + 2, dtype=torch.float64)
    t = ((centre - tap) / scale).abs()
    w = torch.where(t <= 1, 1.5 * t ** 3 - 2.5 * t ** 2 + 1, torch.where(t < 2, -0.5 * t ** 3 + 2.5 * t ** 2 - 4 * t + 2, 0.0))
    w = w / w.sum(1, keepdim=True)
    tap = tap.long() % (2 * size)
    tap = torch.where(tap < size, tap, 2 * size - 1 - tap)
    return torch.zeros(n, size, dtype=torch.float64).scatter_add_(1, tap, w).float().to(device)


def smaller(x, scale):
    """x [N,3,H,W] in 0..1, H and W multiples of scale, made smaller and rounded to 8 bits."""
    rows, cols = (cubic_matrix(x.shape[d], scale, str(x.device)) for d in (2, 3))
    return ((rows @ x @ cols.T).clamp(0, 1) * 255).round() / 255


EDGE = 4        # pixels of the small picture around a patch that its scaling down sees


def low(x, scale):
    """(small picture, the large one without the edge) of a crop that is larger by EDGE."""
    m = EDGE * scale
    return smaller(x, scale)[..., EDGE:-EDGE, EDGE:-EDGE], x[..., m:-m, m:-m]


def uniform(n, like, lo=0.0, hi=1.0):
    return lo + (hi - lo) * torch.rand(n, 1, 1, 1, device=like.device)


def flagged(n, like, share):
    return torch.rand(n, 1, 1, 1, device=like.device) < share


def worn(x, share):
    """Of a batch of small pictures, a share with noise, JPEG artefacts or both, and what an upscaler is told of them: [N,2,H,W]."""
    k = max(1, round(share * len(x)))
    sigma = uniform(k, x, 0, 25 / 255) * flagged(k, x, 0.6)
    quality = torch.where(flagged(k, x, 0.5), uniform(k, x, 20, 95), uniform(k, x, 60, 98))
    noisy = x[:k] + sigma * torch.randn_like(x[:k])
    stored = data.jpeg(noisy, quality, flagged(k, x, 0.7), phase(k, x, 0.0))
    plain = (noisy.clamp(0, 1) * 255).round() / 255
    in_file = flagged(k, x, 0.6)
    told = torch.cat([sigma, torch.where(in_file, 1 - quality / 100, 0.0)], 1)
    told = told * uniform(k, x, 0.8, 1.25)              # what is measured is never exact
    seen = torch.cat([torch.where(in_file, stored, plain), x[k:]])
    told = torch.cat([told, torch.zeros(len(x) - k, 2, 1, 1, device=x.device)])
    return seen, told.expand(-1, -1, *x.shape[2:])


# ---- blur ----------------------------------------------------------------------------------------------

REACH = 8       # of a kernel


def kernels(n, device, least=0.4):
    """[n,1,17,17], sum 1: half of them Gaussian of at least this deviation, most of these round, the others motion of up to 8 pixels and
    discs; and their deviation along an axis in pixels, [n,1,1,1]."""
    at = torch.arange(-REACH, REACH + 1, device=device, dtype=torch.float32)
    y, x = at[:, None], at[None, :]
    r = torch.rand(8, n, 1, 1, device=device)
    angle = torch.pi * r[0]
    u, v = x * torch.cos(angle) + y * torch.sin(angle), y * torch.cos(angle) - x * torch.sin(angle)
    wide = least + (3.2 - least) * r[1]
    thin = torch.where(r[2] < 0.6, wide, wide * (0.35 + 0.65 * r[3]))
    gauss = torch.exp(-0.5 * ((u / wide) ** 2 + (v / thin) ** 2))
    half = least + 0.1 + (3.9 - least) * r[4]
    motion = torch.exp(-0.5 * (((u.abs() - half).clamp(min=0)) ** 2 + v ** 2) / (0.35 + 0.3 * r[5]) ** 2)
    disc = torch.sigmoid((1.5 * least + (4 - 1.5 * least) * r[6] - torch.sqrt(x * x + y * y)) / 0.25)
    k = torch.where(r[7] < 0.55, gauss, torch.where(r[7] < 0.8, motion, disc))
    k = k / k.sum((1, 2), keepdim=True)
    spread = (0.5 * (k * (x * x + y * y)).sum((1, 2), keepdim=True)).sqrt()
    return k[:, None], spread[:, None]


def blurred(x, k):
    """Each picture with its kernel; the result is smaller by REACH on every side."""
    n, c, h, w = x.shape
    y = F.conv2d(x.reshape(1, n * c, h, w), k.expand(-1, c, -1, -1).reshape(n * c, 1, *k.shape[2:]), groups=n * c)
    return y.view(n, c, h - 2 * REACH, w - 2 * REACH)


# ---- old prints and scans ----------------------------------------------------------------------------------

LINES, SPECKS, STAINS = 10, 24, 5       # at most, on a crop


def field(n, cells, size, device):
    """Smooth noise [n,1,*size] of variance about 1."""
    return F.interpolate(torch.randn(n, 1, cells, cells, device=device), size=size, mode="bicubic", align_corners=True)


def lines(n, at, device):
    """[n,LINES,H,W]: how much scratches (long, thin) and hairs (short, bent) cover; at: coordinates x, y [n,1,H,W]."""
    x, y = at
    h, w = x.shape[2:]
    r = torch.rand(10, n, LINES, 1, 1, device=device)
    hair = r[0] < 0.4
    along = torch.pi * (torch.rand(n, 1, 1, 1, device=device) + 0.04 * torch.randn(n, LINES, 1, 1, device=device))
    angle = torch.where((r[1] < 0.4) & ~hair, along, torch.pi * r[2])           # scratches are often parallel
    x, y = x - w * r[3], y - h * r[4]
    u, v = x * torch.cos(angle) + y * torch.sin(angle), y * torch.cos(angle) - x * torch.sin(angle)
    bend = torch.randn(n, LINES, 1, 1, device=device) * (0.001 + 0.019 * hair)
    half = torch.where(hair, 5 + 35 * r[5], 8 + 240 * r[5] ** 2)
    u_in = u.clamp(-half, half)
    away = (v - bend * u_in * u_in) / torch.sqrt(1 + (2 * bend * u_in).square())
    away = torch.sqrt(away.square() + (u - u_in).square() + 1e-6)
    wide = torch.where(hair, 0.4 + 0.9 * r[6], 0.2 + 2.3 * r[6] ** 3)
    soft = 0.15 + 0.35 * r[7]
    gaps = torch.sigmoid(5 * (field(n * LINES, 9, (h, w), device).view(n, LINES, h, w) + 0.3))
    return torch.sigmoid((wide - away) / soft) * torch.where((r[8] < 0.35) & ~hair, gaps, 1.0) * (0.15 + 0.85 * r[9])


def spots(n, k, at, device, least, most, softest):
    """[n,k,H,W]: how much round and long spots of these radii, more small ones than large ones, cover."""
    x, y = at
    h, w = x.shape[2:]
    r = torch.rand(7, n, k, 1, 1, device=device)
    angle, long = torch.pi * r[0], 1 + 1.2 * r[1] ** 2
    x, y = x - w * r[2], y - h * r[3]
    u, v = x * torch.cos(angle) + y * torch.sin(angle), y * torch.cos(angle) - x * torch.sin(angle)
    away = torch.sqrt((u / long).square() + (v * long).square() + 1e-6)
    radius = least + (most - least) * r[4] ** 3
    rough = 1 + 0.3 * field(n, max(2, h // 4), (h, w), device)
    return torch.sigmoid((radius * rough - away) / (0.15 + softest * r[5])) * (0.2 + 0.8 * r[6])


def some(v, most):
    """Of each picture's marks [n,k,H,W] a random share, up to this one."""
    n, k = v.shape[:2]
    return v * (torch.rand(n, k, 1, 1, device=v.device) < most * torch.rand(n, 1, 1, 1, device=v.device))


def dirty(x):
    """x with dust, hairs and scratches, brighter or darker than all else or coloured, more or less opaque, and brown stains; an eighth
    also have single pixels that are black or white."""
    n, _, h, w = x.shape
    dev = x.device
    axis = lambda size: torch.arange(size, device=dev, dtype=torch.float32)
    bent = lambda v: v + uniform(n, x, 0, 5) * field(n, 4, (h, w), dev) + uniform(n, x, 0, 0.8) * field(n, max(2, h // 10), (h, w), dev)
    at = bent(axis(w).expand(n, 1, h, w)), bent(axis(h)[:, None].expand(n, 1, h, w))
    marks = torch.cat([some(lines(n, at, dev), 0.55), some(spots(n, SPECKS, at, dev, 0.4, 4.5, 0.5), 0.7)], 1)
    kind = torch.rand(n, 1, 1, 1, device=dev)
    bright = torch.rand(*marks.shape[:2], 1, 1, device=dev) < 0.05 + 0.45 * (kind > 0.75) + 0.9 * (kind < 0.5)
    light = 1 - 0.25 * torch.rand(n, 1, 1, 1, device=dev) - 0.1 * torch.rand(n, 3, 1, 1, device=dev)
    light = torch.where(flagged(n, x, 0.15), torch.rand(n, 3, 1, 1, device=dev), light)
    dark = 0.3 * torch.rand(n, 1, 1, 1, device=dev) ** 2 + 0.06 * torch.rand(n, 3, 1, 1, device=dev)
    stain = some(spots(n, STAINS, at, dev, 1.5, 14, 2.5), 0.5).amax(1, keepdim=True)
    brown = 1 - torch.cat([uniform(n, x, 0, most) for most in (0.2, 0.35, 0.6)], 1)
    x = x * torch.lerp(torch.ones_like(brown), brown, stain)
    x = torch.lerp(x, light.expand_as(x), (marks * bright).amax(1, keepdim=True).expand_as(x))
    x = torch.lerp(x, dark.expand_as(x), (marks * ~bright).amax(1, keepdim=True).expand_as(x))
    shot, share = torch.rand(n, 1, h, w, device=dev), 0.035 * uniform(n, x) * flagged(n, x, 0.125)
    return torch.where(shot < share, 0.0, torch.where(shot > 1 - share, 1.0, x))


def same_dirt(x, seed=7):
    """Dirt to measure on: x in 8 bits, with what this seed gives for its size, whatever the device."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        y = x.cpu()
        for _ in range(-(-x.shape[-1] * x.shape[-2] // (2 * 128 * 128))):       # about as dense as on a crop
            y = dirty(y)
    return ((y.clamp(0, 1) * 255).round() / 255).to(x.device)


def faded(x):
    """Two thirds of the pictures grey, brown, of less contrast or with a cast: what a print looks like, and what is to stay."""
    n = len(x)
    grey = 0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]
    y = torch.lerp(x, grey.expand_as(x), torch.where(flagged(n, x, 0.4), 1.0, 0.6 * uniform(n, x)))
    low = 0.25 * uniform(n, x) * torch.rand(n, 3, 1, 1, device=x.device)
    high = 1 - 0.25 * uniform(n, x) - 0.2 * torch.rand(n, 3, 1, 1, device=x.device)
    return torch.where(flagged(n, x, 0.67), low + (high - low) * y, x)


# ---- what a restorer gets --------------------------------------------------------------------------------

def phase(n, like, aligned=0.7):
    """Where the lattice of a JPEG file begins, [n,2] in 0..7: at the picture's corner for a share, else anywhere."""
    at = torch.randint(0, 8, (n, 2), device=like.device)
    return torch.where(torch.rand(n, 1, device=like.device) < aligned, torch.zeros_like(at), at)


# shares of a batch; "mixed": blur, noise, then a file; "print": dirt
KINDS = (("clean", 0.10), ("file", 0.42), ("twice", 0.05), ("blur", 0.12), ("mixed", 0.15), ("print", 0.11), ("noise", 0.05))
LEAST_BLUR = 0.7        # what is less is how sharp a picture is, and stays


def counts(n):
    left, out = n, {}
    for name, share in KINDS[:-1]:
        out[name] = max(1, round(share * n))
        left -= out[name]
    return {**out, KINDS[-1][0]: left}


def soft_files(n):
    """How many of the files are out of focus."""
    return n["file"] // 3


def weights(seen, clean):
    """Of each crop's error, [N]: a file's is weighed by how much it has lost, less where that is more."""
    n = counts(len(seen))
    lost = torch.sqrt((seen - clean).square().flatten(1).mean(1) + 1e-6)
    file = torch.cat([torch.full((n[k],), k == "file", device=seen.device) for k in n])
    return torch.where(file, (0.035 / lost).pow(0.6).clamp(0.5, 2.0), 1.0)


def out_of_focus(x):
    """Photographs with blurred places of any shape, as lenses leave them on purpose; a fifth are blurred all over, mostly more than what a
    restorer has to undo, and a fifth are only a little soft."""
    n, _, h, w = x.shape
    m = REACH
    again = lambda v, k: blurred(F.pad(v, (m, m, m, m), mode="reflect"), k)
    (kernel, _), (more, _) = kernels(n, x.device, 0.8), kernels(n, x.device, 2.5)
    kind = torch.rand(n, 1, 1, 1, device=x.device)
    soft = again(x, kernel)
    soft = torch.where((kind < 0.2) | flagged(n, x, 0.5), again(soft, more), soft)      # kind: all of it, places, a little
    field = F.interpolate(torch.randn(n, 1, 4, 4, device=x.device), size=(h, w), mode="bicubic", align_corners=True)
    share = torch.sigmoid((field + uniform(n, x, -0.7, 0.7)) * uniform(n, x, 4, 40))
    at = torch.arange(-m, m + 1, device=x.device, dtype=torch.float32)
    line = torch.exp(-0.5 * (at / uniform(n, x, 0.2, 0.6)) ** 2)
    line = line / line.sum(-1, keepdim=True)
    slight = again(x, line.transpose(2, 3) * line)
    return torch.where(kind < 0.8, torch.lerp(x, soft, torch.where(kind < 0.2, 1.0, share)), slight)


def damaged(x):
    """(damaged, clean, told) of crops that are larger by REACH on every side; told [N,7,H/2,W/2] as nets.Restorer wants it.  Two
    thirds of those without damage and some of the files are out of focus, which is to stay."""
    n = counts(len(x))
    sharp = n["clean"] // 3
    k = n["clean"] + soft_files(n)
    x = torch.cat([x[:sharp], out_of_focus(x[sharp:k]), x[k:]])
    c = dict(zip(n, x[..., REACH:-REACH, REACH:-REACH].split(list(n.values()))))
    wide = dict(zip(n, x.split(list(n.values()))))
    zero = lambda k: torch.zeros(n[k], 1, 1, 1, device=x.device)
    seen, told = {"clean": c["clean"]}, {"clean": (zero("clean"),) * 3}         # noise, artefacts, blur

    k = n["file"]
    q = torch.where(flagged(k, x, 0.8), uniform(k, x, 8, 50), uniform(k, x, 30, 95))
    seen["file"] = data.jpeg(c["file"], q, flagged(k, x, 0.9), phase(k, x, 0.85), flagged(k, x, 0.1))
    told["file"] = (zero("file"), 1 - q / 100, zero("file"))

    k = n["twice"]
    q, q2 = uniform(k, x, 10, 90), uniform(k, x, 20, 95)
    once = data.jpeg(c["twice"], q, flagged(k, x, 0.75), phase(k, x, 0.3))
    seen["twice"] = data.jpeg(once, q2, flagged(k, x, 0.75), phase(k, x, 1.0))
    told["twice"] = (zero("twice"), 1 - torch.minimum(q, q2) / 100, zero("twice"))

    k = n["blur"]
    kernel, spread = kernels(k, x.device, LEAST_BLUR)
    sigma = uniform(k, x, 0, 4 / 255)
    seen["blur"] = blurred(wide["blur"], kernel) + sigma * torch.randn_like(c["blur"])
    told["blur"] = (sigma, zero("blur"), spread / 4)

    k = n["mixed"]
    kernel, spread = kernels(k, x.device, LEAST_BLUR)
    soft = flagged(k, x, 0.85)
    sigma = torch.where(flagged(k, x, 0.5), uniform(k, x, 0, 3 / 255), uniform(k, x, 0, 12 / 255))
    q = torch.where(flagged(k, x, 0.5), uniform(k, x, 75, 98), uniform(k, x, 30, 95))
    made = torch.where(soft, blurred(wide["mixed"], kernel), c["mixed"]) + sigma * torch.randn_like(c["mixed"])
    seen["mixed"] = data.jpeg(made, q, flagged(k, x, 0.75), phase(k, x))
    told["mixed"] = (sigma, 1 - q / 100, torch.where(soft, spread / 4, 0.0))

    k = n["print"]
    clean = faded(c["print"])
    made = dirty(clean)
    sigma = uniform(k, x, 0, 8 / 255) * flagged(k, x, 0.6)
    q, in_file = uniform(k, x, 50, 95), flagged(k, x, 0.35)
    grainy = made + sigma * torch.randn_like(made)
    seen["print"] = torch.where(in_file, data.jpeg(grainy, q, flagged(k, x, 0.75), phase(k, x)), grainy)
    told["print"] = (sigma, torch.where(in_file, 1 - q / 100, 0.0), zero("print"))
    kept = torch.where(flagged(k, x, 0.8), 0.0, torch.where(flagged(k, x, 0.5), 1.0, uniform(k, x)))    # how much of the dirt is to stay
    c["print"] = torch.lerp(clean, made, kept.expand_as(made))

    k = n["noise"]
    sigma = uniform(k, x, 0, 30 / 255)
    seen["noise"] = c["noise"] + sigma * torch.randn_like(c["noise"])
    told["noise"] = (sigma, zero("noise"), zero("noise"))

    exact_value = value = torch.cat([torch.cat(told[k], 1) for k in n])
    total = len(x)
    known = (torch.rand(total, 3, 1, 1, device=x.device) < 0.75) & (torch.rand(total, 1, 1, 1, device=x.device) < 0.5)
    exact = torch.rand_like(value) < 0.5
    value = torch.where(exact, value, value * (0.85 + 0.3 * torch.rand_like(value)))
    # most files come as the filter tells of them: their quality, how much they are blurred, and nothing of the noise
    usual = torch.cat([flagged(n[k], x, {"file": 0.7, "mixed": 0.5}.get(k, 0.0)) for k in n])
    known = torch.where(usual, torch.arange(3, device=x.device).view(1, 3, 1, 1) > 0, known)
    value = torch.where(usual, exact_value, value) * known
    # dirt is sought in a tenth of the pictures that have none
    dirt = torch.cat([1 - kept if k == "print" else flagged(n[k], x, 0.1).float() for k in n])
    told = torch.cat([value, known.float(), dirt], 1)
    seen = torch.cat([seen[k] for k in n])
    # stored in 8 bits, but for some: the sources of a filter may have more
    stored = (seen.clamp(0, 1) * 255).round() / 255
    seen = torch.where(flagged(total, x, 0.8), stored, seen)
    h, w = seen.shape[2:]
    return seen, torch.cat([c[k] for k in n]), told.expand(-1, -1, h // 2, w // 2)
