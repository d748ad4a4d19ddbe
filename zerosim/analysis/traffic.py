"""What every call of a trace makes its rank send, what is copied, and the one place that sums it.

A call is a collective, or a message outside of any. What it sends goes over one link, or over two
where some of its messages stay within a node and others leave it. Imports the standard library,
zerosim's L0, record, and theory's algorithm costs (what a native call makes a rank send is not in
the trace).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from zerosim.analysis.calls import (
    asked_of,
    backend_of_call,
    cost_of,
    count_messages,
    is_measured,
)
from zerosim.errors import ConfigError
from zerosim.events import Event, Kind, Op, Purpose
from zerosim.record import (
    Peers,
    RankTrace,
    Trace,
    link_between,
    match_sockets,
    node_of,
    num_nodes,
)
from zerosim.theory import Cost, Framing, framing
from zerosim.theory.movement import MESSAGES
from zerosim.tiers import Link, link_of_copy

TIMES_COUNTED = {Op.ALL_REDUCE: 2, Op.RECEIVE: 0, Op.BARRIER: 0}
"""How often the papers' laws count a payload; once where nothing is said here."""
_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class Share:
    """What of a call goes over one link.

    Attributes:
        link: None where the trace does not see which messages leave a node.
        asked: what PyTorch was asked to send and receive: a ring's messages as intercepted, of a
            native call the bound of a ring; None if it is not known.
        moved: what the call's algorithm makes of it; likewise None.
        framing: what the backend's protocol adds; None if it is not known.
        wire_sent_bytes, wire_received_bytes: what the kernel counted; None if it was not measured.
    """

    link: Link | None
    asked: Cost | None
    moved: Cost | None
    framing: Framing | None
    wire_sent_bytes: int | None
    wire_received_bytes: int | None


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call of one rank.

    Attributes:
        event: the call itself.
        rank: who called.
        shares: by link.
        unknown: why it is not known what it sends; "" if it is.
    """

    event: Event
    rank: int
    shares: tuple[Share, ...]
    unknown: str = ""

    @property
    def purpose(self) -> Purpose:
        """Why it was called, as far as that is known."""
        return self.event.purpose or Purpose.UNLABELLED

    @property
    def is_computed(self) -> bool:
        """Whether its messages were not intercepted, and what it sends is worked out."""
        return self.event.sent_bytes is None

    @property
    def times_counted(self) -> int:
        """How often a law counts its payload."""
        assert self.event.op is not None, "a call has an operation"
        return TIMES_COUNTED.get(self.event.op, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Several calls together.

    Attributes:
        calls: how many.
        elements, payload_bytes: what they were asked for, each buffer whole.
        volume_elements, volume_bytes: likewise, an all-reduce counted twice: the communication
            volume of the papers' laws.
        sent_bytes, received_bytes: what PyTorch was asked to move; None if that is not known.
        wire_sent_bytes, wire_received_bytes: what the kernel counted; None if it was not measured.
        is_computed: whether some of `sent_bytes` was worked out and not intercepted.
        unknown: why `sent_bytes` is not known; "" if it is.
    """

    calls: int = 0
    elements: int = 0
    payload_bytes: int = 0
    volume_elements: int = 0
    volume_bytes: int = 0
    sent_bytes: int | None = 0
    received_bytes: int | None = 0
    wire_sent_bytes: int | None = 0
    wire_received_bytes: int | None = 0
    is_computed: bool = False
    unknown: str = ""


def traced_calls(trace: Trace) -> Iterator[TracedCall]:
    """Every call of a trace, rank by rank."""
    peers = match_sockets(trace)
    for rank in trace.ranks:
        yield from _TrafficReader(trace, rank, peers).calls()


def split(call: TracedCall) -> Iterator[TracedCall]:
    """A call as one for each link that it uses."""
    return (replace(call, shares=(share,)) for share in call.shares)


def sums(calls: Iterable[TracedCall], key: Callable[[TracedCall], _K]) -> dict[_K, Moved]:
    """What calls move together, by whatever `key` makes of each; in the order of the calls."""
    found: dict[_K, list[TracedCall]] = defaultdict(list)
    for call in calls:
        found[key(call)].append(call)
    return {name: total(some) for name, some in found.items()}


