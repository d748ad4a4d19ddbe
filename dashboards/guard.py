"""Who may ask, and what a browser may do with the answer.

A page of someone else must not read traces through the browser of who looks at them: not by a
name that resolves to this machine (DNS rebinding), not by a form, not in a frame.
Imports the standard library and flask.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from flask import Flask, Request, Response, request

LOCAL_NAMES = frozenset({"localhost"})
_READS = frozenset({"GET", "HEAD"})
_LONGEST = 80
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NOTHING = "default-src 'none'; frame-ancestors 'none'"
"""The policy of what is no page."""


def is_loopback(host: str) -> bool:
    """True for a host that this machine alone can reach."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(host: str) -> frozenset[str]:
    """The names under which a server on `host` may be asked; numbers are always allowed.

    Numbers cannot be rebound: a browser takes them as they are. A name can, so only names count
    that belong to this machine.
    """
    own = frozenset({host.lower(), *LOCAL_NAMES})
    if is_loopback(host):
        return own
    name = socket.gethostname().lower()
    return own | {name, f"{name}.local"}


def protect(server: Flask, hosts: Iterable[str], writes: str) -> None:
    """Refuse what nobody who looks at traces asks for, and say in each answer what is allowed.

    Args:
        hosts: see `hosts_of`.
        writes: the one address that takes POST: Dash's callbacks, which change nothing.
    """
    allowed = frozenset(hosts)

    @server.before_request
    def _refuse() -> Response | None:
        problem = _wrong_host(request, allowed) or _wrong_method(request, writes)
        return None if problem is None else text(*problem)

    @server.after_request
    def _add_headers(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers[name] = value
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
    given = ascii(asked.headers.get("Host", ""))[1 : _LONGEST - 1]
    line = (
        f"refused: this server was asked as {given}, and goes by {', '.join(sorted(allowed))} or "
        "its number; zerosim serve --host NAME gives it another name"
    )
    return line, HTTPStatus.FORBIDDEN


def _wrong_method(asked: Request, writes: str) -> tuple[str, int] | None:
    if asked.method in _READS:
        return None
    if asked.method != "POST" or asked.path != writes:
        return "refused: traces are only read here", HTTPStatus.METHOD_NOT_ALLOWED
    origin = asked.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != asked.headers.get("Host"):
        return "refused: the request comes from another site's page", HTTPStatus.FORBIDDEN
    return None


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
