"""Bytes over the network interfaces of this host, as counted by the kernel.

The bytes that all ranks' sockets sent to other nodes (`trace.wire`) are counted a second time here,
independently: by the network device. The two differ by the headers of TCP, IP and Ethernet, and by
other users of the device:

    sent_bytes = bytes of the node's sockets to other nodes (`WireSample.counters`)
               + their retransmissions (`WireSample.repeated`)
               + sent_packets x (14 Ethernet + 20 IPv4 + 32 TCP with time stamps)
               + bytes of the launcher and the ranks to the rendezvous store
               + headers that are longer or shorter than these: connection setup, reports of lost
                 packets (SACK), ARP

and the same for received bytes. Packets are those that the device counts: if it takes more than a
frame and splits it itself (segmentation offload), that is one packet with one header. The formula
thus applies to a veth pair, which never splits, and to a card that counts frames. Pure
acknowledgements are packets without data, and need no extra term.

Sampled by the first rank of each node, if there are several nodes, at the beginning and end of a
trace and at the beginning of each iteration. Counters are those of
`/sys/class/net/NAME/statistics`, also shown by `/proc/net/dev`.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from ipaddress import IPv6Address
from pathlib import Path

from zerosim.schema.events import InterfaceSample

_COUNTERS = Path("/proc/net/dev")
_ADDRESSES = Path("/proc/net/if_inet6")
_GET_FLAGS = 0x8913
_GET_ADDRESS = 0x8915
_UP = 0x1
_LOOPBACK = 0x8
_REQUEST = struct.Struct("16s24x")
"""A request about an interface: its name, and room for the answer."""


def spans_nodes(environment: Mapping[str, str] = os.environ) -> bool:
    """True for the first rank of each node in a run on several, according to torchrun."""
    num_nodes = int(environment.get("GROUP_WORLD_SIZE", "1"))
    return num_nodes > 1 and environment.get("LOCAL_RANK", "0") == "0"


def read_interfaces(time_ns: int) -> list[InterfaceSample]:
    """The counters of all interfaces that are up, except loopback; empty if unavailable.

    Args:
        time_ns: now, on the rank's clock.
    """
    try:
        lines = _COUNTERS.read_text().splitlines()[2:]
    except OSError:  # not Linux
        return []
    longer = _longer_addresses()
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        for line in lines:
            name, _, counters = line.strip().partition(":")
            if not _counts(asks, name):
                continue
            numbers = [int(number) for number in counters.split()]
            found.append(
                InterfaceSample(
                    time_ns=time_ns,
                    name=name,
                    sent_bytes=numbers[8],
                    received_bytes=numbers[0],
                    sent_packets=numbers[9],
                    received_packets=numbers[1],
                    addresses=(*_address(asks, name), *longer.get(name, ())),
                )
            )
    return found


def _counts(asks: socket.socket, name: str) -> bool:
    answer = _ask(asks, _GET_FLAGS, name)
    (flags,) = struct.unpack_from("=H", answer or bytes(_REQUEST.size), 16)
    return bool(flags & _UP) and not flags & _LOOPBACK


def _address(asks: socket.socket, name: str) -> tuple[str, ...]:
    answer = _ask(asks, _GET_ADDRESS, name)
    return (socket.inet_ntoa(answer[20:24]),) if answer else ()


def _ask(asks: socket.socket, what: int, name: str) -> bytes:
    try:
        return fcntl.ioctl(asks, what, _REQUEST.pack(name.encode()))
    except OSError:  # it is gone, or has no address
        return b""


def _longer_addresses() -> dict[str, list[str]]:
    """IPv6 addresses by interface."""
    try:
        lines = _ADDRESSES.read_text().splitlines()
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for line in lines:
        digits, *_, name = line.split()
        found.setdefault(name, []).append(f"[{IPv6Address(bytes.fromhex(digits))}]")
    return found
