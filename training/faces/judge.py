"""An independent network that reads the attributes from pixels: it judges edits and knows nothing of the autoencoder."""
import time

import torch
from safetensors.torch import load_file, save_file
from torch import nn

import data


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        layers, p = [], 3
        for c in (32, 64, 128, 192, 256):
            for stride in (2, 1):
                layers += [nn.Conv2d(p, c, 3, stride, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU()]
                p = c
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(p, len(data.NAMES)))

    def forward(self, x):
        return self.body(x)


def train(faces, seconds, batch=256, lr=3e-3, kind=Judge, spoil=lambda x: x):
    """A network of this kind; spoil: what is done to the pictures that it learns from."""
    device = faces.device
    net = kind().to(device, memory_format=torch.channels_last)
    opt = torch.optim.AdamW(net.parameters(), lr, weight_decay=0.05)
    start, steps = time.time(), 0
    while (done := (time.time() - start) / seconds) < 1:
        for g in opt.param_groups:
            g["lr"] = lr * min(1, (steps + 1) / 100) * (1 - done) + 1e-6
        for _ in range(10 if device == "cuda" else 1):
            x, y = faces.batch(batch)
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                out = net(spoil(x).contiguous(memory_format=torch.channels_last))
            loss = data.attribute_loss(out.float(), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            steps += 1
        float(loss.detach())
    return net.eval().requires_grad_(False), steps


def save(net, path):
    save_file({k: v.half().cpu().contiguous() if v.is_floating_point() else v.cpu() for k, v in net.state_dict().items()}, path)


def load(path, device):
    net = Judge()
    net.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in load_file(path).items()})
    return net.to(device, memory_format=torch.channels_last).eval().requires_grad_(False)
