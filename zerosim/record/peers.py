"""The rank at the end of each socket, and the bytes between two ranks, as counted by the kernel.

A rank records its sockets by address. Bytes count as traffic between ranks only if another rank
recorded the other end; those of a store, a debugger or a web page never do.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from zerosim.record.rankfile import RankTrace
from zerosim.record.store import Trace
from zerosim.schema.events import Event, Kind, Phase, WireSample

Peers = dict[tuple[int, int], int]
"""From (rank, index of one of its sockets) to the rank at the other end."""


@dataclass(frozen=True, slots=True)
class PeerBytes:
    """Bytes that one rank exchanged with one peer, as counted by its own kernel."""

    sent_bytes: int = 0
    received_bytes: int = 0

    def __add__(self, other: PeerBytes) -> PeerBytes:
        """The sum of both directions."""
        return PeerBytes(
            self.sent_bytes + other.sent_bytes, self.received_bytes + other.received_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWire:
    """Bytes that one rank exchanged with its peers between two samples of the wire.

    Attributes:
        rank: the rank of these counters.
        iteration, micro_step, phase: the position that began at `begin_ns`.
        begin_ns: time of that sample, on the rank's clock.
        end_ns: time of the next one.
        peers: measured bytes by peer.
        collective_bytes: the part of these that collectives measured themselves (`Event.wire`); the
            rest moved outside of collectives. Concurrent collectives each count all bytes that they
            observe, so the sum can be larger.
        lost_sockets: sockets to peers closed in the interval: their bytes since `begin_ns` are in
            no sample and are not counted here.
    """

    rank: int
    iteration: int
    micro_step: int
    phase: Phase
    begin_ns: int
    end_ns: int
    peers: dict[int, PeerBytes]
    collective_bytes: PeerBytes
    lost_sockets: tuple[int, ...]

    @property
    def sent_bytes(self) -> int:
        """Bytes sent to all peers."""
        return sum(moved.sent_bytes for moved in self.peers.values())

    @property
    def received_bytes(self) -> int:
        """Bytes received from all peers."""
        return sum(moved.received_bytes for moved in self.peers.values())


def match_sockets(trace: Trace) -> Peers:
    """Find the rank at the other end of each socket.

    A socket from L to R belongs to the peer that recorded a socket from R to L, if exactly one
    socket of all ranks is at either end. Loopback addresses are only compared within a host.

    Returns:
        The peer by (rank, socket index). Sockets that lead to no other rank are omitted.
    """
    ends: dict[tuple[int, int], _Ends] = {}
    for rank in trace.ranks:
        for index, socket in rank.sockets.items():
            local, remote = _address(socket.local), _address(socket.remote)
            is_loopback = local[0].is_loopback if local[0] is not None else False
            host = rank.header.host if is_loopback else ""
            ends[rank.rank, index] = (host, local[1], remote[1])
    count = Counter(ends.values())
    owner = {end: place for place, end in ends.items()}
    peers: Peers = {}
    for (own_rank, index), (host, here, there) in ends.items():
        other = (host, there, here)
        if count[host, here, there] == 1 and count[other] == 1:
            peer = owner[other][0]
            if peer != own_rank:
                peers[own_rank, index] = peer
    return peers


def wire_between(
    rank: RankTrace, peers: Peers, begin: WireSample, end: WireSample
) -> dict[int, PeerBytes]:
    """Bytes that one rank exchanged with each peer between two of its samples.

    A socket that `begin` lacks was opened since, so all its bytes count; one that `end` lacks was
    closed since, and its bytes are unknown: see `PhaseWire.lost_sockets`.

    Args:
        rank: the rank of these samples.
        peers: the result of `match_sockets`.
        begin: the earlier sample.
        end: the later sample.

    Returns:
        Bytes by peer; a peer without an open connection is omitted.
    """
    before = {counter.socket: counter for counter in begin.counters}
    moved: dict[int, PeerBytes] = {}
    for counter in end.counters:
        peer = peers.get((rank.rank, counter.socket))
        if peer is None:
            continue
        sent, received = counter.sent_bytes, counter.received_bytes
        if (earlier := before.get(counter.socket)) is not None:
            sent -= earlier.sent_bytes
            received -= earlier.received_bytes
        moved[peer] = moved.get(peer, PeerBytes()) + PeerBytes(sent, received)
    return moved


def phase_wire(rank: RankTrace, peers: Peers) -> list[PhaseWire]:
    """Bytes that one rank exchanged with its peers in each phase.

    Args:
        rank: one rank of a trace.
        peers: the result of `match_sockets`.

    Returns:
        One entry for each pair of consecutive samples, in their order; the phase is the one that
        the earlier sample began. Empty if the wire was not measured.
    """
    samples = rank.wire_samples
    begins = [sample.time_ns for sample in samples]
    of_collectives = [PeerBytes()] * len(samples)
    for _, event in rank.events.of_kind(Kind.COLLECTIVE):
        if event.parent is None and event.wire:
            time_ns = event.issue_ns if event.start_ns is None else event.start_ns
            if (place := bisect_right(begins, time_ns) - 1) >= 0:
                of_collectives[place] += _event_bytes(rank, peers, event)
    return [
        PhaseWire(
            rank=rank.rank,
            iteration=begin.iteration,
            micro_step=begin.micro_step,
            phase=begin.phase,
            begin_ns=begin.time_ns,
            end_ns=end.time_ns,
            peers=wire_between(rank, peers, begin, end),
            collective_bytes=of_collectives[place],
            lost_sockets=tuple(_lost(rank, peers, begin, end)),
        )
        for place, (begin, end) in enumerate(pairwise(samples))
    ]


def wire_by_peer(trace: Trace) -> dict[int, dict[int, PeerBytes]]:
    """Bytes that each rank exchanged with each peer, from its first to its last sample.

    Returns:
        Bytes by rank and peer, measured on that rank; no entry for a rank without two samples.
    """
    peers = match_sockets(trace)
    total: dict[int, dict[int, PeerBytes]] = {}
    for rank in trace.ranks:
        for piece in phase_wire(rank, peers):
            mine = total.setdefault(rank.rank, {})
            for peer, moved in piece.peers.items():
                mine[peer] = mine.get(peer, PeerBytes()) + moved
    return total


_IP = ipaddress.IPv4Address | ipaddress.IPv6Address
_Ends = tuple[str, str, str]
"""Host if the address is only valid there, else ""; own address; the other's."""


def _address(text: str) -> tuple[_IP | None, str]:
    """The IP address, None if it is invalid, and a canonical "ip:port"."""
    host, _, port = text.rpartition(":")
    try:
        ip: _IP = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None, text
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip, f"{ip} {port}"


def _event_bytes(rank: RankTrace, peers: Peers, event: Event) -> PeerBytes:
    to_peers = [delta for delta in event.wire if (rank.rank, delta.socket) in peers]
    return PeerBytes(
        sum(delta.sent_bytes for delta in to_peers),
        sum(delta.received_bytes for delta in to_peers),
    )


def _lost(rank: RankTrace, peers: Peers, begin: WireSample, end: WireSample) -> Iterator[int]:
    after = {counter.socket for counter in end.counters}
    for counter in begin.counters:
        if counter.socket not in after and (rank.rank, counter.socket) in peers:
            yield counter.socket
