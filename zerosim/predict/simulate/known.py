"""Values that a user's program may know in a dry run: those of control flow, not of computation.

A program counts, indexes and shuffles, and PyTorch's systems exchange sizes and names, before any
computation. Those are integer tensors, and single numbers that the program created itself. They
have values as in a real run; floating point tensors, and everything derived from them, only have
shapes. Writing the latter into an existing tensor discards its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any
from weakref import WeakSet

import torch
from torch._subclasses.fake_tensor import FakeTensor

from zerosim.base.errors import UnknownValue
from zerosim.trace.holdings import storage_of
from zerosim.trace.source import caller, is_asked_by_framework

_MOST_KEPT = 1 << 24
"""Maximum size of an integer tensor with values; larger ones are rarely read element by element."""


class Known:
    """The tensors with values.

    Attributes:
        asked: unknown values that the program read, by line, with the answers.
    """

    def __init__(self) -> None:
        self._lost: WeakSet[torch.UntypedStorage] = WeakSet()
        self.asked: dict[str, str] = {}

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor has values."""
        return type(tensor) is not FakeTensor and storage_of(tensor) not in self._lost

    def lose(self, tensor: torch.Tensor) -> None:
        """An unknown value was written into this tensor."""
        storage = storage_of(tensor)
        if type(tensor) is not FakeTensor and storage is not None:
            self._lost.add(storage)

    def call(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any]:
        """Call an operator on values if its inputs are known and its outputs are kept.

        Returns:
            Whether it was called, and its result.
        """
        given = list(tensors_of((args, kwargs)))
        if given:
            return (True, for_real(operator, args, kwargs)) if all(map(self.has, given)) else NOT
        foreseen = operator(*args, **kwargs)
        if isinstance(foreseen, torch.Tensor) and not _is_kept(foreseen):
            return True, foreseen
        return True, for_real(operator, args, kwargs)

    def wrote(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """An operator was called without values: those of its outputs are discarded.

        Returns:
            Its result: for an in-place operator, the original tensor.
        """
        for place, name in _written(operator):
            target = args[place] if place < len(args) else kwargs.get(name)
            for tensor in tensors_of(target):
                self.lose(tensor)
            if isinstance(out, torch.Tensor) and isinstance(target, torch.Tensor):
                out = target
        return out

    def value_of(self, tensor: torch.Tensor) -> float | int | bool:
        """The answer to a query of an unknown value.

        PyTorch's own code, which checks for an overflow, gets 0. A program that reads a number to
        print gets NaN, and the line is recorded.
        """
        if is_asked_by_framework():
            return zero_of(tensor)
        told = float("nan") if tensor.is_floating_point() else zero_of(tensor)
        self.asked.setdefault(caller(), f"{told}")
        return told


NOT = (False, None)


def for_real(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator on tensors that have values."""
    with torch._C._DisableTorchDispatch():
        return operator(*args, **kwargs)


def no_shape(operator: Any) -> UnknownValue:
    """The error if a shape depends on values."""
    return UnknownValue(
        f"{caller()} makes a tensor whose shape depends on computed values ({operator}), which a "
        "dry run does not have: try a shape that does not, or zerosim trace with real ranks"
    )


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments and in their lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_of(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_of(one)


def zero_of(tensor: torch.Tensor) -> float | int | bool:
    """Zero, of a tensor's type."""
    if tensor.dtype is torch.bool:
        return False
    return 0.0 if tensor.is_floating_point() else 0


def _is_kept(made: torch.Tensor) -> bool:
    if made.device.type != "cpu" or made.layout is not torch.strided:
        return False
    if made.dim() == 0:
        return True
    is_whole = not made.is_floating_point() and not made.is_complex()
    return is_whole and made.numel() <= _MOST_KEPT


@cache
def _written(operator: Any) -> tuple[tuple[int, str], ...]:
    """The arguments that an operator writes."""
    return tuple(
        (place, argument.name)
        for place, argument in enumerate(operator._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
