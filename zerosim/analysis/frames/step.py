"""What a replay consists of: steps, each the same thing done by all ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from zerosim.schema.events import Event, Kind, Phase


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a step, sent and received.

    Attributes:
        source, target: global ranks.
        shard: which one it carries; None if unknown.
        payload_bytes: 0 of one that is waited for and was not sent.
        start_ns: when it was sent; end_ns: when it had arrived.
    """

    source: int
    target: int
    shard: int | None
    payload_bytes: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A rank's program is stalled during a step: a wait, or the part of it that falls into it.

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
    """What the ranks do alike.

    Attributes:
        kind: a mark is the beginning of a phase, or the end of the iteration.
        phase: `Phase.OUTSIDE` of the last mark.
        events: by rank; of a hop, the collective that it belongs to; empty for a mark.
        collective: position in the graph's matching, of a hop or a collective; None otherwise.
        hop: of a transfer; None otherwise.
        groups: the ranks that communicate with each other, where those are several groups; of all
            other steps empty.
        messages: of this hop.
        waits: who waits meanwhile, and for what: parts of waits, none of them after what it waits
            for is over.
        time_ns: when the last rank began.
        start_ns, end_ns: first begin and last end of all ranks.
        starts: by rank, when it began, for those that take part.
        until: the last step during which this one goes on; its own position at least.
        is_last_hop: of its collective, or a collective without hops.
        is_over: False if it was still going on when the trace ended; of the last mark, if the
            iteration was.
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
        """Whether ranks wait for each other in a circle, so that none can go on."""
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
        zero_ns: when the first rank began the iteration, on the graph's clock; the times of
            steps are counted from there.
        joined: by collective that stands for several, all of them: what groups of ranks do alike at
            the same time.
        num_hops: by collective, how many steps its hops are; 0 for one that is not shown by hop.
        notes: what is left out, and why.
    """

    iteration: int
    zero_ns: int
    steps: tuple[Step, ...]
    joined: dict[int, tuple[int, ...]]
    num_hops: dict[int, int]
    notes: tuple[str, ...]

    def local_times(self, rank: int) -> list[int]:
        """How far a rank was at each step, in ns since the iteration began."""
        return list(accumulate((step.starts.get(rank, 0) for step in self.steps), max))
