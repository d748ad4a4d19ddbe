"""What must hold in the graph of a run that went well; each violation names ranks, units and lines.

What the ranks' calls contradict each other in is found by `record.match_collectives`; here it is
joined by what only the graph shows. Imports numpy, zerosim's L0, record and its siblings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from zerosim.events import Event, Kind, Op
from zerosim.graph.kinds import NodeKind
from zerosim.graph.model import EventGraph
from zerosim.graph.order import find_cycle
from zerosim.manifest import Source
from zerosim.record import MismatchKind
from zerosim.record.text import name_ranks, one_line


class ViolationKind(StrEnum):
    """What is wrong."""

    CYCLE = "cycle"
    """Events that wait for each other in a cycle: with these calls the run cannot go on."""
    INCOMPLETE = "incomplete"
    """A collective that not all ranks called, or called twice, or that has no place."""
    NEVER_ENDED = "never ended"
    """A call that failed, or that a rank was in when it stopped."""
    NOT_RECEIVED = "not received"
    NOT_SENT = "not sent"
    DIFFERENT = "different"
    """Ranks that disagree on operation, size, dtype, unit, or on a message's size or shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that is wrong.

    Attributes:
        message: one line that names ranks, units and source lines.
        ranks, units: those concerned.
    """

    kind: ViolationKind
    message: str
    ranks: tuple[int, ...]
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold.

    Attributes:
        title: what, in words.
        counted: how much was looked at, in words.
        violations: empty if it holds.
        unknown: what of it an imported run does not tell; "" if it tells all.
    """

    title: str
    counted: str
    violations: tuple[Violation, ...]
    unknown: str = ""

    @property
    def holds(self) -> bool | None:
        """True if nothing is wrong; None if nothing is known to be, and not all is known."""
        return False if self.violations else None if self.unknown else True


_DIFFERENT = (MismatchKind.OP, MismatchKind.DTYPE, MismatchKind.PAYLOAD)


def check_graph(graph: EventGraph) -> tuple[Check, ...]:
    """Hold all checks against the graph of a whole trace."""
    num_collectives = len(graph.matching.collectives)
    collectives = f"{num_collectives:,} collective{'s' * (num_collectives != 1)}"
    unknown = _unknown(graph)
    num_messages = len(graph.hops.sends) + len(graph.hops.lost) + len(graph.hops.unsent)
    messages = f"{num_messages:,} message{'s' * (num_messages != 1)}"
    untold = "" if num_messages else _untold_messages(graph)
    return (
        Check(
            title="no event waits for itself",
            counted=f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges",
            violations=tuple(_cycles(graph)),
        ),
        Check(
            title="every collective was called by all its ranks, and ended",
            counted=collectives,
            violations=(*_mismatches(graph, different=False), *_never_ended(graph)),
            unknown=unknown,
        ),
        Check(
            title="the ranks asked for the same operation, unit, size and dtype",
            counted=collectives,
            violations=(*_mismatches(graph, different=True), *_crossed(graph)),
            unknown=unknown,
        ),
        Check(
            title="every message was received as it was sent",
            counted="" if untold else messages if num_messages else "no messages were recorded",
            violations=tuple(_messages(graph)),
            unknown=untold,
        ),
    )


def _cycles(graph: EventGraph) -> Iterator[Violation]:
    circle = find_cycle(graph)
    if not circle:
        return
    calls = [node for node in circle if graph.kind_of(node) is NodeKind.CALL]
    events = [event for node in calls or circle if (event := graph.event_of(node)) is not None]
    steps = []
    for node in calls:
        event = graph.event_of(node)
        assert event is not None
        # the collective before this call in the circle is what its rank must end first
        before = circle[circle.index(node) - 1]
        first = graph.event_on(before, event.rank)
        after = "" if first is None or first is event else f" only after {_call(first)}"
        steps.append(f"rank {event.rank} comes to {_call(event)}{after}")
    words = "; ".join(steps) or ", ".join(graph.label(node) for node in circle)
    yield _violation(ViolationKind.CYCLE, f"a cycle, hence a deadlock: {words}", events)


def _untold_messages(graph: EventGraph) -> str:
    """Why an imported run has no message to be looked at; "" of a run that was traced."""
    if graph.trace.manifest.source is not Source.IMPORTED:
        return ""
    calls = sum(
        event.op in (Op.SEND, Op.RECEIVE)
        for rank in graph.trace.ranks
        for _, event in rank.events.of_kind(Kind.COLLECTIVE)
    )
    if not calls:
        return "no messages were recorded"
    return f"which of {calls:,} sends and receives belong together is not recorded"


def _unknown(graph: EventGraph) -> str:
    """What an imported run does not tell of its collectives."""
    trace = graph.trace
    if trace.manifest.source is not Source.IMPORTED:
        return ""
    apart = sum(one.kind is MismatchKind.UNKNOWN for one in graph.matching.mismatches)
    told = [f"which ranks made {apart:,} call{'s' * (apart != 1)} is not recorded"] * bool(apart)
    if lacks := trace.lacks:
        told.append(f"what {name_ranks(lacks)} called is not recorded")
    return "; ".join(told)


