"""Replays as bodies, ready to be sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerosim.dashboards.bodies import Body, make_body
from zerosim.dashboards.entry import TraceEntry
from zerosim.dashboards.results import Results
from zerosim.record import Trace, load
from zerosim.view.export.offline import encode
from zerosim.view.replay import replay_document

MOST_BYTES = 128 * 1024 * 1024
"""Limit of cached compressed documents."""

MakeDocument = Callable[[Trace, int | None, str], dict[str, Any]]


class Documents(Results[Body]):
    """Creates replay documents and caches the most recent ones."""

    def __init__(
        self,
        make: MakeDocument = replay_document,
        read: Callable[[Path], Trace] = load,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Create an empty cache.

        Args:
            make: creates a document from a trace, an iteration and a name.
            read: loads the trace of a folder.
            most_bytes: size of the cache, compressed.
        """

        def body(entry: TraceEntry, iteration: int | None) -> Body:
            document = make(read(entry.folder), iteration, entry.name)
            return make_body(encode(document), "application/json")

        super().__init__(body, lambda made: len(made.packed), most_bytes)
