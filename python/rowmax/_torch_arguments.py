"""What rides along with the tensors of an operator: keywords by name here, arguments in order for torch.library."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rowmax._frameworks import Extras


class Signature:
    """Optional tensors, then scalars `{name: (type in the schema, default)}`."""

    def __init__(self, tensors: tuple[str, ...], scalars: dict[str, tuple[str, Any]]) -> None:
        self.tensors = tensors
        self.defaults = {name: default for name, (_, default) in scalars.items()}
        self.schema = ", ".join([f"Tensor? {name}" for name in tensors] + [f"{t} {name}" for name, (t, _) in scalars.items()])

    def __len__(self) -> int:
        return len(self.tensors) + len(self.defaults)

    def arguments(self, extras: Extras, device: torch.device | None = None) -> tuple[Any, ...]:
        """Extras in the order of the schema; what is no tensor yet goes to `device`."""
        tensors = (extras.get(name) for name in self.tensors)
        return (
            *(t if t is None or isinstance(t, Tensor) else torch.as_tensor(t, device=device) for t in tensors),
            *(extras.get(name, default) for name, default in self.defaults.items()),
        )

    def extras(self, arguments: tuple[Any, ...]) -> Extras:
        """The inverse of arguments()."""
        tensors, scalars = self.split(arguments)
        given = {name: tensor for name, tensor in zip(self.tensors, tensors, strict=True) if tensor is not None}
        named = zip(self.defaults.items(), scalars, strict=True)
        return given | {name: value for (name, default), value in named if value != default}

    def split(self, arguments: Any) -> tuple[Any, Any]:
        """(the tensors, the scalars)"""
        return arguments[: len(self.tensors)], arguments[len(self.tensors) :]
