"""Gradients on a GPU: against torch's own operators in float64, and how training steps behave there."""

import pytest

import rowmax

torch = pytest.importorskip("torch", reason="torch is not installed")

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def tokens(*shape, dtype=torch.float16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to("cuda", dtype).requires_grad_()


def naive(q, d, keep=None, normalize=False):
    """[Nq, Lq, d] x [Nd, Ld, d] -> [Nq, Nd] in float64, by the winners of float64."""
    if normalize:
        q, d = (torch.nn.functional.normalize(t, dim=-1, eps=0) for t in (q, d))
    similarity = torch.einsum("qsd,ntd->qnst", q, d)
    if keep is not None:
        similarity = similarity.masked_fill(~keep[None, :, None], -torch.inf)
    return similarity.max(-1).values.sum(-1)


def wanted(q, d, weight, **options):
    wide = [t.detach().double().requires_grad_() for t in (q, d)]
    return torch.autograd.grad((naive(*wide, **options) * weight.double()).sum(), wide)


def found(q, d, weight, **options):
    return torch.autograd.grad((rowmax.maxsim(q, d, **options) * weight).sum(), (q, d))


def assert_alike(a, b, dtype):
    assert a.dtype is dtype and a.is_cuda
    cosine = torch.nn.functional.cosine_similarity(a.double().flatten(), b.flatten(), dim=0)
    assert cosine > 1 - 1e-4, cosine
    # A winner that rounding decides otherwise moves a row's gradient: few rows may differ.
    far = ((a.double() - b).abs() > 4 * torch.finfo(dtype).eps * b.abs().max()).any(-1)
    assert far.sum() <= max(2, far.numel() // 500)


SHAPES = [(3, 20, 6, 30, 16), (16, 32, 16, 180, 128), (2, 300, 5, 513, 128), (4, 32, 3, 50, 768), (1, 5, 300, 7, 33)]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_agrees_with_torch(shape, dtype, normalize):
    nq, lq, nd, ld, dim = shape
    q, d = tokens(nq, lq, dim, dtype=dtype), tokens(nd, ld, dim, dtype=dtype, seed=1)
    weight = torch.randn(nq, nd, device="cuda")
    for a, b in zip(found(q, d, weight, normalize=normalize), wanted(q, d, weight, normalize=normalize), strict=True):
        assert_alike(a, b, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masks(dtype):
    q, d = tokens(5, 9, 64, dtype=dtype), tokens(4, 40, 64, dtype=dtype, seed=1)
    keep = torch.rand(4, 40, device="cuda") < 0.5
    keep[2] = False
    with torch.no_grad():
        d[~keep] = torch.nan
    q_keep = torch.rand(5, 9, device="cuda") < 0.7
    weight = torch.randn(5, 4, device="cuda")
    grad_q, grad_d = found(q, d, weight, q_mask=q_keep, d_mask=keep)
    on_cpu = [t.detach().cpu().requires_grad_() for t in (q, d)]
    scores = rowmax.maxsim(*on_cpu, q_mask=q_keep.cpu(), d_mask=keep.cpu())
    for a, b in zip((grad_q, grad_d), torch.autograd.grad((scores * weight.cpu()).sum(), on_cpu), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)
    assert (grad_q[~q_keep] == 0).all() and (grad_d[~keep] == 0).all()


CU_Q, CU_D = torch.tensor([0, 3, 3, 70]), torch.tensor([0, 40, 41, 200], dtype=torch.int32)
PAIR_Q, PAIR_D = torch.tensor([2, 0, 2, 1, 2]), torch.tensor([0, 2, 0, 1, 1])
OFFSETS, LENGTHS = torch.tensor([4, 0, 3, 80]), torch.tensor([50, 30, 0, 100])
LAYOUTS = {
    "one query": ((4, 48), (9, 50, 48), lambda q, d, m, **k: rowmax.maxsim(q, d, **k)),
    "one pair": ((4, 48), (50, 48), lambda q, d, m, **k: rowmax.maxsim(q, d, **k)),
    "grouped": ((3, 4, 48), (3, 2, 50, 48), lambda q, d, m, **k: rowmax.maxsim(q, d, **k)),
    "pairs": ((7, 40, 48), (7, 50, 48), lambda q, d, m, **k: rowmax.maxsim_pairs(q, d, **k)),
    "varlen": ((70, 48), (200, 48), lambda q, d, m, **k: rowmax.maxsim_varlen(q, d, m(CU_Q), m(CU_D), **k)),
    "pairs packed": (
        (70, 48), (200, 48),
        lambda q, d, m, **k: rowmax.score_pairs_packed(q, d, m(CU_Q), m(CU_D), m(PAIR_Q), m(PAIR_D), **k),
    ),
    "ranges": ((4, 48), (200, 48), lambda q, d, m, **k: rowmax.score_ranges(q, d, m(OFFSETS), m(LENGTHS), **k)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_equals_the_cpu(layout, dtype):
    q_shape, d_shape, score = LAYOUTS[layout]
    generator = torch.Generator().manual_seed(3)
    q, d = (torch.randint(-3, 4, s, generator=generator).to(dtype).requires_grad_() for s in (q_shape, d_shape))
    reference = torch.autograd.grad(score(q, d, lambda t: t).sum(), (q, d))
    on_device = [t.detach().cuda().requires_grad_() for t in (q, d)]
    for name in ("auto", "inverse_grid", "lowmem", "recompute"):
        scores = score(*on_device, lambda t: t.cuda(), backward=name)
        for a, b in zip(torch.autograd.grad(scores.sum(), on_device), reference, strict=True):
            assert torch.equal(a.cpu(), b)
    scores = score(*on_device, lambda t: t.cuda(), backward="unified", deterministic=False)
    for a, b in zip(torch.autograd.grad(scores.sum(), on_device), reference, strict=True):
        torch.testing.assert_close(a.cpu(), b)


def test_topk_and_views():
    q, d = tokens(3, 20, 64), tokens(50, 30, 64, seed=1)
    scores, index = rowmax.topk(q, d, 7)
    grads = torch.autograd.grad(scores.sum(), (q, d))
    weight = torch.zeros(3, 50, device="cuda").scatter_(1, index, 1.0)
    for a, b in zip(grads, found(q, d, weight), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-2)
    for view in (lambda t: t.transpose(0, 1).contiguous().transpose(0, 1), lambda t: t.mT.contiguous().mT):
        weight = torch.ones(3, 50, device="cuda")
        for a, b in zip(found(view(q), view(d), weight), found(q, d, weight), strict=True):
            assert torch.equal(a, b)


def test_reruns_have_the_same_bits():
    q, d = tokens(64, 32, 128, dtype=torch.float32), tokens(64, 90, 128, dtype=torch.float32, seed=1)
    weight = torch.randn(64, 64, device="cuda")
    first = found(q, d, weight)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(found(q, d, weight), first, strict=True))


def saved(call):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        call()
    return kept


def test_what_is_saved():
    q, d = tokens(3, 4, 64), tokens(2, 50, 64)
    inputs = {q.data_ptr(), d.data_ptr()}

    def extra(call):
        return [(t.dtype, tuple(t.shape)) for t in saved(call) if t.data_ptr() not in inputs]

    assert extra(lambda: rowmax.maxsim(q, d)) == [(torch.int16, (3, 2, 4))]
    assert extra(lambda: rowmax.maxsim(q, d, return_index=True)) == [(torch.int32, (3, 2, 4))]
    assert extra(lambda: rowmax.maxsim(q, d, backward="recompute")) == []
    with torch.no_grad():
        assert saved(lambda: rowmax.maxsim(q, d)) == []
    long = tokens(1, 70000, 64)
    inputs.add(long.data_ptr())
    assert extra(lambda: rowmax.maxsim(q, long)) == [(torch.int32, (3, 1, 4))]


def test_only_what_needs_a_gradient_gets_one():
    q, d = tokens(8, 32, 128), tokens(2000, 60, 128, seed=1)
    d.requires_grad_(False)
    scores = rowmax.maxsim(q, d).sum()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    scores.backward()
    assert torch.cuda.max_memory_allocated() - before < d.numel() and d.grad is None and q.grad is not None


def test_a_step_takes_gradients_index_and_grid():
    """2 bytes a source for the winning tokens, and as many for the inverse grid."""
    q, d = tokens(32, 512, 128), tokens(32, 600, 128, seed=1)
    sources, gradients = 32 * 32 * 512, 2 * (q.numel() + d.numel())

    def step():
        return torch.autograd.grad(rowmax.maxsim(q, d).sum(), (q, d))

    step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    # And where the sources of each row start, in each block of sources: little beside them.
    assert torch.cuda.max_memory_allocated() - before <= 1.05 * (gradients + 4 * sources)


def test_autocast():
    q, d = tokens(3, 4, 64, dtype=torch.float32), tokens(2, 5, 64, seed=1, dtype=torch.float32)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        rowmax.maxsim(q, d).sum().backward()
    half = [t.detach().bfloat16().requires_grad_() for t in (q, d)]
    rowmax.maxsim(*half).sum().backward()
    for a, b in zip((q, d), half, strict=True):
        assert a.grad.dtype is torch.float32 and torch.equal(a.grad, b.grad.float())


@pytest.mark.parametrize("mode", ["aot_eager", "inductor"])
def test_compiled(mode):
    def loss(q, d):
        return torch.logsumexp(rowmax.maxsim(q * 2, d), -1).sum()

    q, d = tokens(5, 9, 128), tokens(7, 30, 128, seed=1)
    reference = torch.autograd.grad(loss(q, d), (q, d))
    compiled = torch.compile(loss, fullgraph=True, backend=mode)
    for a, b in zip(torch.autograd.grad(compiled(q, d), (q, d)), reference, strict=True):
        torch.testing.assert_close(a, b)


def test_operators_pass_opcheck():
    from rowmax import _torch_ops

    q, d = tokens(3, 4, 64), tokens(2, 5, 64, seed=1)
    rest = ("cross", *_torch_ops._arguments({}))
    for narrow in (True, False):
        torch.library.opcheck(torch.ops.rowmax.score.default, (q, d, *rest, True, narrow))
        plain = (q.detach(), d.detach(), *rest)
        _, index = torch.ops.rowmax.score(*plain, True, narrow)
        weight = torch.randn(3, 2, device="cuda")
        torch.library.opcheck(torch.ops.rowmax.score_backward.default, (*plain, index, weight, True, True))


def test_checkpoint():
    from torch.utils.checkpoint import checkpoint

    q, d = tokens(5, 9, 128), tokens(7, 30, 128, seed=1)
    reference = torch.autograd.grad(rowmax.maxsim(q, d).logsumexp(-1).sum(), (q, d))
    scores = checkpoint(rowmax.maxsim, q, d, use_reentrant=False)
    for a, b in zip(torch.autograd.grad(scores.logsumexp(-1).sum(), (q, d)), reference, strict=True):
        assert torch.equal(a, b)


def captured(step, q, d):
    """The graph of step(q, d), after two calls on a stream of their own, and what the captured call returned."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step(q, d)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    q.grad = d.grad = None
    with torch.cuda.graph(graph):
        returned = step(q, d)
    return graph, returned


@pytest.mark.parametrize("normalize", [False, True])
def test_a_captured_training_step(normalize):
    """Forward, loss and backward in one graph, replayed on new contents."""

    def step(q, d):
        q.grad = d.grad = None
        scores = rowmax.maxsim(q, d, normalize=normalize)
        torch.nn.functional.cross_entropy(scores, torch.arange(8, device="cuda")).backward()

    q, d = tokens(8, 32, 128), tokens(8, 180, 128, seed=1)
    graph, _ = captured(step, q, d)
    for seed in (2, 3):
        with torch.no_grad():
            q.copy_(tokens(8, 32, 128, seed=seed))
            d.copy_(tokens(8, 180, 128, seed=seed + 10))
        graph.replay()
        other = [t.detach().clone().requires_grad_() for t in (q, d)]
        step(*other)
        for a, b in zip((q, d), other, strict=True):
            assert torch.equal(a.grad, b.grad)


@pytest.mark.parametrize("block", [None, 3])
def test_a_captured_contrastive_loss(block):
    from rowmax import losses

    def step(q, d):
        q.grad = d.grad = None
        loss = losses.contrastive_loss(q, d, temperature=10.0, block=block)
        loss.backward()
        return loss

    q, d = tokens(8, 32, 128), tokens(8, 180, 128, seed=1)
    graph, loss = captured(step, q, d)
    with torch.no_grad():
        q.copy_(tokens(8, 32, 128, seed=2))
    graph.replay()
    other = [t.detach().clone().requires_grad_() for t in (q, d)]
    assert torch.equal(loss, step(*other))
    for a, b in zip((q, d), other, strict=True):
        assert torch.equal(a.grad, b.grad)


def test_backward_on_a_side_stream():
    q, d = tokens(40, 32, 128), tokens(60, 100, 128, seed=1)
    weight = torch.randn(40, 60, device="cuda")
    reference = found(q, d, weight)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        grads = found(q, d, weight)
        [torch.full((1 << 22,), 7.0, device="cuda") for _ in range(8)]
        copies = [g.clone() for g in grads]
    stream.synchronize()
    for a, b in zip(copies, reference, strict=True):
        assert torch.equal(a, b)


def test_a_step_does_not_wait():
    q, d = tokens(40, 32, 128), tokens(60, 100, 128, seed=1)
    rowmax.maxsim(q, d).sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        rowmax.maxsim(q, d).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_double_backward_is_an_error():
    q, d = tokens(3, 4, 64), tokens(2, 5, 64)
    (gradient,) = torch.autograd.grad(rowmax.maxsim(q, d).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not implemented"):
        gradient.norm().backward()


def test_losses():
    from rowmax import losses

    q, d = tokens(16, 32, 64, dtype=torch.float32), tokens(16, 100, 64, dtype=torch.float32, seed=1)
    negatives = tokens(16, 3, 80, 64, dtype=torch.float32, seed=2)
    d_mask = torch.arange(100, device="cuda") < torch.randint(1, 101, (16, 1), device="cuda")
    on_cpu = [t.detach().cpu().requires_grad_() for t in (q, d, negatives)]

    def every(q, d, negatives, mask):
        options = {"d_mask": mask, "normalize": True, "temperature": 0.05}
        yield losses.contrastive_loss(q, d, **options)
        yield losses.contrastive_loss(q, d, negatives=negatives, symmetric=True, **options)
        yield losses.contrastive_loss(q, d, block=5, **options)
        positive, negative = rowmax.maxsim_pairs(q, d, d_mask=mask), rowmax.maxsim(q, negatives)
        yield losses.pairwise_loss(positive, negative)
        candidates = torch.cat([positive[:, None], negative], 1)
        teacher = torch.linspace(-1, 1, candidates.numel(), device=q.device).reshape(candidates.shape)
        yield losses.kl_distillation_loss(candidates / 30, teacher)
        yield losses.margin_mse_loss(candidates, teacher)

    for loss, reference in zip(every(q, d, negatives, d_mask), every(*on_cpu, d_mask.cpu()), strict=True):
        torch.testing.assert_close(loss.cpu(), reference, rtol=1e-4, atol=1e-5)
        grads = torch.autograd.grad(loss, (q, d, negatives), allow_unused=True, retain_graph=True)
        wanted = torch.autograd.grad(reference, on_cpu, allow_unused=True, retain_graph=True)
        for a, b in zip(grads, wanted, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4 * float(b.abs().max()))
