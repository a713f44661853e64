"""Small autoencoders for latents at 1/8 size: two levels, at 1/4 and 1/8 of the picture, and one kind of block.

    x - unshuffle 4 - conv 3x3 - blocks - conv 2x2 stride 2 - blocks - conv 1x1 - z        (encoder)
    z - 3 tanh(z/3) - conv 3x3 - blocks - conv 1x1, shuffle 2 - blocks - conv 3x3, shuffle 4 - y   (decoder)

Three kinds of block are compared at equal multiply-adds: `gated` (the denoisers' block: depthwise 3x3 and gates), `mix`
(Walsh-Hadamard mixing of the Zenith documents with norm, activation, shifted windows and gates per channel, then the
same channel half as `gated`), and `plain` (two 3x3 convolutions, as in TAESD). The first blocks of zenith-f2 at 1/8 begin
with taef2's pool, whose norm sees the whole picture: taef2's latents encode the brightness of a place relative to the
rest of its picture.
"""
import torch
from torch import nn
import torch.nn.functional as F

import nets

GROUPS = 4              # of a mixing block's 1x1 convolutions, as in the document
FINE, COARSE = 16, 8    # windows of the mixing blocks at 1/4 and at 1/8: 64 pixels of the picture

# name: kind of block, widths at 1/4 and 1/8, blocks (encoder 1/4, 1/8, decoder 1/8, 1/4), latent channels, blocks at 1/8 with a pool,
# decoder: its widths, where they are others
LATENTS = {
    "zenith": dict(kind="plain", widths=(64, 128), blocks=(5, 7, 3, 3), decoder=(112, 224)),
    "zenith-lite": dict(kind="plain", widths=(48, 96), blocks=(4, 6, 4, 4), decoder=(64, 128)),
    "zenith-f2": dict(kind="plain", widths=(64, 128), blocks=(5, 8, 6, 8), z=32, pools=3, teacher="taef2"),
    # to compare: equal multiply-adds; the first takes the time of zenith-lite, too
    "latent-gated": dict(kind="gated", widths=(48, 128), blocks=(3, 6, 6, 5)),
    "latent-mix": dict(kind="mix", widths=(64, 176), blocks=(4, 6, 6, 6)),
    "latent-plain": dict(kind="plain", widths=(32, 64), blocks=(4, 7, 7, 6)),
    "zenith-gated": dict(kind="gated", widths=(64, 160), blocks=(4, 6, 6, 8)),
    "zenith-lite-gated": dict(kind="gated", widths=(48, 128), blocks=(3, 6, 6, 5)),
    "tiny-latent": dict(kind="gated", widths=(16, 32), blocks=(1, 1, 1, 1), z=4),
    "tiny-latent-mix": dict(kind="mix", widths=(16, 32), blocks=(2, 2, 2, 2), z=4),
    "tiny-latent-plain": dict(kind="plain", widths=(16, 32), blocks=(1, 1, 1, 1), z=4),
    "tiny-latent-pool": dict(kind="plain", widths=(16, 32), blocks=(1, 2, 2, 1), z=4, pools=1),
}
# networks that learn one latent space together: each decodes what any of them has encoded
FAMILIES = {"zenith-family": ("zenith", "zenith-lite"), "gated-family": ("zenith-gated", "zenith-lite-gated"),
            "tiny-family": ("tiny-latent-plain", "tiny-latent")}


_walsh = {}


def walsh(n, like):
    """The Walsh-Hadamard matrix in its natural order, not scaled; kept, since a CUDA graph cannot copy it from the CPU."""
    key = n, like.device, like.dtype
    if key not in _walsh:
        h = torch.ones(1, 1)
        while len(h) < n:
            h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
        _walsh[key] = h.to(like)
    return _walsh[key]


def along(x, gate, shifted):
    """H diag(gate) H / n over windows of the last axis of x [N,C,H,W]; gate [n,C]. Outside the picture there are zeros."""
    n, size = len(gate), x.shape[-1]
    before = n // 2 if shifted else 0
    x = F.pad(x, (before, -(size + before) % n))
    h = walsh(n, x)
    matrix = torch.einsum("ik,kc,kj->cij", h, gate, h) / n
    y = torch.einsum("cij,nchwj->nchwi", matrix, x.unflatten(-1, (-1, n)))
    return y.flatten(-2)[..., before:before + size]


