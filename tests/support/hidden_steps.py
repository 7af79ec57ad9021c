"""The steps of rowmax._torch_hidden_steps by their definitions, in torch operators: what kernels are compared with, and what
tests of the blocks around them run on the CPU."""

import torch


def unit(x):
    """Rows over their norms, and one over the norms; of a row of zeros both are 0. No square leaves the type's range."""
    largest = torch.linalg.vector_norm(x, torch.inf, dim=-1, keepdim=True)
    scale = torch.where((largest > 0) & (largest < torch.inf), largest, 1)
    x = x / scale
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    inverse = torch.where(norm == 0, 0, 1 / norm)
    return x * inverse, inverse / scale


class Steps:
    def __init__(self, like):
        pass

    def zeros(self, rows, like):
        return like.new_zeros(rows, like.shape[-1])

    def winners(self, index, first, documents, length, starts, places):
        index = index[:, first : first + documents]
        place = torch.full_like(index, -1)
        rows = torch.full((documents, places), -1, dtype=torch.int64, device=index.device)
        for j in range(documents):
            begin = (first + j) * length if starts is None else int(starts[first + j])
            won = index[:, j][index[:, j] >= 0].unique()
            rows[j, : len(won)] = begin + won
            for number, token in enumerate(won.tolist()):
                place[:, j][index[:, j] == token] = number
        return place.contiguous(), rows.flatten()

    def gather(self, H, rows):
        copy = H.reshape(-1, H.shape[-1])[rows.clamp(min=0)]
        return torch.where(rows[:, None] < 0, 0, copy)

    def scatter(self, copy, rows, to):
        to[rows[rows >= 0]] = copy[rows >= 0]

    def tokens(self, sums, bias, dtype, normalize):
        x = sums if bias is None else sums + bias
        x, inverse = unit(x) if normalize else (x, None)
        return x.float(), None if inverse is None else inverse[:, 0].float()

    def rounded_tokens(self, sums, bias, dtype, normalize):
        x = sums if bias is None else sums + bias
        return (unit(x)[0] if normalize else x).to(dtype)

    def through_norm(self, grad, tokens, inverse, dtype):
        if inverse is not None:
            grad.copy_((grad - tokens * (grad * tokens).sum(-1, keepdim=True)) * inverse[:, None])
        return grad if dtype is torch.float32 else grad.to(dtype)
