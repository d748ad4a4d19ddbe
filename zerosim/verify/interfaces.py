"""Bytes of each node's network interfaces, compared with those of its ranks' sockets.

An interface counts whole packets of all processes, from the first sample to the last; each packet
has headers of Ethernet, IP and TCP before its payload (`HEADER_BYTES`), and retransmissions are
counted again. `trace.interfaces` lists the other differences. No torch.
"""

from __future__ import annotations

from zerosim.record import RankTrace, Trace, match_sockets, node_of
from zerosim.schema.events import InterfaceSample, WireSample
from zerosim.verify.report import InterfaceBytes

HEADER_BYTES = 14 + 20 + 32
"""Headers of a packet: Ethernet, IPv4, TCP with time stamps."""


def interface_rows(trace: Trace) -> tuple[InterfaceBytes, ...]:
    """Every interface that carried traffic of the ranks, over the whole run."""
    found = []
    for rank in trace.ranks:
        names = dict.fromkeys(sample.name for sample in rank.interfaces)
        for name in names:
            samples = [sample for sample in rank.interfaces if sample.name == name]
            row = _row(trace, rank, samples)
            if row.sockets or row.others:
                found.append(row)
    return tuple(found)


def _row(trace: Trace, rank: RankTrace, samples: list[InterfaceSample]) -> InterfaceBytes:
    first, last = samples[0], samples[-1]
    node = node_of(trace, rank.rank)
    own = set(last.addresses)
    peers = match_sockets(trace)
    sockets = others = 0
    for neighbour in trace.ranks:
        if node_of(trace, neighbour.rank) != node or len(neighbour.wire_samples) < 2:
            continue
        begin = _counters(neighbour.wire_samples[0])
        end = _counters(neighbour.wire_samples[-1])
        for index, sent in end.items():
            socket = neighbour.sockets[index]
            leaves = _host(socket.local) in own and _host(socket.remote) not in own
            if not leaves:
                continue
            moved = sent - begin.get(index, 0)
            if (neighbour.rank, index) in peers:
                sockets += moved
            else:
                others += moved
    return InterfaceBytes(
        node=node,
        name=first.name,
        sockets=sockets,
        others=others,
        headers=HEADER_BYTES * (last.sent_packets - first.sent_packets),
        counted=last.sent_bytes - first.sent_bytes,
    )


def _counters(sample: WireSample) -> dict[int, int]:
    """Bytes that each connection sent since its start, and retransmitted."""
    again = {one.socket: one.sent_bytes for one in sample.repeated}
    return {
        counter.socket: counter.sent_bytes + again.get(counter.socket, 0)
        for counter in sample.counters
    }


def _host(address: str) -> str:
    """The address without its port; also an IPv4 address mapped into IPv6."""
    host = address.rpartition(":")[0]
    inner = host.strip("[]")
    return inner.rpartition(":")[2] if inner.lower().startswith("::ffff:") else host
