"""The addresses under which other machines find a server."""

from __future__ import annotations

import ipaddress
import socket

from zerosim.dashboards.guard import is_loopback

EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - it is compared, not bound
_SOMEWHERE = ("192.0.2.1", 9)
"""A reserved address (RFC 5737): the route to it shows our own address."""


def shown(host: str, anywhere: str) -> str:
    """A host in the form of an address; `anywhere` if it means all addresses of this machine."""
    if host in EVERYWHERE:
        return anywhere
    return f"[{host}]" if ":" in host else host


def class_addresses(host: str, port: int) -> tuple[str, ...]:
    """The addresses that students type, the likeliest first; empty if they cannot reach it."""
    if is_loopback(host):
        return ()
    own = (_own_number(), socket.gethostname()) if host in EVERYWHERE else (host,)
    return tuple(f"http://{shown(one, one)}:{port}" for one in own if one)


def _own_number() -> str:
    """This machine's IP address on its network; "" if there is none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_SOMEWHERE)
        except OSError:
            return ""
        number: str = asking.getsockname()[0]
    return "" if ipaddress.ip_address(number).is_loopback else number
