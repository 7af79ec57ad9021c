#!/usr/bin/env python3
"""The largest errors of similarities that adversarial tokens cause, relative to |q| |d|, beside a matrix product of torch
with float32 results.

Tensor cores align the products that they add at once to the largest of them, and cut off what does not fit. So the
worst tokens have one or a few large products, and many small ones of one sign just below what is kept. Families: where
the large ones are, how small the others, how many bits these have. Each line is the worst of all pairs of a family.
"""

import torch
from report import Report, parser

DIMS = (16, 64, 128, 192, 200, 256, 1024, 4096)
KERNELS = {
    "float16": ("cuda.sm90.few.f16", "cuda.sm90.many.f16", "cuda.sm90.wide.f16", "cuda.sm80.f16"),
    "bfloat16": ("cuda.sm90.few.bf16", "cuda.sm90.many.bf16", "cuda.sm90.wide.bf16", "cuda.sm80.bf16"),
    "float32": ("cuda.sm90.split.f32", "cuda.sm80.f32"),
}


def spikes(dim: int) -> dict[str, list[int]]:
    """Which products are large."""
    made = {"first": [0], "last": [dim - 1], "middle": [dim // 2], "two": [0, dim - 1], "every 16th": list(range(0, dim, 16))}
    return made | ({"end of a chain": [127]} if dim > 128 else {})


def pairs(dim: int, dtype: torch.dtype) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """For every family, tokens q and d [variants, dim] that are paired one by one."""
    generator = torch.Generator(device="cuda").manual_seed(3)
    exponent = torch.arange(16, 29, device="cuda").view(-1, 1, 1, 1, 1)  # of the small products, below the large ones
    jitter = torch.tensor([0.0, 2.0**-8, 2.0**-3, 1.0], device="cuda").view(-1, 1, 1, 1)
    sign = torch.tensor([1.0, -1.0], device="cuda").view(-1, 1, 1)
    large = torch.tensor([1.0, 1.5, 1.96875], device="cuda").view(-1, 1)
    random = torch.rand(13, 4, 2, 3, dim, device="cuda", generator=generator)
    small = torch.exp2(-exponent / 2) * (1 - jitter * random / 2)
    families = {}
    for name, places in spikes(dim).items():
        q, d = small.clone(), sign * small
        q[..., places], d[..., places] = large, 1.0
        families[name] = q.flatten(0, -2).to(dtype), d.flatten(0, -2).to(dtype)
    uniform = torch.rand(4096, dim, device="cuda", generator=generator)
    families["one sign"] = uniform.to(dtype), torch.rand(4096, dim, device="cuda", generator=generator).to(dtype)
    equal = torch.rand(4096, 1, device="cuda", generator=generator).expand(-1, dim)
    families["equal"] = equal.to(dtype), equal.flip(0).to(dtype)
    normal = [torch.randn(4096, dim, device="cuda", generator=generator) for _ in range(2)]
    families["normal"] = tuple(side.to(dtype) for side in normal)
    wide = [torch.exp2(-14 * torch.rand(4096, dim, device="cuda", generator=generator)) for _ in range(2)]
    families["many magnitudes"] = tuple(side.to(dtype) for side in wide)
    return families


def torch_products(q: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """The diagonal of q d^T with float32 results, as cuBLAS computes it."""
    found = []
    for one, other in zip(q.split(512), d.split(512)):
        if one.dtype is torch.float32:
            product = one @ other.T
        else:
            product = torch.mm(one, other.T.contiguous(), out_dtype=torch.float32)
        found.append(product.diagonal())
    return torch.cat(found)


def worst(found: torch.Tensor, q: torch.Tensor, d: torch.Tensor) -> float:
    q, d = q.double(), d.double()
    exact = (q * d).sum(-1)
    return ((found.double() - exact).abs() / (q.norm(dim=-1) * d.norm(dim=-1))).max().item()


def rowmax_products(q: torch.Tensor, d: torch.Tensor, kernel: str) -> torch.Tensor:
    import rowmax

    return rowmax.maxsim_pairs(q[:, None], d[:, None], kernel=kernel)


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--dtype", nargs="*", default=list(KERNELS))
    args = made.parse_args(arguments)
    torch.backends.cuda.matmul.allow_tf32 = False
    report = Report(args, note="error of one similarity, relative to |q| |d|, at most")
    for dtype in args.dtype:
        for dim in DIMS:
            for family, (q, d) in pairs(dim, getattr(torch, dtype)).items():
                errors = {}
                for kernel in KERNELS[dtype]:
                    try:
                        errors[kernel] = worst(rowmax_products(q, d, kernel), q, d)
                    except NotImplementedError:
                        continue
                try:
                    errors["torch"] = worst(torch_products(q, d), q, d)
                except (RuntimeError, TypeError) as error:  # a torch without out_dtype
                    print(error)
                for impl, error in errors.items():
                    report.add(case="accuracy", x=family, impl=impl, dtype=dtype, dim=dim, error=error)
                shown = " ".join(f"{impl.removeprefix('cuda.')} {error:.2e}" for impl, error in errors.items())
                print(f"{dtype:9} {dim:5} {family:16} {shown}", flush=True)


if __name__ == "__main__":
    main()
