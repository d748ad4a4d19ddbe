"""A run for Perfetto: a group of tracks per rank, with counters of bytes sent and live memory.

A collective has the same correlation id on all its ranks, so Perfetto highlights it on all; arrows
only go from a message to its arrival. Overlapping events are on separate tracks: Perfetto nests
events on the same one. Times are nanoseconds on the first rank's clock. Source: google/perfetto,
protos/perfetto/trace/track_event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from zerosim.analysis.graph import EventGraph
from zerosim.analysis.graph.kinds import PHASES, NodeKind
from zerosim.analysis.graph.table import NONE
from zerosim.analysis.memory import ROLES, timeline
from zerosim.record import RankTrace, require_times
from zerosim.schema.events import Event, Kind
from zerosim.view.export.protobuf import counted, fixed64, integer

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
"""`TrackEvent.Type`."""
_SEQUENCE = 1
_STATE_CLEARED = 1
_UNIT_BYTES = 3
"""`CounterDescriptor.Unit`: the viewer writes kB and MB itself."""
_EXPLICIT = 3
"""`TrackDescriptor.ChildTracksOrdering`: as they are written."""
_LANES = {
    NodeKind.COMPUTE: "computation",
    NodeKind.WAIT: "waiting",
    NodeKind.CALL: "collectives",
    NodeKind.COPY: "copies between tiers",
    NodeKind.SEND: "messages sent",
    NodeKind.RECEIVE: "messages received",
}
"""The tracks of a rank, in display order, below its phases."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of time on a track.

    Attributes:
        start_ns, end_ns: on the first rank's clock.
        collective: the id shared with the same collective's calls on other ranks; None for others.
        flow: the id shared by a message and its arrival; None for others.
        is_arrival: whether the flow ends with this slice.
        said: its details in the viewer, by name, as encoded values.
    """

    name: str
    start_ns: int
    end_ns: int
    collective: int | None = None
    flow: int | None = None
    is_arrival: bool = False
    said: dict[str, bytes] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """The start of a `TrackEvent`, without its track."""
        said = (counted(4, counted(10, name) + value) for name, value in self.said.items())
        shared = b"" if self.collective is None else integer(52, self.collective + 1)
        is_sent = self.flow is not None and not self.is_arrival
        flow = fixed64(47, (self.flow or 0) + 1) if is_sent else b""
        return counted(23, self.name) + shared + flow + b"".join(said)


def perfetto_file(graph: EventGraph) -> tuple[bytes, int]:
    """A whole run.

    Args:
        graph: the graph of a whole trace.

    Returns:
        A file for ui.perfetto.dev, which keeps it in the browser; and its number of slices.

    Raises:
        TraceError: nothing of the run has times.
    """
    require_times(graph.trace, "Perfetto shows")
    writer = _Writer()
    predicted = ", times predicted" if graph.trace.manifest.is_predicted else ""
    for place, rank in enumerate(graph.trace.ranks):
        whole = writer.track(f"rank {rank.rank}{predicted}", rank=rank.rank)
        for name, slices in _tracks(graph, place):
            for lane, one in enumerate(lanes(slices), 1):
                title = name if lane == 1 else f"{name} ({lane})"
                writer.slices(writer.track(title, whole), one)
        for name, points in _counters(graph, place, rank):
            writer.counter(writer.track(name, whole, counts_bytes=True), points)
    return writer.content(), writer.num_slices


def _tracks(graph: EventGraph, place: int) -> Iterator[tuple[str, list[Slice]]]:
    """The events of one rank, by kind."""
    mine = graph.place == place
    yield (
        "phases",
        list(_phases(graph, np.flatnonzero(mine & graph.is_kind(NodeKind.PHASE)).tolist())),
    )
    flows = _flows(graph)
    for kind, name in _LANES.items():
        nodes = np.flatnonzero(mine & graph.is_kind(kind)).tolist()
        found = [_slice(graph, node, flows.get(node)) for node in nodes]
        if found:
            yield name, found


def _phases(graph: EventGraph, borders: Sequence[int]) -> Iterator[Slice]:
    """The phases, from each border to the next."""
    for border, following in pairwise(borders):
        iteration, phase = int(graph.iteration[border]), PHASES[graph.phase[border]].value
        if iteration >= 0:
            name = f"{phase}, iteration {iteration}"
            yield Slice(name, int(graph.at[border]), int(graph.at[following]))


def _slice(graph: EventGraph, node: int, flow: int | None) -> Slice:
    event = graph.event_of(node)
    assert event is not None, "phases are the only nodes without an event"
    kind = graph.kind_of(node)
    start, end = int(graph.start[node]), int(graph.end[node])
    collective = int(graph.collective[node]) if kind is NodeKind.CALL else NONE
    return Slice(
        name=graph.label(node).removeprefix("arrival at "),
        start_ns=start,
        end_ns=max(start, end),
        collective=None if collective == NONE else collective,
        flow=flow,
        is_arrival=kind is NodeKind.RECEIVE,
        said=_said(event),
    )


def _said(event: Event) -> dict[str, bytes]:
    """The recorded details of an event; unrecorded ones are omitted."""
    words = {
        "phase": event.phase.value,
        "unit": event.unit,
        "purpose": event.purpose.value if event.purpose else "",
        "operation": event.op.value if event.op else "",
        "group": event.group,
        "dtype": event.dtype,
        "called from": event.source,
    }
    found = {name: counted(6, word) for name, word in words.items() if word}
    if event.iteration >= 0:
        found["iteration"] = integer(4, event.iteration)
    if event.kind in (Kind.COLLECTIVE, Kind.COPY) and not event.operator:
        found["payload, B"] = integer(4, event.payload_bytes)
    if event.sent_bytes is not None and event.kind is Kind.COLLECTIVE:
        found["sent, B"] = integer(4, event.sent_bytes)
    return found


def _flows(graph: EventGraph) -> dict[int, int]:
    """By the node of a message or an arrival, their shared id."""
    sends, receives = graph.hops.sends.tolist(), graph.hops.receives.tolist()
    pairs = enumerate(zip(sends, receives, strict=True))
    return {node: number for number, pair in pairs for node in pair}


def lanes(slices: Sequence[Slice]) -> list[list[Slice]]:
    """The minimum number of rows: on one row nothing overlaps."""
    rows: list[list[Slice]] = []
    free: list[int] = []  # rows whose last slice has ended
    busy: list[tuple[int, int]] = []  # end, and row
    for one in sorted(slices, key=lambda one: (one.start_ns, one.end_ns)):
        while busy and busy[0][0] <= one.start_ns:
            heappush(free, heappop(busy)[1])
        row = heappop(free) if free else len(rows)
        if row == len(rows):
            rows.append([])
        rows[row].append(one)
        heappush(busy, (one.end_ns, row))
    return rows


def _counters(
    graph: EventGraph, place: int, rank: RankTrace
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Cumulative bytes sent by a rank as requested by its calls, and its memory, by role."""
    calls = np.flatnonzero((graph.place == place) & graph.is_kind(NodeKind.CALL)).tolist()
    ended = sorted((int(graph.end[call]), call) for call in calls)
    sent, points = 0, []
    for time, call in ended:
        event = graph.event_of(call)
        if event is not None and event.sent_bytes:
            sent += event.sent_bytes
            points.append((time, sent))
    if points:
        yield "bytes sent so far", points
    if not rank.memory_samples:
        return
    shift = graph.clocks.offset_ns(rank.rank)
    held = timeline(rank)
    times = [sample.time_ns + shift for sample in held.samples]
    for role, sizes in zip(ROLES, held.by_role.tolist(), strict=True):
        if any(sizes):
            changed = [0, *(np.flatnonzero(np.diff(sizes)) + 1).tolist()]
            yield f"memory: {role}", [(times[number], sizes[number]) for number in changed]


