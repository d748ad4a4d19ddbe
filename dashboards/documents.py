"""Replays as bodies: each is made once, however many browsers ask for it at the same time.

Imports the standard library, `dashboards.bodies`, `dashboards.entry`, zerosim's record and
replay.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from dashboards.bodies import Body, make_body
from dashboards.entry import Entry
from zerosim.record import Trace, load
from zerosim.replay import replay_document

MOST_BYTES = 128 * 1024 * 1024
"""Of compressed documents that are kept."""
MAKERS = 2
"""Documents that are made at the same time: each may need memory of its own."""

Key = tuple[str, str, str, int | None]
MakeDocument = Callable[[Trace, int | None, str], dict[str, Any]]


class Documents:
    """Makes replay documents and keeps the ones that were asked for last."""

    def __init__(
        self,
        make: MakeDocument = replay_document,
        read: Callable[[Path], Trace] = load,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Keep nothing as yet.

        Args:
            make: a document of a trace, an iteration and a name.
            read: a trace of a folder.
            most_bytes: how much is kept; a document larger than this is made each time.
        """
        self._make_document, self._read, self._most_bytes = make, read, most_bytes
        self._lock = threading.Lock()
        self._makers = threading.BoundedSemaphore(MAKERS)
        self._kept: OrderedDict[Key, Body] = OrderedDict()
        self._kept_bytes = 0
        self._under_way: dict[Key, Future[Body]] = {}

    def get(self, entry: Entry, iteration: int | None = None) -> Body:
        """The document of one iteration, by default the last complete one.

        Raises:
            TraceError: the trace is damaged, or has no such iteration.
        """
        key = (entry.name, str(entry.folder), entry.signature, iteration)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            future = self._under_way.get(key)
            is_ours = future is None
            if future is None:
                future = self._under_way[key] = Future()
        if is_ours:
            self._fulfil(future, key, entry)
        return future.result()

    def _fulfil(self, future: Future[Body], key: Key, entry: Entry) -> None:
        try:
            with self._makers:
                body = self._make(entry, key[-1])
        except BaseException as error:  # noqa: BLE001 - all who wait for it are told
            with self._lock:
                del self._under_way[key]
            future.set_exception(error)
        else:
            with self._lock:
                self._keep(key, body)
                del self._under_way[key]
            future.set_result(body)

    def _make(self, entry: Entry, iteration: int | None) -> Body:
        document = self._make_document(self._read(entry.folder), iteration, entry.name)
        return make_body(encode(document), "application/json")

    def _keep(self, key: Key, body: Body) -> None:
        # a trace that is still growing leaves documents behind that nobody asks for any more
        for old in [k for k in self._kept if k[:2] == key[:2] and k[2] != key[2]]:
            self._drop(old)
        self._kept[key] = body
        self._kept_bytes += len(body.packed)
        while self._kept_bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        self._kept_bytes -= len(self._kept.pop(key).packed)


def encode(document: dict[str, Any]) -> bytes:
    """A document as JSON in ASCII; no number is infinite or NaN."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
