# SPDX-License-Identifier: MIT
"""The autoencoders of docs/vae.md in PyTorch, for one picture, with the names of their files: what vae_bench.py and
golden_vae.py compare with where diffusers is not installed.

Wan's 3-D convolutions are 2-D here: for a picture only the last tap in time counts. This favours PyTorch in a
comparison of speed: the published code computes all three taps."""
import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, heads=1):
    """Tensors [n, tokens, c]."""
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Twice(nn.Module):
    def forward(self, x):
        return F.interpolate(x, scale_factor=2, mode="nearest")


# ---- AutoencoderKL ---------------------------------------------------------------------------------------------

class KlBlock(nn.Module):
    def __init__(self, cin, c):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, cin, 1e-6), nn.Conv2d(cin, c, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, c, 1e-6), nn.Conv2d(c, c, 3, padding=1)
        if cin != c:
            self.conv_shortcut = nn.Conv2d(cin, c, 1)

    def forward(self, x):
        h = self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))
        return h + (self.conv_shortcut(x) if hasattr(self, "conv_shortcut") else x)


class KlAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.group_norm = nn.GroupNorm(32, c, 1e-6)
        self.to_q, self.to_k, self.to_v = (nn.Linear(c, c) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(c, c)])

    def forward(self, x):
        t = self.group_norm(x).flatten(2).transpose(1, 2)
        t = self.to_out[0](attend(self.to_q(t), self.to_k(t), self.to_v(t)))
        return x + t.transpose(1, 2).view_as(x)