def total(calls: Sequence[TracedCall]) -> Moved:
    """What calls move together."""
    shares = [share for call in calls for share in call.shares]
    asked = [share.asked for share in shares]
    return Moved(
        calls=len(calls),
        elements=sum(call.event.elements for call in calls),
        payload_bytes=sum(call.event.payload_bytes for call in calls),
        volume_elements=sum(call.times_counted * call.event.elements for call in calls),
        volume_bytes=sum(call.times_counted * call.event.payload_bytes for call in calls),
        sent_bytes=_sum(None if one is None else one.sent_bytes for one in asked),
        received_bytes=_sum(None if one is None else one.received_bytes for one in asked),
        wire_sent_bytes=_sum(share.wire_sent_bytes for share in shares),
        wire_received_bytes=_sum(share.wire_received_bytes for share in shares),
        is_computed=any(call.is_computed for call in calls),
        unknown=next((call.unknown for call in calls if call.unknown), ""),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


@dataclass(frozen=True, slots=True)
class Copied:
    """Several copies between the tiers of a rank together.

    Attributes:
        kernel_bytes: what the kernel counted for them; None if it was not measured, and of the bus.
    """

    copies: int
    payload_bytes: int
    kernel_bytes: int | None


def copies(rank: RankTrace) -> Iterator[tuple[Link, Event]]:
    """The copies of a rank, each with the link that it takes."""
    for event in rank.events:
        if event.kind is Kind.COPY and event.origin is not None and event.target is not None:
            yield link_of_copy(event.origin, event.target), event


def total_copied(events: Sequence[Event]) -> Copied:
    """What copies move together."""
    return Copied(
        copies=len(events),
        payload_bytes=sum(event.payload_bytes for event in events),
        kernel_bytes=_sum(event.counted_bytes for event in events),
    )


class _TrafficReader:
    """Reads the calls of one rank."""

    def __init__(self, trace: Trace, rank: RankTrace, peers: Peers) -> None:
        self._trace, self._rank, self._peers = trace, rank, peers
        self._is_split = num_nodes(trace) > 1
        self._has_wire = is_measured(rank)
        self._counts = count_messages(rank)
        self._messages: dict[int, list[Event]] = defaultdict(list)
        for event in rank.events if self._is_split else ():
            if event.kind is Kind.TRANSFER and event.parent is not None:
                self._messages[event.parent].append(event)

    def calls(self) -> Iterator[TracedCall]:
        for event in self._rank.events:
            if event.kind is not Kind.COLLECTIVE or event.op is None:
                continue
            try:
                moved = cost_of(self._rank, event, self._counts.get(event.id, (0, 0)))
            except ConfigError as error:
                nothing = Share(None, None, None, None, *self._wire(event, None))
                yield TracedCall(event, self._rank.rank, (nothing,), str(error))
                continue
            yield TracedCall(event, self._rank.rank, tuple(self._shares(event, moved)))

    def _shares(self, event: Event, moved: Cost) -> Iterator[Share]:
        asked = asked_of(self._rank, event, moved)
        if not self._is_split:
            yield self._share(event, Link.NODE, asked, moved)
            return
        messages = [event] if event.op in MESSAGES else self._messages.get(event.id, [])
        if event.sent_bytes is None or not messages:
            group = self._rank.groups.get(event.group)
            ranks = () if group is None else group.ranks
            stays = len({node_of(self._trace, rank) for rank in ranks}) == 1
            yield self._share(event, Link.NODE if stays else None, asked, moved)
            return
        for link in Link:
            crossing = [one for one in messages if one.peers and self._link(one.peers[0]) is link]
            if crossing or any(self._wire(event, link)):  # a frame may go where no message goes
                sizes = _sizes(crossing)
                yield self._share(event, link, sizes, sizes)

    def _share(self, event: Event, link: Link | None, asked: Cost, moved: Cost) -> Share:
        added = framing(backend_of_call(self._rank, event), moved)
        return Share(link, asked, moved, added, *self._wire(event, link))

    def _wire(self, event: Event, link: Link | None) -> tuple[int | None, int | None]:
        """What the kernel counted; calls that run beside each other have no wire of their own."""
        if not self._has_wire or not (self._trace.manifest.config or event.wire):
            return None, None
        sent = received = 0
        for delta in event.wire:
            peer = self._peers.get((self._rank.rank, delta.socket))
            if peer is not None and (not self._is_split or link in {None, self._link(peer)}):
                sent += delta.sent_bytes
                received += delta.received_bytes
        return sent, received

    def _link(self, peer: int) -> Link:
        return link_between(self._trace, self._rank.rank, peer)


def _sizes(messages: Iterable[Event]) -> Cost:
    sizes = Cost()
    for message in messages:
        size = message.payload_bytes
        is_sent = message.op is Op.SEND
        sizes += Cost(size, 0, 1, 0) if is_sent else Cost(0, size, 0, 1)
    return sizes
