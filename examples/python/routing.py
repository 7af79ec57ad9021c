"""Trains a mixture of experts in torch: hard routing without atomics, the same bits on every run."""

import torch

from rowmax import routing

TOKENS, DIM, EXPERTS, CHOICES = 512, 16, 4, 2


def train(seed):
    torch.manual_seed(seed)
    # Tokens of four kinds, each with a rule of its own: one expert is not enough.
    kind = torch.randint(EXPERTS, (TOKENS,))
    x = torch.randn(TOKENS, DIM) + 2 * torch.nn.functional.one_hot(kind, DIM)
    target = torch.einsum("td,tdo->to", x, torch.randn(EXPERTS, DIM, DIM)[kind]) / DIM**0.5

    router = torch.nn.Linear(DIM, EXPERTS)
    experts = torch.nn.ModuleList(torch.nn.Linear(DIM, DIM) for _ in range(EXPERTS))
    optimizer = torch.optim.Adam([*router.parameters(), *experts.parameters()], lr=2e-2)
    losses = []
    for _ in range(60):
        index, logits = routing.top_experts(router(x), CHOICES)
        packed, route = routing.dispatch(x, index, EXPERTS)
        ends = route.cu_seqlens.tolist()
        y = torch.cat([expert(packed[ends[e] : ends[e + 1]]) for e, expert in enumerate(experts)])
        loss = (routing.combine(y, route, logits.softmax(-1)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [int(b) - int(a) for a, b in zip(ends, ends[1:], strict=False)]


losses, sizes = train(0)
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, tokens of each expert: {sizes}")
print("a second run is", "the same" if train(0)[0] == losses else "different", "bit for bit")