class _Writer:
    """Descriptions of tracks, then their events by time; at equal times in the order of writing."""

    def __init__(self) -> None:
        self.num_slices = 0
        self._descriptions: list[bytes] = []
        self._timed: list[tuple[int, bytes]] = []

    def track(
        self, name: str, parent: int = 0, *, rank: int | None = None, counts_bytes: bool = False
    ) -> int:
        """Describe a track; returns its number.

        Args:
            parent: the parent track; 0 for none.
            rank: sort key among those without a parent.
        """
        number = len(self._descriptions) + 1
        described = integer(1, number) + counted(2, name)
        if parent:
            described += integer(5, parent)
        described += integer(12, number if rank is None else rank)
        described += integer(11, _EXPLICIT)
        if counts_bytes:
            described += counted(8, integer(3, _UNIT_BYTES))
        self._descriptions.append(described)
        return number

    def slices(self, track: int, slices: Sequence[Slice]) -> None:
        """The events of a track, without overlaps."""
        self.num_slices += len(slices)
        for one in slices:
            begin = integer(9, _BEGIN) + integer(11, track) + one.encoded()
            self._timed.append((one.start_ns, begin))
            if one.flow is not None and one.is_arrival:  # it may be waited for before it is sent
                there = counted(23, "arrives") + fixed64(48, one.flow + 1)
                instant = integer(9, _INSTANT) + integer(11, track) + there
                self._timed.append((one.end_ns, instant))
            self._timed.append((one.end_ns, integer(9, _END) + integer(11, track)))

    def counter(self, track: int, points: Sequence[tuple[int, int]]) -> None:
        """A number over time."""
        for time, value in points:
            event = integer(9, _COUNTER) + integer(11, track) + integer(30, value)
            self._timed.append((time, event))

    def content(self) -> bytes:
        """The file."""
        first = integer(10, _SEQUENCE) + integer(13, _STATE_CLEARED)
        packets = [first + counted(60, described) for described in self._descriptions]
        for time, event in sorted(self._timed, key=lambda one: one[0]):
            packets.append(integer(8, time) + integer(10, _SEQUENCE) + counted(11, event))
        return b"".join(counted(1, packet) for packet in packets)
