"""Under which addresses other machines find a server."""

from __future__ import annotations

import ipaddress
import socket

from zerosim.dashboards.guard import is_loopback

EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - it is compared, not bound
_SOMEWHERE = ("192.0.2.1", 9)
"""An address that is nobody's (RFC 5737): which way it lies says where we stand."""


def shown(host: str, anywhere: str) -> str:
    """A host as it stands in an address; `anywhere` if it is all of this machine's."""
    if host in EVERYWHERE:
        return anywhere
    return f"[{host}]" if ":" in host else host


def class_addresses(host: str, port: int) -> tuple[str, ...]:
    """What the students of a class type, the likeliest first; nothing where they reach nobody."""
    if is_loopback(host):
        return ()
    own = (_own_number(), socket.gethostname()) if host in EVERYWHERE else (host,)
    return tuple(f"http://{shown(one, one)}:{port}" for one in own if one)


def _own_number() -> str:
    """This machine's number on its network; "" if it is on none. Nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_SOMEWHERE)
        except OSError:
            return ""
        number: str = asking.getsockname()[0]
    return "" if ipaddress.ip_address(number).is_loopback else number
