"""The work of operators: floating point operations, and bytes read and written.

FLOPs are PyTorch's own formulas (`torch.utils.flop_counter`): a multiplication and an addition are
two, matrices and convolutions count, everything else is 0. An operator touches each of its tensors
once, as if no cache kept data between two operators: the bound of a roofline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from zerosim.schema.events import OperatorWork

_aten = torch.ops.aten
_FLOPS_A_BYTE = 300
"""FLOPs of a device per byte of memory traffic: an H100's peaks (placement/machines/h100.toml)."""
_MOVES_NOTHING = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
    *("device", "_unsafe_view", "lift_fresh", "is_same_size"),
}
"""They return memory, or a view, without reading a tensor."""


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))


def _attention_backward(out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_backward_flop_count(out.shape, query.shape, key.shape, value.shape))


_FLOPS_ON_CPU: dict[Any, Callable[..., int]] = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
"""Kernels without a formula in PyTorch, with that of PyTorch's own kernel for the same sums."""


class WorkCounter:
    """Sums the work of operators while a computation is open."""

    def __init__(self, passes: Callable[[int], None] | None = None) -> None:
        """`passes` is called with the work of each operator, in units of a byte's time."""
        self._open: Counter[tuple[str, int, int]] | None = None
        self._passes = passes

    def begin(self) -> None:
        """A computation begins."""
        self._open = Counter()

    def take(self) -> tuple[OperatorWork, ...]:
        """The computation has ended: its operators, in order of their first call."""
        counted, self._open = self._open or Counter(), None
        return tuple(
            OperatorWork(name, calls, flops, touched)
            for (name, flops, touched), calls in counted.items()
        )

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Work inside does not belong to the open computation outside."""
        before, self._open = self._open, None
        try:
            yield
        finally:
            self._open = before

    def add(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """An operator was called and returned `out`."""
        if self._open is None or _moves_nothing(operator):
            return
        flops = 0
        if (formula := _formula(operator)) is not None:
            flops = int(formula(*args, **kwargs, out_val=out))
        touched = sum(map(_occupied, (*args, *kwargs.values(), out)))
        self._open[_name(operator), flops, touched] += 1
        if self._passes is not None:
            self._passes(max(touched, flops // _FLOPS_A_BYTE))


@cache
def _moves_nothing(operator: Any) -> bool:
    is_call = operator.namespace == "_c10d_functional"  # a collective has its own event
    return is_call or bool(operator.is_view) or _name(operator) in _MOVES_NOTHING


@cache
def _name(operator: Any) -> str:
    return str(operator._schema.name).rpartition("::")[2]


@cache
def _formula(operator: Any) -> Callable[..., int] | None:
    packet = operator.overloadpacket
    own = _FLOPS_ON_CPU.get(packet)
    return flop_registry.get(packet) if own is None else own


def _occupied(value: Any) -> int:
    """Bytes of the tensors among an operator's arguments; for an expanded one, those of its
    storage.
    """
    if isinstance(value, torch.Tensor):
        size = value.numel() * value.element_size()
        return min(size, value.untyped_storage().nbytes())
    if isinstance(value, list | tuple):
        return sum(map(_occupied, value))
    return 0
