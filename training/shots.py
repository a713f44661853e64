"""Pairs of clean and noisy crops as cameras, scanners and files leave them, made on the device: most of the noise is weak, fine and
correlated, as in a camera's JPEG file at low and middle ISO.  Nothing waits for the device, so that a training step can be captured
in a CUDA graph.

  lens        softness of 0 to 1.3 pixels
  sensor      exposure, colour matrix, white balance, a Bayer mosaic with shot and read noise, clipping
  developing  demosaicing (bilinear, gradient-corrected, edge-aware), denoising that leaves coarse noise or a bilateral filter,
              tone curve, sharpening, enlarging by up to 2
  file        JPEG of quality 30 to 99, with colours at full size, half the width or half the size, on any lattice

The clean crop goes through the same steps without noise and without the file.  cameras.py and real.py, which networks are chosen by
and measured on, have simulations of their own.
"""
import math

import torch
import torch.nn.functional as F

import data
import nets
import real

MARGIN = 16             # pixels around a crop that filters see
CELL = 8                # of a map of levels
REACH = 12              # of the widest blur
BINS = 16               # of brightness, as the engine has them: ZN_NOISE_BINS


def uniform(x, lo=0.0, hi=1.0):
    return lo + (hi - lo) * torch.rand(len(x), 1, 1, 1, device=x.device)


def between(x, lo, hi):
    """Uniform in the logarithm."""
    return torch.exp(uniform(x, math.log(lo), math.log(hi)))


def some(x, share):
    return torch.rand(len(x), 1, 1, 1, device=x.device) < share


# ---- filters -------------------------------------------------------------------------------------------

def soft(x, sigma, reach=3):
    """A Gaussian blur of each picture with its own sigma [N,1,1,1], mirrored at the edge."""
    n, c, h, w = x.shape
    at = torch.arange(-reach, reach + 1, device=x.device, dtype=torch.float32)
    k = torch.exp(-0.5 * (at / sigma.clamp(min=0.1).view(n, 1)) ** 2)
    k = (k / k.sum(1, keepdim=True)).repeat_interleave(c, 0)
    x = F.pad(x, (reach,) * 4, mode="reflect").reshape(1, n * c, h + 2 * reach, w + 2 * reach)
    x = F.conv2d(F.conv2d(x, k.view(-1, 1, 1, 2 * reach + 1), groups=n * c), k.view(-1, 1, 2 * reach + 1, 1), groups=n * c)
    return x.view(n, c, h, w)


_kernels = {}


def _taps(device):
    """[8,1,5,5]: green of a cross, red of a square (bilinear); the three of Malvar, He and Cutler; slopes and means of edge-aware."""
    if device not in _kernels:
        t = lambda v: torch.as_tensor(v, dtype=torch.float32)
        five = lambda v: F.pad(t(v), (1, 1, 1, 1))
        row = lambda v: F.pad(t(v)[None], (0, 0, 2, 2))
        _kernels[device] = torch.stack([
            five([[0, 1, 0], [1, 4, 1], [0, 1, 0]]) / 4, five([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 4,
            t(real.NOT_GREEN), t(real.ALONG_ROW), t(real.ACROSS),
            row([0, -1, 0, 1, 0]), row([-1, 0, 2, 0, -1]), row([-1, 2, 2, 2, -1]) / 4])[:, None].to(device)
    return _kernels[device]


def _filtered(x, k):
    """x [N,1,H,W] with several kernels [K,1,5,5] -> [N,K,H,W]."""
    return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), k)


