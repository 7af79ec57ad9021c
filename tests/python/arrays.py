"""Token arrays of every type that numpy can carry."""

from __future__ import annotations

import ml_dtypes
import numpy as np


def bfloat16_bits(values):
    """Values that bfloat16 holds exactly, as uint16."""
    wide = np.asarray(values, np.float32).view(np.uint32)
    assert not (wide & 0xFFFF).any(), "not bfloat16 values"
    return (wide >> 16).astype(np.uint16)


TYPES = {
    "float16": (lambda x: x.astype(np.float16), {}),
    "bfloat16": (lambda x: x.astype(ml_dtypes.bfloat16), {}),
    "bfloat16 bits": (bfloat16_bits, {"dtype": "bfloat16"}),
    "float32": (lambda x: x.astype(np.float32), {}),
    "float64": (lambda x: x, {}),
}
"""name -> (conversion from float64, keywords of the call)"""


def score_type(name):
    return np.float64 if name == "float64" else np.float32