def _mismatches(graph: EventGraph, *, different: bool) -> Iterator[Violation]:
    by_key = {collective.key: collective for collective in graph.matching.collectives}
    is_imported = graph.trace.manifest.source is Source.IMPORTED
    for mismatch in graph.matching.mismatches:
        if (mismatch.kind in _DIFFERENT) is not different:
            continue
        if mismatch.kind is MismatchKind.UNKNOWN and is_imported:  # nobody's fault: not recorded
            continue
        matched = None if mismatch.key is None else by_key.get(mismatch.key)
        units = () if matched is None else (event.unit for event in matched.events.values())
        yield Violation(
            kind=ViolationKind.DIFFERENT if different else ViolationKind.INCOMPLETE,
            message=mismatch.message,
            ranks=mismatch.ranks,
            units=tuple(dict.fromkeys(unit for unit in units if unit)),
        )


def _never_ended(graph: EventGraph) -> Iterator[Violation]:
    """Calls that failed, or that their rank was still in when it stopped."""
    unfinished = {(rank.rank, number) for rank in graph.trace.ranks for number in rank.unfinished}
    for collective in graph.matching.collectives:
        events = collective.events.values()
        hanging = [event for event in events if (event.rank, event.id) in unfinished]
        failed = [event for event in events if event.error]
        for those, words in ((hanging, "never ended"), (failed, "failed")):
            if not those:
                continue
            ranks = name_ranks(event.rank for event in those)
            why = f": {those[0].error}" if those is failed else ""
            message = f"{_call(those[0])} {words} on {ranks}{why}"
            yield _violation(ViolationKind.NEVER_ENDED, message, those)


def _crossed(graph: EventGraph) -> Iterator[Violation]:
    """Ranks whose calls fit in all but the unit: they took turns in another order."""
    different = {one.key for one in graph.matching.mismatches if one.kind in _DIFFERENT}
    for collective in graph.matching.collectives:
        if collective.key.is_message or collective.key in different:
            continue
        events = list(collective.events.values())
        # who does not say for what it calls, as a rank that only joins in, contradicts nobody
        if len({event.unit for event in events if event.unit}) > 1:
            sides = "; ".join(f"rank {event.rank}: {_call(event)}" for event in events)
            message = (
                f"collective {collective.key.sequence} of group {collective.key.group!r}: the "
                f"ranks are in different units, so their order is crossed: {sides}"
            )
            yield _violation(ViolationKind.DIFFERENT, message, events)


def _messages(graph: EventGraph) -> Iterator[Violation]:
    hops = graph.hops
    if not len(hops.lost) and not len(hops.unsent) and not len(hops.different):
        return
    events = {rank.rank: rank.events for rank in graph.trace.ranks}
    for rows, kind, verb in (
        (hops.lost, ViolationKind.NOT_RECEIVED, "never received"),
        (hops.unsent, ViolationKind.NOT_SENT, "received but never sent"),
    ):
        of_call: Counter[tuple[int, int]] = Counter()
        first: dict[tuple[int, int], Event] = {}
        for row in rows.tolist():
            event = graph.event_of(row)
            assert event is not None
            assert event.parent is not None
            key = (event.rank, event.parent)
            of_call[key] += 1
            first.setdefault(key, event)
        for key, count in of_call.items():
            event, call = first[key], events[key[0]].find(key[1])
            assert call is not None
            more = f" (and {count - 1} more of this call)" if count > 1 else ""
            message = f"{_message(event)} was {verb}{more}: {_call(call)}"
            yield _violation(kind, message, [event], also=event.peers)
    for position in hops.different.tolist():
        sent = graph.event_of(int(hops.sends[position]))
        received = graph.event_of(int(hops.receives[position]))
        assert sent is not None
        assert received is not None
        assert sent.parent is not None
        call = events[sent.rank].find(sent.parent)
        assert call is not None
        message = f"{_message(sent)} arrived as another: {_message(received)}: {_call(call)}"
        yield _violation(ViolationKind.DIFFERENT, message, [sent, received])


def _message(event: Event) -> str:
    ways = [f"rank {event.rank}", f"rank {event.peers[0] if event.peers else '?'}"]
    source, target = ways if event.op == "send" else reversed(ways)
    shard = "" if event.shard is None else f" of shard {event.shard}"
    hop = "" if event.hop is None else f" at hop {event.hop}"
    return f"the message of {event.payload_bytes} B{shard} from {source} to {target}{hop}"


def _call(event: Event) -> str:
    unit = f" of {event.unit}" if event.unit else ""
    purpose = "" if event.unit or event.purpose is None else f"{event.purpose}, "
    place = f" at {event.source}" if event.source else ""
    what = f"{event.op}{unit}" if event.kind is Kind.COLLECTIVE else f"{event.kind}{unit}"
    return f"{what} ({purpose}{event.phase} of iteration {event.iteration}{place})"


def _violation(
    kind: ViolationKind, message: str, events: Iterable[Event], also: Iterable[int] = ()
) -> Violation:
    events = list(events)
    return Violation(
        kind=kind,
        message=one_line(message),
        ranks=tuple(sorted({event.rank for event in events} | set(also))),
        units=tuple(dict.fromkeys(event.unit for event in events if event.unit)),
    )
