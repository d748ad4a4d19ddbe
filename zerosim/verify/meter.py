"""The calls and copies of a rank, and their bytes: recorded, by algorithm, and counted."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from zerosim.analysis.calls import backend_of_call, framing_of
from zerosim.analysis.traffic import Share, TracedCall
from zerosim.base.errors import ConfigError
from zerosim.base.language import term
from zerosim.base.tiers import Link
from zerosim.record import RankTrace
from zerosim.schema.events import (
    EVALUATION,
    STEP_PHASES,
    Algorithm,
    Event,
    Kind,
    Op,
    Phase,
    Purpose,
)
from zerosim.theory import Cost, Movement
from zerosim.theory.disk import overhead_bytes
from zerosim.theory.movement import MESSAGES
from zerosim.theory.nccl import Tuning
from zerosim.verify.wording import said

_OF_ROOTS = (Op.BROADCAST, Op.REDUCE, Op.GATHER, Op.SCATTER)
_PHASE_OF = {Purpose.SEND_ACTIVATIONS: Phase.FORWARD, Purpose.SEND_GRADIENTS: Phase.BACKWARD}
"""A pipeline rank processes several micro-batches at once: a message's purpose gives its phase."""


def calls_by_iteration(rank: RankTrace) -> dict[int, list[Event]]:
    """The calls and copies of a rank that are not part of another one, in order."""
    found: dict[int, list[Event]] = defaultdict(list)
    for event in rank.events:
        is_call = event.kind is Kind.COLLECTIVE and event.parent is None and event.op is not None
        # only zerosim's own engine declares the tiers of a copy
        is_copy = event.kind is Kind.COPY and event.origin is not None and event.target is not None
        if is_call or is_copy:
            found[event.iteration].append(event)
    return found


def carrier_of(rank: RankTrace, event: Event) -> Algorithm:
    """The algorithm by which a call is costed."""
    is_gloo = backend_of_call(rank, event) == Algorithm.GLOO
    return Algorithm.GLOO if is_gloo and event.sent_bytes is None else Algorithm.RING


class Meter:
    """The bytes of calls and copies of one rank: recorded, by algorithm, and counted.

    Attributes:
        unknown: why the bytes of some of the last queried calls are unknown.
        recurring: calls between steps that recur in several iterations, by line and operation.
    """

    def __init__(
        self,
        rank: RankTrace,
        calls: Mapping[int, TracedCall],
        tuning: Tuning,
        *,
        is_imported: bool,
    ) -> None:
        """Create a meter.

        Args:
            calls: calls of the rank, by the id of their event.
            tuning: the settings that were forced on NCCL.
            is_imported: whether the trace was imported, so that unknown properties were not
                recorded.
        """
        self.rank, self._calls, self._tuning = rank, calls, tuning
        self.is_imported = is_imported
        self.unknown: list[str] = []
        between = {
            (event.source, event.op, event.iteration)
            for event in (call.event for call in calls.values())
            if event.phase is Phase.OUTSIDE and event.iteration >= 0
        }
        self._evaluated = sorted(
            (one.time_ns, one.time_ns - round(1e9 * one.value))
            for one in rank.metrics
            if one.name == EVALUATION and math.isfinite(one.value)
        )
        counts = Counter((source, op) for source, op, _ in between)
        self.recurring = frozenset(key for key, count in counts.items() if count > 1)

    def is_evaluation(self, event: Event) -> bool:
        """Whether a call was made in a forward without gradients between two steps."""
        place = bisect_left(self._evaluated, (event.issue_ns, 0))
        if event.phase is not Phase.OUTSIDE or place == len(self._evaluated):
            return False
        return self._evaluated[place][1] <= event.issue_ns

    def as_movement(self, event: Event) -> Movement | None:
        """A recorded call in the form of a plan; None if its group or operator is not known."""
        purpose = event.purpose or Purpose.UNLABELLED
        if event.op is None:
            return Movement(
                phase=event.phase,
                purpose=purpose,
                origin=event.origin,
                target=event.target,
                elements=event.payload_bytes,
                element_bytes=1,
                unit=event.unit,
            )
        rank = self.rank
        if event.op is Op.UNKNOWN:
            key = "calls.operator_at" if event.source else "calls.operator"
            self.unknown.append(said(key, source=event.source, **_of_event(event)))
            return None
        if event.operator:
            self.unknown.append(said("calls.size", **_of_event(event)))
            return None
        if not event.group:
            self.unknown.append(said("calls.group"))
            return None
        group = rank.groups.get(event.group)
        if group is None or rank.rank not in group.ranks:
            self.unknown.append(
                said("calls.members", rank=rank.rank, group=repr(event.group), event=event.id)
            )
            return None
        ranks, root = group.ranks, None
        if event.op in MESSAGES and len(event.peers) == 1:
            ranks, root = tuple(sorted((rank.rank, event.peers[0]))), event.peers[0]
        elif event.op in _OF_ROOTS and len(event.peers) == 1 and event.sent_bytes is None:
            root = event.peers[0]
        phase = event.phase
        if phase in STEP_PHASES:
            phase = _PHASE_OF.get(purpose, phase)
        size, scales = divmod(event.payload_bytes, event.elements or 1)
        return Movement(
            phase=phase,
            purpose=purpose,
            op=event.op,
            ranks=ranks,
            elements=event.elements,
            element_bytes=size or 1,
            root=root,
            unit=event.unit,
            parts=event.parts,
            received_parts=event.received_parts,
            quantized_bytes=event.payload_bytes if scales else None,
        )

    def moved(self, call: Movement, event: Event) -> Share:
        """The bytes of a call or a copy."""
        if event.op is None:
            size = event.payload_bytes
            copied, framing, counted = Cost(size), 0, None
            if call.link is Link.STORAGE:
                framing, counted = overhead_bytes(size), event.counted_bytes
            wire = None if counted is None else (counted, 0)
            return Share(call.link, asked=copied, moved=copied, framing=(framing, 0), wire=wire)
        traced, rank = self._calls[event.id], self.rank.rank
        if event.sent_bytes is not None:  # its messages were intercepted
            self.unknown += [traced.unknown] * bool(traced.unknown)
            return traced.whole
        asked = moved = Cost()
        try:
            carrier = carrier_of(self.rank, event)
            moved, asked = call.cost(rank, carrier), call.cost(rank, Algorithm.RING)
        except ConfigError as error:
            self.unknown.append(str(error))
        added = framing_of(self.rank, event, moved, self._tuning)
        return replace(traced.whole, asked=asked, moved=moved, framing=added)


def _of_event(event: Event) -> dict[str, object]:
    """The name of an operator in a sentence."""
    return {
        "rank": event.rank,
        "iteration": event.iteration,
        "operator": event.operator,
        "phase": term(event.phase),
    }
