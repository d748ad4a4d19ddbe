"""Where the ranks of one host meet, and what of a process others can reach.

PyTorch's store and Gloo ask nobody who they are, so whoever reaches them is believed. Ranks of one
host therefore meet in memory that only this user's processes can open, or at a port of the loopback
address if a port is asked for, and talk over loopback alone. docs/security.md says what is left.
Imports the standard library and `zerosim.errors`.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from zerosim.errors import EnvironmentFault

LOOPBACK = "127.0.0.1"
MEETING = "ZEROSIM_MEETING"
"""The variable that tells a rank where the others are: an address for `init_process_group`."""
_INTERFACES = {"linux": "lo", "darwin": "lo0"}
_ANSWER_S = 10.0
"""How long this host may take to answer itself."""
_LISTENS = "0A"
"""TCP_LISTEN of linux/tcp_states.h, as /proc/net/tcp writes it."""


def own_interface() -> dict[str, str]:
    """What has the backends of a rank listen and talk on this host's loopback interface alone."""
    name = _INTERFACES.get(sys.platform)
    return {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": name} if name else {}


def take(port: int) -> socket.socket:
    """A socket that listens on the loopback address.

    Args:
        port: 0 for a free one.

    Raises:
        OSError: it cannot be had.
    """
    return socket.create_server((LOOPBACK, port), backlog=128)


def require_loopback() -> None:
    """See that processes of this host can talk to each other as ranks do.

    Raises:
        EnvironmentFault: they cannot.
    """
    try:
        with take(0) as door, socket.create_connection(door.getsockname(), _ANSWER_S):
            pass
    except OSError as error:
        name = own_interface().get("GLOO_SOCKET_IFNAME", "loopback")
        raise EnvironmentFault(
            f"ranks cannot talk over {LOOPBACK} ({error.strerror or error}): expected the "
            f"interface {name} to be up; try ip link set {name} up"
        ) from None


class Meeting:
    """Memory that processes of this user can open as a file, and nobody else; it has no name.

    Attributes:
        address: for `init_process_group`, in any process of this host.
    """

    def __init__(self) -> None:
        self._memory = os.memfd_create("zerosim ranks")
        os.fchmod(self._memory, 0o600)
        self.address = f"file:///proc/{os.getpid()}/fd/{self._memory}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._memory)


@dataclass(frozen=True, slots=True)
class Listener:
    """A TCP socket that waits for connections.

    Attributes:
        inode: by which a process that has it open knows it.
    """

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    inode: str

    @property
    def is_private(self) -> bool:
        """Whether this host alone can reach it."""
        mapped = getattr(self.address, "ipv4_mapped", None)
        return (mapped or self.address).is_loopback

    def __str__(self) -> str:
        everywhere = "every address" if self.address.is_unspecified else str(self.address)
        return f"port {self.port} of {everywhere}"


def beyond_loopback(pids: Iterable[int], port: int = 0) -> list[Listener]:
    """What other hosts can reach of these processes.

    Args:
        port: whoever listens there is looked at as well; 0 for nobody else.

    Returns:
        Ascending by port; empty where the kernel does not tell (no /proc).
    """
    own = {inode for pid in pids for inode in _sockets(pid)}
    found = (one for one in listeners() if one.inode in own or one.port == port)
    return sorted((one for one in found if not one.is_private), key=lambda one: one.port)


def listeners() -> Iterator[Listener]:
    """All of this network namespace."""
    for name in ("tcp", "tcp6"):
        rows: list[str] = []
        with suppress(OSError):
            rows = Path("/proc/net", name).read_text().splitlines()[1:]
        for fields in map(str.split, rows):
            if fields[3] == _LISTENS:
                host, _, port = fields[1].partition(":")
                yield Listener(_address(host), int(port, 16), fields[9])


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
