"""The bytes of every call and copy of a trace, and the only place that sums them.

A call is a collective, or a message outside of any. Its traffic uses one link, or two if some of
its messages stay within a node and others leave it.
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
    framing_of,
    is_measured,
)
from zerosim.analysis.tuning import tuning_of
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link, link_of_copy
from zerosim.record import (
    Peers,
    RankTrace,
    Trace,
    link_between,
    match_sockets,
    num_nodes,
    phase_wire,
    ranks_per_node,
)
from zerosim.schema.events import Event, Kind, Op, Purpose
from zerosim.theory import Cost
from zerosim.theory.algorithms import backend_messages
from zerosim.theory.movement import MESSAGES
from zerosim.theory.nccl import Tuning

TIMES_COUNTED = {Op.ALL_REDUCE: 2, Op.RECEIVE: 0, Op.BARRIER: 0}
"""The number of times that the papers' laws count a payload; once by default."""
Pair = tuple[int, int]
"""Bytes sent and received."""
_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a call on one link.

    Attributes:
        link: None if the trace does not record which messages leave a node.
        asked: the requested bytes, sent and received: a ring's messages as intercepted; for a
            native call, the bound of a ring; zero if unknown.
        moved: the same with the call's algorithm.
        framing: bytes that the backend's protocol adds; None if unknown.
        wire: the kernel's count; None if not measured.
    """

    link: Link | None
    asked: Cost
    moved: Cost
    framing: Pair | None
    wire: Pair | None


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call of one rank.

    Attributes:
        event: the call itself.
        rank: the calling rank.
        whole: its bytes over all links together.
        shares: by link, according to its messages.
        unknown: why its bytes are unknown; "" if they are known.
    """

    event: Event
    rank: int
    whole: Share
    shares: tuple[Share, ...]
    unknown: str = ""

    @property
    def purpose(self) -> Purpose:
        """The purpose of the call; `UNLABELLED` if unknown."""
        return self.event.purpose or Purpose.UNLABELLED

    @property
    def is_computed(self) -> bool:
        """Whether its messages were not intercepted, so its bytes are computed."""
        return self.event.sent_bytes is None

    @property
    def has_links(self) -> bool:
        """Whether the links of all its bytes are known."""
        unseen = [share.moved for share in self.shares if share.link is None]
        return not self.unknown and not any(one.sent_bytes or one.received_bytes for one in unseen)

    @property
    def times_counted(self) -> int:
        """The number of times that a law counts its payload."""
        assert self.event.op is not None, "a call has an operation"
        return TIMES_COUNTED.get(self.event.op, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Several calls together.

    Attributes:
        calls: number of calls.
        elements, payload_bytes: their payload, each buffer whole.
        volume_elements, volume_bytes: the same with an all-reduce counted twice: the communication
            volume of the papers' laws.
        sent_bytes, received_bytes: the requested bytes; None if unknown.
        wire_sent_bytes, wire_received_bytes: the kernel's count; None if not measured.
        is_computed: whether some of `sent_bytes` was computed and not intercepted.
        unknown: why `sent_bytes` is unknown; "" if it is known.
        is_unsized: whether the payload of some call is unknown, and missing from the sums.
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
    is_unsized: bool = False


def traced_calls(trace: Trace) -> Iterator[TracedCall]:
    """Every call of a trace, rank by rank."""
    peers = match_sockets(trace)
    tuning = tuning_of(trace, peers)
    for rank in trace.ranks:
        yield from _TrafficReader(trace, rank, peers, tuning).calls()


def goes_over_sockets(rank: RankTrace, peers: Peers, calls: Iterable[TracedCall]) -> bool:
    """Whether the kernel counts a rank's traffic: it does not see NVLink or InfiniBand.

    A device's backend always uses sockets for its set-up, some kilobytes; otherwise it sends
        either all requested bytes over them or almost none.

    Args:
        calls: of the rank.
    """
    if len(rank.wire_samples) < 2:
        return False
    if rank.header.device == "cpu":
        return True
    asked = sum(call.whole.moved.sent_bytes for call in calls if call.event.parent is None)
    counted = sum(piece.sent_bytes for piece in phase_wire(rank, peers))
    return 2 * counted >= asked


def split(call: TracedCall) -> Iterator[TracedCall]:
    """A call as one for each link that it uses."""
    return (replace(call, shares=(share,)) for share in call.shares)


def sums(calls: Iterable[TracedCall], key: Callable[[TracedCall], _K]) -> dict[_K, Moved]:
    """The sums of calls by a `key`, in order of the calls."""
    found: dict[_K, list[TracedCall]] = defaultdict(list)
    for call in calls:
        found[key(call)].append(call)
    return {name: total(some) for name, some in found.items()}


def total(calls: Sequence[TracedCall]) -> Moved:
    """The sum of calls."""
    shares = [share for call in calls for share in call.shares]
    wire = sum_pairs([share.wire for share in shares])
    unknown = next((call.unknown for call in calls if call.unknown), "")
    return Moved(
        calls=len(calls),
        elements=sum(call.event.elements for call in calls),
        payload_bytes=sum(call.event.payload_bytes for call in calls),
        volume_elements=sum(call.times_counted * call.event.elements for call in calls),
        volume_bytes=sum(call.times_counted * call.event.payload_bytes for call in calls),
        sent_bytes=None if unknown else sum(share.asked.sent_bytes for share in shares),
        received_bytes=None if unknown else sum(share.asked.received_bytes for share in shares),
        wire_sent_bytes=None if wire is None else wire[0],
        wire_received_bytes=None if wire is None else wire[1],
        is_computed=any(call.is_computed for call in calls),
        unknown=unknown,
        is_unsized=any(call.event.operator for call in calls),
    )


def sum_pairs(pairs: Sequence[Pair | None]) -> Pair | None:
    """Sent and received bytes together; None if one of them is not known."""
    known = [pair for pair in pairs if pair is not None]
    if len(known) < len(pairs):
        return None
    return sum(sent for sent, _ in known), sum(received for _, received in known)


def known_sum(values: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is not known."""
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


@dataclass(frozen=True, slots=True)
class Copied:
    """The sum of several copies between the tiers of a rank.

    Attributes:
        kernel_bytes: the kernel's count; None if not measured, and for the bus.
    """

    copies: int
    payload_bytes: int
    kernel_bytes: int | None


def copies(rank: RankTrace) -> Iterator[tuple[Link, Event]]:
    """The copies of a rank, each with its link."""
    for _, event in rank.events.of_kind(Kind.COPY):
        if event.origin is not None and event.target is not None:
            yield link_of_copy(event.origin, event.target), event


def total_copied(events: Sequence[Event]) -> Copied:
    """The sum of copies."""
    return Copied(
        copies=len(events),
        payload_bytes=sum(event.payload_bytes for event in events),
        kernel_bytes=known_sum(event.counted_bytes for event in events),
    )


class _TrafficReader:
    """Reads the calls of one rank."""

    def __init__(self, trace: Trace, rank: RankTrace, peers: Peers, tuning: Tuning) -> None:
        self._trace, self._rank, self._peers, self._tuning = trace, rank, peers, tuning
        self._is_split = num_nodes(trace) > 1
        self._ranks_per_node = ranks_per_node(trace)
        self._has_wire = is_measured(rank)
        self._counts = count_messages(rank)
        self._messages: dict[int, list[Event]] = defaultdict(list)
        for _, event in rank.events.of_kind(Kind.TRANSFER) if self._is_split else ():
            if event.parent is not None:
                self._messages[event.parent].append(event)

    def calls(self) -> Iterator[TracedCall]:
        for _, event in self._rank.events.of_kind(Kind.COLLECTIVE):
            if event.op is None:
                continue
            try:
                moved = cost_of(self._rank, event, self._counts.get(event.id, (0, 0)))
            except ConfigError as error:
                nothing = Share(None, Cost(), Cost(), None, self._wire(event, None))
                yield TracedCall(event, self._rank.rank, nothing, (nothing,), str(error))
                continue
            asked = asked_of(self._rank, event, moved)
            whole = self._share(event, None if self._is_split else Link.NODE, asked, moved)
            shares = tuple(self._shares(event, asked, moved)) if self._is_split else (whole,)
            yield TracedCall(event, self._rank.rank, whole, shares)

    def _shares(self, event: Event, asked: Cost, moved: Cost) -> Iterator[Share]:
        messages = [event] if event.op in MESSAGES else self._messages.get(event.id, [])
        if event.sent_bytes is None or not messages:
            group = self._rank.groups.get(event.group)
            ranks = () if group is None else group.ranks
            stays = len({rank // self._ranks_per_node for rank in ranks}) == 1
            yield self._share(event, Link.NODE if stays else None, asked, moved)
            return
        for link in Link:
            crossing = [one for one in messages if one.peers and self._link(one.peers[0]) is link]
            sizes = _sizes(crossing, backend_of_call(self._rank, event))
            share = self._share(event, link, sizes, sizes)
            # a frame may use a link that no message uses
            if crossing or share.wire not in {None, (0, 0)}:
                yield share

    def _share(self, event: Event, link: Link | None, asked: Cost, moved: Cost) -> Share:
        added = framing_of(self._rank, event, moved, self._tuning)
        return Share(link, asked, moved, added, self._wire(event, link))

    def _wire(self, event: Event, link: Link | None) -> Pair | None:
        """The kernel's count; concurrent calls have no wire count of their own."""
        if not self._has_wire or not (self._trace.manifest.config or event.wire):
            return None
        sent = received = 0
        for delta in event.wire:
            peer = self._peers.get((self._rank.rank, delta.socket))
            if peer is not None and (not self._is_split or link in {None, self._link(peer)}):
                sent += delta.sent_bytes
                received += delta.received_bytes
        return sent, received

    def _link(self, peer: int) -> Link:
        return link_between(self._trace, self._rank.rank, peer)


def _sizes(messages: Iterable[Event], backend: str) -> Cost:
    sizes = Cost()
    for message in messages:
        size = message.payload_bytes
        count = backend_messages(backend, size)
        is_sent = message.op is Op.SEND
        sizes += Cost(size, 0, count, 0) if is_sent else Cost(0, size, 0, count)
    return sizes
