"""The collectives of an iteration, each with its formula and its three ledgers.

Theory is computed from the sizes in the manifest, never from what was recorded of the call.
Imports zerosim's L0, record, theory, verify.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Event, Op, Purpose
from zerosim.quantities import format_exact
from zerosim.record import MatchedCollective, RankTrace, Trace, match_sockets
from zerosim.replay.words import find
from zerosim.theory import (
    Workload,
    bucket_size,
    cost,
    cut_buckets,
    framing,
    padded_elements,
)
from zerosim.verify.measure import cost_of, count_messages

Count = int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLedger:
    """What one collective made each rank send.

    Attributes:
        formula, filled: what a rank of a ring sends, in symbols and with numbers; "" if no law
            is known.
        theory: the bound, by rank of the trace; None if no law is known.
        trace: what was asked for; None where the algorithm's cost is not known.
        wire: what the kernel sent; None where it was not measured.
        framing: what the backend's protocol adds, as a part of `wire`; None where not known.
    """

    formula: str
    filled: str
    theory: tuple[Count, ...]
    trace: tuple[Count, ...]
    wire: tuple[Count, ...]
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
        self._sizes = {} if workload is None else _sizes(workload)

    def of(self, matched: MatchedCollective) -> CollectiveLedger:
        """The ledgers of one collective."""
        event = next(iter(matched.events.values()))
        formula, filled, theory = self._law(matched.op, event)
        rows = [self._of_rank(rank, matched.events.get(rank.rank)) for rank in self._trace.ranks]
        return CollectiveLedger(
            formula=formula,
            filled=filled,
            theory=tuple(theory if r.rank in matched.events else 0 for r in self._trace.ranks),
            trace=tuple(row[0] for row in rows),
            wire=tuple(row[1] for row in rows),
            framing=tuple(row[2] for row in rows),
        )

    def _law(self, op: Op, event: Event) -> tuple[str, str, Count]:
        """What a ring makes a rank send for this, in symbols, with numbers, and as a number."""
        workload = self._workload
        if workload is None or event.purpose is None or workload.num_ranks == 1:
            return "", "", None
        size = self._sizes.get((event.purpose, event.unit))
        if size is None or op not in (Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_REDUCE):
            return "", "", None
        elements, element_bytes = size
        count = workload.num_ranks
        sent = cost(Algorithm.RING, op, count, 0, elements, element_bytes).sent_bytes
        passes = 2 if op is Op.ALL_REDUCE else 1
        share = Fraction(passes * (count - 1) * elements * element_bytes, count)
        assert sent == share, "a padded unit is cut in equal shards"
        which = op if event.purpose in _OF_UNITS else "scalar"
        fields = {
            "unit": event.unit,
            "element_bytes": element_bytes,
            "N": count,
            "N_1": count - 1,
            "elements": format_exact(elements),
            "bytes": format_exact(sent),
        }
        return (
            find("formula", which).format_map(fields),
            find("filled", which).format_map(fields),
            sent,
        )

    def _of_rank(self, rank: RankTrace, event: Event | None) -> tuple[Count, Count, Count]:
        """Trace, wire and framing of one rank's call."""
        if event is None:
            return 0, None, None
        try:
            moved = cost_of(rank, event, self._messages[rank.rank].get(event.id, (0, 0)))
        except ConfigError:
            return None, None, None
        group = rank.groups.get(event.group)
        added = framing("" if group is None else group.backend, moved)
        wire = None
        if event.wire and rank.header.device == "cpu":
            wire = sum(
                delta.sent_bytes for delta in event.wire if (rank.rank, delta.socket) in self._peers
            )
        return moved.sent_bytes, wire, None if added is None else added.sent_bytes


_OF_UNITS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)
_SCALARS = {Purpose.AVERAGE_LOSS: 4, Purpose.OVERFLOW_FLAG: 4, Purpose.GRADIENT_NORM: 8}


def _sizes(workload: Workload) -> dict[tuple[Purpose, str], tuple[int, int]]:
    """Elements and bytes of an element that theory gives each buffer."""
    count, size = workload.num_ranks, workload.element_bytes
    found = {
        (Purpose.GATHER_PARAMETERS, unit.name): (padded_elements(unit.elements, count), size)
        for unit in workload.units
    }
    for bucket in cut_buckets(workload.units, count, workload.bucket_elements):
        found[Purpose.REDUCE_GRADIENTS, bucket.name] = (bucket_size(bucket, count), size)
    found |= {(purpose, ""): (count, width) for purpose, width in _SCALARS.items()}
    return found