def demosaic(raw, red, blue, how):
    """raw [N,1,H,W]; red, blue: where the mosaic has them; how [N,1,1,1]: 0 bilinear, 1 gradient-corrected, 2 edge-aware."""
    k = _taps(raw.device)
    green = ~(red | blue)
    down = k[3:].transpose(2, 3)
    spread = lambda v, i: _filtered(v, k[i:i + 1])
    # bilinear
    r0, b0 = spread(raw * red, 1), spread(raw * blue, 1)
    g0 = spread(raw * green, 0)
    # gradient-corrected
    not_green, along, across = _filtered(raw, k[2:5]).split(1, 1)
    column = _filtered(raw, down[:1])
    g1 = torch.where(green, raw, not_green)
    red_row = red.any(3, keepdim=True)
    with_red = torch.where(red_row, along, column)           # green pixels: red beside or above them
    with_blue = torch.where(red_row, column, along)
    r1 = torch.where(red, raw, torch.where(blue, across, with_red))
    b1 = torch.where(blue, raw, torch.where(red, across, with_blue))
    # edge-aware, of differences from green
    slopes, slopes_down = _filtered(raw, k[5:8]), _filtered(raw, down[2:5])
    flat, flat_down = (s[:, :1].abs() + s[:, 1:2].abs() for s in (slopes, slopes_down))
    g2 = torch.where(flat < flat_down, slopes[:, 2:], slopes_down[:, 2:])
    g2 = torch.where(green, raw, g2)
    r2, b2 = (spread((raw - g2) * m, 1) + g2 for m in (red, blue))
    pick = lambda a, b, c: torch.where(how < 0.5, a, torch.where(how < 1.5, b, c))
    return torch.cat([pick(r0, r1, r2), pick(g0, g1, g2), pick(b0, b1, b2)], 1)


def bilateral(x, width, apart=1):
    """Of each channel, with 5x5 pixels that are so far apart; width [N,1,1,1]: of an edge."""
    p = F.pad(x, (2 * apart,) * 4, mode="reflect")
    q = p.unfold(2, 4 * apart + 1, 1).unfold(3, 4 * apart + 1, 1)[..., ::apart, ::apart]
    at = torch.arange(-2.0, 3.0, device=x.device).square()
    k = torch.exp(-0.5 * ((q - x[..., None, None]) / width[..., None, None]).square() - (at[:, None] + at) / 8)
    return (k * q).sum((4, 5)) / k.sum((4, 5))


def enlarged(x, factor):
    """The middle of each picture, larger by its factor [N,1,1,1]."""
    n, _, h, w = x.shape
    theta = torch.eye(2, 3, device=x.device) / factor.view(n, 1, 1)
    return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), mode="bicubic", padding_mode="reflection", align_corners=False)


def mixed(m, x):
    return torch.einsum("nij,njhw->nihw", m, x)


def inverse(m):
    """Of matrices [N,3,3]; without a library that waits for the device."""
    a, b, c = m.unbind(1)
    cross = torch.stack([torch.linalg.cross(b, c), torch.linalg.cross(c, a), torch.linalg.cross(a, b)], 2)
    return cross / (a * cross[:, :, 0]).sum(1)[:, None, None]


# ---- the camera ----------------------------------------------------------------------------------------

def to_linear(v):
    v = v.clamp(0, 1)
    return torch.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def to_srgb(v):
    v = v.clamp(0, 1)
    return torch.where(v <= 0.0031308, v * 12.92, 1.055 * v.clamp(min=1e-5) ** (1 / 2.4) - 0.055)


def developed(v, width, share, colour_width, colour_share, tone, amount, radius, factor):
    """From linear light; width, share: of the bilateral filter's edges, of its change."""
    forth, back = (m.expand(len(v), 3, 3) for m in data._constants(v.device)[2:4])
    y, c = mixed(forth, to_srgb(v)).split((1, 2), 1)
    y = y + share * (bilateral(y, width) - y)
    c = c + colour_share * (bilateral(c, colour_width, 2) - c)
    v = mixed(back, torch.cat([y, c], 1))
    v = v + tone * v * (1 - v) * (2 * v - 1)
    return enlarged(v + amount * (v - soft(v, radius)), factor).clamp(0, 1)


