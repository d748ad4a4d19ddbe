"""The timeline of a replay: the activity of each rank's program and collectives, and the critical
path.
"""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.analysis import TimeCause, critical_path
from zerosim.analysis.frames import Step
from zerosim.analysis.graph import EventGraph
from zerosim.analysis.graph.ondevice import is_on_device
from zerosim.analysis.graph.phases import late_updates
from zerosim.analysis.graph.table import copy_link
from zerosim.base.errors import TraceError
from zerosim.record import Trace
from zerosim.schema.events import Kind, Phase
from zerosim.view.replay.step_sentences import find

_LANES = {Kind.COMPUTE: 0, Kind.WAIT: 0, Kind.COLLECTIVE: 1, Kind.COPY: 2}
_KINDS = {Kind.COMPUTE: 0, Kind.COLLECTIVE: 1, Kind.WAIT: 2, Kind.COPY: 3}
PHASES = {Phase.FORWARD: 0, Phase.BACKWARD: 1, Phase.UPDATE: 2, Phase.SETUP: 3, Phase.OUTSIDE: 3}
_CAUSES = tuple(TimeCause)


def bars_of(graph: EventGraph, iteration: int, zero_ns: int, steps: Sequence[Step]) -> list[int]:
    """Seven numbers for each: rank, lane, kind, phase, start, end, step.

    Lanes are the program, collectives, copies over the bus, copies to and from a disk.

    Args:
        zero_ns: the start of the iteration, on the graph's clock.
    """
    of_event: dict[tuple[int, int], int] = {}
    for position, step in enumerate(steps):
        for taker, event in step.events.items():
            of_event.setdefault((taker, event.id), position)
        for wait in step.waits:
            of_event.setdefault((wait.rank, wait.event.id), position)
    bars: list[int] = []
    for place, rank in enumerate(graph.trace.ranks):
        shift = graph.clocks.offset_ns(rank.rank) - zero_ns
        number = 0
        late = late_updates(graph.trace, rank)
        for event in rank.events:
            if late.get(event.id, event.iteration) != iteration or event.kind not in _LANES:
                continue
            if event.start_ns is None or (
                event.kind is Kind.COLLECTIVE and event.parent is not None
            ):
                continue
            start = event.start_ns + shift
            end = start if event.end_ns is None else max(start, event.end_ns + shift)
            number = of_event.get((rank.rank, event.id), number)
            kind = _KINDS[event.kind]
            lane = _LANES[event.kind] + max(0, copy_link(event))
            if event.id in late:  # concurrent with the program, like copies
                lane = _LANES[Kind.COPY]
            bars += [place, lane, kind, PHASES[event.phase], start, end, number]
    return bars


def launches_of(trace: Trace, graph: EventGraph, iteration: int, zero_ns: int) -> list[int]:
    """The host's launches of what a device executed, four numbers each: rank, phase, from, to.

    Empty without device times. If only the time of issue is known, as in a profile, it is both.

    Args:
        trace: the trace at the times of the hosts.
        zero_ns: as in `bars_of`.
    """
    found: list[int] = []
    for place, rank in enumerate(trace.ranks):
        if not is_on_device(rank):
            continue
        shift = graph.clocks.offset_ns(rank.rank) - zero_ns
        for event in rank.events:
            is_ours = event.iteration == iteration and event.kind in (Kind.COMPUTE, Kind.COLLECTIVE)
            if not is_ours or event.device_end_ns is None:
                continue
            issue, end = event.issue_ns, event.end_ns
            until = issue if end is None or end == event.device_end_ns else max(issue, end)
            found += [place, PHASES[event.phase], issue + shift, until + shift]
    return found


def path_of(graph: EventGraph, iteration: int, zero_ns: int) -> tuple[list[int], str]:
    """The critical path, four numbers per piece: rank, cause, start, end; or why there is none."""
    has_waits = any(event.kind is Kind.WAIT for rank in graph.trace.ranks for event in rank.events)
    if not has_waits and graph.trace.manifest.num_ranks > 1:
        return [], find("note", "no_waits")
    try:
        path = critical_path(graph.within(iteration))
    except TraceError as error:
        return [], str(error)
    place_of = {rank.rank: place for place, rank in enumerate(graph.trace.ranks)}
    pieces: list[int] = []
    for piece in path.pieces:
        if piece.rank in place_of:
            start, end = piece.start_ns - zero_ns, piece.end_ns - zero_ns
            pieces += [place_of[piece.rank], _CAUSES.index(piece.cause), max(0, start), max(0, end)]
    return pieces, ""
