"""Purpose and unit of a call, from the annotations around it.

Frameworks annotate their work for profiles; a call outside of any known annotation is unlabelled,
like a call of the program itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from zerosim.record.importing.calls import ImportedCall
from zerosim.record.importing.kineto import DTENSOR, ENGINE, SHARDED, STEP, WRAPPED, KinetoProfile
from zerosim.record.importing.phase_timeline import PhaseStart
from zerosim.record.importing.spans import ProfileSpan
from zerosim.schema.events import Op, Phase, Purpose

_SHARD = re.compile(r"FSDP::(\w+)(?: \((.*)\))?")
_OF_SHARD = {
    "all_gather": Purpose.GATHER_PARAMETERS,
    "post_backward_reduce": Purpose.REDUCE_GRADIENTS,
}
OF_SHARDED = {
    "_pre_forward": Purpose.GATHER_PARAMETERS,
    "_pre_backward_hook": Purpose.GATHER_PARAMETERS,
    "_pre_backward_prefetch": Purpose.GATHER_PARAMETERS,
    "_post_backward_hook": Purpose.REDUCE_GRADIENTS,
    "_post_backward_prefetch": Purpose.GATHER_PARAMETERS,
}
_ZERO_REDUNDANCY = f"{STEP}ZeroRedundancyOptimizer"
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")
_OF_BUCKETS = "int32"
"""The dtype of DDP's broadcast of bucket assignments; buffers count in int64."""


@dataclass(slots=True)
class Purposes:
    """Explains the calls of one rank, which are passed in order.

    Attributes:
        wraps: whether a module in the profile is wrapped in DDP.
        names: annotations of `fully_shard` that name modules: if there are any, one without a name
            is the root's; older versions name none.
    """

    wraps: bool
    names: frozenset[str]
    _backward: tuple[int, int] = (-1, -1)
    _buckets: int = 0

    @classmethod
    def of(cls, profile: KinetoProfile) -> Purposes:
        """The explainer for the calls of a profile."""
        found = (_SHARD.fullmatch(span.name) for span in profile.spans)
        names = frozenset(match[1] for match in found if match and match[2])
        return cls(any(span.name == WRAPPED for span in profile.spans), names)

    def explain(self, call: ImportedCall, place: PhaseStart) -> tuple[Purpose, str]:
        """Purpose and unit of a call; "" if unknown."""
        around = call.span.around()
        return (
            self._of_sharding(around)
            or _of_optimizer(call, around)
            or self._of_wrapper(call, place, around)
            or (_of_call(call, place, around), "")
        )

    def _of_sharding(self, around: list[ProfileSpan]) -> tuple[Purpose, str] | None:
        """The calls of FSDP, with their modules."""
        for span in around:
            if (match := _SHARD.fullmatch(span.name)) and match[1] in _OF_SHARD:
                return _OF_SHARD[match[1]], match[2] or ("root" if match[1] in self.names else "")
            purpose = OF_SHARDED.get(span.name.removeprefix(SHARDED))
            if purpose is not None and span.name.startswith(SHARDED):
                return purpose, ""
        return None

    def _of_wrapper(
        self, call: ImportedCall, place: PhaseStart, around: list[ProfileSpan]
    ) -> tuple[Purpose, str] | None:
        """The calls of DDP: of its reducer in backward, of the wrapper in forward."""
        if not self.wraps or any(map(_is_of_dtensor, around)):
            return None
        if call.op is Op.ALL_REDUCE and any(one.name.startswith(ENGINE) for one in around):
            if call.dtype in _INTEGERS:
                return Purpose.METADATA, ""
            here = place.iteration, place.micro_step
            self._buckets = self._buckets + 1 if here == self._backward else 0
            self._backward = here
            unit = f"bucket {self._buckets}" if place.iteration >= 0 else ""  # not counted
            return Purpose.REDUCE_GRADIENTS, unit
        if call.op is Op.BROADCAST and any(one.name == WRAPPED for one in around):
            is_told = call.dtype == _OF_BUCKETS
            return (Purpose.METADATA if is_told else Purpose.BROADCAST_BUFFERS), ""
        return None


def _of_optimizer(call: ImportedCall, around: list[ProfileSpan]) -> tuple[Purpose, str] | None:
    """The calls of PyTorch's optimizers in their step."""
    if not any(span.name.startswith(_ZERO_REDUNDANCY) for span in around):
        return None
    is_handed_on = call.op in (Op.BROADCAST, Op.ALL_GATHER)
    return (Purpose.GATHER_PARAMETERS if is_handed_on else Purpose.UNLABELLED), ""


def _of_call(call: ImportedCall, place: PhaseStart, around: list[ProfileSpan]) -> Purpose:
    """The purpose given by the call itself and the DTensor annotation around it."""
    if call.op is Op.BARRIER:
        return Purpose.SYNCHRONIZE
    if place.phase not in (Phase.FORWARD, Phase.BACKWARD):
        return Purpose.UNLABELLED
    if any(map(_is_of_dtensor, around)):
        return Purpose.ACTIVATIONS
    if call.op is Op.ALL_TO_ALL:
        # experts and sequences are exchanged this way, preceded by their counts
        return Purpose.METADATA if call.dtype in _INTEGERS else Purpose.ACTIVATIONS
    return Purpose.UNLABELLED


def _is_of_dtensor(span: ProfileSpan) -> bool:
    return span.name.removeprefix(ENGINE).startswith(DTENSOR)
