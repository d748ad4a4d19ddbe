"""The collectives and copies of an iteration, each with its formula and its ledgers.

Imports zerosim's L0, record, theory, verify.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zerosim.analysis.calls import asked_of, backend_of_call, cost_of, count_messages
from zerosim.errors import ConfigError
from zerosim.events import Event, Op
from zerosim.record import MatchedCollective, RankTrace, Trace, match_sockets
from zerosim.replay.laws import PlannedBytes, Said
from zerosim.theory import Workload, framing
from zerosim.theory.algorithms import is_more_than_asked
from zerosim.theory.disk import overhead_bytes
from zerosim.tiers import Tier

Count = int | None
_Counts = tuple[Count, Count, Count, Count]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLedger:
    """What one collective made each rank send.

    Attributes:
        formula, filled: what a rank of a ring sends, in symbols and with numbers; "" if no law
            is known.
        theory: the bound, by rank of the trace; None if no law is known.
        trace: what was asked for; None where the algorithm's cost is not known.
        wire: what the kernel sent; None where it was not measured.
        excess: what the backend's algorithm adds, as a part of `wire`; None where not known.
        is_more: whether that is because it carries out more than was asked for.
        framing: what the backend's protocol adds, as a part of `wire`; None where not known.
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
    """What one copy moved between the tiers of each rank.

    Attributes:
        formula, filled: as of a collective.
        theory: by rank of the trace; None if no law is known.
        trace: what was asked for; 0 where a rank took no part.
        counted: what the kernel counted, of a disk; None where it was not measured.
        framing: what a file is beside its content, as a part of `counted`.
    """

    formula: str
    filled: str
    theory: tuple[Count, ...]
    trace: tuple[Count, ...]
    counted: tuple[Count, ...]
    framing: tuple[Count, ...]


class Ledgers:
    """Makes the ledgers of a trace's collectives."""

    def __init__(self, trace: Trace, workload: Workload | None) -> None:
        """Prepare.

        Args:
            workload: of the iteration; None for a program whose law is not known.
        """
        self._trace, self._workload = trace, workload
        self._peers = match_sockets(trace)
        self._messages = {rank.rank: count_messages(rank) for rank in trace.ranks}
        self._planned = None if workload is None else PlannedBytes(workload)

    def of(self, parts: Sequence[MatchedCollective]) -> CollectiveLedger:
        """The ledgers of one collective, or of several that groups of ranks call alike."""
        said: dict[int, Said] = {}
        events: dict[int, list[Event]] = {}
        for matched in parts:
            for rank, event in matched.events.items():
                events.setdefault(rank, []).append(event)
                law = None if self._planned is None else self._planned.call(matched, event)
                if law is not None:
                    said.setdefault(rank, law)
        first = next(iter(said.values()), None)
        rows = [self._of_rank(rank, events.get(rank.rank, [])) for rank in self._trace.ranks]
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
        """The ledgers of a copy that ranks make alike."""
        said: dict[int, Said] = {}
        for rank, event in events.items():
            law = None if self._planned is None else self._planned.copy(event)
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

    def _of_rank(self, rank: RankTrace, events: Sequence[Event]) -> _Counts:
        """Trace, wire, framing and algorithm of one rank's calls."""
        if not events:
            return 0, None, None, None
        columns = zip(*(self._of_call(rank, event) for event in events), strict=True)
        trace, wire, framing, algorithm = (_sum(column) for column in columns)
        return trace, wire, framing, algorithm

    def _of_call(self, rank: RankTrace, event: Event) -> _Counts:
        try:
            moved = cost_of(rank, event, self._messages[rank.rank].get(event.id, (0, 0)))
        except ConfigError:
            return None, None, None, None
        added = framing(backend_of_call(rank, event), moved)
        wire = None
        if event.wire and rank.header.device == "cpu":
            wire = sum(
                delta.sent_bytes for delta in event.wire if (rank.rank, delta.socket) in self._peers
            )
        asked = asked_of(rank, event, moved).sent_bytes
        framing_bytes = None if added is None else added.sent_bytes
        return asked, wire, framing_bytes, moved.sent_bytes - asked


def _is_more(event: Event) -> bool:
    """Whether a native call is carried out as a larger one."""
    if event.op is None or event.algorithm is None:
        return False
    return is_more_than_asked(event.algorithm, event.op)


def _beside(copy: Event) -> int:
    """What a file is beside the content that a copy reads or writes."""
    is_file = Tier.DISK in (copy.origin, copy.target)
    return overhead_bytes(copy.payload_bytes) if is_file else 0


def _theory(said: Mapping[int, Said], events: Mapping[int, Sequence[Event]], rank: int) -> Count:
    """What a rank ought to send; nothing if it takes no part, or only receives."""
    if all(event.op is Op.RECEIVE for event in events.get(rank, ())):
        return 0
    return said[rank].bytes if rank in said else None


def _sum(column: Sequence[Count]) -> Count:
    """The sum; None if one of them is not known."""
    known = [count for count in column if count is not None]
    return sum(known) if len(known) == len(column) else None
