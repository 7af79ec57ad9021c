"""These tests need a GPU, torch, and a build with CUDA kernels; without one of them all are skipped, saying which."""

import importlib.util

import pytest

import rowmax


def lacking():
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if not rowmax.version_info().cuda:
        return "this build of rowmax has no CUDA kernels"
    import torch

    return "" if torch.cuda.is_available() else "there is no CUDA device"


def pytest_collection_modifyitems(items):
    here = [item for item in items if "python_cuda" in item.path.parts]
    reason = lacking() if here else ""
    if reason:
        for item in here:
            item.add_marker(pytest.mark.skip(reason=reason))
