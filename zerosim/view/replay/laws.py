"""The theory of one call or copy of an iteration: a formula, its numbers, its bytes.

Theory is computed from the sizes in the manifest, never from the recorded call; the record only
identifies the planned call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from zerosim.base.language import fill
from zerosim.base.quantities import PSI, format_exact
from zerosim.record import MatchedCollective
from zerosim.schema.events import Algorithm, Event, Op, Phase, Purpose
from zerosim.theory import Movement, Workload, planned
from zerosim.theory.nodes import SYMBOLS, Span, members
from zerosim.theory.programs import BSH
from zerosim.view.replay.step_sentences import find

_Key = tuple[Phase, Purpose | None, str]
_OF_UNITS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)


@dataclass(frozen=True, slots=True)
class Said:
    """The theory of a call or a copy.

    Attributes:
        formula, filled: traffic of a rank, in symbols and with numbers.
        bytes: the same as a number.
    """

    formula: str
    filled: str
    bytes: int


class PlannedBytes:
    """The calls and copies planned by theory, to be found by their labels in a trace."""

    def __init__(self, workload: Workload) -> None:
        """Prepare.

        Args:
            workload: of the iteration.
        """
        self._workload = workload
        self._of_rank = cache(self._movements)

    def call(self, matched: MatchedCollective, event: Event) -> Said | None:
        """Bytes that a rank sends for its call; None if no law is known.

        Args:
            event: the rank's call; `matched.key` has its partners.
        """
        if event.rank >= self._workload.num_ranks or event.op is Op.RECEIVE:
            return None  # an owner does not send the data that it receives
        for call in self._found(event):
            if call.op is event.op and (call.op is Op.SEND or call.ranks == matched.key.ranks):
                return self._said(call, event)
        return None

    def copy(self, event: Event) -> Said | None:
        """Bytes that a rank copies; None if no law is known."""
        if event.rank >= self._workload.num_ranks:
            return None
        for copy in self._found(event):
            asked = (event.origin, event.target, event.payload_bytes)
            if copy.op is None and (copy.origin, copy.target, copy.buffer_bytes) == asked:
                return _fill(_copy_formula(self._workload, copy), "copy", copy.buffer_bytes, copy)
        return None

    def _said(self, call: Movement, event: Event) -> Said:
        """The mean over a ring's ranks, for any implementation."""
        sent = call.cost(event.rank, Algorithm.RING).sent_bytes // call.times
        count = len(members(self._workload, call.span, event.rank))
        which = _call_formula(call)
        group = {"n": SYMBOLS[call.span], "N": count, "N_1": count - 1}
        return _fill(which, which, sent, call, **group)

    def _found(self, event: Event) -> Sequence[Movement]:
        return self._of_rank(event.rank).get((event.phase, event.purpose, event.unit), ())

    def _movements(self, rank: int) -> dict[_Key, list[Movement]]:
        """The planned call with an event's own labels."""
        found: dict[_Key, list[Movement]] = defaultdict(list)
        for one in planned(self._workload, rank):
            found[one.phase, one.purpose, one.unit].append(one)
        return found


class PlannedOfProgram:
    """The calls planned by a program's systems, as found by attribution."""

    def __init__(self, planned: Mapping[tuple[int, int], Movement], num_ranks: int) -> None:
        """Prepare.

        Args:
            planned: by rank and number of its event.
            num_ranks: of the run.
        """
        self._planned, self._num_ranks = planned, num_ranks
        self._whole: dict[str, int] = defaultdict(int)
        for one in planned.values():
            self._whole[one.unit] = max(self._whole[one.unit], one.elements)

    def call(self, matched: MatchedCollective, event: Event) -> Said | None:
        """Bytes that a rank sends for its call; None if no plan has it."""
        call = self._planned.get((event.rank, event.id))
        if call is None or call.op is None or call.op is Op.RECEIVE:
            return None
        count = len(matched.key.ranks)
        group = {
            "what": self._what(call, event),
            "n": "N" if count == self._num_ranks else "n",
            "N": count,
            "N_1": count - 1,
        }
        one = replace(call, times=1)
        sent = one.cost(event.rank, Algorithm.RING).sent_bytes
        return _fill(("program", str(call.op)), str(call.op), sent, one, **group)

    def _what(self, call: Movement, event: Event) -> str:
        if call.purpose not in _OF_UNITS:
            return BSH
        # sums over replicas follow a reduce-scatter
        is_shard = call.unit != "" and call.elements < self._whole[call.unit]
        what = fill(find("formula", "shard"), {"unit": event.unit}) if is_shard else event.unit
        return f"{PSI}({what})"

    def copy(self, event: Event) -> Said | None:
        """None, because no plan of a program has copies between tiers."""
        del event
        return None


def _fill(
    formula: str | tuple[str, ...], filled: str, size: int, one: Movement, **group: object
) -> Said:
    """A formula by its name or path, and with numbers."""
    path = (formula,) if isinstance(formula, str) else formula
    fields = {
        "unit": one.unit,
        "elements": format_exact(one.elements),
        "element_bytes": one.element_bytes,
        "buffer": format_exact(one.buffer_bytes),
        "bytes": format_exact(size),
        **group,
    }
    return Said(fill(find("formula", *path), fields), fill(find("filled", filled), fields), size)


def _call_formula(call: Movement) -> str:
    """The formula's name: quantized buffers and broadcasts have their own."""
    if call.quantized_bytes is not None:
        return "quantized"
    if call.op in (Op.BROADCAST, Op.REDUCE):
        return "broadcast"
    if call.purpose not in _OF_UNITS:
        return "scalar"
    return str(call.op) if call.span is Span.WORLD else "part"


def _copy_formula(workload: Workload, copy: Movement) -> str:
    if copy.purpose in (Purpose.OFFLOAD_ACTIVATIONS, Purpose.FETCH_ACTIVATIONS):
        return "checkpoint"
    whole = workload.config.has_owners and copy.purpose in (
        Purpose.FETCH_PARAMETERS,
        Purpose.STORE_PARAMETERS,
    )
    return "copy_all" if whole else "copy"
