"""The TCP sockets of a process that others can reach."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LISTENS = "0A"
"""TCP_LISTEN of linux/tcp_states.h, as /proc/net/tcp writes it."""


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A TCP socket that waits for connections.

    Attributes:
        inode: identifies it for a process that has it open.
    """

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    inode: str

    @property
    def is_private(self) -> bool:
        """Whether only this host can reach it."""
        mapped = getattr(self.address, "ipv4_mapped", None)
        return (mapped or self.address).is_loopback

    def __str__(self) -> str:
        everywhere = "every address" if self.address.is_unspecified else str(self.address)
        return f"port {self.port} of {everywhere}"


def beyond_loopback(pids: Iterable[int], port: int = 0) -> list[ListeningSocket]:
    """The sockets of these processes that other hosts can reach.

    Args:
        port: also check the listener of this port; 0 for none.

    Returns:
        Ascending by port; empty if the kernel does not list them (no /proc).
    """
    own = {inode for pid in pids for inode in _sockets(pid)}
    found = (one for one in listeners() if one.inode in own or one.port == port)
    return sorted((one for one in found if not one.is_private), key=lambda one: one.port)


def listeners() -> Iterator[ListeningSocket]:
    """All listening sockets of this network namespace."""
    for name in ("tcp", "tcp6"):
        rows: list[str] = []
        with suppress(OSError):
            rows = Path("/proc/net", name).read_text().splitlines()[1:]
        for fields in map(str.split, rows):
            if fields[3] == _LISTENS:
                host, _, port = fields[1].partition(":")
                yield ListeningSocket(_address(host), int(port, 16), fields[9])


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address as the kernel prints it: words of 32 bits in this machine's order."""
    words = [int(text[place : place + 8], 16) for place in range(0, len(text), 8)]
    return ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))


def _sockets(pid: int) -> Iterator[str]:
    """Inodes of the sockets that a process has open."""
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                kind, _, inode = str(path.readlink()).partition(":")
                if kind == "socket":
                    yield inode.strip("[]")
