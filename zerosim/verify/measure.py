"""The backend of a trace's collectives, and the kernel's counts outside of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from zerosim.analysis.calls import is_measured
from zerosim.record import Peers, RankTrace, Trace, phase_wire
from zerosim.schema.events import Algorithm, Phase


def outside_of(rank: RankTrace, peers: Peers, phases: Collection[Phase]) -> dict[int, int]:
    """The kernel's counts in these phases outside of every collective, by iteration."""
    found: dict[int, int] = defaultdict(int)
    for piece in phase_wire(rank, peers) if is_measured(rank) else ():
        if piece.phase in phases:
            found[piece.iteration] += piece.sent_bytes - piece.collective_bytes.sent_bytes
    return found


def counts_calls(trace: Trace) -> bool:
    """Whether the kernel's counters were read around each collective, one after another.

    zerosim's engine does so on a CPU; concurrent calls of a program, and calls that a device
    executes later, have no wire counts of their own.
    """
    on_cpu = all(rank.header.device == "cpu" for rank in trace.ranks)
    return bool(trace.manifest.config) and on_cpu


def algorithm_of(trace: Trace) -> Algorithm:
    """The implementation of the collectives; for a run of the engine, as configured."""
    if trace.manifest.config.get("collectives") == "ring":
        return Algorithm.RING
    try:
        return Algorithm(backend_of(trace))
    except ValueError:
        return Algorithm.OTHER


def backend_of(trace: Trace) -> str:
    """The backend of the messages: that of the groups in use.

    The name in the manifest is used only without groups: it is written before any group exists, and
    may name several backends ("cpu:gloo").
    """
    named = trace.manifest.backend
    used = [group.backend for rank in trace.ranks for group in rank.groups.values()]
    return named if named in used else next(filter(None, used), named)
