"""Two operators that select by index, made of the inverse grid: max pooling over regions, and top-1 attention.

Both are a maximum forward and a sum over whoever chose the same backward, like MaxSim itself.
"""

import torch

import rowmax
from rowmax import routing

generator = torch.Generator().manual_seed(0)


def pool_regions(features, boxes, bins=2, samples=3):
    """The largest of samples x samples bilinear values in each of bins x bins parts of a box, as RoIAlign has it with a
    maximum for the mean: features [C, H, W], boxes [N, 4] (x0, y0, x1, y1) -> [N, C, bins, bins].

    A value at a point is a weighted sum of four pixels, so that the winner of every part hands its gradient to four
    pixels: many regions, few pixels, one deterministic sum.
    """
    channels, height, width = features.shape
    steps = (torch.arange(bins * samples) + 0.5) / (bins * samples)
    x = (boxes[:, 0, None] + steps * (boxes[:, 2] - boxes[:, 0])[:, None]).clamp(0, width - 1)  # [N, points a side]
    y = (boxes[:, 1, None] + steps * (boxes[:, 3] - boxes[:, 1])[:, None]).clamp(0, height - 1)
    x0, y0 = x.floor().long().clamp(max=width - 2), y.floor().long().clamp(max=height - 2)
    fx, fy = x - x0, y - y0
    table = features.reshape(channels, -1).T  # [H * W, C]
    value = 0
    for dy in (0, 1):
        for dx in (0, 1):
            pixel = (y0 + dy)[:, :, None] * width + (x0 + dx)[:, None, :]
            weight = (fy if dy else 1 - fy)[:, :, None] * (fx if dx else 1 - fx)[:, None, :]
            value = value + weight.reshape(-1, 1) * routing.gather(pixel.flatten(), table)
    value = value.reshape(len(boxes), bins, samples, bins, samples, channels)
    return value.permute(0, 5, 1, 3, 2, 4).flatten(4).amax(-1)


def attend(q, k, v):
    """Every query takes the value of the key that fits best: [B, L, d], [B, M, d], [B, M, C] -> [B, L, C]."""
    _, winner = rowmax.maxsim_pairs(q.detach(), k.detach(), return_index=True)
    return routing.gather(winner, v)


features = torch.rand(8, 12, 16, generator=generator, dtype=torch.float64).requires_grad_()
corners = torch.rand(50, 2, generator=generator, dtype=torch.float64) * torch.tensor([11.0, 7.0])
boxes = torch.cat([corners, corners + 4], 1)
pooled = pool_regions(features, boxes)
print("pooled regions:", list(pooled.shape))
print("gradients are right:", torch.autograd.gradcheck(lambda f: pool_regions(f, boxes[:4]), (features,)))
runs = [torch.autograd.grad(pool_regions(features, boxes).sum(), features)[0] for _ in range(3)]
print("the same on every run:", all(torch.equal(run, runs[0]) for run in runs))

q, k, v = (torch.randn(2, n, d, generator=generator, dtype=torch.float64).requires_grad_() for n, d in ((20, 8), (30, 8), (30, 5)))
chosen = torch.einsum("bld,bmd->blm", q, k).argmax(-1)
wanted = v.gather(1, chosen[..., None].expand(-1, -1, 5))
print("attention is right:", torch.equal(attend(q, k, v), wanted), torch.autograd.gradcheck(lambda v: attend(q, k, v), (v,)))
