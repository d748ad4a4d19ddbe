"""Who carried a trace's collectives out, and what the kernel counted outside of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from zerosim.analysis.calls import is_measured
from zerosim.record import Peers, RankTrace, Trace, phase_wire
from zerosim.schema.events import Algorithm, Phase


def outside_of(rank: RankTrace, peers: Peers, phases: Collection[Phase]) -> dict[int, int]:
    """What the kernel sent in these phases outside of every collective, by iteration."""
    found: dict[int, int] = defaultdict(int)
    for piece in phase_wire(rank, peers) if is_measured(rank) else ():
        if piece.phase in phases:
            found[piece.iteration] += piece.sent_bytes - piece.collective_bytes.sent_bytes
    return found


def counts_calls(trace: Trace) -> bool:
    """Whether the kernel's counters were read around each collective, one after another.

    zerosim's engine does on a CPU; calls that a program leaves running beside each other, or that
    a device carries out later, have no wire of their own.
    """
    on_cpu = all(rank.header.device == "cpu" for rank in trace.ranks)
    return bool(trace.manifest.config) and on_cpu


def algorithm_of(trace: Trace) -> Algorithm:
    """Who carried the collectives out; of a run of the engine, as it was configured."""
    if trace.manifest.config.get("collectives") == "ring":
        return Algorithm.RING
    try:
        return Algorithm(backend_of(trace))
    except ValueError:
        return Algorithm.OTHER


def backend_of(trace: Trace) -> str:
    """Whose messages they are: the backend of the groups that were used.

    The manifest is written before there is any group, or by a name that the program gave to several
    backends ("cpu:gloo"); without a group it is all there is.
    """
    named = trace.manifest.backend
    used = [group.backend for rank in trace.ranks for group in rank.groups.values()]
    return named if named in used else next(filter(None, used), named)
