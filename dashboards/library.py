"""Which traces there are, in folders that may gain more while we look.

A trace is asked for by its name, never by a path: what is not in the library cannot be read.
Imports the standard library and zerosim's L0 and record.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from zerosim.config import STAGE_NAMES
from zerosim.errors import ConfigError, TraceError, first_line
from zerosim.manifest import Manifest
from zerosim.record.schema import decode_manifest
from zerosim.record.text import one_line
from zerosim.rows import MANIFEST_NAME, rank_file_name

DEEPEST = 3
"""Folders below a given one in which a trace is looked for."""
MOST_FOLDERS = 5_000
"""Folders that one look visits: a given folder may be someone's home."""
FRESH_S = 0.5
"""So long a look is good enough: many browsers ask every few seconds."""
_LONGEST_TITLE = 90
_TAIL_BYTES = 256
_END_ROW = b'{"row":"end"'
_FILES = re.compile(r"manifest\.json|rank-[0-9]+\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A trace as it stands in a list.

    Attributes:
        name: how it is asked for; unique in its library.
        folder: where it is, all links followed.
        title: "gpt-tiny · ZeRO-3 · 4 ranks · bf16".
        stage: None for a program that zerosim's engine did not run.
        complete: every rank closed its file in order.
        modified_ns: when its newest file was written.
        signature: another one whenever a file has changed.
        problem: why it cannot be shown, in one line; "" if it can.
    """

    name: str
    folder: Path
    title: str
    stage: int | None
    complete: bool
    modified_ns: int
    signature: str
    problem: str = ""


class Library:
    """The traces in some folders, each of which is a trace or holds some."""

    def __init__(
        self, folders: Sequence[Path], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Look at nothing as yet.

        Args:
            folders: given by the user; a trace outside of them is never read.
            clock: seconds.

        Raises:
            ConfigError: there is no such folder.
        """
        for folder in folders:
            if not folder.is_dir():
                found = "is a file" if folder.exists() else "does not exist"
                raise ConfigError(
                    f"{folder} {found}: expected a trace's folder or one that holds some; "
                    f"zerosim run --out {folder} records some"
                )
        self.folders = tuple(folders)
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[Path, Entry] = {}
        self._entries: tuple[Entry, ...] = ()
        self._looked_at: float | None = None

    def entries(self) -> tuple[Entry, ...]:
        """All traces that are there now, by name."""
        with self._lock:
            now = self._clock()
            if self._looked_at is None or now - self._looked_at >= FRESH_S:
                self._entries = tuple(self._look())
                self._looked_at = now
            return self._entries

    def find(self, name: str) -> Entry:
        """A trace by its name.

        Raises:
            TraceError: there is none of this name; or it cannot be shown.
        """
        for entry in self.entries():
            if entry.name == name:
                if entry.problem:
                    raise TraceError(entry.problem)
                return entry
        raise NoSuchTraceError(
            f"there is no trace {_short(name)!r} here: choose another run from the list"
        )

    def default(self) -> Entry | None:
        """What is shown when nothing was asked for: the newest of stage 3, or the newest."""
        shown = [entry for entry in self.entries() if not entry.problem]
        return max(
            shown,
            key=lambda entry: (entry.complete, entry.stage == 3, entry.modified_ns),
            default=None,
        )

    def _look(self) -> Iterator[Entry]:
        seen: set[Path] = set()
        found = []
        for root, prefix in zip(self.folders, self._prefixes(), strict=True):
            for folder in _traces_below(root):
                resolved = folder.resolve()
                if resolved not in seen:
                    seen.add(resolved)
                    below = "/".join(folder.relative_to(root).parts)
                    name = "/".join(part for part in (prefix, below) if part)
                    found.append(self._entry(resolved, name or _own_name(root), root.resolve()))
        yield from _unique(sorted(found, key=lambda entry: _natural(entry.name)))

    def _prefixes(self) -> list[str]:
        """What names begin with: nothing, or with several folders given the folder's own name."""
        if len(self.folders) == 1:
            return [""]
        names = [_own_name(folder) for folder in self.folders]
        return [
            f"{name} ({1 + names[:index].count(name)})" if name in names[:index] else name
            for index, name in enumerate(names)
        ]

    def _entry(self, folder: Path, name: str, root: Path) -> Entry:
        name = _as_text(name)
        try:
            files = _files(folder, root)
        except OSError as error:
            return _broken(name, folder, f"cannot be read: {error.strerror or error}")
        except TraceError as error:
            return _broken(name, folder, str(error))
        signature = _signature(files)
        known = self._known.get(folder)
        if known is None or known.signature != signature:
            known = _read(folder, name, signature, max(s.st_mtime_ns for s in files.values()))
            self._known[folder] = known
        return known if known.name == name else replace(known, name=name)


class NoSuchTraceError(TraceError):
    """A name that the library does not know."""


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
                children = list(os.scandir(folder))
            except OSError:
                continue
            if any(child.name == MANIFEST_NAME for child in children):
                yield folder
                continue
            # a link to a folder may lead in a circle or out; what it leads to has its own place
            below += [
                Path(child.path)
                for child in children
                if not child.name.startswith(".") and child.is_dir(follow_symlinks=False)
            ]
        level = sorted(below)


def _files(folder: Path, root: Path) -> dict[str, os.stat_result]:
    """The files of a trace and how they are now.

    Raises:
        TraceError: one is no file, or a link that leads out of the folder that was given.
    """
    found = {}
    for child in os.scandir(folder):
        if not _FILES.fullmatch(child.name):
            continue
        path = Path(child.path)
        if not path.resolve().is_relative_to(root):
            raise TraceError(f"{child.name} is a link that leads out of the folder that is served")
        if not child.is_file():
            raise TraceError(f"{child.name} is not a file")
        found[child.name] = child.stat()
    if MANIFEST_NAME not in found:
        raise TraceError(f"{MANIFEST_NAME} is gone")
    return found


def _signature(files: dict[str, os.stat_result]) -> str:
    parts = [
        f"{name}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}"
        for name, stat in sorted(files.items())
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _read(folder: Path, name: str, signature: str, modified_ns: int) -> Entry:
    try:
        manifest = decode_manifest((folder / MANIFEST_NAME).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        problem = f"{MANIFEST_NAME} cannot be read: {first_line(error)}"
        broken = _broken(name, folder, problem)
        return replace(broken, signature=signature, modified_ns=modified_ns)
    stage = manifest.config.get("stage")
    return Entry(
        name=name,
        folder=folder,
        title=title_of(manifest),
        stage=stage if type(stage) is int and stage in STAGE_NAMES else None,
        complete=all(_is_closed(folder / rank_file_name(r)) for r in range(manifest.num_ranks)),
        modified_ns=modified_ns,
        signature=signature,
    )


def _broken(name: str, folder: Path, problem: str) -> Entry:
    return Entry(
        name=name,
        folder=folder,
        title=name,
        stage=None,
        complete=False,
        modified_ns=0,
        signature="",
        problem=one_line(f"{name}: {problem}"),
    )


def _is_closed(file: Path) -> bool:
    """True if a rank wrote its last row; what `load` says of the rows before is not known here."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
            tail = stream.read()
    except OSError:
        return False
    return tail.endswith(b"\n") and tail[:-1].rpartition(b"\n")[2].startswith(_END_ROW)


def title_of(manifest: Manifest) -> str:
    """What a trace is of, in a few words."""
    stage = manifest.config.get("stage")
    ranks = f"{manifest.num_ranks} rank{'' if manifest.num_ranks == 1 else 's'}"
    if type(stage) is not int or stage not in STAGE_NAMES:
        program = " ".join(manifest.program.split())
        return _short(" · ".join(part for part in (program, ranks) if part))
    parts = (
        manifest.run.get("model"),
        STAGE_NAMES[stage],
        ranks,
        manifest.config.get("dtype"),
        "native" if manifest.config.get("collectives") == "native" else None,
    )
    return _short(" · ".join(part for part in parts if isinstance(part, str) and part))


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 2]} …"


def _own_name(folder: Path) -> str:
    return folder.resolve().name or "traces"


def _as_text(name: str) -> str:
    """A name that can be sent: a file's name may hold bytes that are no text."""
    return os.fsencode(name).decode("utf-8", "replace")


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts "run 10" after "run 9"."""
    return [
        (int(part), "") if part.isascii() and part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name)
    ]


def _unique(entries: Sequence[Entry]) -> Iterator[Entry]:
    taken: set[str] = set()
    for entry in sorted(entries, key=attrgetter("name")) if _doubles(entries) else entries:
        name, number = entry.name, 1
        while name in taken:
            number += 1
            name = f"{entry.name} ({number})"
        taken.add(name)
        yield replace(entry, name=name) if name != entry.name else entry


def _doubles(entries: Sequence[Entry]) -> bool:
    return len({entry.name for entry in entries}) < len(entries)
