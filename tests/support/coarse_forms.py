"""Coarse forms of documents that a search in two stages scans."""

import rowmax

FORMS = {
    "int8": lambda x: rowmax.quantize_int8(x),
    "int8 document": lambda x: rowmax.quantize_int8(x, "document"),
    "fp8": lambda x: rowmax.quantize_fp8(x),
    "fp8 tensor": lambda x: rowmax.quantize_fp8(x, "tensor"),
    "bits": lambda x: rowmax.sign_bits(x),
}