def camera(x):
    """(clean, noisy) of crops x [N,3,H,W]."""
    n, _, h, w = x.shape
    dev = x.device
    both = lambda v: torch.cat([v, v])
    # what the camera is; the matrix's rows add up to 1
    m = (0.15 - 0.65 * torch.rand(n, 3, 3, device=dev)) * (1 - torch.eye(3, device=dev))
    m = m + torch.diag_embed(1 - m.sum(2))
    gains = torch.cat([uniform(x, 1.2, 2.4), torch.ones(n, 1, 1, 1, device=dev), uniform(x, 1.2, 2.4)], 1)
    filters = some(x, 0.5)                      # the noise alone, as a good filter leaves it; the others may get a bilateral filter
    blur = between(x, 0.3, 2.4) * (filters & some(x, 0.75))
    colour_blur = between(x, 0.5, 5) * (filters & some(x, 0.85))
    left = uniform(x, -0.5, 0.7).clamp(min=0)
    electrons = torch.where(some(x, 0.72), between(x, 2000, 120000), between(x, 80, 4000)) / (1 + 2.5 * blur ** 2 * (1 - left) ** 2)
    read = uniform(x, 0.5, 5)

    light = soft(to_linear(x) * between(x, 0.2, 1.3), torch.where(some(x, 0.7), uniform(x, 0.2, 0.75), uniform(x, 0.6, 1.3)))
    sensor = mixed(inverse(m), light).clamp(min=0) / gains
    odd = lambda size, phase: (torch.arange(size, device=dev) + (phase > 0.5)) % 2 == 1
    row, col = odd(h, uniform(x)).transpose(2, 3), odd(w, uniform(x))
    red, blue = ~row & ~col, row & col
    mosaic = lambda v: torch.where(red, v[:, :1], torch.where(blue, v[:, 2:], v[:, 1:2]))
    raw = mosaic(sensor)
    noisy = raw + torch.sqrt(raw / electrons + (read / electrons) ** 2) * torch.randn_like(raw)
    noisy = torch.where(some(x, 0.5), noisy.clamp(min=0), noisy)
    how = torch.floor(uniform(x, 0, 3))
    seen = demosaic(torch.cat([raw, noisy]).clamp(max=1) * both(mosaic(gains)), both(red), both(blue), both(how))
    clean, noisy = mixed(both(m), seen).chunk(2)

    # a good filter keeps the picture and leaves coarse noise, and more of it at edges
    ycc = data._constants(dev)[2].expand(n, 3, 3)
    noise = mixed(ycc, noisy - clean)
    filtered = torch.cat([soft(noise[:, :1], blur), soft(noise[:, 1:], colour_blur, REACH)], 1)
    keep = torch.cat([left, left.expand(-1, 2, -1, -1) * some(x, 0.5)], 1)
    filtered = filtered + keep * (noise - filtered)
    filtered = filtered * torch.cat([torch.ones_like(left), torch.where(some(x, 0.4), uniform(x, 0.2, 1), 1.0).expand(-1, 2, -1, -1)], 1)
    grey = mixed(ycc, clean)[:, :1]
    detail = soft((grey - soft(grey, torch.full_like(left, 2), 4)).square(), torch.full_like(left, 1.5), 4)
    strong = detail / (detail + between(x, 0.5, 4) * noise[:, :1].square().mean((2, 3), keepdim=True) + 1e-9)
    noise = filtered + uniform(x) * strong * (noise - filtered)
    noisy = clean + mixed(data._constants(dev)[3].expand(n, 3, 3), noise)

    finish = (between(x, 0.015, 0.15), uniform(x, 0.3, 1) * (some(x, 0.65) & ~filters), between(x, 0.02, 0.2), uniform(x, 0.3, 1) * (some(x, 0.8) & ~filters),
              uniform(x, -0.15, 0.6), torch.where(some(x, 0.6), uniform(x, 0.1, 1.5), 0.0), between(x, 0.5, 1.6),
              torch.where(some(x, 0.25), uniform(x, 1, 2), 1.0))
    return developed(torch.cat([clean, noisy]), *(both(v) for v in finish)).chunk(2)


# of crops: the noise of a camera, white noise, coarse noise, none
SHARES = (0.72, 0.11, 0.09, 0.08)


def ends_of(n):
    """Where each kind ends in a batch of n."""
    return [round(n * sum(SHARES[:i + 1])) for i in range(len(SHARES))]


