"""Checksums of a rank's states, inputs and outputs in its own trace; the reader compares ranks.

Ranks do not communicate for this: there are no additional calls, and no rank waits. A checksum
costs a pass over the bytes (CRC-32), on a GPU also a copy to the host; it is therefore taken only
once in several iterations (`Extent.check_replicas`).

    given     input of a call; with the largest absolute value, to find non-finite elements
    result    output of a call that the program waits for in Python
    state     parameters at the beginning of forward, gradients at that of update, and the result of
              the update
"""

from __future__ import annotations

import ctypes
import math
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch

from zerosim.base.tiers import Tier
from zerosim.schema.events import Checksum, Held, Op, Phase
from zerosim.schema.memory import Role
from zerosim.trace.extent import Extent
from zerosim.trace.holdings import bytes_of, holdings
from zerosim.trace.labeler import Labeler
from zerosim.trace.sink import Position

_MODULUS = 2**32
_MOST_AWAITED = 256
_ARE_GIVEN = frozenset({Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE, Op.SEND})
"""Calls whose payload is their input; for others it is their output."""
_ARE_FILLED = frozenset({Op.ALL_REDUCE, Op.ALL_GATHER, Op.BROADCAST, Op.RECEIVE})
"""Calls with equal results on all ranks, or equal data at both ends."""
Tensors = Sequence[torch.Tensor]
_KEPT = (Role.PARAMETERS, Role.MASTER, Role.MOMENTUM, Role.VARIANCE)
_LOOKED_AT = {
    Phase.FORWARD: _KEPT,
    Phase.UPDATE: (Role.PARAMETERS, Role.GRADIENTS),
    Phase.OUTSIDE: _KEPT,
}
"""The states to check when a phase begins; outside begins after an update."""


class Checksums:
    """Records checksums in the checked iterations."""

    def __init__(
        self, write: Callable[[str, object], None], now_ns: Callable[[], int], extent: Extent
    ) -> None:
        self._write, self._now_ns, self._extent = write, now_ns, extent
        self._awaited: OrderedDict[int, tuple[Position, str, Tensors]] = OrderedDict()
        self._works: dict[int, tuple[object, int]] = {}
        self._was_update = False
        self.labeler: Labeler | None = None

    def takes(self, position: Position) -> bool:
        """Whether to take checksums now."""
        return self._extent.checks(position.iteration)

    def given(
        self, op: Op | None, event: int, position: Position, unit: str, tensors: Tensors
    ) -> None:
        """A call is about to be made with these tensors."""
        if op in _ARE_GIVEN and self.takes(position) and tensors:
            self._say(Held.GIVEN, position, unit, event, tensors)

    def awaits(
        self, op: Op | None, event: int, position: Position, unit: str, tensors: Tensors
    ) -> None:
        """The call will have filled these tensors once it has been waited for."""
        if op in _ARE_FILLED and self.takes(position) and tensors:
            self._awaited[event] = (position, unit, tensors)
            while len(self._awaited) > _MOST_AWAITED:
                self._awaited.popitem(last=False)

    def performed(self, event: int, work: object) -> None:
        """Associate this work with the call: a wait for it is a wait for the call."""
        if event in self._awaited:
            self._works[id(work)] = (work, event)

    def got(self, work: object) -> None:
        """The calling thread waited for a work, which may have completed earlier."""
        of, event = self._works.pop(id(work), (None, -1))
        if of is work:
            self.waited(event, has_failed=False)

    def waited(self, event: int, *, has_failed: bool) -> None:
        """The calling thread waited for the call."""
        position, unit, tensors = self._awaited.pop(event, (None, "", ()))
        if position is not None and not has_failed:
            self._say(Held.RESULT, position, unit, event, tensors)

    def entered(self, position: Position) -> None:
        """The process, and with it the computing thread, entered a phase."""
        is_update = position.phase is Phase.UPDATE
        was_update, self._was_update = self._was_update, is_update
        self._awaited.clear()
        self._works.clear()
        roles = _LOOKED_AT.get(position.phase, ())
        if position.phase is Phase.OUTSIDE and not was_update:
            return
        if position.phase is Phase.UPDATE and was_update:
            return
        before = Position(position.iteration - 1)
        follows = position.phase is Phase.FORWARD and self.takes(before)
        if not roles or not (self.takes(position) or follows):
            return
        sums: dict[tuple[Role, str], int] = {}
        for held in holdings:
            if held.role not in roles or held.tier is not Tier.DEVICE or not held.is_alive():
                continue
            storage = torch.UntypedStorage._new_with_weak_ptr(held.key)
            if storage is None or not storage.nbytes():
                continue
            whole = bytes_of(storage)
            name = held.unit
            if not name and self.labeler is not None:
                name = self.labeler.name_of(held.role, whole)
            key, crc = (held.role, name), _crc(whole)
            sums[key] = (sums.get(key, 0) + crc) % _MODULUS
        for (role, unit), crc in sums.items():
            self._write(
                "checksum",
                Checksum(
                    held=Held.STATE,
                    iteration=position.iteration,
                    phase=position.phase,
                    unit=unit,
                    role=role.value,
                    digest=crc,
                    time_ns=self._now_ns(),
                ),
            )

    def _say(
        self,
        held: Held,
        position: Position,
        unit: str,
        event: int,
        tensors: Tensors,
    ) -> None:
        with torch.no_grad():
            plain = [tensor.detach() for tensor in tensors if not tensor.is_meta]
            crc = sum(map(_crc, plain)) % _MODULUS
            largest = [_largest(one) for one in plain if one.is_floating_point() and one.numel()]
        self._write(
            "checksum",
            Checksum(
                held=held,
                iteration=position.iteration,
                phase=position.phase,
                unit=unit,
                event=event,
                digest=crc,
                largest=_most(largest),
                time_ns=self._now_ns(),
            ),
        )


def digest(tensor: torch.Tensor) -> int:
    """The checksum record of a call with only this tensor."""
    return _crc(tensor.detach())


def _crc(tensor: torch.Tensor) -> int:
    if not tensor.numel():
        return 0
    raw = tensor.contiguous().cpu()
    # once a NumPy array shares its memory, a program could no longer resize the tensor
    num_bytes = raw.numel() * raw.element_size()
    return zlib.crc32((ctypes.c_char * num_bytes).from_address(raw.data_ptr()))


def _largest(tensor: torch.Tensor) -> float:
    # for dtypes shorter than float32, not every device computes a norm without a copy
    value = tensor if tensor.element_size() >= 4 else tensor.float()
    return float(torch.linalg.vector_norm(value, float("inf")))


def _most(values: Sequence[float]) -> float | None:
    """The largest value; a non-finite one takes precedence."""
    unusual = [value for value in values if not math.isfinite(value)]
    return unusual[0] if unusual else max(values, default=None)
