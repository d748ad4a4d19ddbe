"""Works that report their end only to a waiter: Gloo's messages and reduce-scatters.

They have no future. A work is not kept alive for the trace: an event whose work is dropped without
a wait ended at an unknown time.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any


class _LatestWork(threading.local):
    latest: Any = None
    """The most recent work: until its caller holds it, no other reference exists."""


class Unended:
    """Works with their events, from when they began until they were waited for or dropped."""

    def __init__(self) -> None:
        self._works: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._keys: dict[int, int] = {}
        self._dropped: deque[int] = deque()
        self._thread = _LatestWork()

    def keep(self, work: Any, event: int) -> None:
        """A work began."""
        self._thread.latest = work
        # called wherever a reference is dropped, so it must not take a lock
        dropped = self._dropped
        reference = weakref.ref(work, lambda _: dropped.append(event))
        self._works[id(work)] = (reference, event)
        self._keys[event] = id(work)

    def let_go(self) -> None:
        """The caller holds the most recent work by now."""
        if self._works:
            self._thread.latest = None

    def event_of(self, work: Any) -> int | None:
        """The event of a work that a thread is about to wait for; None if it is not one of
        these.
        """
        reference, event = self._works.get(id(work), (None, -1))
        return event if reference is not None and reference() is work else None

    def work_of(self, event: int) -> Any:
        """The work of an event; None if there is none."""
        reference, of = self._works.get(self._keys.get(event, 0), (None, -1))
        return reference() if reference is not None and of == event else None

    def forget(self, event: int) -> bool:
        """Stop keeping a work; returns whether it was kept."""
        key = self._keys.pop(event, None)
        if key is None:
            return False
        if self._works.get(key, (None, -1))[1] == event:
            del self._works[key]
        self._thread.latest = None
        return True

    def take_dropped(self) -> Iterator[int]:
        """Events of works that were dropped without a wait."""
        while self._dropped:
            event = self._dropped.popleft()
            if event in self._keys:
                self.forget(event)
                yield event

    def take_all(self) -> Iterator[int]:
        """All events that are left."""
        for event in list(self._keys):
            self.forget(event)
            yield event
