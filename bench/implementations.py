"""Ways to score one query against documents. Each is used as its own documentation or the code bases that embed it
use it; what can be prepared once per corpus (padding, packing) is prepared outside the timing."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np

from cases import Data

LIBRARIES = Path(os.environ.get("ROWMAX_BENCH_LIBRARIES", "build/release/bench"))


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Problem(ctypes.Structure):
    """native/rowmax_entry.cpp: Problem."""

    _fields_ = [
        ("query", ctypes.c_void_p),
        ("tokens", ctypes.c_void_p),
        ("cu_seqlens", ctypes.c_void_p),
        ("documents", ctypes.c_int64),
        ("query_length", ctypes.c_int64),
        ("dim", ctypes.c_int64),
        ("dtype", ctypes.c_char_p),
        ("kernel", ctypes.c_char_p),
        ("threads", ctypes.c_int),
    ]

    @classmethod
    def of(cls, data: Data, threads: int, kernel: str = "") -> "Problem":
        """Points into `data`, which has to outlive it."""
        return cls(data.query.ctypes.data, data.tokens.ctypes.data, data.cu_seqlens.ctypes.data, data.case.documents,
                   data.case.query_length, data.case.dim, data.dtype.encode(), kernel.encode(), threads)


class Native:
    """librowmax and the probes."""

    def __init__(self):
        self.library = ctypes.CDLL(str(LIBRARIES / "librowmax_bench.so"))
        self.library.bench_fma_peak.restype = ctypes.c_double
        self.library.bench_kernel.restype = ctypes.c_char_p
        self.library.bench_error.restype = ctypes.c_char_p
        self.library.bench_kernel_microseconds.restype = ctypes.c_double

    def fma_peak(self, bits: int, threads: int, milliseconds: float) -> float:
        return self.library.bench_fma_peak(bits, threads, ctypes.c_double(milliseconds))

    def read_once(self, array: np.ndarray, threads: int) -> None:
        self.library.bench_read_once(address(array), ctypes.c_size_t(array.nbytes), threads)


def kernel_microseconds(problem: Problem, calls: int) -> float:
    """The chosen row alone, called directly on prepared parameters: microseconds a call."""
    return Native().library.bench_kernel_microseconds(ctypes.byref(problem), calls)


class Rowmax:
    dtypes = ("float32", "float16", "bfloat16", "float64")
    module = "numpy"

    def __init__(self, data: Data, threads: int, avx2_only: bool):
        self.native = Native()
        self.data = data
        self.scores = np.empty(data.case.documents, np.float64 if data.dtype == "float64" else np.float32)
        self.problem = Problem.of(data, threads, "cpu.avx2" if avx2_only else "")

    def run(self) -> np.ndarray:
        if self.native.library.bench_score(ctypes.byref(self.problem), address(self.scores)):
            raise RuntimeError(self.native.library.bench_error().decode())
        return self.scores

    def kernel(self) -> str:
        return self.native.library.bench_kernel(ctypes.byref(self.problem)).decode()


class Read:
    """Not a rival: reads the documents and does nothing with them."""

    dtypes = ("float32", "float16", "bfloat16", "float64")
    module = "numpy"

    def __init__(self, data: Data, threads: int, avx2_only: bool):
        self.native = Native()
        self.data = data
        self.threads = threads

    def run(self) -> None:
        self.native.read_once(self.data.tokens, self.threads)

    def kernel(self) -> str:
        return "loads only"


class Torch:
    """The einsum of colpali-engine and its relatives, over documents padded once (padding never wins)."""

    dtypes = ("float32", "float16", "bfloat16")
    module = "torch"

    def __init__(self, data: Data, threads: int, avx2_only: bool):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        self.query = self.tensor(data.query, data.dtype)[None]
        lengths = np.diff(data.cu_seqlens)
        documents = [self.tensor(d, data.dtype) for d in data.documents()]
        if lengths.min() == lengths.max():
            self.documents = self.tensor(data.tokens, data.dtype).view(len(documents), lengths[0], -1)
            self.hidden = None
        else:
            self.documents = torch.nn.utils.rnn.pad_sequence(documents, batch_first=True)
            self.hidden = torch.arange(int(lengths.max()))[None, :] >= torch.from_numpy(lengths)[:, None]

    def tensor(self, array: np.ndarray, dtype: str):
        tensor = self.torch.from_numpy(array)
        return tensor.view(self.torch.bfloat16) if dtype == "bfloat16" else tensor

    def run(self) -> np.ndarray:
        with self.torch.inference_mode():
            similarity = self.torch.einsum("bnd,csd->bcns", self.query, self.documents)
            if self.hidden is not None:
                similarity.masked_fill_(self.hidden[None, :, None, :], float("-inf"))
            return similarity.max(dim=3)[0].sum(dim=2)[0].float().numpy()

    def kernel(self) -> str:
        return f"torch {self.torch.__version__}, {self.torch.backends.cpu.get_cpu_capability()}"


class TorchMatmul(Torch):
    """The same with a matrix product per document and the maximum over rows: faster than the einsum for short queries."""

    def run(self) -> np.ndarray:
        with self.torch.inference_mode():
            similarity = self.documents @ self.query[0].T
            if self.hidden is not None:
                similarity.masked_fill_(self.hidden[:, :, None], float("-inf"))
            return similarity.max(dim=1)[0].sum(dim=1).float().numpy()


class OpenBlas:
    """native/openblas_tiles.cpp. 512 rows a tile were best, or within 3 % of it, on every case."""

    dtypes = ("float32",)
    module = "numpy"
    tile_rows = 512

    def __init__(self, data: Data, threads: int, avx2_only: bool):
        self.library = ctypes.CDLL(str(LIBRARIES / "libopenblas_tiles.so"))
        self.library.bench_openblas_core.restype = ctypes.c_char_p
        self.data = data
        self.threads = threads
        self.scores = np.empty(data.case.documents, np.float32)

    def run(self) -> np.ndarray:
        d = self.data
        self.library.bench_openblas_maxsim(
            address(d.query), address(d.tokens), address(d.cu_seqlens), ctypes.c_int64(d.case.documents),
            ctypes.c_int64(d.case.query_length), ctypes.c_int64(d.case.dim), ctypes.c_int64(self.tile_rows),
            self.threads, address(self.scores),
        )
        return self.scores

    def kernel(self) -> str:
        return f"OpenBLAS, {self.library.bench_openblas_core().decode()} kernels"


class Numpy:
    """One matrix product and one maximum per document."""

    dtypes = ("float32",)
    module = "numpy"

    def __init__(self, data: Data, threads: int, avx2_only: bool):
        self.query = data.query
        self.documents = data.documents()

    def run(self) -> np.ndarray:
        return np.array([(document @ self.query.T).max(axis=0).sum() for document in self.documents])

    def kernel(self) -> str:
        from threadpoolctl import threadpool_info

        return f"numpy {np.__version__}, {threadpool_info()[0]['architecture']} kernels"


class NumKong:
    """Queries and documents packed once, as its documentation asks; threads share the documents."""

    dtypes = ("float32", "float16", "bfloat16")
    module = "numkong"

    def __init__(self, data: Data, threads: int, avx2_only: bool):
        import numkong

        self.numkong = numkong
        self.query_length = data.case.query_length
        if avx2_only:
            for name, present in numkong.get_capabilities().items():
                if present and name not in ("serial", "haswell"):
                    numkong.disable_capability(name)
        self.query = self.pack(data.query, data.dtype)
        self.documents = [self.pack(d, data.dtype) for d in data.documents()]
        bounds = [len(self.documents) * i // threads for i in range(threads + 1)]
        self.shares = [self.documents[a:b] for a, b in pairwise(bounds)]
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def pack(self, array: np.ndarray, dtype: str):
        tensor = self.numkong.from_pointer(array.ctypes.data, array.shape, dtype, owner=array)
        return self.numkong.maxsim_pack(tensor)

    def score_share(self, documents: list) -> list:
        return [self.numkong.maxsim_packed(self.query, document) for document in documents]

    def run(self) -> np.ndarray:
        parts = self.pool.map(self.score_share, self.shares) if self.pool else map(self.score_share, self.shares)
        # It sums angular distances (1 - cosine); the score is their complement.
        return self.query_length - np.array([value for part in parts for value in part], np.float64).ravel()

    def kernel(self) -> str:
        names = [name for name, present in self.numkong.get_capabilities().items() if present]
        return f"numkong {self.numkong.__version__}, up to {names[-1]}"


class MaxsimCpu:
    dtypes = ("float32",)
    module = "maxsim_cpu"

    def __init__(self, data: Data, threads: int, avx2_only: bool):
        import maxsim_cpu

        self.query = data.query
        documents = data.documents()
        if data.case.document_length:
            self.score = maxsim_cpu.maxsim_scores
            self.documents = data.tokens.reshape(len(documents), data.case.document_length, -1)
        else:
            self.score = maxsim_cpu.maxsim_scores_variable
            self.documents = documents

    def run(self) -> np.ndarray:
        return self.score(self.query, self.documents)

    def kernel(self) -> str:
        from importlib.metadata import version

        return f"maxsim-cpu {version('maxsim-cpu')}"


IMPLEMENTATIONS = {
    "rowmax": Rowmax,
    "read": Read,
    "torch": Torch,
    "torch-matmul": TorchMatmul,
    "openblas": OpenBlas,
    "numpy": Numpy,
    "numkong": NumKong,
    "maxsim-cpu": MaxsimCpu,
}
