"""Contact sheets of pictures in -1..1."""
import torch


def save(path, rows):
    """rows: a list of [N,3,S,S]; each is a line of the sheet."""
    from PIL import Image
    width = max(len(r) for r in rows)
    rows = [torch.cat([r.float().cpu(), torch.ones(width - len(r), *r.shape[1:])]) for r in rows]
    im = torch.cat([torch.cat(list(r), 2) for r in rows], 1).clamp(-1, 1)
    Image.fromarray(((im + 1) * 127.5).round().byte().permute(1, 2, 0).numpy()).save(path, quality=88)