class Half(nn.Module):
    """A convolution with one row and one column of zeros after the picture."""

    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, stride=2)

    def forward(self, x):
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class Double(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class KlLevel(nn.Module):
    def __init__(self, cin, c, blocks, sampler, which):
        super().__init__()
        self.resnets = nn.ModuleList(KlBlock(cin if i == 0 else c, c) for i in range(blocks))
        self.which = which if sampler else None
        if sampler:
            setattr(self, which, nn.ModuleList([sampler(c)]))

    def forward(self, x):
        for b in self.resnets:
            x = b(x)
        return getattr(self, self.which)[0](x) if self.which else x


class KlMiddle(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.resnets = nn.ModuleList([KlBlock(c, c), KlBlock(c, c)])
        self.attentions = nn.ModuleList([KlAttention(c)])

    def forward(self, x):
        return self.resnets[1](self.attentions[0](self.resnets[0](x)))


class KlHalf(nn.Module):
    """The encoder, or the decoder."""

    def __init__(self, decoder, z, widths, blocks):
        super().__init__()
        self.decoder, n = decoder, len(widths)
        c = widths[-1] if decoder else widths[0]
        self.conv_in = nn.Conv2d(z if decoder else 3, c, 3, padding=1)
        levels = nn.ModuleList()
        for i, w in enumerate(widths[::-1] if decoder else widths):
            levels.append(KlLevel(c, w, blocks + decoder, (Double if decoder else Half) if i + 1 < n else None,
                                  "upsamplers" if decoder else "downsamplers"))
            c = w
        setattr(self, "up_blocks" if decoder else "down_blocks", levels)
        self.mid_block = KlMiddle(widths[-1])
        self.conv_norm_out = nn.GroupNorm(32, c, 1e-6)
        self.conv_out = nn.Conv2d(c, 3 if decoder else 2 * z, 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        x = self.mid_block(x) if self.decoder else x
        for level in self.up_blocks if self.decoder else self.down_blocks:
            x = level(x)
        x = x if self.decoder else self.mid_block(x)
        x = self.conv_out(F.silu(self.conv_norm_out(x)))
        return x if self.decoder else x.chunk(2, dim=1)[0]


class Kl(nn.Module):
    """FLUX.1's."""

    def __init__(self, z=16, widths=(128, 256, 512, 512), blocks=2):
        super().__init__()
        self.encoder, self.decoder = (KlHalf(decoder, z, widths, blocks) for decoder in (False, True))

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)


# ---- Wan 2.1 ---------------------------------------------------------------------------------------------------

MEAN = [-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
        0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921]
DEVIATION = [2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
             3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160]


class Rms(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(c, 1, 1))

    def forward(self, x):
        return F.normalize(x, dim=1) * x.shape[1] ** 0.5 * self.gamma


class WanBlock(nn.Module):
    def __init__(self, cin, c):
        super().__init__()
        self.residual = nn.Sequential(Rms(cin), nn.SiLU(), nn.Conv2d(cin, c, 3, padding=1), Rms(c), nn.SiLU(), nn.Identity(),
                                      nn.Conv2d(c, c, 3, padding=1))
        self.shortcut = nn.Conv2d(cin, c, 1) if cin != c else nn.Identity()

    def forward(self, x):
        return self.residual(x) + self.shortcut(x)


class WanAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.to_qkv, self.proj = Rms(c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        q, k, v = self.to_qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        return x + self.proj(attend(q, k, v).transpose(1, 2).reshape_as(x))


class WanResample(nn.Module):
    def __init__(self, first, conv):
        super().__init__()
        self.resample = nn.Sequential(first, conv)

    def forward(self, x):
        return self.resample(x)


class WanHalf(nn.Module):
    def __init__(self, decoder, z, dim, mults, blocks):
        super().__init__()
        widths = [dim * m for m in mults]
        c = widths[-1] if decoder else widths[0]
        self.conv1 = nn.Conv2d(z if decoder else 3, c, 3, padding=1)
        self.middle = nn.Sequential(WanBlock(widths[-1], widths[-1]), WanAttention(widths[-1]),
                                    WanBlock(widths[-1], widths[-1]))
        levels = []
        for i, w in enumerate(widths[::-1] if decoder else widths):
            for j in range(blocks + decoder):
                levels.append(WanBlock(c, w))
                c = w
            if i + 1 < len(widths):
                levels.append(WanResample(Twice(), nn.Conv2d(c, c // 2, 3, padding=1)) if decoder else
                              WanResample(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(c, c, 3, stride=2)))
                c = c // 2 if decoder else c
        self.levels = "upsamples" if decoder else "downsamples"
        setattr(self, self.levels, nn.Sequential(*levels))
        self.head = nn.Sequential(Rms(c), nn.SiLU(), nn.Conv2d(c, 3 if decoder else 2 * z, 3, padding=1))
        self.decoder = decoder

    def forward(self, x):
        x, levels = self.conv1(x), getattr(self, self.levels)
        return self.head(levels(self.middle(x)) if self.decoder else self.middle(levels(x)))


class Wan(nn.Module):
    """Wan 2.1's, on normalised latents."""

    def __init__(self, z=16, dim=96, mults=(1, 2, 4, 4), blocks=2):
        super().__init__()
        self.encoder, self.decoder = (WanHalf(decoder, z, dim, mults, blocks) for decoder in (False, True))
        self.conv1, self.conv2 = nn.Conv2d(2 * z, 2 * z, 1), nn.Conv2d(z, z, 1)
        for name, value in (("mean", MEAN), ("deviation", DEVIATION)):
            self.register_buffer(name, torch.tensor(value).view(1, -1, 1, 1), persistent=False)

    def encode(self, x):
        return (self.conv1(self.encoder(x)).chunk(2, dim=1)[0] - self.mean) / self.deviation

    def decode(self, z):
        return self.decoder(self.conv2(z * self.deviation + self.mean)).clamp(-1, 1)


# ---- the document's 2-D network --------------------------------------------------------------------------------

class Wan2dBlock(nn.Module):
    def __init__(self, c, act):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(min(32, c), c), nn.GroupNorm(min(32, c), c)
        self.act = act

    def forward(self, x):
        return self.act(x + self.norm2(self.conv2(self.act(self.norm1(self.conv1(x))))))


class Wan2dAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = min(4, c // 64)
        self.norm, self.qkv, self.proj = nn.GroupNorm(min(32, c), c), nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        t = self.norm(x).flatten(2).transpose(1, 2)
        t = self.proj(attend(*self.qkv(t).chunk(3, dim=-1), self.heads))
        return x + t.transpose(1, 2).view_as(x)


class Wan2dLevel(nn.Module):
    def __init__(self, cin, c, up, attention, blocks, act):
        super().__init__()
        self.up = up
        self.conv_in = nn.Conv2d(cin, c, 3, stride=1 if up else 2, padding=1)
        self.res_blocks = nn.ModuleList(Wan2dBlock(c, act) for _ in range(blocks))
        if attention:
            self.attention = Wan2dAttention(c)

    def forward(self, x):
        x = self.conv_in(F.interpolate(x, scale_factor=2, mode="nearest-exact") if self.up else x)
        for b in self.res_blocks:
            x = b(x)
        return self.attention(x) if hasattr(self, "attention") else x


class Wan2dHalf(nn.Module):
    """The encoder, or the decoder."""

    def __init__(self, decoder, z, base, mults, blocks, act):
        super().__init__()
        self.decoder = decoder
        c = base * mults[-1] if decoder else base
        if decoder:
            self.z_to_h = nn.Conv2d(z, c, 1)
        else:
            self.conv_in = nn.Conv2d(3, c, 3, padding=1)
        levels = nn.ModuleList()
        for m in mults[::-1] if decoder else mults:
            levels.append(Wan2dLevel(c, base * m, decoder, m >= 2, blocks, act))
            c = base * m
        setattr(self, "up_blocks" if decoder else "down_blocks", levels)
        middle = base * mults[-1]
        self.middle_res_blocks = nn.ModuleList(Wan2dBlock(middle, act) for _ in range(blocks))
        self.middle_attention = Wan2dAttention(middle)
        self.norm_out = nn.GroupNorm(min(32, c), c)
        self.conv_out = nn.Conv2d(c, 3 if decoder else 2 * z, 3, padding=1)

    def middle(self, x):
        for b in self.middle_res_blocks:
            x = b(x)
        return self.middle_attention(x)

    def forward(self, x):
        x = self.middle(self.z_to_h(x)) if self.decoder else self.conv_in(x)
        for level in self.up_blocks if self.decoder else self.down_blocks:
            x = level(x)
        x = x if self.decoder else self.middle(x)
        x = self.conv_out(F.silu(self.norm_out(x)))
        return torch.tanh(x) if self.decoder else x.chunk(2, dim=1)[0]


class Wan2d(nn.Module):
    def __init__(self, z=4, base=64, mults=(1, 2, 4, 8), blocks=2, act=F.silu):
        super().__init__()
        self.encoder = Wan2dHalf(False, z, base, mults, blocks, act)
        self.decoder = Wan2dHalf(True, z, base, mults, blocks, act)

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)
