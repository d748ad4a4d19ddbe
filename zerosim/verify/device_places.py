"""How full a device with a limit was, and how its free memory lay, as figures of a report."""

from __future__ import annotations

from zerosim.analysis.addresses import address_table
from zerosim.record import Trace
from zerosim.verify.memory_report import AddressFigures


def figures(trace: Trace) -> tuple[AddressFigures, ...]:
    """Of every rank that recorded address maps, iteration by iteration."""
    return tuple(
        AddressFigures(
            rank=rank.rank,
            iteration=row.iteration,
            limit_bytes=row.peak.limit_bytes,
            used_bytes=row.peak.used_bytes,
            free_bytes=row.scattered.free_bytes,
            largest_free_bytes=row.scattered.largest_free_bytes,
            full=row.full is not None,
        )
        for rank in trace.ranks
        for row in address_table(rank)
    )
