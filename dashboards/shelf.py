"""Traces served besides the user's own: those of the lessons.

They are found by name, never by a path, and a list of runs shows them only if there are no others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zerosim.dashboards.entry import TraceEntry, find_entry

FRESH_S = 5.0
"""Time before the list is checked again: its traces are committed, and there are many."""


@dataclass(frozen=True, slots=True)
class _ShelfPlace:
    folder: Path
    is_listed: bool
    entry: TraceEntry


class Shelf:
    """Traces by their names. Thread-safe."""

    def __init__(
        self,
        folders: Mapping[str, Path] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a shelf with permanent traces.

        Args:
            folders: by name in requests.
            clock: in seconds.
        """
        self._clock = clock
        self._listed: tuple[TraceEntry, ...] | None = None
        self._looked_at = 0.0
        self._lock = threading.Lock()
        self._places: dict[str, _ShelfPlace] = {}
        for name, folder in (folders or {}).items():
            self._put(name, folder, is_listed=True)

    def add(self, name: str, folder: Path) -> None:
        """A trace that can be requested and is not listed."""
        self._put(name, folder, is_listed=False)

    def remove(self, name: str) -> None:
        """Forget a trace."""
        with self._lock:
            self._places.pop(name, None)
            self._listed = None

    def find(self, name: str) -> TraceEntry | None:
        """The current state of a trace; None if there is none of this name."""
        with self._lock:
            place = self._places.get(name)
        return None if place is None else self._look(name, place)

    def entries(self) -> tuple[TraceEntry, ...]:
        """The permanent traces, in order; the result is cached for a while."""
        with self._lock:
            now = self._clock()
            if self._listed is not None and now - self._looked_at < FRESH_S:
                return self._listed
            places = [(name, place) for name, place in self._places.items() if place.is_listed]
        found = tuple(self._look(name, place) for name, place in places)
        with self._lock:
            self._listed, self._looked_at = found, now
        return found

    def names(self) -> frozenset[str]:
        """All names that are taken."""
        with self._lock:
            return frozenset(self._places)

    def _put(self, name: str, folder: Path, *, is_listed: bool) -> None:
        place = folder.resolve()
        entry = find_entry(place, name, place, None)
        with self._lock:
            self._places[name] = _ShelfPlace(place, is_listed, entry)
            self._listed = None

    def _look(self, name: str, place: _ShelfPlace) -> TraceEntry:
        entry = find_entry(place.folder, name, place.folder, place.entry)
        if entry is not place.entry:
            with self._lock:
                if name in self._places:
                    self._places[name] = _ShelfPlace(place.folder, place.is_listed, entry)
        return entry
