"""Interception: every collective that PyTorch is asked for, seen where it is dispatched.

A kernel for each `c10d` operator is registered at the dispatch key BackendSelect, which every call
passes below autograd: plain, `no_grad`, `inference_mode` (whose tensors carry no autograd keys),
`autograd.Function`, DDP's C++ reducer, and functional collectives, which end in the same
operators. The kernel notes the call and passes it on. Operators of other namespaces are untouched,
so a training step pays only for its collectives.

An operator that is not in the table is noted as unknown: its kind is never guessed from its name.
Imports torch and zerosim's L0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C import DispatchKey

from zerosim.events import Op
from zerosim.trace.eager import uncompiled
from zerosim.trace.guard import guarded

Payload = Callable[[tuple[Any, ...], int], tuple[list[torch.Tensor], int]]
"""From an operator's arguments and the group's size: its tensors, and how often they count."""
Parts = tuple[int, ...]
Cut = Callable[[tuple[Any, ...]], tuple[Parts, Parts]]
"""From an operator's arguments: `Event.parts` and `Event.received_parts`."""


@dataclass(frozen=True, slots=True)
class Call:
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


class Observer(Protocol):
    """Who is told about calls."""

    def issued(self, call: Call) -> int | None:
        """A call is about to be passed on; returns a token for `performed`, or None."""
        ...

    def performed(self, token: int, work: Any) -> None:
        """The call returned `work`, which may still be in flight; None if it has none."""
        ...

    def refused(self, token: int, error: BaseException) -> None:
        """The call raised `error` instead of beginning."""
        ...


@dataclass(frozen=True, slots=True)
class _Operator:
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


OPERATORS: dict[str, _Operator | None] = {
    "c10d::allreduce_": _Operator(Op.ALL_REDUCE, _argument(0), 1),
    "c10d::allreduce_coalesced_": _Operator(Op.ALL_REDUCE, _argument(0), 1),
    "c10d::_allgather_base_": _Operator(Op.ALL_GATHER, _argument(0), 2),
    "c10d::allgather_": _Operator(Op.ALL_GATHER, _argument(0), 2),
    "c10d::allgather_coalesced_": _Operator(Op.ALL_GATHER, _argument(0), 2),
    "c10d::allgather_into_tensor_coalesced_": _Operator(Op.ALL_GATHER, _argument(0), 2),
    "c10d::_reduce_scatter_base_": _Operator(Op.REDUCE_SCATTER, _argument(1), 2),
    "c10d::reduce_scatter_": _Operator(Op.REDUCE_SCATTER, _argument(1), 2, cut=_each_alone),
    "c10d::reduce_scatter_tensor_coalesced_": _Operator(
        Op.REDUCE_SCATTER, _argument(1), 2, cut=_each_alone
    ),
    "c10d::broadcast_": _Operator(Op.BROADCAST, _argument(0), 1, 2),
    "c10d::reduce_": _Operator(Op.REDUCE, _argument(0), 1, 3),
    "c10d::gather_": _Operator(Op.GATHER, _argument_for_each_rank(1), 2, 3),
    "c10d::gather_into_tensor_": _Operator(Op.GATHER, _argument_for_each_rank(1), 2, 3),
    "c10d::scatter_": _Operator(Op.SCATTER, _argument_for_each_rank(0), 2, 3),
    "c10d::alltoall_": _Operator(Op.ALL_TO_ALL, _argument(1), 2, cut=_listed),
    "c10d::alltoall_base_": _Operator(Op.ALL_TO_ALL, _argument(1), 2, cut=_split),
    "c10d::barrier": _Operator(Op.BARRIER, _nothing, 1),
    "c10d::monitored_barrier_": _Operator(Op.BARRIER, _nothing, 1),
    "c10d::send": _Operator(Op.SEND, _argument(0), 1, 2),
    "c10d::recv_": _Operator(Op.RECEIVE, _argument(0), 1, 2),
    "c10d::recv_any_source_": _Operator(Op.RECEIVE, _argument(0), 1),
    # moves nothing between ranks
    "c10d::check_for_nan": None,
}


def c10d_operators() -> list[str]:
    """The c10d operators of the running PyTorch."""
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name for name in names if name.startswith("c10d::"))


def _operator(name: str, target: Any) -> _Operator | None:
    """How to read a call of an operator; None if it moves nothing between ranks."""
    known = name.partition(".")[0]
    if known in OPERATORS:
        return OPERATORS[known]
    kinds = [str(argument.type) for argument in target._schema.arguments]
    group = next((place for place, kind in enumerate(kinds) if "ProcessGroup" in kind), None)
    return None if group is None else _Operator(Op.UNKNOWN, _nothing, group, name=name)


class Interception:
    """Passes each c10d call by an observer, from `install` to `remove`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._library: torch.library.Library | None = None
        self._below = torch._C._dispatch_keyset_full_after(DispatchKey.BackendSelect)

    def install(self) -> None:
        """Begin to intercept."""
        assert self._library is None, "already installed"
        self._library = torch.library.Library("c10d", "IMPL")
        for name in c10d_operators():
            base, _, overload = name.removeprefix("c10d::").partition(".")
            target = getattr(getattr(torch.ops.c10d, base), overload or "default")
            operator = _operator(name, target)
            if operator is not None:
                kernel = self._kernel(target, operator)
                self._library.impl(target, kernel, "BackendSelect", with_keyset=True)

    def remove(self) -> None:
        """Stop intercepting; calls then take the path they took before `install`."""
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _kernel(self, target: Any, operator: _Operator) -> Callable[..., Any]:
        observer, below = self._observer, self._below

        @guarded
        def issued(*args: Any) -> int | None:
            group = dist.ProcessGroup.unbox(args[operator.group_index])
            tensors, times = operator.payload(args, group.size())
            peer = None if operator.peer_index is None else args[operator.peer_index]
            results = _flat(args[0]) if operator.op is not Op.UNKNOWN else _tensors(args)
            device = _device(tensors or results)
            parts, received = ((), ()) if operator.cut is None else operator.cut(args)
            return observer.issued(
                Call(
                    operator.op,
                    group,
                    tensors,
                    times,
                    peer,
                    device,
                    results,
                    parts=parts,
                    received_parts=received,
                    operator=operator.name,
                )
            )

        @guarded
        def performed(token: int, result: Any) -> None:
            observer.performed(token, _work(result))

        @guarded
        def refused(token: int, error: BaseException) -> None:
            observer.refused(token, error)

        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            token = issued(*args)
            try:
                result = target.redispatch(keys & below, *args, **kwargs)
            except BaseException as error:
                if token is not None:
                    refused(token, error)
                raise
            if token is not None:
                performed(token, result)
            return result

        return uncompiled(kernel)


def _device(tensors: list[torch.Tensor]) -> torch.device:
    return tensors[0].device if tensors else torch.device("cpu")


def _work(result: Any) -> Any:
    """The Work among an operator's results; None if it returns none."""
    last = result[-1] if isinstance(result, tuple) and result else result
    return dist.Work.unbox(last) if isinstance(last, torch.ScriptObject) else None
