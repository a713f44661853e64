"""Photographs as one uint8 buffer on the device; random crops and noise are made there.

Nothing here waits for the device, so a whole training step can be captured in a CUDA graph.
"""
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image


def read(path):
    return torch.from_numpy(np.array(Image.open(path).convert("RGB")))


def half(image):
    """Area-downscaled by 2: cleaner and sharper than the original."""
    h, w = image.shape[0] // 2 * 2, image.shape[1] // 2 * 2
    x = image[:h, :w].permute(2, 0, 1).float()
    return F.avg_pool2d(x, 2).round().to(torch.uint8).permute(1, 2, 0).contiguous()


def smaller(image, factor=0.7):
    h, w = (round(factor * v) for v in image.shape[:2])
    return torch.from_numpy(np.array(Image.fromarray(image.numpy()).resize((w, h), Image.LANCZOS)))


def pictures(folders):
    """Of folders, and files themselves."""
    found = (p for f in map(Path, folders) for p in ([f] if f.is_file() else f.rglob("*")))
    files = [p for p in found if p.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp", ".avif")]
    files.sort(key=lambda p: p.name)
    if not files:
        raise SystemExit(f"no pictures under {', '.join(map(str, folders))}")
    return files


CELL = 16       # pixels a side, of a map of detail


def detail(image):
    """How strong the differences of neighbouring pixels are around each cell of an image [H,W,3]."""
    g = image[..., 1].float()
    g = (g[1:, :-1] - g[:-1, :-1]).abs() + (g[:-1, 1:] - g[:-1, :-1]).abs()
    g = F.avg_pool2d(F.pad(g, (0, 1, 0, 1))[None, None], CELL)
    return F.avg_pool2d(g, 5, 1, 2, count_include_pad=False)[0, 0]


class Crops:
    """Random square crops, flipped and turned, of photographs at full size, at half of it and, with a share for them, at 0.7 of it."""

    def __init__(self, folders, device, half_share=0.4, limit=None, smaller_share=0.0):
        with ThreadPoolExecutor() as pool:
            full = list(pool.map(read, pictures(folders)[:limit]))
            images = full + list(pool.map(half, full)) + (list(pool.map(smaller, full)) if smaller_share else [])
            maps = list(pool.map(detail, images))
        self.buffer = torch.cat([i.flatten() for i in images]).to(device)
        size = torch.tensor([i.shape[:2] for i in images])
        area = size.prod(1)
        self.start = F.pad(torch.cumsum(area * 3, 0), (1, 0))[:-1].to(device)
        self.h, self.w = size[:, 0].to(device), size[:, 1].to(device)
        weight = area.double()
        n = len(full)
        for i, share in enumerate((1 - half_share - smaller_share, half_share, smaller_share)):
            weight[i * n:(i + 1) * n] *= share / weight[i * n:(i + 1) * n].sum()
        self.weight, self.smallest, self.device, self.count = weight, size.amin(1), device, n
        self.detail = torch.cat([m.flatten() for m in maps]).to(device)
        self.detail_start = F.pad(torch.cumsum(torch.tensor([m.numel() for m in maps]), 0), (1, 0))[:-1].to(device)
        self.detail_w = torch.tensor([m.shape[1] for m in maps], device=device)

    def sampler(self, batch, side, pool=1, picky=0.0):
        """A function that returns [batch,3,side,side] float in 0..1; crops i, i + batch/pool, ... are of one photograph.  picky: how
        often, of two places, the one with more detail is taken."""
        dev = self.device
        edge = torch.cumsum(self.weight * (self.smallest >= side), 0)
        edge = (edge / edge[-1]).float().to(dev)
        u = torch.arange(side, device=dev)
        rgb = torch.arange(3, device=dev)

        def place(r, k=None):
            if k is None:
                k = torch.searchsorted(edge, r[0, :batch // pool]).clamp_(max=len(edge) - 1).repeat(pool)
            h, w = self.h[k], self.w[k]
            y0 = (r[1] * (h - side + 1)).long().clamp_(min=0).minimum(h - side)
            x0 = (r[2] * (w - side + 1)).long().clamp_(min=0).minimum(w - side)
            return k, y0, x0

        def found(k, y0, x0):
            last_y, last_x = self.h[k] // CELL - 1, self.w[k] // CELL - 1
            y, x = ((y0 + side // 2) // CELL).minimum(last_y), ((x0 + side // 2) // CELL).minimum(last_x)
            return self.detail[self.detail_start[k] + y * self.detail_w[k] + x]

        def sample():
            r = torch.rand(6, batch, device=dev)
            k, y0, x0 = place(r)
            if picky:
                other = place(torch.rand(3, batch, device=dev), k if pool > 1 else None)
                swap = (found(*other) > found(k, y0, x0)) & (torch.rand(batch, device=dev) < picky)
                k, y0, x0 = (torch.where(swap, b, a) for a, b in zip((k, y0, x0), other))
            w = self.w[k]
            a = torch.where((r[3] < 0.5)[:, None], u, side - 1 - u)
            b = torch.where((r[4] < 0.5)[:, None], u, side - 1 - u)
            turn = (r[5] < 0.5)                             # rows walk along y, or along x
            sy, sx = w * 3, torch.full_like(w, 3)
            a = a * torch.where(turn, sx, sy)[:, None]
            b = b * torch.where(turn, sy, sx)[:, None]
            base = self.start[k] + (y0 * w + x0) * 3
            at = (base[:, None] + a)[:, :, None] + b[:, None, :]
            return self.buffer[at[:, None] + rgb[:, None, None]].float() / 255

        return sample


# Annex K of the JPEG standard: luma and chroma.
_LUMA = """16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56 14 17 22 29 51 87 80 62
18 22 37 56 68 109 103 77 24 35 55 64 81 104 113 92 49 64 78 87 103 121 120 101 72 92 95 98 112 100 103 99"""
_CHROMA = """17 18 24 47 99 99 99 99 18 21 26 66 99 99 99 99 24 26 56 99 99 99 99 99 47 66 99 99 99 99 99 99
99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99"""
_YCC = [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
_consts = {}


def _constants(dev):
    if dev not in _consts:
        k = torch.arange(8.0)
        dct = torch.cos((2 * k + 1) * k[:, None] * torch.pi / 16) * 0.5
        dct[0] *= 0.5 ** 0.5
        table = torch.tensor([[int(v) for v in t.split()] for t in (_LUMA, _CHROMA, _CHROMA)]).float().view(3, 8, 8)
        ycc = torch.tensor(_YCC)
        grey = torch.tensor([128.0, 0, 0]).view(3, 1, 1)
        cross = torch.tensor([[0, 1, 0], [1, 4, 1], [0, 1, 0]]) / 4
        square = torch.tensor([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 4
        usual = torch.tensor([[5, 3]])
        _consts[dev] = [t.to(dev) for t in (dct, table, ycc, ycc.inverse(), grey, cross, square, usual)]
    return _consts[dev]


def _through_blocks(y, q):
    """What 8x8 cosine blocks leave of the planes y [N,C,H,W] with the steps q [N,C,8,8]; H and W are multiples of 8."""
    dct = _constants(y.device)[0]
    n, c, h, w = y.shape
    b = y.view(n, c, h // 8, 8, w // 8, 8).permute(0, 1, 2, 4, 3, 5)
    q = q.view(n, c, 1, 1, 8, 8)
    b = dct.T @ ((dct @ b @ dct.T / q).round() * q) @ dct
    return b.permute(0, 1, 2, 4, 3, 5).reshape(y.shape)


def _rows(x, index, dim):
    """x [N,C,H,W] with the rows (dim 2) or columns (dim 3) that index [N,K] names, for each picture others."""
    index = index[:, None, :, None] if dim == 2 else index[:, None, None, :]
    shape = [*x.shape[:2], *(index.shape[d] if d == dim else x.shape[d] for d in (2, 3))]
    return x.gather(dim, index.expand(shape))


def jpeg(x, quality, coarse=None, phase=None, narrow=None):
    """What a JPEG file of this quality (1..100, [N,1,1,1]) leaves of x in 0..1; where `coarse` [N,1,1,1] is true its colours have
    half the size, as most files have them, and where `narrow` is true too, half the width alone.  phase [N,2]: x begins at this row
    and column of the file's blocks; None: at (5, 3)."""
    _, table, ycc, rgb, grey, _, _, usual = _constants(x.device)
    n, _, *size = x.shape
    phase = usual.expand(n, 2) if phase is None else phase
    for d in (0, 1):
        at = torch.arange((size[d] + 7 + 15) // 16 * 16, device=x.device) - phase[:, d:d + 1]
        x = _rows(x, at.clamp(0, size[d] - 1), d + 2)
    scale = torch.where(quality < 50, 50 / quality, 2 - quality / 50)
    q = (table * scale).round().clamp(1, 255)
    y = torch.einsum("ij,njhw->nihw", ycc, (x.clamp(0, 1) * 255).round()) - grey
    whole = _through_blocks(y, q)
    if coarse is not None:
        through = lambda k: F.interpolate(_through_blocks(F.avg_pool2d(y[:, 1:], k), q[:, 1:]), scale_factor=k, mode="bilinear")
        colours = through((2, 2))
        if narrow is not None:
            colours = torch.where(narrow, through((1, 2)), colours)
        whole = torch.where(coarse, torch.cat([whole[:, :1], colours], 1), whole)
    y = torch.einsum("ij,njhw->nihw", rgb, whole + grey)
    for d in (0, 1):
        y = _rows(y, torch.arange(size[d], device=x.device) + phase[:, d:d + 1], d + 2)
    return (y.round() / 255).clamp(0, 1)


def _blurred(v):
    return F.avg_pool2d(F.pad(v, (1, 1, 1, 1), mode="reflect"), 3, 1)


def blobs(like):
    """Noise of one to four pixels' size, of variance 1, in part the same in all channels."""
    size, shared = torch.rand(2, len(like), 1, 1, 1, device=like.device)
    size = 2 * size
    e = torch.sqrt(1 - shared) * torch.randn_like(like) + torch.sqrt(shared) * torch.randn_like(like[:, :1])
    near = 3 * _blurred(e)
    far = 1.5 * _blurred(near)
    e = torch.where(size < 1, torch.lerp(e, near, size.clamp(max=1)), torch.lerp(near, far, (size - 1).clamp(min=0)))
    return e / e.std((2, 3), keepdim=True)


def camera(x):
    """Noise as a camera leaves it in x, of variance 1: Poisson and Gaussian on a Bayer mosaic, white balance, demosaicing
    (of channels, of their differences from green, or between), a colour matrix, the slope of sRGB's curve, smoothing or sharpening."""
    n, _, h, w = x.shape
    dev = x.device
    r = torch.rand(7, n, 1, 1, 1, device=dev)
    linear = x.clamp(0, 1) ** 2.2
    gain = torch.cat([1.2 + 1.2 * r[0], torch.ones_like(r[0]), 1.2 + 1.2 * r[1]], 1)
    odd = lambda size, phase: (torch.arange(size, device=dev) + (phase > 0.5)) % 2 == 1
    row, col = odd(h, r[2]).transpose(2, 3), odd(w, r[3])
    mine = torch.cat([~row & ~col, row ^ col, row & col], 1).float()        # which pixels have red, green, blue
    share = r[4]
    deviation = gain * torch.sqrt(share * linear / gain + (1 - share) * 0.05 + 1e-4)
    mosaic = (mine * deviation).sum(1, keepdim=True) * torch.randn(n, 1, h, w, device=dev)
    *_, cross, square, _ = _constants(dev)                                    # bilinear, of half the pixels and of a quarter
    spread = lambda v, k: F.conv2d(F.pad(v, (1, 1, 1, 1), mode="reflect"), k.expand(v.shape[1], 1, 3, 3), groups=v.shape[1])
    green = spread(mine[:, 1:2] * mosaic, cross)
    differing = r[5] * green                        # how much of it red and blue take along
    ends = mine[:, ::2]
    red_blue = spread(ends * (mosaic - differing), square) + differing
    e = torch.cat([red_blue[:, :1], green, red_blue[:, 1:]], 1)
    m = (0.15 - 0.55 * torch.rand(n, 3, 3, device=dev)) * (1 - torch.eye(3, device=dev))       # rows add up to 1 with the diagonal
    e = torch.einsum("nij,njhw->nihw", m, e) + (1 - m.sum(2))[:, :, None, None] * e
    e = e * linear.clamp(min=0.01) ** (1 / 2.2 - 1)
    e = e + (1.3 * r[6] - 0.3) * (e - _blurred(e))
    return e / e.square().mean((1, 2, 3), keepdim=True).sqrt()


def real(x, noisy, told, share=16):
    """Of every `share` samples one gets noise in blobs, as scaling and film leave it, or is stored as JPEG after its noise, and two get a
    camera's noise, one of them in a JPEG file. Their map says how strong the error is in the mean of each channel, or up to
    1.5 times that: what is correlated looks stronger than it is, also to the filter that measures it."""
    k = max(1, len(x) // share)
    r = torch.rand(6, k, 1, 1, 1, device=x.device)
    x, level = x[:3 * k], told[:3 * k].mean((1, 2, 3), keepdim=True)
    stored = jpeg(x[:k] + (noisy[:k] - x[:k]) * r[0], 20 + 75 * r[1], r[2] < 0.5)
    made = x + torch.cat([blobs(x[:k]), camera(x[k:])]) * level
    stored_too = jpeg(made[2 * k:], 40 + 55 * r[3], r[4] < 0.7)
    first = torch.where(r[5] < 0.5, stored, made[:k])
    seen = torch.cat([first, made[k:2 * k], stored_too])
    size = (seen - x).square().mean((2, 3), keepdim=True).sqrt()
    size = size * (0.95 + 0.55 * torch.rand(3 * k, 1, 1, 1, device=x.device))
    return torch.cat([seen, noisy[3 * k:]]), torch.cat([size * torch.ones_like(x), told[3 * k:]])


def noise(x, pool=1):
    """(noisy, sigma map): one network learns sigma 0..75 of 255, most of it plain white noise. Crops that are pooled
    (see Crops.sampler) get one sigma."""
    n, _, h, w = x.shape
    dev = x.device
    r = torch.rand(8, n, 1, 1, 1, device=dev)
    sigma = torch.where(r[0] < 0.85, 5 + 50 * r[1], 75 * r[1])[:n // pool].repeat(pool, 1, 1, 1) / 255
    kind = r[2]
    # each channel its own level
    per_channel = 0.4 + 1.2 * torch.rand(n, 3, 1, 1, device=dev)
    scale = torch.where((kind < 0.08) | (kind > 0.94), per_channel, torch.ones_like(per_channel))
    # a level that varies over the picture
    field = F.interpolate(torch.rand(n, 1, 4, 4, device=dev), size=(h, w), mode="bilinear", align_corners=True)
    level = sigma * scale * torch.where((kind > 0.08) & (kind < 0.13), 0.3 + 1.4 * field, torch.ones_like(field))
    # Poisson-Gaussian: variance a x + b^2 with half-grey at sigma; the map knows only a blurred x
    blurred = F.avg_pool2d(F.pad(x, (2, 2, 2, 2), mode="replicate"), 5, 1)
    share = r[3]
    poisson = (kind > 0.13) & (kind < 0.21)
    true = torch.where(poisson, level * torch.sqrt(2 * share * x + 1 - share), level)
    told = torch.where(poisson, level * torch.sqrt(2 * share * blurred + 1 - share), level)
    # noise that the channels share in part
    white = torch.randn_like(x)
    shared = torch.randn(n, 1, h, w, device=dev)
    rho = torch.where((kind > 0.21) & (kind < 0.25), 0.6 * r[4], torch.zeros_like(r[4]))
    white = torch.sqrt(1 - rho) * white + torch.sqrt(rho) * shared
    return real(x, x + true * white, told)


class Pairs:
    """Clean and noisy patches that cameras.py has made, on the device, and how strong the noise is around each pixel."""

    def __init__(self, path, device):
        from safetensors.torch import load_file
        import estimate
        d = load_file(path)
        self.grid = estimate.grid(d["clean"], d["noisy"], device).half()
        self.clean, self.noisy, self.cell = d["clean"].to(device), d["noisy"].to(device), estimate.CELL

    def sample(self, n, side):
        """(clean, noisy, map): [n,3,side,side], flipped and turned. The map is as an estimator says it: smooth, and off by a factor
        that varies over the patch and a little between the channels, of deviation about 0.25."""
        dev, cell = self.clean.device, self.cell
        r = torch.rand(5, n, device=dev)
        room = (self.clean.shape[-1] - side) // cell + 1
        k = (torch.rand(n, device=dev) * len(self.clean)).long().clamp_(max=len(self.clean) - 1)

        def cut(v, step):
            u = torch.arange(side // step, device=dev)
            line = lambda start, flip: ((start * room).long().clamp_(max=room - 1) * (cell // step))[:, None] + torch.where(
                (flip < 0.5)[:, None], u, side // step - 1 - u)
            rgb = torch.arange(3, device=dev)
            v = v[k[:, None, None, None], rgb[:, None, None], line(r[0], r[2])[:, None, :, None], line(r[1], r[3])[:, None, None]]
            return torch.where((r[4] < 0.5)[:, None, None, None], v.transpose(2, 3), v).float() / 255

        resized = lambda v, size: F.interpolate(v, size=size, mode="bilinear", align_corners=False)
        off = 0.2 * resized(torch.randn(n, 1, 3, 3, device=dev), side // cell) + 0.1 * torch.randn(n, 3, 1, 1, device=dev)
        off = off + 0.1 * torch.randn(n, 1, 1, 1, device=dev)
        told = resized(cut(self.grid, cell) * off.exp(), side)
        return cut(self.clean, 1), cut(self.noisy, 1), told


def test_set(folder, device):
    """Pictures of one size as [N,3,H,W] in 0..1, and unit noise with a fixed seed per picture."""
    x = torch.stack([read(p).permute(2, 0, 1) for p in pictures([folder])]).float() / 255
    unit = torch.stack([torch.randn(i.shape, generator=torch.Generator().manual_seed(1000 + k)) for k, i in enumerate(x)])
    return x.to(device), unit.to(device)
