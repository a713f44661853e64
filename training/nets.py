"""The networks, written for reading: plain float32 PyTorch modules.

Their state_dict names and shapes are those of the shipped .safetensors files, so a file is
loaded with load_state_dict and nothing else. kernels.py holds the fast training path of the
denoiser; it computes the same function.
"""
import torch
from torch import nn
import torch.nn.functional as F

# name: widths of the three levels, blocks of encoder levels, of the middle, of decoder levels
DENOISERS = {
    "denoise-fast": dict(widths=(32, 64, 128), enc=(1, 2), mid=4, dec=(3, 3)),
    "denoise-balanced": dict(widths=(48, 96, 192), enc=(5, 4), mid=4, dec=(8, 6)),
    "denoise-best": dict(widths=(96, 192, 384), enc=(7, 7), mid=8, dec=(12, 10)),
    "tiny-denoise": dict(widths=(16, 32, 48), enc=(1, 1), mid=1, dec=(1, 1)),   # for trying the code
}
# the same for two levels, at the picture's size and at 1/2
UPSCALERS = {
    "upscale": dict(widths=(64, 128), enc=(6,), mid=12, dec=(12,)),
    "upscale-crisp": dict(widths=(64, 128), enc=(6,), mid=12, dec=(12,)),
    "upscale-small": dict(widths=(32, 64), enc=(4,), mid=8, dec=(8,)),
    "tiny-upscale": dict(widths=(16, 32), enc=(1,), mid=1, dec=(1,)),
}
RESTORERS = {
    "restore": dict(widths=(48, 96, 192), enc=(5, 4), mid=4, dec=(8, 6)),
    "restore-mix": dict(widths=(64, 128, 256), enc=(5, 4), mid=5, dec=(8, 6), windows=(16, 16, 8)),     # to compare
    "tiny-restore": dict(widths=(16, 32, 48), enc=(1, 1), mid=1, dec=(1, 1)),
    "tiny-restore-mix": dict(widths=(16, 32, 48), enc=(2, 1), mid=1, dec=(1, 1), windows=(16, 16, 8)),
}
LEVEL_FOR = ("denoise-fast", "denoise-balanced", "denoise-best")    # of the estimator's outputs, in this order
AUTOENCODERS = {"zenith-tae": dict(z=16), "tiny-tae": dict(z=4)}


def layer_norm(x):
    """Per pixel over the channels of NCHW, no affine: the next 1x1 conv has weight and bias."""
    m = x.mean(1, keepdim=True)
    v = (x - m).square().mean(1, keepdim=True)
    return (x - m) * torch.rsqrt(v + 1e-6)


class Block(nn.Module):
    """x += pw2(gate(dw(pw1(LN x))));  x += pw4(gate(pw3(LN x)));  gate(u) = u[:C] * u[C:]"""

    def __init__(self, c):
        super().__init__()
        self.pw1 = nn.Conv2d(c, 2 * c, 1)
        self.dw = nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c)
        self.pw2 = nn.Conv2d(c, c, 1)
        self.pw3 = nn.Conv2d(c, 2 * c, 1)
        self.pw4 = nn.Conv2d(c, c, 1)
        for conv, gain in ((self.pw1, 1.0), (self.pw3, 1.0), (self.pw2, 0.1), (self.pw4, 0.1)):
            nn.init.normal_(conv.weight, std=gain * c ** -0.5)
            nn.init.zeros_(conv.bias)
        with torch.no_grad():                       # begin near the identity
            self.dw.weight.normal_(std=0.2)
            self.dw.weight[:, :, 1, 1] += 0.7
            self.dw.bias.zero_()

    def be_identity(self):
        for conv in (self.pw2, self.pw4):
            nn.init.zeros_(conv.weight)
            nn.init.zeros_(conv.bias)

    def forward(self, x):
        a, b = self.dw(self.pw1(layer_norm(x))).chunk(2, 1)
        x = x + self.pw2(a * b)
        a, b = self.pw3(layer_norm(x)).chunk(2, 1)
        return x + self.pw4(a * b)


def blocks(n, c, window=None):
    """Gated blocks, or, with a window, those that mix by Walsh-Hadamard transforms."""
    if window is None:
        return nn.ModuleList(Block(c) for _ in range(n))
    import latent_nets
    return latent_nets.level("mix", n, c, window)


