"""Access control, and the browser's permissions.

Another site's page must not read traces through the browser of a user: not by a name that resolves
to this machine (DNS rebinding), not by a form, not in a frame.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from flask import Flask, Request, Response, current_app, request

from zerosim.base.errors import ZerosimError

LARGEST_BODY = 4096
"""Default limit of the bytes that a page of ours sends."""
LOCAL_NAMES = frozenset({"localhost"})
OWN = "OWN_ADDRESSES"
"""In the application's configuration: name and number of the only served address, under which its
own machine reaches it; empty if all addresses are served, including loopback."""
_READS = frozenset({"GET", "HEAD"})
_LONGEST = 80
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
FRAMED = "frame-ancestors 'self'"
"""In the policy of a page that our own pages may show in a frame."""
NOTHING = "default-src 'none'; frame-ancestors 'none'"
"""The policy of responses other than pages."""


class NotHereError(ZerosimError):
    """Only the serving machine may do this."""


@dataclass(frozen=True, slots=True)
class Writable:
    """Addresses that do more than read; they accept only JSON from our own pages.

    Attributes:
        method: the accepted one: "POST" or "DELETE".
        pattern: regular expression of the whole path.
        most_bytes: limit of the sent bytes.
    """

    method: str
    pattern: str
    most_bytes: int = LARGEST_BODY

    def takes(self, asked: Request) -> bool:
        """Whether a request is one of these."""
        return asked.method == self.method and re.fullmatch(self.pattern, asked.path) is not None


def is_loopback(host: str) -> bool:
    """True for a host that this machine alone can reach."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # how a dual-stack socket reports 127.0.0.1
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


def is_from_here(asked: Request) -> bool:
    """Whether a request comes from a browser of the serving machine.

    It comes from loopback, or from the served address itself, which a client on the same machine
    uses as its source. Behind a proxy on this machine all requests seem to be local, but they
    contain another host name.
    """
    own = current_app.config.get(OWN, ())
    name, by = _host_name(f"//{asked.host}"), asked.remote_addr or ""
    return name is not None and all(is_loopback(one) or one in own for one in (name, by))


def hosts_of(host: str) -> frozenset[str]:
    """The allowed names of a server on `host`; numeric addresses are always allowed.

    A numeric address cannot be rebound, because a browser uses it as it is. A name can be, so only
    names that belong to this machine are accepted.
    """
    own = frozenset({host.lower(), *LOCAL_NAMES})
    if is_loopback(host):
        return own
    name = socket.gethostname().lower()
    return own | {name, f"{name}.local"}


def protect(server: Flask, hosts: Iterable[str], writes: Iterable[Writable]) -> None:
    """Refuse requests that no legitimate client makes, and state the permissions in each response.

    Args:
        hosts: see `hosts_of`.
        writes: all addresses that do more than read. Dash's callbacks are among them and change
            nothing.
    """
    allowed = frozenset(hosts)
    writable = tuple(writes)

    @server.before_request
    def _refuse() -> Response | None:
        problem = _wrong_host(request, allowed) or _wrong_method(request, writable)
        return None if problem is None else text(*problem)

    @server.after_request
    def _add_headers(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if FRAMED in response.headers.get("Content-Security-Policy", ""):
            response.headers["X-Frame-Options"] = "SAMEORIGIN"
        response.headers.setdefault("Content-Security-Policy", NOTHING)
        return response


def text(line: str, status: int) -> Response:
    """One line as plain text."""
    response = Response(f"{line}\n", status, mimetype="text/plain")
    response.headers["Cache-Control"] = "no-store"
    return response


def _wrong_host(asked: Request, allowed: frozenset[str]) -> tuple[str, int] | None:
    name = _host_name(f"//{asked.headers.get('Host', '')}")
    if name is not None and (name in allowed or _is_number(name)):
        return None
    given = ascii(asked.headers.get("Host", ""))[1:-1][:_LONGEST]
    line = (
        f"refused: the request names host {given}, and this server is {', '.join(sorted(allowed))} "
        "or its IP address; zerosim serve --host NAME gives it another name"
    )
    return line, HTTPStatus.FORBIDDEN


def _wrong_method(asked: Request, writable: tuple[Writable, ...]) -> tuple[str, int] | None:
    if asked.method in _READS:
        return None
    found = next((one for one in writable if one.takes(asked)), None)
    if found is None:
        return "refused: this server only reads traces", HTTPStatus.METHOD_NOT_ALLOWED
    if not _is_ours(asked):
        return "refused: the request comes from another site's page", HTTPStatus.FORBIDDEN
    if asked.mimetype != "application/json":  # a form cannot send this without a preflight request
        return "refused: expected application/json", HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    if (asked.content_length or 0) > found.most_bytes:
        line = f"refused: expected at most {found.most_bytes} bytes"
        return line, HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return None


def _is_ours(asked: Request) -> bool:
    """Whether one of our pages sent it, according to the browser's headers; programs send none."""
    if asked.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return False
    origin = asked.headers.get("Origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc == asked.headers.get("Host")
    except ValueError:
        return False


def _host_name(address: str) -> str | None:
    try:
        name = urlsplit(address).hostname
    except ValueError:
        return None
    return name.rstrip(".") if name else None


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
