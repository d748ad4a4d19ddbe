"""The components of a replay: steps, each an equal action of all its ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from zerosim.schema.events import Event, Kind, Phase


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a step, sent and received.

    Attributes:
        source, target: global ranks.
        shard: the shard that it carries; None if unknown.
        payload_bytes: 0 for one that is awaited and was not sent.
        start_ns: time of its send; end_ns: time of its arrival.
    """

    source: int
    target: int
    shard: int | None
    payload_bytes: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A stall of a rank's program during a step: a wait, or the part of it within the step.

    Attributes:
        event: the wait; awaited: the collective or copy that it waits for.
        start_ns, end_ns: of this part.
    """

    rank: int
    event: Event
    awaited: Event
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An equal action of all its ranks.

    Attributes:
        kind: a mark is the start of a phase, or the end of the iteration.
        phase: `Phase.OUTSIDE` for the last mark.
        events: by rank; for a hop, its collective; empty for a mark.
        collective: index in the graph's matching, for a hop or a collective; else None.
        hop: for a transfer; else None.
        groups: the ranks that communicate with each other, if those are several groups; else empty.
        messages: of this hop.
        waits: waits during it, with their causes: parts of waits, none of them after the end of its
            cause.
        time_ns: the start on the last rank.
        start_ns, end_ns: first start and last end over all ranks.
        starts: by rank, its start, for those that take part.
        until: index of the last step during which it continues, which may be its own.
        is_last_hop: the last hop of its collective, or a collective without hops.
        is_over: False if the step was in progress when the trace ended; for the last mark, if
            the iteration was.
    """

    kind: Kind
    phase: Phase
    micro_step: int
    events: dict[int, Event] = field(default_factory=dict)
    collective: int | None = None
    hop: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    messages: tuple[Message, ...] = ()
    waits: tuple[Wait, ...] = ()
    time_ns: int
    start_ns: int
    end_ns: int
    starts: dict[int, int] = field(default_factory=dict)
    until: int = -1
    is_last_hop: bool = False
    is_over: bool = True

    @property
    def is_unmet(self) -> bool:
        """Whether ranks wait for messages that were not sent."""
        return bool(self.messages) and not any(one.payload_bytes for one in self.messages)

    @property
    def is_circle(self) -> bool:
        """Whether ranks wait for each other in a cycle, so that none can continue."""
        waits_for = {one.target: one.source for one in self.messages} if self.is_unmet else {}
        rank = next(iter(waits_for), -1)
        for _ in waits_for:
            rank = waits_for.get(rank, -1)
        return rank in waits_for

    @property
    def event(self) -> Event | None:
        """The event of the lowest rank that takes part."""
        return next(iter(self.events.values()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """All steps of one iteration.

    Attributes:
        zero_ns: the start of the iteration on the first rank, on the graph's clock; times of steps
            are relative to it.
        joined: by representative collective, all of them: equal simultaneous actions of groups of
            ranks.
        num_hops: by collective, the number of its hop steps; 0 for one that is not shown by hop.
        notes: omissions, with reasons.
    """

    iteration: int
    zero_ns: int
    steps: tuple[Step, ...]
    joined: dict[int, tuple[int, ...]]
    num_hops: dict[int, int]
    notes: tuple[str, ...]

    def local_times(self, rank: int) -> list[int]:
        """The progress of a rank at each step, in ns since the start of the iteration."""
        return list(accumulate((step.starts.get(rank, 0) for step in self.steps), max))
