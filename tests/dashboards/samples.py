"""Folders with traces, and the application in front of them, without a port."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, replace
from pathlib import Path

from tests.cli.traces import engine_trace, write
from zerosim.dashboards.app import make_app
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.entry import TraceEntry
from zerosim.dashboards.library import Library

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    'it\'s "quoted" & <b>bold</b>',
    "</script><script>alert(2)</script>",
    "{{7*7}} {%raw%} %s {0}",
    "line\u2028separator\u2029",
    "new\nline",
    "long" * 50,
    "%2e%2e%2fetc%00",
)
"""Names of folders, as far as a file system takes them; "/" makes two of one."""


def put_trace(folder: Path, stage: int = 3, **named: str) -> Path:
    """Write a small trace of two ranks; `named` goes into what its manifest says of the run."""
    written = engine_trace(stage)
    run = {"model": "gpt-tiny", **named}
    return write(folder, replace(written, manifest=replace(written.manifest, run=run)))


class Clock:
    """A clock that advances only when a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Site:
    """A library whose clock the test holds, and a client that asks for pages."""

    library: Library
    client: object
    clock: Clock

    def later(self) -> None:
        """So much later that the library looks again."""
        self.clock.now += 10


def make_site(*folders: Path, documents: Documents | None = None) -> Site:
    """The application without a port."""
    clock = Clock()
    library = Library(folders, clock)
    app = make_app(library, documents or Documents())
    return Site(library, app.test_client(), clock)


def entry_of(folder: Path, signature: str = "1", name: str = "t") -> TraceEntry:
    """A trace as a library would list it."""
    return TraceEntry(
        name=name, folder=folder, parts=(name,), stage=3, complete=True, signature=signature
    )


def plain(answer):
    """A JSON answer, unpacked if need be."""
    data = answer.data
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