class Mix(nn.Module):
    """x += expand(silu(columns(rows(compress(LN x)))));  x += pw4(gate(pw3(LN x)))"""

    def __init__(self, c, window, shifted):
        super().__init__()
        inner = c // GROUPS
        self.shifted = shifted
        self.compress = nn.Conv2d(c, inner, 1, groups=GROUPS)
        self.expand = nn.Conv2d(inner, c, 1, groups=GROUPS)
        gate = 1 + 0.3 * torch.randn(2, window, inner)
        self.gate_h, self.gate_v = nn.Parameter(gate[0]), nn.Parameter(gate[1])
        self.pw3 = nn.Conv2d(c, 2 * c, 1)
        self.pw4 = nn.Conv2d(c, c, 1)
        nn.init.normal_(self.pw3.weight, std=c ** -0.5)
        for last in (self.pw4, self.expand):        # begin near the identity
            nn.init.normal_(last.weight, std=0.1 * c ** -0.5)

    @staticmethod
    def norm(x):
        """nets.layer_norm, with sums in float32 where x has 16 bits."""
        return F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2], eps=1e-6).permute(0, 3, 1, 2)

    def forward(self, x):
        u = self.compress(self.norm(x))
        u = along(u, self.gate_h, self.shifted)
        u = along(u.transpose(2, 3), self.gate_v, self.shifted).transpose(2, 3)
        x = x + self.expand(F.silu(u))
        a, b = self.pw3(self.norm(x)).chunk(2, 1)
        return x + self.pw4(a * b)


class Pool(nn.Sequential):
    """taef2's branch P: its norm's statistics run over the whole picture."""

    def __init__(self, c, wide):
        super().__init__(nn.Conv2d(c, wide, 1, bias=False), nn.GroupNorm(4, wide), nn.ReLU(), nn.Conv2d(wide, c, 1, bias=False))

    def be_identity(self):
        """x + P(x) is x."""
        nn.init.zeros_(self[3].weight)


class Plain(nn.Module):
    def __init__(self, c, pooled=False):
        super().__init__()
        self.pool = Pool(c, 2 * c) if pooled else None
        if pooled:
            self.pool.be_identity()
        self.conv1, self.conv2 = nets.conv3(c, c), nets.conv3(c, c)
        nn.init.kaiming_normal_(self.conv1.weight, nonlinearity="relu")
        nn.init.normal_(self.conv2.weight, std=0.1 * (9 * c) ** -0.5)       # begin near the identity
        nn.init.zeros_(self.conv1.bias)
        nn.init.zeros_(self.conv2.bias)

    def forward(self, x):
        if self.pool is not None:
            x = x + self.pool(x)
        return x + self.conv2(F.relu(self.conv1(F.relu(x))))


def level(kind, n, c, window, pools=0):
    make = dict(gated=lambda i: nets.Block(c), mix=lambda i: Mix(c, window, i % 2 == 1), plain=lambda i: Plain(c, i < pools))[kind]
    return nn.ModuleList(make(i) for i in range(n))


def run(blocks, f):
    """The blocks of a level; gated ones through the denoisers' kernels where the network trains on a GPU."""
    if f.is_cuda and f.dtype != torch.float32 and isinstance(blocks[0], nets.Block):
        import kernels
        return kernels.run_blocks(blocks, f.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2)
    for b in blocks:
        f = b(f)
    return f


