"""rowmax/select.h through ctypes, over torch tensors of either device: what a program in C passes, field by field."""

import ctypes
import os

import torch

KINDS = {
    torch.float16: 1, torch.bfloat16: 2, torch.float32: 3, torch.float64: 4, torch.int8: 5, torch.uint8: 6,
    torch.int16: 7, torch.int32: 8, torch.int64: 9, torch.bool: 10,
}  # fmt: skip


class View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 4),
        ("stride", ctypes.c_int64 * 4),
    ]  # fmt: skip


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32), ("stream", ctypes.c_void_p)]


class PointSet(ctypes.Structure):
    _fields_ = [("points", View), ("mask", View), ("cu_seqlens", View)]


class PointRequest(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("p", PointSet), ("r", PointSet), ("device", Device), ("metric", ctypes.c_int32),
        ("search", ctypes.c_int32), ("validate", ctypes.c_int32), ("threads", ctypes.c_int32),
    ]  # fmt: skip


class ChamferViews(ctypes.Structure):
    _fields_ = [(name, View) for name in ("value", "distance_p", "distance_r", "index_p", "index_r")]


class IndexRequest(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("index", View), ("num_destinations", ctypes.c_int64), ("row_ptr", View),
        ("source", View), ("device", Device), ("validate", ctypes.c_int32), ("threads", ctypes.c_int32),
        ("any_order", ctypes.c_int32),
    ]  # fmt: skip


def view(tensor):
    if tensor is None:
        return View()
    shape, stride = (ctypes.c_int64 * 4)(*tensor.shape), (ctypes.c_int64 * 4)(*tensor.stride())
    return View(tensor.data_ptr() or 256, KINDS[tensor.dtype], tensor.ndim, shape, stride)


def where(tensor):
    if not tensor.is_cuda:
        return Device()
    return Device(1, tensor.device.index or 0, torch.cuda.current_stream().cuda_stream)


class Library:
    """The functions; each asks for scratch memory first and is given exactly that."""

    def __init__(self, path=None):
        self.library = ctypes.CDLL(path or os.environ["ROWMAX_LIBRARY"])
        self.library.rowmax_last_error.restype = ctypes.c_char_p

    def workspace(self, name, *arguments):
        size = ctypes.c_size_t()
        self._checked(getattr(self.library, f"{name}_workspace")(*arguments, ctypes.byref(size)))
        return size

    def call(self, name, like, *arguments):
        size = self.workspace(name, *arguments)
        assert (size.value > 0) == like.is_cuda or not like.numel()
        guard = 64  # what is not asked for is not touched
        memory = torch.full((size.value + guard,), 0x5A, dtype=torch.uint8, device=like.device)
        pointer = ctypes.c_void_p(memory.data_ptr() if size.value else None)
        self._checked(getattr(self.library, name)(*arguments, pointer, size))
        if size.value > 0 and like.is_cuda:
            short = size.value - 1
            assert getattr(self.library, name)(*arguments, pointer, ctypes.c_size_t(short)) == 1
            assert str(size.value) in self.library.rowmax_last_error().decode()
        assert (memory[size.value :] == 0x5A).all()

    def _checked(self, status):
        assert status == 0, self.library.rowmax_last_error().decode()

    def points(self, P, R, metric="l2_sq", search="auto", **sides):
        request = PointRequest(ctypes.sizeof(PointRequest))
        request.p = PointSet(view(P), view(sides.get("p_mask")), view(sides.get("cu_seqlens_p")))
        request.r = PointSet(view(R), view(sides.get("r_mask")), view(sides.get("cu_seqlens_r")))
        request.device, request.validate = where(P), -1
        request.metric, request.search = int(metric == "l1"), ("auto", "brute", "tree").index(search)
        return request

    def nearest(self, P, R, k, **keywords):
        request = self.points(P, R, **keywords)
        kind = torch.float64 if P.dtype is torch.float64 else torch.float32
        distance = torch.full((*P.shape[:-1], k), 7, dtype=kind, device=P.device)
        index = torch.full((*P.shape[:-1], k), 7, dtype=torch.int64, device=P.device)
        results = ctypes.byref(view(distance)), ctypes.byref(view(index))
        self.call("rowmax_nearest", P, ctypes.byref(request), ctypes.c_int64(k), *results)
        return distance, index

    def nearest_backward(self, P, R, k, index, grad, **keywords):
        request = self.points(P, R, **keywords)
        grads = torch.full_like(P, 7), torch.full_like(R, 7)
        views = [ctypes.byref(view(t)) for t in (index, grad, *grads)]
        self.call("rowmax_nearest_backward", P, ctypes.byref(request), ctypes.c_int64(k), *views)
        return grads

    def chamfer(self, P, R, reduction="mean", one_sided=False, **keywords):
        request = self.points(P, R, **keywords)
        kind = torch.float64 if P.dtype is torch.float64 else torch.float32
        cu = keywords.get("cu_seqlens_p")
        made = {"value": torch.full(P.shape[:-2] if cu is None else (len(cu) - 1,), 7, dtype=kind, device=P.device)}
        for side, points in (("p", P), ("r", R))[: 1 if one_sided else 2]:
            made[f"distance_{side}"] = torch.full(points.shape[:-1], 7, dtype=kind, device=P.device)
            made[f"index_{side}"] = torch.full(points.shape[:-1], 7, dtype=torch.int64, device=P.device)
        views = ChamferViews(**{name: view(t) for name, t in made.items()})
        how = ctypes.c_int32(int(reduction == "sum")), ctypes.c_int32(int(one_sided))
        self.call("rowmax_chamfer", P, ctypes.byref(request), *how, ctypes.byref(views))
        return made

    def chamfer_backward(self, P, R, made, grads, reduction="mean", **keywords):
        request = self.points(P, R, **keywords)
        given = ChamferViews(**{name: view(t) for name, t in grads.items()})
        given.index_p, given.index_r = view(made["index_p"]), view(made.get("index_r"))
        to = torch.full_like(P, 7), torch.full_like(R, 7)
        views = ctypes.byref(given), *(ctypes.byref(view(t)) for t in to)
        self.call("rowmax_chamfer_backward", P, ctypes.byref(request), ctypes.c_int32(int(reduction == "sum")), *views)
        return to

    def by_index(self, index, n, grid=(None, None), any_order=False):
        request = IndexRequest(ctypes.sizeof(IndexRequest), view(index), n, *map(view, grid), where(index), -1)
        request.any_order = int(any_order)
        return request

    def invert(self, index, n):
        row_ptr = torch.full((*index.shape[:-1], n + 1), 7, dtype=torch.int64, device=index.device)
        source = torch.full(index.shape, 7, dtype=torch.int64, device=index.device)
        request = self.by_index(index, n)
        self.call("rowmax_invert", index, ctypes.byref(request), ctypes.byref(view(row_ptr)), ctypes.byref(view(source)))
        return row_ptr, source

    def scatter_sum(self, index, values, n, **keywords):
        arguments, out = self._scatter_arguments(index, values, n, **keywords)
        self.call("rowmax_scatter_sum", index, *arguments)
        return out

    def scatter_workspace(self, index, values, n, **keywords):
        arguments, _ = self._scatter_arguments(index, values, n, **keywords)
        return self.workspace("rowmax_scatter_sum", *arguments).value

    def _scatter_arguments(self, index, values, n, **keywords):
        out = torch.full((*index.shape[:-1], n, *values.shape[index.ndim :]), 7, dtype=values.dtype, device=index.device)
        request = self.by_index(index, n, **keywords)
        return (ctypes.byref(request), ctypes.byref(view(values)), ctypes.byref(view(out))), out
