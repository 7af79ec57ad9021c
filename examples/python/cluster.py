"""Clusters token embeddings, and finds documents through the clusters: the first step of PLAID, by hand."""

import argparse

import numpy as np

import rowmax

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--documents", type=int, default=400)
options.add_argument("--clusters", type=int, default=64)
arguments = options.parse_args()

# Tokens of documents lie around 40 topics; a document is about a few of them.
rng = np.random.default_rng(0)
topics = rng.standard_normal((40, 64), dtype=np.float32)
about = rng.integers(0, 40, (arguments.documents, 3))
topic = np.take_along_axis(about, rng.integers(0, 3, (arguments.documents, 30)), 1)
tokens = topics[topic] + 0.3 * rng.standard_normal((*topic.shape, 64), dtype=np.float32)
tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)

found = rowmax.kmeans(tokens.reshape(-1, 64), arguments.clusters, metric="dot", seed=1)
sizes = np.bincount(found.index, minlength=arguments.clusters)
print(f"{len(found.index)} tokens, {arguments.clusters} clusters of {sizes.min()} to {sizes.max()}")
print(f"{found.iterations} iterations, mean cosine {1 - found.inertia / len(found.index):.3f}")

# An inverted list: the tokens of every cluster, straight from the inverse grid.
starts, members = rowmax.inverse_grid(found.index, arguments.clusters)

# A query of six tokens like some of document 7. Its candidates: documents with a token in the clusters nearest to its own.
query = tokens[7, :6] + 0.1 * rng.standard_normal((6, 64), dtype=np.float32)
near = np.argsort(-query @ found.centroids.T, axis=1, kind="stable")[:, :2].ravel()
candidates = np.unique(np.concatenate([members[starts[c] : starts[c + 1]] // 30 for c in near]))
scores = rowmax.maxsim(query, tokens[candidates])
best = candidates[scores.argmax()]
exact = rowmax.maxsim(query, tokens).argmax()
print(f"{len(candidates)} of {arguments.documents} documents are candidates; best: {best}, of all documents: {exact}")
