"""The c10d operators: what their arguments say of payload, group and peer.

An operator that is not in the table is noted as unknown: its kind is never guessed from its name.
Imports torch and zerosim's L0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from zerosim.events import Op

Payload = Callable[[tuple[Any, ...], int], tuple[list[torch.Tensor], int]]
"""From an operator's arguments and the group's size: its tensors, and how often they count."""
Parts = tuple[int, ...]
Cut = Callable[[tuple[Any, ...]], tuple[Parts, Parts]]
"""From an operator's arguments: `Event.parts` and `Event.received_parts`."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One call of a c10d operator.

    Attributes:
        group: the process group, as PyTorch's Python object.
        tensors: the tensors that make up the payload.
        device: where the call works: a barrier has no payload, but a device.
        times: how often their size counts: a gather's payload is N times the input.
        peer: rank within the group of a send's target or a receive's source, or of the root of a
            call that has one, else None.
        results: the tensors that it fills, or works in.
        parts, received_parts, operator: as in `Event`.
    """

    op: Op
    group: dist.ProcessGroup
    tensors: list[torch.Tensor]
    times: int
    peer: int | None
    device: torch.device
    results: list[torch.Tensor]
    parts: Parts = ()
    received_parts: Parts = ()
    operator: str = ""

    @property
    def elements(self) -> int:
        """Number of elements of the whole payload."""
        return self.times * sum(tensor.numel() for tensor in self.tensors)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the whole payload."""
        return self.times * sum(t.numel() * t.element_size() for t in self.tensors)


@dataclass(frozen=True, slots=True)
class Operator:
    """How to read a call of an operator.

    Attributes:
        group_index, peer_index: which of its arguments are the process group and the peer.
        name: of one that is not in the table.
    """

    op: Op
    payload: Payload
    group_index: int
    peer_index: int | None = None
    cut: Cut | None = None
    name: str = ""


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in _flat(item)]


def _tensors(value: Any) -> list[torch.Tensor]:
    """All that are among arguments which may be anything."""
    if isinstance(value, torch.Tensor):
        return [value]
    found = value if isinstance(value, (tuple, list)) else ()
    return [tensor for item in found for tensor in _tensors(item)]


def _argument(index: int) -> Payload:
    return lambda args, _: (_flat(args[index]), 1)


def _argument_for_each_rank(index: int) -> Payload:
    return lambda args, size: (_flat(args[index]), size)


def _nothing(_: tuple[Any, ...], __: int) -> tuple[list[torch.Tensor], int]:
    return [], 1


def _each_alone(args: tuple[Any, ...]) -> tuple[Parts, Parts]:
    """A reduce-scatter of a list: its tensors, the list of each result or one for each result."""
    parts = tuple(tensor.numel() for tensor in _flat(args[1]))
    return (parts if len(parts) > 1 else ()), ()


def _split(args: tuple[Any, ...]) -> tuple[Parts, Parts]:
    """What goes to each rank and comes from it, in rows of an all-to-all's two tensors."""
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


OPERATORS: dict[str, Operator | None] = {
    "c10d::allreduce_": Operator(Op.ALL_REDUCE, _argument(0), 1),
    "c10d::allreduce_coalesced_": Operator(Op.ALL_REDUCE, _argument(0), 1),
    "c10d::_allgather_base_": Operator(Op.ALL_GATHER, _argument(0), 2),
    "c10d::allgather_": Operator(Op.ALL_GATHER, _argument(0), 2),
    "c10d::allgather_coalesced_": Operator(Op.ALL_GATHER, _argument(0), 2),
    "c10d::allgather_into_tensor_coalesced_": Operator(Op.ALL_GATHER, _argument(0), 2),
    "c10d::_reduce_scatter_base_": Operator(Op.REDUCE_SCATTER, _argument(1), 2),
    "c10d::reduce_scatter_": Operator(Op.REDUCE_SCATTER, _argument(1), 2, cut=_each_alone),
    "c10d::reduce_scatter_tensor_coalesced_": Operator(
        Op.REDUCE_SCATTER, _argument(1), 2, cut=_each_alone
    ),
    "c10d::broadcast_": Operator(Op.BROADCAST, _argument(0), 1, 2),
    "c10d::reduce_": Operator(Op.REDUCE, _argument(0), 1, 3),
    "c10d::gather_": Operator(Op.GATHER, _argument_for_each_rank(1), 2, 3),
    "c10d::gather_into_tensor_": Operator(Op.GATHER, _argument_for_each_rank(1), 2, 3),
    "c10d::scatter_": Operator(Op.SCATTER, _argument_for_each_rank(0), 2, 3),
    "c10d::alltoall_": Operator(Op.ALL_TO_ALL, _argument(1), 2, cut=_listed),
    "c10d::alltoall_base_": Operator(Op.ALL_TO_ALL, _argument(1), 2, cut=_split),
    "c10d::barrier": Operator(Op.BARRIER, _nothing, 1),
    "c10d::monitored_barrier_": Operator(Op.BARRIER, _nothing, 1),
    "c10d::send": Operator(Op.SEND, _argument(0), 1, 2),
    "c10d::recv_": Operator(Op.RECEIVE, _argument(0), 1, 2),
    "c10d::recv_any_source_": Operator(Op.RECEIVE, _argument(0), 1),
    # moves nothing between ranks
    "c10d::check_for_nan": None,
}


def c10d_operators() -> list[str]:
    """The c10d operators of the running PyTorch."""
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name for name in names if name.startswith("c10d::"))


def operator_of(name: str, target: Any) -> Operator | None:
    """How to read a call of an operator; None if it moves nothing between ranks."""
    known = name.partition(".")[0]
    if known in OPERATORS:
        return OPERATORS[known]
    kinds = [str(argument.type) for argument in target._schema.arguments]
    group = next((place for place, kind in enumerate(kinds) if "ProcessGroup" in kind), None)
    return None if group is None else Operator(Op.UNKNOWN, _nothing, group, name=name)


def read_call(operator: Operator, args: tuple[Any, ...]) -> OperatorCall:
    """A call of an operator with these arguments."""
    group = dist.ProcessGroup.unbox(args[operator.group_index])
    tensors, times = operator.payload(args, group.size())
    results = _flat(args[0]) if operator.op is not Op.UNKNOWN else _tensors(args)
    placed = tensors or results
    parts, received = ((), ()) if operator.cut is None else operator.cut(args)
    return OperatorCall(
        operator.op,
        group,
        tensors,
        times,
        peer=None if operator.peer_index is None else args[operator.peer_index],
        device=placed[0].device if placed else torch.device("cpu"),
        results=results,
        parts=parts,
        received_parts=received,
        operator=operator.name,
    )
