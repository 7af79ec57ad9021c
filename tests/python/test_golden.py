"""tests/data/golden.json: each case comes from a fault that some MaxSim implementation had."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import rowmax

CASES = json.loads((Path(__file__).parent.parent / "data" / "golden.json").read_text())["cases"]


def function_of(case):
    return case["function"] if case["call"] == "error" else case["call"]


def numbers(values, dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return np.array(values, object).astype(np.float64).astype(kind)


def masks(case):
    return {name: np.array(case[name]) for name in ("q_mask", "d_mask") if name in case}


def named(call):
    return [pytest.param(c, id=c["name"]) for c in CASES if c["call"] == call]


def test_every_case_is_run():
    assert {function_of(c) for c in CASES} == {"maxsim", "topk", "maxsim_varlen", "maxsim_int8", "unpack_residual"}


@pytest.mark.parametrize("case", named("maxsim"))
def test_maxsim(case):
    q, d = numbers(case["q"], case["dtype"]), numbers(case["d"], case["dtype"])
    scores, index = rowmax.maxsim(q, d, normalize=case.get("normalize", False), return_index=True, **masks(case))
    np.testing.assert_allclose(scores, numbers(case["scores"], "float64"), rtol=case.get("rtol", 1e-6), atol=0)
    if "index" in case:
        assert index.tolist() == case["index"]
    if "order" in case:
        assert np.argsort(-scores, axis=-1, kind="stable").tolist() == case["order"]


@pytest.mark.parametrize("case", named("topk"))
def test_topk(case):
    q, d = numbers(case["q"], case["dtype"]), numbers(case["d"], case["dtype"])
    scores, index = rowmax.topk(q, d, case["k"])
    np.testing.assert_allclose(scores, case["scores"], rtol=1e-6)
    assert index.tolist() == case["indices"]


@pytest.mark.parametrize("case", named("error"))
def test_error(case):
    given, arguments = case["args"], {}
    error = {"ValueError": ValueError, "TypeError": TypeError}[case["error"]]
    if case["function"] == "unpack_residual":
        with pytest.raises(error) as raised:
            rowmax.unpack_residual(np.array(given["bytes"], np.uint8), given["nbits"])
        assert all(text in str(raised.value) for text in case["message_has"])
        return
    for name, key in (("Q", "q"), ("D", "d")):
        arguments[name] = numbers(np.ones(given[f"{key}_shape"]).tolist(), given.get(f"{key}_dtype", "float32"))
    for name in ("cu_seqlens_q", "cu_seqlens_d"):
        if name in given:
            arguments[name] = np.array(given[name], np.int32)
    if "d_mask_shape" in given:
        arguments["d_mask"] = np.ones(given["d_mask_shape"], bool)
    with pytest.raises(error) as raised:
        getattr(rowmax, case["function"])(**arguments, validate=given.get("validate"))
    for text in case["message_has"]:
        assert text in str(raised.value)


@pytest.mark.parametrize("case", named("maxsim_int8"))
def test_maxsim_int8(case):
    codes = [np.array(case[name], np.int8) for name in ("q", "d")]
    scales = [np.array(case[name], np.float32) for name in ("q_scale", "d_scale")]
    scores = rowmax.maxsim_int8(codes[0], scales[0], codes[1], scales[1])
    np.testing.assert_allclose(scores, numbers(case["scores"], "float64"), rtol=1e-6)


@pytest.mark.parametrize("case", named("unpack_residual"))
def test_unpack_residual(case):
    assert rowmax.unpack_residual(np.array(case["bytes"], np.uint8), case["nbits"]).tolist() == case["values"]
