"""The protocol or algorithm forced on NCCL: not recorded, but the kernel's counters show it.

`NCCL_PROTO` and `NCCL_ALGO` force a protocol or an algorithm on all calls, and a network may allow
a protocol that NCCL's model omits. The bytes of a whole run are compared with the expected
ones: if NCCL's own choice does not explain them and a forced one does, that one was forced.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction

from zerosim.analysis.calls import cost_of, count_messages, framing_of
from zerosim.base.errors import ConfigError
from zerosim.record import Peers, RankTrace, Trace, match_sockets, phase_wire
from zerosim.schema.events import Algorithm, Kind
from zerosim.theory.nccl import CHOSEN, NcclAlgorithm, Protocol, Tuning

_REFUTED, _CONFIRMED = Fraction(1, 100), Fraction(2, 1000)
"""Relative differences from the counted bytes that refute, and that confirm, an expectation."""
_FORCED = (
    *(Tuning(protocol=one) for one in (Protocol.LL128, Protocol.LL, Protocol.SIMPLE)),
    *(Tuning(algorithm=one) for one in (NcclAlgorithm.RING, NcclAlgorithm.TREE)),
)


def tuning_of(trace: Trace, peers: Peers | None = None) -> Tuning:
    """The settings that were forced on NCCL in a run, as far as its sockets reveal them.

    Args:
        peers: the peers of its sockets; determined here by default.
    """
    ranks = [
        rank
        for rank in trace.ranks
        if rank.header.device != "cpu"
        and len(rank.wire_samples) > 1
        and Algorithm.NCCL in rank.events.column("algorithm")
    ]
    if not ranks:
        return CHOSEN
    peers = match_sockets(trace) if peers is None else peers
    counted = sum(piece.sent_bytes for rank in ranks for piece in phase_wire(rank, peers))
    if abs(counted - _sent(ranks, CHOSEN)) <= _REFUTED * counted:
        return CHOSEN
    for tuning in _FORCED:
        if abs(counted - _sent(ranks, tuning)) <= _CONFIRMED * counted:
            return tuning
    return CHOSEN


def _sent(ranks: Sequence[RankTrace], tuning: Tuning) -> int:
    """The expected bytes of all calls on the wire."""
    sent = 0
    for rank in ranks:
        counts = count_messages(rank)
        for _, event in rank.events.of_kind(Kind.COLLECTIVE):
            if event.parent is None and event.op is not None:
                with suppress(ConfigError):  # its bytes are unknown
                    moved = cost_of(rank, event, counts.get(event.id, (0, 0)))
                    added = framing_of(rank, event, moved, tuning)
                    sent += moved.sent_bytes + (added or (0, 0))[0]
    return sent