def pairs(x):
    """(clean, noisy) of crops; each kind has its share of a batch.  Half of those with white noise are dark: it is clipped there."""
    n = len(x)
    ends = ends_of(n)
    x0, x1, x2, x3 = (x[a:b] for a, b in zip([0, *ends[:-1]], ends))
    clean, noisy = camera(x0)
    parts = [(clean, noisy)]
    x1 = x1 * torch.where(some(x1, 0.5), between(x1, 0.15, 1), 1.0)
    level = torch.where(some(x1, 0.5), between(x1, 0.4, 8), between(x1, 8, 60))
    parts.append((x1, x1 + level / 255 * torch.randn_like(x1)))
    if len(x2):
        parts.append((x2, x2 + between(x2, 1, 16) / 255 * data.blobs(x2)))
    if len(x3):
        x3 = soft(x3, uniform(x3, 0.3, 2) * some(x3, 0.5), REACH)
        parts.append((x3, x3))
    clean, noisy = (torch.cat(v) for v in zip(*parts))
    quality = torch.where(some(clean, 0.7), uniform(clean, 82, 99), uniform(clean, 30, 90))
    stored = data.jpeg(noisy, quality, some(clean, 0.7), torch.randint(0, 8, (n, 2), device=x.device), some(clean, 0.4))
    i = torch.arange(n, device=x.device).view(-1, 1, 1, 1)
    in_file = torch.rand_like(i, dtype=torch.float32) < torch.where(i < ends[2], torch.where((i < ends[0]) | (i >= ends[1]), 0.65, 0.0), 0.35)
    eight = lambda v: (v.clamp(0, 1) * 255).round() / 255
    return eight(clean), torch.where(in_file, stored, eight(noisy))


# ---- what a denoiser is told -----------------------------------------------------------------------------

def least(level, bright):
    """level, bright [N,3,h,w] of 255 and in 0..1: what the engine's level.c makes of them: at least 1.15 times the median of the cells
    that are about as bright, but not more than four times a cell's own level."""
    v, order = level.flatten(2).sort(2)
    b = bright.flatten(2).gather(2, order)
    centre = ((torch.arange(BINS, device=level.device) + 0.5) / BINS).view(-1, 1)
    weight = torch.exp(-0.5 * ((b[:, :, None] - centre) * (BINS / 0.75)) ** 2)         # [N,3,bins,cells]
    total = weight.cumsum(3)
    at = (total < 0.5 * total[..., -1:]).sum(3).clamp(max=v.shape[2] - 1)
    table = 1.15 * v.gather(2, at) * (total[..., -1] > 8)
    p = (bright * BINS - 0.5).clamp(0, BINS - 1).flatten(2)
    i = p.floor().clamp(max=BINS - 2).long()
    low, high = table.gather(2, i), table.gather(2, i + 1)
    floor = (low + (p - i) * (high - low)).view_as(level)
    return torch.maximum(level, torch.minimum(floor, (4 * level.clamp(min=0.8)).clamp(max=255)))


def resized(v, size):
    return F.interpolate(v, size=size, mode="bilinear", align_corners=False)


class Shots:
    """Crops for one denoiser: half of those with noise with the level that the estimator says, as the engine uses it, the others with the
    true local level, off by a factor that varies over the crop, of deviation about 0.25.  Clean crops with the level that the estimator
    takes their texture for would teach a denoiser to mistrust it: coarse noise of real cameras then stays."""

    def __init__(self, estimator, network):
        self.estimator, self.at = estimator, 3 * nets.LEVEL_FOR.index(network)

    def level(self, noisy):
        """Of 255, in cells."""
        said = self.estimator(noisy)[:, self.at:self.at + 3]
        return self.estimator.level(said)

    @torch.no_grad()
    def sample(self, x):
        """x: crops larger by MARGIN on every side -> (clean, noisy, map)."""
        clean, noisy = pairs(x)
        n, _, h, w = noisy.shape
        said = least(self.level(noisy), F.avg_pool2d(noisy, CELL))
        e = soft((clean - noisy).square(), torch.full((n, 1, 1, 1), 4.0, device=x.device), REACH)
        true = 255 * F.avg_pool2d(e, CELL).clamp(min=0).sqrt()
        r = lambda *shape: torch.randn(n, *shape, device=x.device)
        off = 0.2 * resized(r(1, 3, 3), true.shape[2:]) + 0.1 * r(3, 1, 1) + 0.1 * r(1, 1, 1)
        true = (true * off.exp()).clamp(min=0.35)
        noisy_ones = torch.arange(n, device=x.device).view(-1, 1, 1, 1) < ends_of(n)[2]
        told = resized(torch.where(some(x, 0.5) & noisy_ones, said, true), (h, w)) / 255
        return tuple(v[..., MARGIN:-MARGIN, MARGIN:-MARGIN] for v in (clean, noisy, told))
