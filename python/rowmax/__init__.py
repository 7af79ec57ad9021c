"""rowmax: late-interaction scoring (MaxSim) and its kin, without ever writing the similarity matrix.

numpy arrays, torch tensors, CuPy and JAX arrays go in; the same kind comes out. torch tensors that require grad get
a differentiable result. Importing rowmax imports none of these but numpy.
"""

from rowmax import routing
from rowmax._bits import maxsim_bits, maxsim_hamming, sign_bits
from rowmax._corpus import Corpus
from rowmax._explain import Explanation, VersionInfo, explain, explain_dispatch, kernels, version_info
from rowmax._grid import inverse_grid, scatter_sum
from rowmax._hidden import maxsim_from_hidden
from rowmax._kmeans import Clusters, kmeans
from rowmax._native import KernelInfo
from rowmax._native import version as _version
from rowmax._plaid import PlaidChunk, PlaidIndex, plaid_approx_score_packed, plaid_candidates, plaid_probe, plaid_search
from rowmax._points import chamfer, nearest
from rowmax._quantized import maxsim_fp8, maxsim_int8, quantize_fp8, quantize_int8
from rowmax._residual import maxsim_residual, maxsim_residual_varlen, plaid_approx_score, unpack_residual
from rowmax._scoring import maxsim, maxsim_pairs, maxsim_varlen, score_pairs_packed, score_ranges
from rowmax._search import topk
from rowmax._selection import maxsim_prefixes, maxsim_smooth, maxsim_topk_tokens, maxsim_xtr
from rowmax._two_stage import topk_two_stage

__version__ = _version()

__all__ = [
    "Clusters",
    "Corpus",
    "Explanation",
    "KernelInfo",
    "PlaidChunk",
    "PlaidIndex",
    "VersionInfo",
    "__version__",
    "chamfer",
    "explain",
    "explain_dispatch",
    "inverse_grid",
    "kernels",
    "kmeans",
    "maxsim",
    "maxsim_bits",
    "maxsim_fp8",
    "maxsim_from_hidden",
    "maxsim_hamming",
    "maxsim_int8",
    "maxsim_pairs",
    "maxsim_prefixes",
    "maxsim_residual",
    "maxsim_residual_varlen",
    "maxsim_smooth",
    "maxsim_topk_tokens",
    "maxsim_varlen",
    "maxsim_xtr",
    "nearest",
    "plaid_approx_score",
    "plaid_approx_score_packed",
    "plaid_candidates",
    "plaid_probe",
    "plaid_search",
    "quantize_fp8",
    "quantize_int8",
    "routing",
    "scatter_sum",
    "score_pairs_packed",
    "score_ranges",
    "sign_bits",
    "topk",
    "topk_two_stage",
    "unpack_residual",
    "version_info",
]