class Levels(nn.Module):
    """A U-Net of blocks: what the denoisers, the restorers and the upscalers share.  windows: of each level, for blocks that mix."""

    def __init__(self, widths, enc, mid, dec, windows=None):
        super().__init__()
        c, levels = widths, len(enc)
        windows = windows or (None,) * (levels + 1)
        self.enc = nn.ModuleList(blocks(enc[l], c[l], windows[l]) for l in range(levels))
        self.down = nn.ModuleList(nn.Conv2d(c[l], c[l + 1], 2, stride=2) for l in range(levels))
        self.mid = blocks(mid, c[-1], windows[-1])
        self.up = nn.ModuleList(nn.Conv2d(c[l + 1], 4 * c[l], 1, bias=False) for l in range(levels))
        self.dec = nn.ModuleList(blocks(dec[l], c[l], windows[l]) for l in range(levels))

    def levels(self, f):
        skips = []
        for l, level in enumerate(self.enc):
            for b in level:
                f = b(f)
            skips.append(f)
            f = self.down[l](f)
        for b in self.mid:
            f = b(f)
        for l in reversed(range(len(self.dec))):
            f = F.pixel_shuffle(self.up[l](f), 2) + skips[l]
            for b in self.dec[l]:
                f = b(f)
        return f


def last_conv(c, out):
    """A 3x3 convolution that begins with small outputs."""
    conv = conv3(c, out)
    nn.init.zeros_(conv.bias)
    with torch.no_grad():
        conv.weight *= 0.1
    return conv


class Denoiser(Levels):
    """On the 2x pixel-unshuffled picture; levels at 1/2, 1/4 and 1/8 of its size.

    x [N,3,H,W] in 0..1, s [N,3,H,W] the noise's standard deviation in the same units;
    H and W are multiples of 8 (denoise() below pads)."""

    def __init__(self, widths, enc, mid, dec):
        super().__init__(widths, enc, mid, dec)
        self.intro = conv3(24, widths[0])
        self.outro = last_conv(widths[0], 12)

    def forward(self, x, s):
        return x + self.change(x, s)

    def change(self, x, s):
        return F.pixel_shuffle(self.outro(self.levels(self.intro(F.pixel_unshuffle(torch.cat([x, s], 1), 2)))), 2)


class Restorer(Levels):
    """Undoes blur, JPEG compression, noise and dirt.  x [N,3,H,W] in 0..1; told [N,7,H/2,W/2]: how much noise (deviation in x's units),
    artefacts (1 - quality/100) and blur (deviation of the kernel along an axis, in units of 4 pixels) there is, then for each of them
    1 where that is known; where it is not, both are 0 and the network finds out; then how much of dust, hairs, scratches and stains to
    remove.  H and W are multiples of 8."""

    TOLD = 7

    def __init__(self, widths, enc, mid, dec, windows=None):
        super().__init__(widths, enc, mid, dec, windows)
        self.intro = conv3(12 + self.TOLD, widths[0])
        self.outro = last_conv(widths[0], 12)

    def forward(self, x, told):
        f = self.intro(torch.cat([F.pixel_unshuffle(x, 2), told], 1))
        return x + F.pixel_shuffle(self.outro(self.levels(f)), 2)

    def load_state_dict(self, weights, **how):
        """A file may lack the last of what is told: nothing is done about dirt then."""
        w = weights["intro.weight"]
        lacks = self.intro.weight.shape[1] - w.shape[1]
        return super().load_state_dict({**weights, "intro.weight": F.pad(w, (0, 0, 0, 0, 0, lacks))}, **how)

    def from_denoiser(self, weights):
        """Begin with a denoiser's weights of the same widths: its noise map has three channels, this one's one for all."""
        weights = {k: v.float() for k, v in weights.items()}
        w = weights["intro.weight"]
        new = torch.zeros_like(self.intro.weight)
        new[:, :12], new[:, 12] = w[:, :12], w[:, 12:].sum(1)
        self.load_state_dict({**weights, "intro.weight": new})


