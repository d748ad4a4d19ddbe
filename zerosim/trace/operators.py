"""Calls of c10d operators: payload, group and peer from their arguments.

`zerosim.schema.c10d` defines the meaning of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from zerosim.schema.c10d import OPERATORS, C10dOperator
from zerosim.schema.events import Op

Parts = tuple[int, ...]
Cut = Callable[[tuple[Any, ...]], tuple[Parts, Parts]]
"""From an operator's arguments: `Event.parts` and `Event.received_parts`."""


class OperatorCall(NamedTuple):
    """One call of a c10d operator.

    Attributes:
        group, group_name: the process group, as PyTorch's Python object, and its name.
        tensors: the tensors that make up the payload.
        device: the device of the call: a barrier has no payload, but a device.
        peer: rank within the group of a send's target or a receive's source, or of the root of a
            call that has one, else None.
        results: the tensors that it writes, or works on in place.
        elements, payload_bytes: of the whole payload: a gather's is N times the input.
        parts, received_parts, operator: as in `Event`.
    """

    op: Op
    group: dist.ProcessGroup
    group_name: str
    tensors: list[torch.Tensor]
    peer: int | None
    device: torch.device
    results: list[torch.Tensor]
    elements: int
    payload_bytes: int
    parts: Parts = ()
    received_parts: Parts = ()
    operator: str = ""


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if len(value) == 1 and isinstance(value[0], torch.Tensor):  # as in most calls
        return [value[0]]
    return [tensor for item in value for tensor in _flat(item)]


def _tensors(value: Any) -> list[torch.Tensor]:
    """All tensors among arguments of any type."""
    if isinstance(value, torch.Tensor):
        return [value]
    found = value if isinstance(value, (tuple, list)) else ()
    return [tensor for item in found for tensor in _tensors(item)]


def _each_alone(args: tuple[Any, ...]) -> tuple[Parts, Parts]:
    """A reduce-scatter of a list: its tensors, and the list per result or one for each result."""
    parts = tuple(tensor.numel() for tensor in _flat(args[1]))
    return (parts if len(parts) > 1 else ()), ()


def _split(args: tuple[Any, ...]) -> tuple[Parts, Parts]:
    """Rows sent to and received from each rank, in an all-to-all's two tensors."""
    (result,), (given,) = _flat(args[0]), _flat(args[1])
    size = dist.ProcessGroup.unbox(args[2]).size()
    return _unless_equal(_of_rows(given, args[4], size), _of_rows(result, args[3], size))


def _of_rows(tensor: torch.Tensor, splits: list[int], size: int) -> Parts:
    if not splits:
        return (tensor.numel() // size,) * size
    row = tensor[:1].numel()
    return tuple(rows * row for rows in splits)


def _listed(args: tuple[Any, ...]) -> tuple[Parts, Parts]:
    given, results = ((tensor.numel() for tensor in _flat(args[index])) for index in (1, 0))
    return _unless_equal(tuple(given), tuple(results))


def _unless_equal(given: Parts, received: Parts) -> tuple[Parts, Parts]:
    return ((), ()) if len({*given, *received}) <= 1 else (given, received)


_CUTS: dict[str, Cut] = {
    "c10d::reduce_scatter_": _each_alone,
    "c10d::reduce_scatter_tensor_coalesced_": _each_alone,
    "c10d::alltoall_": _listed,
    "c10d::alltoall_base_": _split,
}
"""How to split the payload of an operator with possibly unequal parts."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The reader of an operator's calls, with the split of its payload."""

    operator: C10dOperator
    cut: Cut | None = None


def c10d_operators() -> list[str]:
    """The c10d operators of the running PyTorch."""
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name for name in names if name.startswith("c10d::"))


def operator_of(name: str, target: Any) -> Reading | None:
    """The reader of an operator's calls; None if it moves nothing between ranks."""
    known = name.partition(".")[0]
    if known in OPERATORS:
        operator = OPERATORS[known]
        return None if operator is None else Reading(operator, _CUTS.get(known))
    kinds = [str(argument.type) for argument in target._schema.arguments]
    group = next((place for place, kind in enumerate(kinds) if "ProcessGroup" in kind), None)
    return None if group is None else Reading(C10dOperator(Op.UNKNOWN, None, group, name=name))


def read_call(reading: Reading, args: tuple[Any, ...]) -> OperatorCall:
    """A call of an operator with these arguments."""
    operator = reading.operator
    group = dist.ProcessGroup.unbox(args[operator.group])
    tensors = [] if operator.payload is None else _flat(args[operator.payload])
    times = group.size() if operator.is_for_each else 1
    results = _flat(args[0]) if operator.op is not Op.UNKNOWN else _tensors(args)
    placed = tensors or results
    elements = num_bytes = 0
    for tensor in tensors:
        size = tensor.numel()
        elements += size
        num_bytes += size * tensor.element_size()
    parts, received = ((), ()) if reading.cut is None else reading.cut(args)
    return OperatorCall(
        operator.op,
        group,
        group.group_name,
        tensors,
        peer=None if operator.peer is None else args[operator.peer],
        device=placed[0].device if placed else torch.device("cpu"),
        results=results,
        elements=times * elements,
        payload_bytes=times * num_bytes,
        parts=parts,
        received_parts=received,
        operator=operator.name,
    )
