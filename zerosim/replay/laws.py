"""What theory says of one call or one copy of an iteration: a formula, its numbers, its bytes.

Theory is computed from the sizes in the manifest, never from what was recorded of the call;
what was recorded only says which of the planned calls it is.
Imports zerosim's L0, record, theory and its siblings.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from zerosim.events import Algorithm, Event, Op, Phase, Purpose
from zerosim.quantities import format_exact
from zerosim.record import MatchedCollective
from zerosim.replay.words import find
from zerosim.theory import Call, Copy, Workload, cut_buckets, planned_calls, planned_copies
from zerosim.theory.nodes import SYMBOLS, Span, members

_Key = tuple[Phase, Purpose, Op, Span, str]
_OF_UNITS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)


@dataclass(frozen=True, slots=True)
class Said:
    """What theory says of a call or a copy.

    Attributes:
        formula, filled: what a rank sends or copies, in symbols and with numbers.
        bytes: the same as a number.
    """

    formula: str
    filled: str
    bytes: int


class Planned:
    """The calls and copies that theory plans, to be found by what a trace says they are for."""

    def __init__(self, workload: Workload) -> None:
        """Prepare.

        Args:
            workload: of the iteration.
        """
        self._workload = workload
        self._calls = cache(self._calls_of)
        self._copies = cache(self._copies_of)

    def call(self, matched: MatchedCollective, event: Event) -> Said | None:
        """What a rank sends for its call; None where no law is known.

        Args:
            event: the rank's call; `matched.key` says with whom.
        """
        workload = self._workload
        if event.purpose is None or event.op is None or event.rank >= workload.num_ranks:
            return None
        for span in Span:
            if members(workload, span, event.rank) != matched.key.ranks and not _is_message(event):
                continue
            call = self._calls(event.rank).get(
                (event.phase, event.purpose, event.op, span, event.unit)
            )
            if call is not None:
                return self._said(call, event)
        return None

    def copy(self, event: Event) -> Said | None:
        """What a rank copies; None where no law is known."""
        workload = self._workload
        if event.rank >= workload.num_ranks:
            return None
        for copy in self._copies(event.rank).get((event.phase, event.purpose, event.unit), ()):
            size = copy.num_elements * copy.element_bytes
            if (copy.origin, copy.target, size) != (
                event.origin,
                event.target,
                event.payload_bytes,
            ):
                continue
            fields = {
                "unit": event.unit,
                "elements": format_exact(copy.num_elements),
                "element_bytes": copy.element_bytes,
                "bytes": format_exact(size),
            }
            which = _copy_formula(workload, copy)
            return Said(
                find("formula", which).format_map(fields),
                find("filled", "copy").format_map(fields),
                size,
            )
        return None

    def _said(self, call: Call, event: Event) -> Said:
        workload = self._workload
        sent = call.cost(workload, event.rank, Algorithm.RING).sent_bytes // call.times
        count = len(members(workload, call.span, event.rank))
        fields = {
            "unit": event.unit,
            "element_bytes": call.element_bytes,
            "n": SYMBOLS[call.span],
            "N": count,
            "N_1": count - 1,
            "elements": format_exact(call.num_elements),
            "buffer": format_exact(call.buffer_bytes),
            "bytes": format_exact(sent),
        }
        which = _call_formula(call)
        return Said(
            find("formula", which).format_map(fields),
            find("filled", which).format_map(fields),
            sent,
        )

    def _calls_of(self, rank: int) -> dict[_Key, Call]:
        """Planned calls by phase, purpose, operation, who takes part, and unit or bucket."""
        workload = self._workload
        buckets = [
            bucket.name
            for bucket in cut_buckets(workload.units, workload.num_ranks, workload.bucket_elements)
        ]
        trainable = [unit.name for unit in workload.units if unit.trainable]
        queues: dict[tuple[Phase, Purpose, Op, Span], list[Call]] = defaultdict(list)
        for call in planned_calls(workload, rank):
            queues[call.phase, call.purpose, call.op, call.span].append(call)
        found: dict[_Key, Call] = {}
        for (phase, purpose, op, span), calls in queues.items():
            names = [""]
            if purpose is Purpose.REDUCE_GRADIENTS:
                names = buckets
            elif op is Op.SEND:  # each of them to the owner of another unit
                names = [
                    unit.name
                    for place, unit in enumerate(workload.units)
                    if unit.trainable and workload.owner(place) != rank
                ]
            elif op is Op.RECEIVE:
                continue  # what an owner receives it does not send
            elif purpose is Purpose.GATHER_PARAMETERS:
                everything = [unit.name for unit in workload.units]
                names = trainable if phase is Phase.UPDATE else everything
            for name, call in zip(names, calls, strict=False):
                found[phase, purpose, op, span, name] = call
        return found

    def _copies_of(self, rank: int) -> dict[tuple[Phase, Purpose | None, str], list[Copy]]:
        found: dict[tuple[Phase, Purpose | None, str], list[Copy]] = defaultdict(list)
        for copy in planned_copies(self._workload, rank):
            found[copy.phase, copy.purpose, copy.unit].append(copy)
        return found


def _is_message(event: Event) -> bool:
    return event.op in (Op.SEND, Op.RECEIVE)


def _call_formula(call: Call) -> str:
    """The formula's name: of quantized buffers and of broadcasts it is another one."""
    if call.quantized_bytes is not None:
        return "quantized"
    if call.op is Op.BROADCAST:
        return "broadcast"
    if call.purpose not in _OF_UNITS:
        return "scalar"
    return str(call.op) if call.span is Span.WORLD else "part"


def _copy_formula(workload: Workload, copy: Copy) -> str:
    if copy.purpose in (Purpose.OFFLOAD_ACTIVATIONS, Purpose.FETCH_ACTIVATIONS):
        return "checkpoint"
    whole = workload.owner_broadcast and copy.purpose in (
        Purpose.FETCH_PARAMETERS,
        Purpose.STORE_PARAMETERS,
    )
    return "copy_all" if whole else "copy"
