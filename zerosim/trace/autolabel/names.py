"""Names of a program's tensors: parameters, their gradients, and the loss.

A tensor is identified by its storage, so `p.data`, a view and a chunk have the same name; among
several parameters in one storage, by the bytes it shares. A copy is a different tensor without a
name.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch

from zerosim.trace.holdings import storage_of

Named = tuple[weakref.ref[torch.Tensor], str]


class Names:
    """The tensors of every model that computed. Keeps nothing alive."""

    def __init__(self) -> None:
        self._named: dict[int, Named] = {}
        self._parameters: dict[int, list[Named]] = {}
        self._gradients: dict[int, list[Named]] = {}
        self._without_gradient: list[Named] = []
        self._losses: list[weakref.ref[torch.Tensor]] = []

    def add(self, parameter: torch.Tensor, name: str) -> None:
        """Give a parameter this name, unless it already has one."""
        if self.of(parameter):
            return
        named = (weakref.ref(parameter), name)
        self._named[id(parameter)] = named
        self._without_gradient.append(named)
        storage = _storage(parameter)
        if storage is not None:
            self._parameters.setdefault(storage, []).append(named)

    def of(self, parameter: torch.Tensor) -> str:
        """A parameter's name; "" if it has none."""
        reference, name = self._named.get(id(parameter), (None, ""))
        return name if reference is not None and reference() is parameter else ""

    def of_parameters(self, tensors: Iterable[torch.Tensor]) -> tuple[str, ...]:
        """The parameters that these tensors share bytes with."""
        found: dict[str, None] = {}
        for tensor in tensors:
            for reference, name in self._parameters.get(_storage(tensor) or 0, ()):
                parameter = reference()
                if parameter is not None and _share_bytes(parameter, tensor):
                    found[name] = None
        return tuple(found)

    def of_gradients(self, tensors: Iterable[torch.Tensor]) -> tuple[str, ...]:
        """The parameters whose gradients share bytes with these tensors."""
        found: dict[str, None] = {}
        for tensor in tensors:
            storage = _storage(tensor)
            if storage is None:
                continue
            names = self._gradients_in(storage, tensor)
            if not names and tensor.numel() > 1:  # a scalar is not worth a search
                self._look_again()
                names = self._gradients_in(storage, tensor)
            found |= dict.fromkeys(names)
        return tuple(found)

    def is_loss(self, tensors: Iterable[torch.Tensor]) -> bool:
        """Whether these share bytes with the last differentiated tensors."""
        losses = [loss for reference in self._losses if (loss := reference()) is not None]
        return any(_share_bytes(loss, tensor) for tensor in tensors for loss in losses)

    def backward_begins(self, roots: Iterable[torch.Tensor]) -> None:
        """New gradients are about to be computed, from these tensors."""
        self._look_again()
        self._losses = [weakref.ref(root) for root in roots if root.numel() == 1]

    def _look_again(self) -> None:
        self._gradients = {}
        self._without_gradient = list(self._named.values())

    def _gradients_in(self, storage: int, tensor: torch.Tensor) -> list[str]:
        if storage not in self._gradients:
            self._learn(storage)
        return [
            name
            for reference, name in self._gradients.get(storage, ())
            if (parameter := reference()) is not None
            and parameter.grad is not None
            and _share_bytes(parameter.grad, tensor)
        ]

    def _learn(self, wanted: int) -> None:
        """Search for gradients until one is found; the most recent ones come first."""
        others: list[Named] = []
        while self._without_gradient and wanted not in self._gradients:
            named = self._without_gradient.pop()
            parameter = named[0]()
            if parameter is None:
                continue
            storage = None if parameter.grad is None else _storage(parameter.grad)
            if storage is None:
                others.append(named)
            else:
                self._gradients.setdefault(storage, []).append(named)
        self._without_gradient += reversed(others)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def _storage(tensor: torch.Tensor) -> int | None:
    storage = storage_of(_local(tensor))
    return None if storage is None else storage._cdata


def _share_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    if _storage(one) != _storage(other) or _storage(one) is None:
        return False
    (begin, end), (other_begin, other_end) = _span(_local(one)), _span(_local(other))
    return begin < other_end and other_begin < end


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The bytes of its storage from its first to its last element, if it is contiguous."""
    begin = int(tensor.storage_offset())
    return begin * tensor.element_size(), (begin + tensor.numel()) * tensor.element_size()