def unshuffle(x, k):
    """F.pixel_unshuffle whose result has its channels last in memory, as the convolutions like it on a GPU."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // k, k, w // k, k).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(n, h // k, w // k, c * k * k).permute(0, 3, 1, 2)


def shuffle(x, k):
    """The inverse."""
    n, c, h, w = x.shape
    x = x.permute(0, 2, 3, 1).reshape(n, h, w, c // (k * k), k, k).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, h * k, w * k, c // (k * k)).permute(0, 3, 1, 2)


class Encoder(nn.Module):
    def __init__(self, kind, c, n, z, pools):
        super().__init__()
        self.intro = nets.conv3(48, c[0])
        self.fine = level(kind, n[0], c[0], FINE)
        self.down = nn.Conv2d(c[0], c[1], 2, stride=2)
        self.coarse = level(kind, n[1], c[1], COARSE, pools)
        self.outro = nn.Conv2d(c[1], z, 1)

    def forward(self, x):
        f = run(self.fine, self.intro(unshuffle(x, 4)))
        return self.outro(run(self.coarse, self.down(f)))


class Decoder(nn.Module):
    """z has gone through 3 tanh(z/3)."""

    def __init__(self, kind, c, n, z, pools):
        super().__init__()
        self.intro = nets.conv3(z, c[1])
        self.coarse = level(kind, n[0], c[1], COARSE, pools)
        self.up = nn.Conv2d(c[1], 4 * c[0], 1)
        self.fine = level(kind, n[1], c[0], FINE)
        self.outro = nets.conv3(c[0], 48)

    def forward(self, z):
        f = run(self.coarse, self.intro(z))
        f = run(self.fine, shuffle(self.up(f), 2))
        return shuffle(self.outro(f), 4)


class View(nn.Module):
    """How to look at a latent: sRGB = weight z + bias, its three principal components over photographs."""

    def __init__(self, z):
        super().__init__()
        self.register_buffer("weight", torch.zeros(3, z))
        self.register_buffer("bias", torch.full((3,), 0.5))

    @torch.no_grad()
    def fit(self, z, x):
        """From latents z [N,C,h,w] of the pictures x; a component is positive where the picture is bright, and two deviations of it
        are half the range."""
        light = F.avg_pool2d(x.mean(1, keepdim=True), 8).flatten().double()
        flat = z.permute(1, 0, 2, 3).flatten(1).double()
        mean = flat.mean(1, keepdim=True)
        values, vectors = torch.linalg.eigh((flat - mean) @ (flat - mean).T / flat.shape[1])
        axes, deviation = vectors[:, -3:].flip(1).T, values[-3:].flip(0).sqrt()
        sign = torch.sign((axes @ (flat - mean)) @ (light - light.mean()))
        weight = axes * (torch.where(sign < 0, -1.0, 1.0) * 0.25 / deviation)[:, None]
        self.weight.copy_(weight)
        self.bias.copy_(0.5 - (weight @ mean).squeeze(1))


class Latent(nn.Module):
    """Picture [N,3,H,W] in 0..1, latent [N,z,H/8,W/8] of about unit variance; H and W multiples of 8."""

    def __init__(self, kind, widths, blocks, z=16, pools=0, teacher=None, decoder=None):
        super().__init__()
        self.kind, self.teacher = kind, teacher
        self.encoder = Encoder(kind, widths, blocks[:2], z, pools)
        self.decoder = Decoder(kind, decoder or widths, blocks[2:], z, pools)
        self.view = View(z)
        for conv in (self.encoder.intro, self.encoder.down, self.encoder.outro, self.decoder.intro, self.decoder.up):
            nn.init.normal_(conv.weight, std=conv.weight[0].numel() ** -0.5)
            nn.init.zeros_(conv.bias)
        nn.init.normal_(self.decoder.outro.weight, std=0.2 * self.decoder.outro.weight[0].numel() ** -0.5)
        nn.init.constant_(self.decoder.outro.bias, 0.5)         # grey

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(3 * torch.tanh(z / 3))

    def forward(self, x):
        return self.decode(self.encode(x))


class Family(nn.Module):
    """Several of them with one latent space; the first has the best encoder."""

    def __init__(self, names):
        super().__init__()
        self.members = nn.ModuleDict({n: Latent(**LATENTS[n]) for n in names})


# ---- the teacher of zenith-f2 --------------------------------------------------------------------

class PoolBlock(nets.TinyBlock):
    """taef2's block at the lowest resolution: x + P(x), then TAESD's block."""

    def __init__(self, c=64, wide=256):
        super().__init__(c)
        self.pool = Pool(c, wide)

    def forward(self, x):
        return super().forward(x + self.pool(x))


class Teacher(nn.Module):
    """taef2 from its two files: encode(x) and decode(z), without gradients of its own weights."""

    def __init__(self, encoder, decoder, z=32, c=64):
        super().__init__()
        down = lambda: nets.conv3(c, c, stride=2, bias=False)
        up = lambda: [nn.Upsample(scale_factor=2), nets.conv3(c, c, bias=False)]
        pool = lambda: [PoolBlock(c) for _ in range(3)]
        self.encoder = nn.Sequential(*nets.stage(nets.conv3(3, c), 1), *nets.stage(down(), 3), *nets.stage(down(), 3),
                                     down(), *pool(), nets.conv3(c, z))
        # the first layer, which limits z, has no weights; it stands for the file's index 0
        self.decoder = nn.Sequential(nn.Identity(), nets.conv3(z, c), nn.ReLU(), *pool(), *up(),
                                     *(nets.TinyBlock(c) for _ in range(3)), *up(), *(nets.TinyBlock(c) for _ in range(3)),
                                     *up(), nets.TinyBlock(c), nets.conv3(c, 3))
        for half, file in ((self.encoder, encoder), (self.decoder, decoder)):
            half.load_state_dict({k: v.float() for k, v in torch.load(file, weights_only=True).items()})
        self.requires_grad_(False)

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(3 * torch.tanh(z / 3))
