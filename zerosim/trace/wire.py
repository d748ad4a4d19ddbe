"""Bytes that the kernel sent and received for this process, per connection.

Linux keeps counters for every TCP connection and shows them to the process that owns it
(`TCP_INFO`, no privilege needed). Bytes sent are those passed to the kernel so far: `bytes_sent -
bytes_retrans` have left at least once, and `notsent` are still in the socket's queue. The counters
exclude headers of IP and TCP. The rank at the end of a connection is found later from the addresses
that all ranks recorded (`zerosim.record`), so a store, a debugger or a web page never counts.
"""

from __future__ import annotations

import os
import socket
import stat
import struct

from zerosim.schema.events import Repeated, Socket, WireDelta

_TCP_INFO_BYTES = 256
_OFFSET_BYTES_RECEIVED = 128
_OFFSET_NOTSENT = 144
_OFFSET_BYTES_SENT = 200
_OFFSET_BYTES_RETRANS = 208
_LINUX_TCP_INFO_NEEDED = 216
"""Kernel 4.19 was the first to fill `bytes_retrans`."""

Totals = dict[int, tuple[int, int]]
"""Sent and received bytes since a connection began, by its index."""


class Connections:
    """The TCP connections of this process.

    A connection is read through the descriptor that its owner opened; nothing is duplicated, so
    a connection closes when its owner closes it.
    """

    def __init__(self, ignored_ports: frozenset[int] = frozenset()) -> None:
        """Find the existing connections.

        Args:
            ignored_ports: connections with such a port at either end are excluded (a store).
        """
        self._ignored_ports = ignored_ports
        self._sockets: dict[int, socket.socket] = {}
        self._inodes: dict[int, int] = {}
        self._known: dict[tuple[int, int], int] = {}
        self._others: set[tuple[int, int]] = set()
        self._names: list[str] = []
        self._repeated: dict[int, int] = {}

    def ignore(self, ports: frozenset[int]) -> None:
        """Also exclude new connections with such a port at either end."""
        self._ignored_ports |= ports

    def scan(self, *, wholly: bool = True) -> list[Socket]:
        """Find connections that were opened since the last call, forget the closed ones.

        Args:
            wholly: False to look closer only if a file was opened or closed since. A connection
                that reuses another file's descriptor is then found by the next call.

        Returns:
            The new ones.
        """
        found: list[Socket] = []
        alive: set[int] = set()
        with os.scandir("/proc/self/fd") as files:
            names = [file.name for file in files]
        if not wholly and names == self._names:
            return found
        self._names = names
        for name in names:
            descriptor = int(name)
            try:
                status = os.fstat(descriptor)
            except OSError:
                continue
            inode = status.st_ino
            if (index := self._known.get((descriptor, inode))) is not None:
                alive.add(index)
                continue
            if not stat.S_ISSOCK(status.st_mode) or (descriptor, inode) in self._others:
                continue
            connection = _connection(descriptor)
            if connection is None:
                continue
            local, remote = connection.getsockname(), connection.getpeername()
            if {local[1], remote[1]} & self._ignored_ports:
                connection.detach()
                self._others.add((descriptor, inode))
                continue
            index = len(self._known)
            self._known[descriptor, inode] = index
            self._sockets[index] = connection
            self._inodes[index] = inode
            alive.add(index)
            found.append(Socket(index=index, local=_address(local), remote=_address(remote)))
        for index in set(self._sockets) - alive:
            self._forget(index)
        return found

    def read(self) -> Totals:
        """The counters of all open connections."""
        totals: Totals = {}
        for index, connection in list(self._sockets.items()):
            try:
                if os.fstat(connection.fileno()).st_ino != self._inodes[index]:
                    # closed, and its descriptor reused
                    self._forget(index)
                    continue
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            except OSError:
                self._forget(index)
                continue
            totals[index] = _counters(info)
            if repeated := _repeated(info):
                self._repeated[index] = repeated
        return totals

    def repeated(self) -> tuple[Repeated, ...]:
        """Bytes that each connection had retransmitted at the last reading; empty for most."""
        return tuple(Repeated(index, sent) for index, sent in sorted(self._repeated.items()))

    def close(self) -> None:
        """Release the descriptors without closing them: they belong to others."""
        for index in list(self._sockets):
            self._forget(index)

    def _forget(self, index: int) -> None:
        self._sockets.pop(index).detach()


def difference(before: Totals, after: Totals) -> tuple[WireDelta, ...]:
    """The difference of two readings, without idle connections."""
    moved = []
    for index, (sent, received) in after.items():
        sent_before, received_before = before.get(index, (0, 0))
        if sent != sent_before or received != received_before:
            moved.append(WireDelta(index, sent - sent_before, received - received_before))
    return tuple(moved)


def supported() -> bool:
    """True if this kernel shows the counters that are needed."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            info = probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except (OSError, AttributeError):
            return False
    return len(info) >= _LINUX_TCP_INFO_NEEDED


def _connection(descriptor: int) -> socket.socket | None:
    try:
        candidate = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        internet = candidate.family in (socket.AF_INET, socket.AF_INET6)
        if internet and candidate.type == socket.SOCK_STREAM:
            candidate.getpeername()
            return candidate
    except OSError:
        pass
    candidate.detach()
    return None


def _counters(info: bytes) -> tuple[int, int]:
    (received,) = struct.unpack_from("=Q", info, _OFFSET_BYTES_RECEIVED)
    (waiting,) = struct.unpack_from("=I", info, _OFFSET_NOTSENT)
    sent, repeated = struct.unpack_from("=QQ", info, _OFFSET_BYTES_SENT)
    assert _OFFSET_BYTES_RETRANS == _OFFSET_BYTES_SENT + 8
    return sent - repeated + waiting, received


def _repeated(info: bytes) -> int:
    found: int = struct.unpack_from("=Q", info, _OFFSET_BYTES_RETRANS)[0]
    return found


def _address(name: tuple[object, ...]) -> str:
    host = str(name[0]).removeprefix("::ffff:")
    return f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"
