"""Whether the ranks of a trace are still running, and the current time on their clocks."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from zerosim.record import RankTrace, Trace
from zerosim.schema.manifest import Source

_GONE = "ZX"
_NS = 10**9


@dataclass(frozen=True, slots=True)
class ProcessStates:
    """The state of a trace's processes.

    Attributes:
        alive: by rank; without ranks of another host, or of a trace copied to this one.
        now_ns: time on the ranks' clock; None if none is running.
    """

    alive: dict[int, bool] = field(default_factory=dict)
    now_ns: int | None = None


def look(trace: Trace) -> ProcessStates:
    """Determine which ranks run on this host."""
    if trace.manifest.source in (Source.IMPORTED, Source.SIMULATED, Source.PREDICTED):
        return ProcessStates()
    host = socket.gethostname()
    alive = {rank.rank: _runs(rank) for rank in trace.ranks if rank.header.host == host}
    return ProcessStates(alive, time.monotonic_ns() if any(alive.values()) else None)


def _runs(rank: RankTrace) -> bool:
    """Whether its process exists, and began before its trace did."""
    try:
        text = Path(f"/proc/{rank.header.pid}/stat").read_text()
        booted_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    except OSError:
        return False
    state, *fields = text.rpartition(")")[2].split()
    began_ns = booted_ns + int(fields[18]) * _NS // os.sysconf("SC_CLK_TCK")
    return state not in _GONE and began_ns <= rank.header.wall_ns + _NS
