"""The collectives and copies of an iteration, each with its formula and its ledgers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zerosim.analysis.traffic import known_sum, traced_calls
from zerosim.base.tiers import Tier
from zerosim.record import MatchedCollective, Trace
from zerosim.schema.events import Event, Op
from zerosim.theory import Workload
from zerosim.theory.algorithms import is_more_than_asked
from zerosim.theory.disk import overhead_bytes
from zerosim.verify import planned_calls
from zerosim.view.replay.laws import PlannedBytes, PlannedOfProgram, Said

Count = int | None
Planned = PlannedBytes | PlannedOfProgram
_Counts = tuple[Count, Count, Count, Count]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLedger:
    """The bytes that each rank sent for one collective.

    Attributes:
        formula, filled: traffic of a rank of a ring, in symbols and with numbers; "" if no law is
            known.
        theory: the bound, by rank of the trace; None if no law is known.
        trace: the requested bytes; None if the algorithm's cost is unknown.
        wire: the kernel's count; None if not measured.
        excess: bytes added by the backend's algorithm, as part of `wire`; None if unknown.
        is_more: whether it implements a larger operation than the requested one.
        framing: bytes added by the backend's protocol, as part of `wire`; None if unknown.
    """

    formula: str
    filled: str
    theory: tuple[Count, ...]
    trace: tuple[Count, ...]
    wire: tuple[Count, ...]
    excess: tuple[Count, ...]
    is_more: bool
    framing: tuple[Count, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLedger:
    """The bytes of one copy between the tiers of each rank.

    Attributes:
        formula, filled: as for a collective.
        theory: by rank of the trace; None if no law is known.
        trace: the requested bytes; 0 if a rank took no part.
        counted: the kernel's count, for a disk; None if not measured.
        framing: a file's overhead besides its contents, as part of `counted`.
    """

    formula: str
    filled: str
    theory: tuple[Count, ...]
    trace: tuple[Count, ...]
    counted: tuple[Count, ...]
    framing: tuple[Count, ...]


class Ledgers:
    """Creates the ledgers of a trace's collectives."""

    def __init__(self, trace: Trace, workload: Workload | None, iteration: int) -> None:
        """Read the trace once.

        Args:
            workload: of the iteration; None for a program.
        """
        self._trace = trace
        self._calls = {(call.rank, call.event.id): call for call in traced_calls(trace)}
        if workload is None:
            planned = planned_calls(trace, iteration)
            self._planned: Planned = PlannedOfProgram(planned, trace.manifest.num_ranks)
        else:
            self._planned = PlannedBytes(workload)

    def of(self, parts: Sequence[MatchedCollective]) -> CollectiveLedger:
        """The ledgers of one collective, or of several equal ones of groups of ranks."""
        said: dict[int, Said] = {}
        events: dict[int, list[Event]] = {}
        for matched in parts:
            for rank, event in matched.events.items():
                events.setdefault(rank, []).append(event)
                law = self._planned.call(matched, event)
                if law is not None:
                    said.setdefault(rank, law)
        first = next(iter(said.values()), None)
        rows = [self._of_rank(rank.rank, events.get(rank.rank, [])) for rank in self._trace.ranks]
        return CollectiveLedger(
            formula="" if first is None else first.formula,
            filled="" if first is None else first.filled,
            theory=tuple(_theory(said, events, rank.rank) for rank in self._trace.ranks),
            trace=tuple(row[0] for row in rows),
            wire=tuple(row[1] for row in rows),
            framing=tuple(row[2] for row in rows),
            excess=tuple(row[3] for row in rows),
            is_more=any(_is_more(event) for called in events.values() for event in called),
        )

    def of_copies(self, events: Mapping[int, Event]) -> CopyLedger:
        """The ledgers of equal copies of ranks."""
        said: dict[int, Said] = {}
        for rank, event in events.items():
            law = self._planned.copy(event)
            if law is not None:
                said[rank] = law
        first = next(iter(said.values()), None)
        ranks = [rank.rank for rank in self._trace.ranks]
        return CopyLedger(
            formula="" if first is None else first.formula,
            filled="" if first is None else first.filled,
            theory=tuple(
                0 if rank not in events else said[rank].bytes if rank in said else None
                for rank in ranks
            ),
            trace=tuple(events[rank].payload_bytes if rank in events else 0 for rank in ranks),
            counted=tuple(events[rank].counted_bytes if rank in events else None for rank in ranks),
            framing=tuple(_beside(events[rank]) if rank in events else None for rank in ranks),
        )

    def _of_rank(self, rank: int, events: Sequence[Event]) -> _Counts:
        """Trace, wire, framing and algorithm of one rank's calls."""
        if not events:
            return 0, None, None, None
        columns = zip(*(self._of_call(rank, event) for event in events), strict=True)
        trace, wire, framing, algorithm = map(known_sum, columns)
        return trace, wire, framing, algorithm

    def _of_call(self, rank: int, event: Event) -> _Counts:
        call = self._calls[rank, event.id]
        if call.unknown:
            return None, None, None, None
        share = call.whole
        framing = None if share.framing is None else share.framing[0]
        wire = share.wire[0] if share.wire is not None and event.wire else None
        sent = share.asked.sent_bytes
        return sent, wire, framing, share.moved.sent_bytes - sent


def _is_more(event: Event) -> bool:
    """Whether a native call is implemented as a larger one."""
    if event.op is None or event.algorithm is None:
        return False
    return is_more_than_asked(event.algorithm, event.op)


def _beside(copy: Event) -> int:
    """The overhead of a file besides the contents that a copy reads or writes."""
    is_file = Tier.DISK in (copy.origin, copy.target)
    return overhead_bytes(copy.payload_bytes) if is_file else 0


def _theory(said: Mapping[int, Said], events: Mapping[int, Sequence[Event]], rank: int) -> Count:
    """The planned bytes of a rank; nothing if it takes no part, or only receives."""
    if all(event.op is Op.RECEIVE for event in events.get(rank, ())):
        return 0
    return said[rank].bytes if rank in said else None
