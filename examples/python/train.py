"""Trains a projection with in-batch negatives in torch: MaxSim is differentiable like any other operator."""

import torch

import rowmax

torch.manual_seed(0)
BATCH, QUERY_TOKENS, DOCUMENT_TOKENS, HIDDEN, DIM = 8, 6, 30, 64, 32

# Hidden states of an encoder. Each document holds a noisy copy of its query's tokens, in a subspace that the
# projection has to find: the other half of the hidden dimensions is noise.
queries = torch.randn(BATCH, QUERY_TOKENS, HIDDEN)
documents = torch.randn(BATCH, DOCUMENT_TOKENS, HIDDEN)
documents[:, :QUERY_TOKENS, : HIDDEN // 2] = queries[:, :, : HIDDEN // 2] + 0.3 * torch.randn(BATCH, QUERY_TOKENS, HIDDEN // 2)
d_mask = torch.arange(DOCUMENT_TOKENS) < torch.randint(QUERY_TOKENS, DOCUMENT_TOKENS + 1, (BATCH, 1))

projection = torch.nn.Linear(HIDDEN, DIM, bias=False)
optimizer = torch.optim.Adam(projection.parameters(), lr=5e-3)
for step in range(40):
    scores = rowmax.maxsim(projection(queries), projection(documents), d_mask=d_mask, normalize=True)  # [BATCH, BATCH]
    loss = torch.nn.functional.cross_entropy(4 * scores, torch.arange(BATCH))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 13 == 0:
        print(f"step {step:2}: loss {loss.item():.4f}")
