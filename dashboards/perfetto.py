"""A button that opens a run in Perfetto, if the server's owner enables it.

The page fetches the run's file from this server and passes it to a tab that it opened itself; the
server sends it nowhere else.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, current_app

from zerosim.analysis.graph import build_graph
from zerosim.base.errors import ConfigError
from zerosim.dashboards.bodies import Body, make_body
from zerosim.dashboards.entry import TraceEntry
from zerosim.dashboards.guard import is_loopback
from zerosim.dashboards.results import Results
from zerosim.record import load
from zerosim.view.export.perfetto import perfetto_file

AT = "PERFETTO"
"""In the application's configuration: the origin of the Perfetto to open; none by default."""
OPENS = {"Cross-Origin-Opener-Policy": "same-origin-allow-popups"}
"""The policy of a page with the button: it may talk to tabs that it opens itself, and to no
other.
"""
_MOST_BYTES = 128 * 1024 * 1024


def origin_of(address: str) -> str:
    """The origin of a Perfetto.

    Raises:
        ConfigError: it is neither an https address, nor an http address of this machine.
    """
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    if not (is_safe and host) or parts.username or parts.path not in ("", "/") or parts.query:
        raise ConfigError(
            f"perfetto is {address!r}: expected the address of a Perfetto, as https://ui.perfetto"
            ".dev, or http://127.0.0.1:PORT of one on this machine"
        )
    return f"{parts.scheme}://{parts.netloc}"


def here(server: Flask | None = None) -> str:
    """The Perfetto that pages offer to open; "" if they do not."""
    found = (server or current_app).config.get(AT, "")
    return str(found)


class PerfettoFiles(Results[Body]):
    """Creates files for Perfetto and caches the most recent ones."""

    def __init__(self) -> None:
        """Create an empty cache."""

        def body(entry: TraceEntry, _: int | None) -> Body:
            content, _slices = perfetto_file(build_graph(load(entry.folder)))
            return make_body(content, "application/octet-stream")

        super().__init__(body, lambda made: len(made.packed), _MOST_BYTES)
