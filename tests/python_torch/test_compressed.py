"""Compressed tokens as torch tensors: the same kind comes out, traced or not."""

import numpy as np
import pytest
import torch

import rowmax

torch.manual_seed(3)
Q = torch.nn.functional.normalize(torch.randn(2, 6, 24), dim=-1)
D = torch.nn.functional.normalize(torch.randn(5, 9, 24), dim=-1)


def test_int8_tensors_in_tensors_out():
    q, x = rowmax.quantize_int8(Q), rowmax.quantize_int8(D)
    for got, wanted in zip(x, rowmax.quantize_int8(D.numpy()), strict=True):
        assert isinstance(got, torch.Tensor)
        np.testing.assert_array_equal(got, wanted)
    assert (x[0].dtype, x[1].dtype) == (torch.int8, torch.float32)
    scores, index = rowmax.maxsim_int8(*q, *x, return_index=True)
    wanted = rowmax.maxsim_int8(*(t.numpy() for t in (*q, *x)), return_index=True)
    np.testing.assert_array_equal(scores, wanted[0])
    np.testing.assert_array_equal(index, wanted[1])
    out = torch.empty(2, 5)
    assert rowmax.maxsim_int8(*q, *x, out=out) is out
    assert torch.equal(out, scores)


def test_int8_of_tensors_that_require_grad_and_of_half_ones():
    codes, scale = rowmax.quantize_int8(Q.clone().requires_grad_(), "document")
    assert not scale.requires_grad
    assert torch.equal(codes, rowmax.quantize_int8(Q, "document")[0])
    half = Q.to(torch.bfloat16)
    assert torch.equal(rowmax.quantize_int8(half)[0], rowmax.quantize_int8(half.float())[0])
    other = rowmax.quantize_int8(D)
    with pytest.raises(NotImplementedError, match="q_scale requires grad"):
        rowmax.maxsim_int8(codes, scale.requires_grad_(), *other)


