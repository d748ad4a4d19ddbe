"""The loopback interface, which ranks of one host use; queried without PyTorch."""

from __future__ import annotations

import socket
import sys

from zerosim.base.errors import EnvironmentFault

LOOPBACK = "127.0.0.1"
_INTERFACES = {"linux": "lo", "darwin": "lo0"}
_ANSWER_S = 10.0
"""Timeout for this host to answer itself."""


def own_interface() -> dict[str, str]:
    """The settings that make the backends of a rank use this host's loopback interface alone."""
    name = _INTERFACES.get(sys.platform)
    return {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": name} if name else {}


def take(port: int) -> socket.socket:
    """A socket that listens on the loopback address.

    Args:
        port: 0 for a free one.

    Raises:
        OSError: the port is not available.
    """
    return socket.create_server((LOOPBACK, port), backlog=128)


def require_loopback() -> None:
    """Check that processes of this host can communicate as ranks do.

    Raises:
        EnvironmentFault: they cannot.
    """
    try:
        with take(0) as door, socket.create_connection(door.getsockname(), _ANSWER_S):
            pass
    except OSError as error:
        name = own_interface().get("GLOO_SOCKET_IFNAME", "loopback")
        raise EnvironmentFault(
            f"ranks cannot communicate over {LOOPBACK} ({error.strerror or error}): expected the "
            f"interface {name} to be up; try ip link set {name} up"
        ) from None