class Upscaler(Levels):
    """Enlarges by 2, 3 or 4: first and last layer for each, all else shared.  x [N,3,H,W] in 0..1; told [N,2,H,W]: the noise in
    it (deviation in x's units) and its JPEG artefacts (1 - quality/100), 0 where there are none.  H and W are even."""

    TOLD, SCALES = 2, (2, 3, 4)

    def __init__(self, widths, enc, mid, dec):
        super().__init__(widths, enc, mid, dec)
        self.intro = nn.ModuleDict({f"x{s}": conv3(3 + self.TOLD, widths[0]) for s in self.SCALES})
        self.outro = nn.ModuleDict({f"x{s}": last_conv(widths[0], 3 * s * s) for s in self.SCALES})

    def forward(self, x, told, scale):
        f = self.levels(self.intro[f"x{scale}"](torch.cat([x, told], 1)))
        return F.interpolate(x, scale_factor=scale) + F.pixel_shuffle(self.outro[f"x{scale}"](f), scale)


class TinyBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Sequential(conv3(c, c), nn.ReLU(), conv3(c, c), nn.ReLU(), conv3(c, c))

    def forward(self, x):
        return F.relu(self.conv(x) + x)


def conv3(i, o, **kw):
    return nn.Conv2d(i, o, 3, padding=1, **kw)


def stage(first, n, c=64):
    return [first, *(TinyBlock(c) for _ in range(n))]


