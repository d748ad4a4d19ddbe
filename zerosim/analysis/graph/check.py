"""Invariants of the graph of a successful run; each violation names ranks, units and lines.

`record.match_collectives` finds contradictions between the ranks' calls; here are those that only
the graph shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from zerosim.analysis.graph.kinds import NodeKind
from zerosim.analysis.graph.model import EventGraph
from zerosim.analysis.graph.order import find_cycle
from zerosim.analysis.graph.wording import counted, said
from zerosim.base.language import clauses, enumerated, term
from zerosim.record import MismatchKind
from zerosim.record.text import name_ranks, one_line
from zerosim.schema.events import Event, Kind, Op
from zerosim.schema.manifest import Source


class ViolationKind(StrEnum):
    """The kinds of violations."""

    CYCLE = "cycle"
    """Events that wait for each other in a cycle: with these calls the run cannot go on."""
    INCOMPLETE = "incomplete"
    """A collective that some ranks did not call, or called twice, or without a position."""
    NEVER_ENDED = "never ended"
    """A call that failed, or that was in progress when its rank stopped."""
    NOT_RECEIVED = "not received"
    NOT_SENT = "not sent"
    DIFFERENT = "different"
    """Ranks that disagree on operation, size, dtype, unit, or on a message's size or shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation.

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
    """One invariant.

    Attributes:
        title: the check, in words.
        counted: the number of checked items, in words.
        violations: empty if the check passes.
        unknown: information that an imported run lacks for it; "" if none.
    """

    title: str
    counted: str
    violations: tuple[Violation, ...]
    unknown: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the check passes; None if an imported run lacks information."""
        return False if self.violations else None if self.unknown else True


_DIFFERENT = (MismatchKind.OP, MismatchKind.DTYPE, MismatchKind.PAYLOAD)


def check_graph(graph: EventGraph) -> tuple[Check, ...]:
    """Run all checks on the graph of a whole trace."""
    num_collectives = len(graph.matching.collectives)
    collectives = counted("collectives", num_collectives)
    unknown = _unknown(graph)
    num_messages = len(graph.hops.sends) + len(graph.hops.lost) + len(graph.hops.unsent)
    messages = counted("messages", num_messages) if num_messages else said("checks.no_messages")
    untold = "" if num_messages else _untold_messages(graph)
    return (
        Check(
            title=said("checks.cycles"),
            counted=said(
                "checks.counted", nodes=f"{graph.num_nodes:,}", edges=f"{graph.num_edges:,}"
            ),
            violations=tuple(_cycles(graph)),
        ),
        Check(
            title=said("checks.called"),
            counted=collectives,
            violations=(*_mismatches(graph, different=False), *_never_ended(graph)),
            unknown=unknown,
        ),
        Check(
            title=said("checks.same"),
            counted=collectives,
            violations=(*_mismatches(graph, different=True), *_crossed(graph)),
            unknown=unknown,
        ),
        Check(
            title=said("checks.received"),
            counted="" if untold else messages,
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
        # the collective before this call in the cycle must end first on its rank
        before = circle[circle.index(node) - 1]
        first = graph.event_on(before, event.rank)
        if first is None or first is event:
            steps.append(said("violations.comes", rank=event.rank, call=_call(event)))
        else:
            after = {"call": _call(event), "first": _call(first)}
            steps.append(said("violations.comes_after", rank=event.rank, **after))
    words = clauses(steps) or enumerated(graph.label(node) for node in circle)
    yield _violation(ViolationKind.CYCLE, said("violations.cycle", steps=words), events)


def _untold_messages(graph: EventGraph) -> str:
    """Why an imported run has no messages to check; "" for a traced run."""
    if graph.trace.manifest.source is not Source.IMPORTED:
        return ""
    calls = sum(
        event.op in (Op.SEND, Op.RECEIVE)
        for rank in graph.trace.ranks
        for _, event in rank.events.of_kind(Kind.COLLECTIVE)
    )
    if not calls:
        return said("checks.no_messages")
    return said("checks.unpaired", calls=f"{calls:,}")


def _unknown(graph: EventGraph) -> str:
    """Information on its collectives that an imported run lacks."""
    trace = graph.trace
    if trace.manifest.source is not Source.IMPORTED:
        return ""
    apart = sum(one.kind is MismatchKind.UNKNOWN for one in graph.matching.mismatches)
    told = [said("checks.unknown_ranks", calls=counted("calls", apart))] if apart else []
    if lacks := trace.lacks:
        told.append(said("checks.unknown_calls", ranks=name_ranks(lacks)))
    return clauses(told)


def _mismatches(graph: EventGraph, *, different: bool) -> Iterator[Violation]:
    by_key = {collective.key: collective for collective in graph.matching.collectives}
    is_imported = graph.trace.manifest.source is Source.IMPORTED
    for mismatch in graph.matching.mismatches:
        if (mismatch.kind in _DIFFERENT) is not different:
            continue
        if mismatch.kind is MismatchKind.UNKNOWN and is_imported:  # not recorded
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
    """Calls that failed, or that were in progress when their rank stopped."""
    unfinished = {(rank.rank, number) for rank in graph.trace.ranks for number in rank.unfinished}
    for collective in graph.matching.collectives:
        events = collective.events.values()
        hanging = [event for event in events if (event.rank, event.id) in unfinished]
        failed = [event for event in events if event.error]
        for those, key in ((hanging, "violations.never_ended"), (failed, "violations.failed")):
            if not those:
                continue
            ranks = name_ranks(event.rank for event in those)
            message = said(key, call=_call(those[0]), ranks=ranks, error=those[0].error)
            yield _violation(ViolationKind.NEVER_ENDED, message, those)


def _crossed(graph: EventGraph) -> Iterator[Violation]:
    """Ranks whose calls match in all but the unit: they called in a different order."""
    different = {one.key for one in graph.matching.mismatches if one.kind in _DIFFERENT}
    for collective in graph.matching.collectives:
        if collective.key.is_message or collective.key in different:
            continue
        events = list(collective.events.values())
        # a call without a unit, such as that of a rank in `join`, contradicts nothing
        if len({event.unit for event in events if event.unit}) > 1:
            sides = clauses(
                said("violations.side", rank=event.rank, call=_call(event)) for event in events
            )
            message = said(
                "violations.crossed",
                number=collective.key.sequence,
                group=repr(collective.key.group),
                sides=sides,
            )
            yield _violation(ViolationKind.DIFFERENT, message, events)


def _messages(graph: EventGraph) -> Iterator[Violation]:
    hops = graph.hops
    if not len(hops.lost) and not len(hops.unsent) and not len(hops.different):
        return
    events = {rank.rank: rank.events for rank in graph.trace.ranks}
    for rows, kind, which in (
        (hops.lost, ViolationKind.NOT_RECEIVED, "violations.not_received"),
        (hops.unsent, ViolationKind.NOT_SENT, "violations.not_sent"),
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
            message = said(
                f"{which}_more" if count > 1 else which,
                message=_message(event),
                count=count - 1,
                call=_call(call),
            )
            yield _violation(kind, message, [event], also=event.peers)
    for position in hops.different.tolist():
        sent = graph.event_of(int(hops.sends[position]))
        received = graph.event_of(int(hops.receives[position]))
        assert sent is not None
        assert received is not None
        assert sent.parent is not None
        call = events[sent.rank].find(sent.parent)
        assert call is not None
        message = said(
            "violations.different",
            message=_message(sent),
            received=_message(received),
            call=_call(call),
        )
        yield _violation(ViolationKind.DIFFERENT, message, [sent, received])


def _message(event: Event) -> str:
    ways = [f"rank {event.rank}", f"rank {event.peers[0] if event.peers else '?'}"]
    source, target = ways if event.op == "send" else reversed(ways)
    shard = "" if event.shard is None else said("violations.shard", shard=event.shard)
    return said(
        "violations.message",
        bytes=event.payload_bytes,
        shard=shard,
        source=source,
        target=target,
        hop="" if event.hop is None else said("violations.hop", hop=event.hop),
    )


def _call(event: Event) -> str:
    op = term((event.op or "") if event.kind is Kind.COLLECTIVE else event.kind)
    purpose = ""
    if not event.unit and event.purpose is not None:
        purpose = said("violations.purpose", purpose=term(event.purpose))
    return said(
        "violations.call",
        what=said("nodes.op_of" if event.unit else "nodes.op", op=op, unit=event.unit),
        purpose=purpose,
        phase=term(event.phase),
        iteration=event.iteration,
        place=said("violations.place", source=event.source) if event.source else "",
    )


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