def test_int8_under_autocast_and_compile():
    q, x = rowmax.quantize_int8(Q), rowmax.quantize_int8(D)
    wanted = rowmax.maxsim_int8(*q, *x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(rowmax.maxsim_int8(*q, *x), wanted)
    compiled = torch.compile(lambda *call: 2 * rowmax.maxsim_int8(*call), fullgraph=True, backend="eager")
    assert torch.equal(compiled(*q, *x), 2 * wanted)


def residuals(nbits=2):
    tables = {"centroids": torch.randn(30, 24), "bucket_weights": torch.randn(2**nbits) / 4, "nbits": nbits}
    codes = torch.randint(30, (5, 9), dtype=torch.int32)
    return codes, torch.randint(256, (5, 9, 24 * nbits // 8), dtype=torch.uint8), tables


def decoded(codes, packed, tables, normalize=True):
    buckets = rowmax.unpack_residual(packed, tables["nbits"]).long()
    tokens = tables["centroids"][codes.long()] + tables["bucket_weights"][buckets]
    return torch.nn.functional.normalize(tokens, dim=-1) if normalize else tokens


@pytest.mark.parametrize("normalize", [True, False])
def test_residual_scores_and_gradients(normalize):
    codes, packed, tables = residuals()
    lengths = torch.tensor([9, 0, 3, 9, 1])
    q = Q.clone().requires_grad_()
    scores = rowmax.maxsim_residual(q, codes, packed, lengths, normalize=normalize, **tables)
    weights = torch.randn_like(scores)
    (scores * weights).sum().backward()
    reference = Q.clone().requires_grad_()
    mask = torch.arange(9) < lengths[:, None]
    wanted = rowmax.maxsim(reference, decoded(codes, packed, tables, normalize), d_mask=mask)
    (wanted * weights).sum().backward()
    torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(q.grad, reference.grad, rtol=1e-5, atol=1e-5)
    q.grad = None
    kept = mask.flatten()
    cu_seqlens = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    varlen = rowmax.maxsim_residual_varlen(
        q, codes.flatten()[kept], packed.flatten(0, 1)[kept], cu_seqlens, normalize=normalize, **tables
    )
    assert torch.equal(varlen, scores)
    (varlen * weights).sum().backward()
    torch.testing.assert_close(q.grad, reference.grad, rtol=1e-5, atol=1e-5)


def test_residual_gradients_stop_at_the_query():
    codes, packed, tables = residuals()
    tables["centroids"].requires_grad_()
    with pytest.raises(NotImplementedError, match="centroids requires grad"):
        rowmax.maxsim_residual(Q, codes, packed, None, **tables)
    with torch.no_grad():
        rowmax.maxsim_residual(Q, codes, packed, None, **tables)


def test_residual_compiled_and_half():
    codes, packed, tables = residuals()
    q = Q.clone().requires_grad_()

    def loss(q, codes, packed, centroids, weights):
        return rowmax.maxsim_residual(q, codes, packed, None, centroids=centroids, bucket_weights=weights, nbits=2).sum()

    call = (codes, packed, tables["centroids"], tables["bucket_weights"])
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    compiled(q, *call).backward()
    gradient, q.grad = q.grad, None
    loss(q, *call).backward()
    assert torch.equal(gradient, q.grad)
    half = Q.to(torch.bfloat16).requires_grad_()
    rowmax.maxsim_residual(half, codes, packed, None, **tables).sum().backward()
    assert half.grad.dtype is torch.bfloat16


def test_plaid_scores_of_tensors():
    table = torch.randn(30, 6)
    codes, _, _ = residuals()
    got = rowmax.plaid_approx_score(table, codes, torch.full((5,), 9))
    torch.testing.assert_close(got, table[codes.long()].amax(1).sum(-1))
    assert rowmax.plaid_approx_score(table.half(), codes, [9, 0, 1, 2, 3])[1] == 0


def test_fp8_tensors():
    q, x = rowmax.quantize_fp8(Q), rowmax.quantize_fp8(D, "tensor")
    assert q[0].dtype is torch.float8_e4m3fn
    assert torch.equal(x[0].view(torch.uint8), (D / x[1]).to(torch.float8_e4m3fn).view(torch.uint8))
    scores = rowmax.maxsim_fp8(*q, *x)
    wanted = rowmax.maxsim(q[0].float() * q[1][..., None], x[0].float() * x[1])
    torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(rowmax.maxsim_fp8(*q, *x), scores)


def test_sign_bits_of_tensors():
    bits, q = rowmax.sign_bits(D), Q.clone().requires_grad_()
    np.testing.assert_array_equal(bits, np.packbits(D.numpy() > 0, axis=-1, bitorder="little"))
    scores = rowmax.maxsim_bits(q, bits)
    reference = Q.clone().requires_grad_()
    wanted = rowmax.maxsim(reference, torch.where(D > 0, 1.0, -1.0))
    torch.testing.assert_close(scores, wanted)
    scores.sum().backward()
    wanted.sum().backward()
    torch.testing.assert_close(q.grad, reference.grad)
    hamming = rowmax.maxsim_hamming(rowmax.sign_bits(Q), bits)
    assert torch.equal(hamming, rowmax.maxsim(torch.where(Q > 0, 1.0, -1.0), torch.where(D > 0, 1.0, -1.0)))


def test_two_stages_of_tensors():
    q = Q.clone().requires_grad_()
    scores, index, exact = rowmax.topk_two_stage(q, (D, rowmax.quantize_int8(D)), 2)
    wanted = rowmax.topk(Q, D, 2)
    assert exact is True and torch.equal(index, wanted[1]) and torch.equal(scores, wanted[0])
    scores.sum().backward()
    reference = Q.clone().requires_grad_()
    rowmax.topk(reference, D, 2)[0].sum().backward()
    assert torch.equal(q.grad, reference.grad)
    half = rowmax.topk_two_stage(Q.bfloat16(), (D.bfloat16(), rowmax.sign_bits(D.bfloat16())), 2)
    assert torch.equal(half[1], rowmax.topk(Q.bfloat16(), D.bfloat16(), 2)[1])


def test_two_stages_under_autocast_prove_nothing_unless_all_are_candidates():
    d = torch.tensor([[[65.0]], [[65.2]]])
    coarse = rowmax.quantize_int8(d)
    with torch.autocast("cpu", torch.bfloat16):
        assert rowmax.topk_two_stage(torch.ones(1, 1, 1), (d, coarse), 1, candidates=1)[2] is False
        assert rowmax.topk_two_stage(torch.ones(1, 1, 1), (d, coarse), 1, candidates=2)[2] is True


def test_masks_of_two_stages_of_any_type():
    coarse = rowmax.quantize_int8(D)
    mask = torch.rand(5, 9).round()
    wanted = rowmax.topk(Q, D, 2, d_mask=mask)
    for given in (mask.bfloat16(), mask.clone().requires_grad_(), mask.bool()):
        assert torch.equal(rowmax.topk_two_stage(Q, (D, coarse), 2, d_mask=given, candidates=5)[1], wanted[1])


def opposite(tensor):
    """The same values in a tensor whose memory holds the opposite ones."""
    view = torch.complex(torch.zeros_like(tensor), -tensor).conj().imag
    assert view.is_neg() and torch.equal(view, tensor)
    return view


def test_tensors_whose_memory_holds_the_opposite():
    q, x = rowmax.quantize_int8(Q), rowmax.quantize_int8(D)
    for got, wanted in zip(rowmax.quantize_int8(opposite(D)), x, strict=True):
        assert torch.equal(got, wanted)
    assert torch.equal(rowmax.sign_bits(opposite(D)), rowmax.sign_bits(D))
    assert torch.equal(rowmax.maxsim_int8(q[0], opposite(q[1]), x[0], opposite(x[1])), rowmax.maxsim_int8(*q, *x))
    codes, packed, tables = residuals()
    wanted = rowmax.maxsim_residual(Q, codes, packed, None, **tables)
    tables |= {name: opposite(tables[name]) for name in ("centroids", "bucket_weights")}
    assert torch.equal(rowmax.maxsim_residual(Q, codes, packed, None, **tables), wanted)
    table = torch.randn(30, 6)
    lengths = torch.full((5,), 9)
    assert torch.equal(
        rowmax.plaid_approx_score(opposite(table), codes, lengths), rowmax.plaid_approx_score(table, codes, lengths)
    )
    with pytest.raises(ValueError, match="out is a view of numbers with the opposite sign"):
        rowmax.maxsim(Q, D, out=opposite(torch.empty(2, 5).zero_()))


def test_signs_of_subnormal_numbers_in_any_floating_point_mode():
    small = np.full((1, 8), 1e-40, np.float32)
    torch.set_flush_denormal(True)
    try:
        assert rowmax.sign_bits(small).tolist() == [[255]]
    finally:
        torch.set_flush_denormal(False)


def test_everything_is_traced():
    codes, packed, tables = residuals()
    table, lengths = torch.randn(30, 6), torch.full((5,), 9)
    calls = [
        lambda: rowmax.quantize_int8(D, "document"),
        lambda: rowmax.quantize_fp8(D),
        lambda: (rowmax.sign_bits(D, "big"),),
        lambda: (rowmax.unpack_residual(packed, 2),),
        lambda: (rowmax.plaid_approx_score(table, codes, lengths),),
    ]
    for call in calls:
        traced = torch.compile(call, fullgraph=True, backend="aot_eager")()
        for got, wanted in zip(traced, call(), strict=True):
            assert got.dtype == wanted.dtype
            assert torch.equal(got.view(torch.uint8), wanted.view(torch.uint8))
    for name, arguments in {
        "quantize_int8": (D, True, 0, False), "quantize_fp8": (D, False, 0, False), "sign_bits": (D, True, 0, False),
        "unpack_residual": (packed, 2, False), "plaid_approx_score": (table, codes, lengths, True, 0, False),
    }.items():  # fmt: skip
        torch.library.opcheck(getattr(torch.ops.rowmax, name), arguments)
