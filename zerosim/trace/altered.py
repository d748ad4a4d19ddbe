"""Alters the calls of a faulty rank: changed or shortened tensors, a different dtype, group or
peer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map

from zerosim.base.errors import ConfigError
from zerosim.schema.faults import Fault, FaultKind

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def copied(value: Any) -> Any:
    """A copy of a tensor; anything else unchanged."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _shorter(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.numel() < 2:
        return value
    ranks = dist.get_world_size()
    if value.dim() == 2 and value.shape[0] == ranks and value.shape[1] > 1:
        return value.detach()[:, :-1].clone()
    flat = value.detach().reshape(-1)
    cut = ranks if flat.numel() % ranks == 0 and flat.numel() > ranks else 1
    return flat[:-cut].clone()


def _as_other_dtype(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to(torch.float64 if value.dtype is not torch.float64 else torch.float32)


def _in_other_group(given: Any) -> Any:
    """The arguments of an operator, with a different group of this rank."""
    own = next(one for one in given if isinstance(one, torch.ScriptObject))
    name = dist.ProcessGroup.unbox(own).group_name
    for group in dist.distributed_c10d._world.pg_map:
        if group.group_name != name and group.size() > 1:
            return tuple(group.boxed() if one is own else one for one in given)
    raise ConfigError("fault group: this rank is in no other group with several ranks")


def _with_other_peer(given: Any) -> Any:
    """The arguments of a message's operator, with another rank of the group as peer."""
    tensors, group, peer, *rest = given
    size, own = dist.ProcessGroup.unbox(group).size(), dist.ProcessGroup.unbox(group).rank()
    for other in range(peer + 1, peer + size):
        if other % size != own:
            return tensors, group, other % size, *rest
    raise ConfigError("fault peer: there is no third rank in this group")


INSTEAD: Mapping[FaultKind, Callable[[Any], Any]] = {
    FaultKind.SIZE: lambda given: tree_map(_shorter, given),
    FaultKind.DTYPE: lambda given: tree_map(_as_other_dtype, given),
    FaultKind.GROUP: _in_other_group,
    FaultKind.PEER: _with_other_peer,
}
"""How each fault alters the arguments of a call."""


def _first(given: Any) -> torch.Tensor | None:
    if isinstance(given, torch.Tensor):
        return given if given.is_floating_point() and given.numel() else None
    if isinstance(given, dict):
        given = tuple(given.values())
    if isinstance(given, list | tuple):
        return next(filter(lambda one: one is not None, map(_first, given)), None)
    return None


def alter_first(given: Any, fault: Fault) -> None:
    """Alter the first floating-point tensor among the arguments, if there is one."""
    tensor = _first(given)
    if tensor is not None:
        alter(tensor.detach(), fault)


def alter(tensor: torch.Tensor, fault: Fault) -> None:
    """Flip a bit of an element, or set it to NaN, in place."""
    place = fault.element % tensor.numel()
    index = []
    for size in reversed(tensor.shape):
        place, at = divmod(place, size)
        index.append(at)
    where = tuple(reversed(index))
    element = tensor[where]
    if fault.kind is FaultKind.NAN:
        element.fill_(float("nan"))
        return
    bits = element.element_size() * 8
    kind = _BITS[element.element_size()]
    # in a shorter dtype, the bit at the same distance from the sign
    bit = max(0, bits - (32 - fault.bit)) if bits != 32 else fault.bit
    value = element.reshape(1).view(kind)
    element.copy_((value ^ torch.tensor([1 << bit], dtype=kind)).view(element.dtype)[0])


def wait_for(result: Any) -> None:
    """Wait until the result of a call is available."""
    last = result[-1] if isinstance(result, tuple) and result else result
    if isinstance(last, torch.ScriptObject):
        last = dist.Work.unbox(last)
    try:
        # code that waits for the work itself sees the altered tensor after the wait
        last.get_future().wait()
    except (AttributeError, RuntimeError):
        if hasattr(last, "wait"):
            last.wait()
