"""Reranks the candidates of a first stage with numpy arrays: documents of different lengths in one packed array."""

import numpy as np

import rowmax

rng = np.random.default_rng(0)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


# A store of 1,000 documents of 20 to 200 tokens, as an encoder would give them.
lengths = rng.integers(20, 200, size=1000)
cu_seqlens = np.concatenate([[0], np.cumsum(lengths)])
tokens = unit(rng.standard_normal((cu_seqlens[-1], 128), dtype=np.float32)).astype(np.float16)

# A query whose eight tokens lie near tokens of document 42.
query = unit(tokens[cu_seqlens[42] : cu_seqlens[42] + 8] + 0.05 * rng.standard_normal((8, 128))).astype(np.float16)

# The first stage (BM25, a single vector, ...) hands over a hundred candidates; they are scored where they lie.
candidates = np.unique(np.append(rng.integers(0, 1000, size=99), 42))
scores = rowmax.score_ranges(query, tokens, cu_seqlens[candidates], lengths[candidates])
order = np.argsort(-scores, kind="stable")
for place in order[:3]:
    print(f"document {candidates[place]}: {scores[place]:.3f}")

# Why the best one won: which of its tokens answered each query token.
best = candidates[order[0]]
found = rowmax.explain(query, tokens[cu_seqlens[best] : cu_seqlens[best + 1]])
print("answered by tokens", found.index.tolist())