class Half(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class Autoencoder(nn.Module):
    """TAESD's layout. Picture [N,3,H,W] in 0..1, latent [N,z,H/8,W/8] of about unit variance."""

    def __init__(self, z=16, c=64):
        super().__init__()
        down = lambda: conv3(c, c, stride=2, bias=False)
        up = lambda: [nn.Upsample(scale_factor=2), conv3(c, c, bias=False)]
        self.encoder = Half([*stage(conv3(3, c), 1), *stage(down(), 3), *stage(down(), 3),
                             *stage(down(), 3), conv3(c, z)])
        self.decoder = Half([conv3(z, c), *stage(nn.ReLU(), 3), *up(), *(TinyBlock(c) for _ in range(3)),
                             *up(), *(TinyBlock(c) for _ in range(3)), *up(), TinyBlock(c), conv3(c, 3)])

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(3 * torch.tanh(z / 3))

    def forward(self, x):
        return self.decode(self.encode(x))


def noise_filters():
    """[32,12,3,3]: 30 band-pass filters of one channel and 2 of their sum, on the 2x pixel-unshuffled picture, of unit norm: from the
    finest detail, which white noise has and scaled noise lacks, to differences of three pixels' sums."""
    unit = lambda *v: torch.tensor(v, dtype=torch.float32) / torch.tensor(v, dtype=torch.float32).norm()
    one, two, three, pair = unit(1), unit(1, -2, 1), unit(1, -3, 3, -1), unit(1, -1)
    four, six, d, e = unit(1, 1, 1, 1), unit(1, 1, 1, 1, 1, 1), unit(1, 1, -1, -1), unit(1, 1, 1, -1, -1, -1)
    bands = [(three, three), (two, two), (pair, pair), (two, one), (one, two), (d, d), (d, four), (four, d), (e, six), (six, e)]
    out = torch.zeros(32, 3, 6, 6)

    def put(k, channel, a, b, gain=1.0):
        y, x = (6 - len(a)) // 2, (6 - len(b)) // 2
        out[k, channel, y:y + len(a), x:x + len(b)] = gain * a[:, None] * b

    for k, (a, b) in enumerate(bands):
        for channel in range(3):
            put(3 * k + channel, channel, a, b)
    for channel in range(3):
        put(30, channel, pair, pair, 3 ** -0.5)
        put(31, channel, d, d, 3 ** -0.5)
    # pixel 2i + u of the 6 is phase u of tap i; unshuffled channels are c * 4 + u * 2 + v
    return out.view(32, 3, 3, 2, 3, 2).permute(0, 1, 3, 5, 2, 4).reshape(32, 12, 3, 3)


class Level(nn.Module):
    """Estimates the noise level for the denoisers: x [N,3,H,W] in 0..1 -> [N,3*len(LEVEL_FOR),H/8,W/8], for red, green
    and blue of each denoiser a number h; level() says what it means. H and W are multiples of 16.

    The mean of the rectified response of band-pass filters grows with the noise in proportion, and so does the output of a network
    of convolutions and ReLU, but for its biases: what is learnt at one level holds at others."""

    SCALE, FLOOR = 16.0, 0.35                                       # of 255

    def __init__(self, width=48, wide=80, heads=len(LEVEL_FOR)):
        super().__init__()
        self.first = conv3(12, 32)                                  # at 1/2, then averages of 4x4
        self.eighth = nn.ModuleList([conv3(32 + 3, width), conv3(width, width)])
        self.down = nn.Conv2d(width, wide, 2, stride=2)
        self.wide = nn.ModuleList(conv3(wide, wide) for _ in range(3))      # at 1/16
        self.up = nn.Conv2d(wide, width, 1)
        self.join = conv3(width, width)                             # at 1/8
        self.head = nn.Conv2d(width, 3 * heads, 1)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
                nn.init.zeros_(m.bias)
        with torch.no_grad():
            self.first.weight.copy_(32 * noise_filters())
            # begin with the finest band of each channel, handed through: exact for white noise without a picture
            self.up.weight[:3] = 0
            for conv in (*self.eighth, self.join):
                conv.weight *= 0.5
                conv.weight[:3] = 0
                for c in range(3):
                    conv.weight[c, c, 1, 1] = 1
            self.head.weight *= 0.05
            for k in range(3 * heads):
                self.head.weight[k, k % 3] = 255 / (self.SCALE * 32 * (2 * torch.pi) ** -0.5)

    def features(self, x):
        return torch.cat([F.avg_pool2d(F.relu(self.first(F.pixel_unshuffle(x, 2))), 4), F.avg_pool2d(x, 8)], 1)

    def middle(self, f):
        for conv in self.eighth:
            f = F.relu(conv(f))
        skip, f = f, F.relu(self.down(f))
        for conv in self.wide:
            f = F.relu(conv(f))
        return F.interpolate(self.up(f), scale_factor=2) + skip

    def last(self, f):
        return self.head(F.relu(self.join(f)))

    def rest(self, f):
        return self.last(self.middle(f))

    def forward(self, x):
        return self.rest(self.features(x))

    @classmethod
    def level(cls, h):
        """Of 255; never 0, and the same for h and -h."""
        return ((cls.SCALE * h).square() + cls.FLOOR ** 2).sqrt()


def build(name):
    if name == "denoise-level":
        return Level()
    if name in DENOISERS:
        return Denoiser(**DENOISERS[name])
    if name in UPSCALERS:
        return Upscaler(**UPSCALERS[name])
    if name in RESTORERS:
        return Restorer(**RESTORERS[name])
    if name in AUTOENCODERS:
        return Autoencoder(**AUTOENCODERS[name])
    import latent_nets
    if name in latent_nets.FAMILIES:
        return latent_nets.Family(latent_nets.FAMILIES[name])
    return latent_nets.Latent(**latent_nets.LATENTS[name])


def plan_of(weights):
    """The numbers of a U-Net of blocks, from its weights: a file may have fewer blocks than DENOISERS says."""
    count = lambda part: len({k.split(".")[part.count(".") + 1] for k in weights if k.startswith(part + ".")})
    levels = count("enc")
    widths = (*(len(weights[f"enc.{l}.0.pw2.bias"]) for l in range(levels)), len(weights["mid.0.pw2.bias"]))
    return dict(widths=widths, enc=[count(f"enc.{l}") for l in range(levels)], mid=count("mid"), dec=[count(f"dec.{l}") for l in range(levels)])


def begin_from(net, weights, anew=None):
    """Load weights; blocks and branches that they do not have begin as the identity, so that a network can grow.  Tensors with `anew`
    in their names are left at random."""
    kept = lambda k: not (anew and anew in k)
    missing, unexpected = net.load_state_dict({k: v.float() for k, v in weights.items() if kept(k)}, strict=False)
    missing = [k for k in missing if not k.startswith("view.") and kept(k)]
    new = {k.rsplit(".", 2)[0] for k in missing}
    grown = {k: m for k, m in net.named_modules() if k in new and hasattr(m, "be_identity")}
    if unexpected or len(grown) < len(new):
        raise SystemExit("these weights are not of this network")
    for m in grown.values():
        m.be_identity()
    return sorted(grown)


def pad8(x, n=8):
    """Mirror at the right and the lower edge up to multiples of n."""
    h, w = x.shape[-2:]
    return F.pad(x, (0, -w % n, 0, -h % n), mode="reflect")


@torch.no_grad()
def denoise(net, x, s):
    h, w = x.shape[-2:]
    return net(pad8(x), pad8(s))[..., :h, :w]


@torch.no_grad()
def restore(net, x, told=None):
    """told: of Restorer, seven numbers; None: nothing is known, and dirt stays."""
    h, w = x.shape[-2:]
    x = pad8(x)
    told = torch.zeros(net.TOLD) if told is None else told
    return net(x, told.to(x).view(1, -1, 1, 1).expand(len(x), -1, x.shape[-2] // 2, x.shape[-1] // 2))[..., :h, :w]


@torch.no_grad()
def upscale(net, x, scale, told=(0.0, 0.0)):
    h, w = x.shape[-2:]
    x = pad8(x, 2)
    told = torch.tensor(told).to(x).view(1, -1, 1, 1).expand(len(x), -1, *x.shape[-2:])
    return net(x, told, scale)[..., :h * scale, :w * scale]


@torch.no_grad()
def round_trip(net, x):
    h, w = x.shape[-2:]
    return net(pad8(x))[..., :h, :w]


# ---- sizes, for the model cards -----------------------------------------------------------------

def macs_per_pixel(net):
    """Multiply-adds of all convolutions per pixel of the picture; of an upscaler, of the picture that it makes, at x2."""
    total, hooks, side = [0], [], 64

    def count(m, _, out):
        total[0] += out.shape[-1] * out.shape[-2] * m.weight.numel()

    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            hooks.append(m.register_forward_hook(count))
    x = torch.zeros(1, 3, side, side, device=next(net.parameters()).device)
    with torch.no_grad():
        if isinstance(net, Denoiser):
            net(x, x)
        elif isinstance(net, Restorer):
            net(x, x[:, :1, ::2, ::2].expand(-1, net.TOLD, -1, -1))
        elif isinstance(net, Upscaler):
            net(x, x[:, :net.TOLD], 2)
        else:
            net(x)
    for h in hooks:
        h.remove()
    return total[0] / (2 * side if isinstance(net, Upscaler) else side) ** 2


def receptive_field(net, side=1536, period=8):
    """Largest reach, in pixels, from an output pixel to an input pixel that can change it: (left/up, right/down), found
    by propagating dependence, over all phases of the lattice. A block that mixes otherwise than by its 3x3 has spread()."""
    lo = hi = 0

    def conv(iv, k, stride=1):          # intervals of input cells, per output cell
        r = k // 2
        n = len(iv) // stride
        if k == 2:
            return [(iv[2 * i][0], iv[2 * i + 1][1]) for i in range(n)]
        return [(iv[max(stride * i - r, 0)][0], iv[min(stride * i + r, len(iv) - 1)][1]) for i in range(n)]

    def union(a, b):
        return [(min(p[0], q[0]), max(p[1], q[1])) for p, q in zip(a, b)]

    def up(iv):
        return [p for p in iv for _ in (0, 1)]

    def block(b, iv):
        return b.spread(iv) if hasattr(b, "spread") else conv(iv, 3)

    iv = [(i, i) for i in range(side)]
    if isinstance(net, Denoiser):
        iv = conv(conv(iv, 2, 2), 3)
        skips = []
        for level in net.enc:
            for b in level:
                iv = block(b, iv)
            skips.append(iv)
            iv = conv(iv, 2, 2)
        for b in net.mid:
            iv = block(b, iv)
        for l in reversed(range(len(net.dec))):
            iv = union(up(iv), skips[l])
            for b in net.dec[l]:
                iv = block(b, iv)
        iv = up(conv(iv, 3))
    else:
        for half in (net.encoder, net.decoder):
            for m in half.layers.modules():
                if isinstance(m, nn.Conv2d):
                    iv = conv(iv, 3, m.stride[0])
                elif isinstance(m, nn.Upsample):
                    iv = up(iv)
    for i in range(side // 2, side // 2 + period):
        lo, hi = max(lo, i - iv[i][0]), max(hi, iv[i][1] - i)
    return lo, hi
