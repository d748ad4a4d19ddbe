"""The traces in folders that may gain more at any time.

A trace is requested by its name, never by a path: files outside of the library cannot be read.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from zerosim.base.errors import ConfigError, TraceError
from zerosim.dashboards.entry import TraceEntry, find_entry, shorten
from zerosim.dashboards.shelf import Shelf
from zerosim.dashboards.texts import SITE
from zerosim.record.text import as_text, one_line
from zerosim.schema.rows import MANIFEST_NAME

DEEPEST = 3
"""Maximum depth of folders to search below a given one."""
MOST_FOLDERS = 5_000
"""Maximum number of folders per search: a given folder may be a home directory."""
FRESH_S = 0.5
"""Time for which a search stays valid: many browsers poll every few seconds."""


class Library:
    """The traces in some folders; each folder is a trace or contains traces."""

    def __init__(
        self,
        folders: Sequence[Path],
        clock: Callable[[], float] = time.monotonic,
        shelf: Shelf | None = None,
        *,
        may_come: bool = False,
    ) -> None:
        """Create a library; folders are read on access.

        Args:
            folders: given by the user; a trace outside of them and the shelf is never read.
            clock: seconds.
            shelf: further traces.
            may_come: a folder need not exist yet.

        Raises:
            ConfigError: there is no such folder.
        """
        for folder in folders:
            if folder.exists() or not may_come:
                _require_folder(folder)
        self.folders = tuple(folders)
        self.shelf = shelf or Shelf()
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[Path, TraceEntry] = {}
        self._entries: tuple[TraceEntry, ...] = ()
        self._looked_at: float | None = None

    def entries(self) -> tuple[TraceEntry, ...]:
        """The traces to choose from, by name: the user's own; the shelf's if there are none."""
        return self.own() or self.shelf.entries()

    def own(self) -> tuple[TraceEntry, ...]:
        """The traces that are in the folders now, by name."""
        with self._lock:
            now = self._clock()
            if self._looked_at is None or now - self._looked_at >= FRESH_S:
                self._entries = tuple(self._look())
                self._looked_at = now
            return self._entries

    def look_again(self) -> None:
        """Make the next access read the folders again, however recent the last one was."""
        with self._lock:
            self._looked_at = None

    def find(self, name: str) -> TraceEntry:
        """A trace by its name.

        Raises:
            TraceError: there is none of this name; or it cannot be shown.
        """
        own = (entry for entry in self.own() if entry.name == name)
        found = self.shelf.find(name) or next(own, None)
        if found is not None:
            if found.problem:
                raise TraceError(found.problem)
            return found
        raise NoSuchTraceError(SITE("problem.there_is_no_trace_here_choose", name=shorten(name)))

    def default(self) -> TraceEntry | None:
        """The default trace: the newest of stage 3, or the newest."""
        own = self.own()
        if not own:
            listed = self.shelf.entries()
            return next((entry for entry in listed if entry.stage == 3), next(iter(listed), None))
        shown = [entry for entry in own if not entry.problem]
        return max(
            shown,
            key=lambda entry: (entry.complete, entry.stage == 3, entry.modified_ns),
            default=None,
        )

    def _look(self) -> Iterator[TraceEntry]:
        found: dict[Path, TraceEntry] = {}
        for root, prefix in zip(self.folders, self._prefixes(), strict=True):
            for folder in _traces_below(root):
                place = folder.resolve()
                if place not in found:
                    parts = (prefix, *folder.relative_to(root).parts)
                    name = as_text("/".join(filter(None, parts)) or _own_name(root))
                    known = self._known.get(place)
                    found[place] = find_entry(place, name, root.resolve(), known)
        self._known = found
        entries = sorted(found.values(), key=lambda entry: _natural(entry.name))
        yield from _unique(entries, self.shelf.names())

    def _prefixes(self) -> list[str]:
        """The prefixes of names: none, or the folder's own name if several folders are given."""
        if len(self.folders) == 1:
            return [""]
        names = [_own_name(folder) for folder in self.folders]
        return [
            f"{name} ({1 + names[:index].count(name)})" if name in names[:index] else name
            for index, name in enumerate(names)
        ]


class NoSuchTraceError(TraceError):
    """A name that the library does not know."""


def _require_folder(folder: Path) -> None:
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        problem = "there is no such folder"
    except NotADirectoryError:
        problem = "this is a file"
    except (OSError, ValueError) as error:
        problem = f"it cannot be read: {getattr(error, 'strerror', None) or error}"
    else:
        return
    raise ConfigError(
        one_line(
            f"{folder}: {problem}: expected a trace's folder or a folder of traces; zerosim "
            "run records one"
        )
    )


def _traces_below(root: Path) -> Iterator[Path]:
    """Folders with a manifest, the nearest first; nothing is looked for inside a trace."""
    level, visited = [root], 0
    for _ in range(DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            visited += 1
            if visited > MOST_FOLDERS:
                return
            try:
                with os.scandir(folder) as scanned:
                    children = list(scanned)
            except OSError:
                continue
            if any(child.name == MANIFEST_NAME for child in children):
                yield folder
                continue
            # a link to a folder may form a cycle or lead outside; its target is found by itself
            below += [
                Path(child.path)
                for child in children
                if not child.name.startswith(".") and child.is_dir(follow_symlinks=False)
            ]
        level = sorted(below)


def _own_name(folder: Path) -> str:
    return folder.resolve().name or "traces"


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts "run 10" after "run 9"."""
    return [
        (int(part), "") if part.isascii() and part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name)
    ]


def _unique(entries: Sequence[TraceEntry], names: Iterable[str]) -> Iterator[TraceEntry]:
    """Names that are not valid text, or in folders of the same name, may collide; or are in use."""
    taken = set(names)
    for entry in entries:
        name, number = entry.name, 1
        while name in taken:
            number += 1
            name = f"{entry.name} ({number})"
        taken.add(name)
        yield entry if name == entry.name else replace(entry, name=name)
