"""Coarse forms of documents that a search in two stages scans."""

import numpy as np

import rowmax

FORMS = {
    "int8": lambda x: rowmax.quantize_int8(x),
    "int8 document": lambda x: rowmax.quantize_int8(x, "document"),
    "fp8": lambda x: rowmax.quantize_fp8(x),
    "fp8 tensor": lambda x: rowmax.quantize_fp8(x, "tensor"),
    "bits": lambda x: rowmax.sign_bits(x),
}


def _documents(*sizes):
    """Of one token each, all of whose numbers are the same."""
    return np.float32(sizes)[:, None, None] * np.ones((1, 1, 8), np.float32)


UNORDERED = {
    "all equal": (np.ones((2, 8), np.float32), _documents(*[2] * 7)),
    "equal in pairs": (np.ones((2, 8), np.float32), _documents(1, 3, 1, 3, -2, 3, -2)),
    "both zeros": (np.ones((2, 8), np.float32), _documents(-1, 0, -0.0, 0, -0.0, 0, -1)),
    "NaN": (np.ones((2, 8), np.float32), _documents(1, np.nan, 3, 2, np.nan, 3, 0)),
    "sums that overflow": (np.full((2, 8), 1e20, np.float32), _documents(-1, 1e20, np.nan, -1e20, 1e20, 2e20, -2e20)),
    "all minus infinity": (np.full((2, 8), 1e20, np.float32), _documents(*[-1e20] * 7)),
}
"""A query and documents whose order is one of ties, NaN and infinities."""
