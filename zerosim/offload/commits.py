"""What a rank has committed: which version of each file is part of a state that is whole.

A rank keeps its last two commits, in files that replace each other whole (written beside, flushed
to the disk, renamed). Two, because ranks commit one after another: if some died before they had,
the others still have the state before. A commit's file is one line of JSON and its CRC-32.

Imports the standard library, zerosim.offload.files and layout, and `zerosim.errors`.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from zerosim.errors import DiskError
from zerosim.offload.files import DiskFile
from zerosim.offload.layout import Version

SLOTS = 2
"""Files of a name: what the last commit refers to, and what is being written."""
_LONGEST_NAME = 200
"""Bytes of a file's name, of 255 that Linux allows."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A state that was committed.

    Attributes:
        sequence: commits are counted from 1.
        values: what the program gave to `commit`.
    """

    sequence: int
    values: dict[str, object]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of one rank.

    Attributes:
        versions: by name, what belongs to the state.
    """

    sequence: int
    num_ranks: int
    values: dict[str, object]
    versions: dict[str, Version]


def rank_folder(folder: Path, rank: int) -> Path:
    """Where a rank keeps its files."""
    return folder / f"rank-{rank}"


def file_of(folder: Path, name: str, slot: int) -> DiskFile:
    """One of the files of a name, in a rank's folder."""
    known = quote(name, safe="")
    if len(known) > _LONGEST_NAME:
        known = f"{known[:_LONGEST_NAME]}~{zlib.crc32(name.encode()):08x}"
    return DiskFile(folder / f"{known}.slot-{slot}", name)


def erase(folder: Path) -> None:
    """Remove what an earlier run left in a rank's folder: first the commits, then the rest."""
    for path in [*folder.glob("commit-*.json*"), *folder.glob("*.slot-[01]")]:
        path.unlink(missing_ok=True)
    sync_folder(folder)


def write_commit(folder: Path, commit: Commit) -> None:
    """Make a commit the last one of a rank, or leave everything as it was.

    Raises:
        DiskError: it could not be written.
    """
    path = _path(folder, commit.sequence)
    beside = path.with_suffix(".json.new")
    text = json.dumps(asdict(commit), sort_keys=True).encode()
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            content = b"%s\n%08x\n" % (text, zlib.crc32(text))
            while content:
                content = content[os.write(file, content) :]
            os.fsync(file)
        finally:
            os.close(file)
        sync_folder(folder)  # files that it refers to may be new
        beside.rename(path)
        sync_folder(folder)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise DiskError(
            f"cannot write {path}: {error.strerror}; the state before it remains: make room or "
            "see to the disk, then resume from it"
        ) from error


def read_commits(folder: Path) -> tuple[list[Commit], list[str]]:
    """The commits of a rank that can be read, the newest first, and why others cannot."""
    commits, problems = [], []
    for path in sorted(folder.glob("commit-*.json")):
        try:
            commits.append(_decoded(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{path}: {error}")
    return sorted(commits, key=lambda commit: -commit.sequence), problems


def forget_after(folder: Path, sequence: int) -> None:
    """Remove the commits after this one, whose files will be written over.

    Raises:
        DiskError: it could not be done.
    """
    try:
        for commit in read_commits(folder)[0]:
            if commit.sequence > sequence:
                _path(folder, commit.sequence).unlink()
        sync_folder(folder)
    except OSError as error:
        raise DiskError(f"cannot remove a commit in {folder}: {error.strerror}") from error


def inspect(folder: Path, commit: Commit) -> None:
    """See that the files of a commit are there, and of its versions.

    Raises:
        DiskError: one is not.
    """
    for name, version in commit.versions.items():
        file_of(folder, name, version.slot).inspect(version)


def sync_folder(folder: Path) -> None:
    """Return when the names of new and renamed files are on the disk."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _path(folder: Path, sequence: int) -> Path:
    return folder / f"commit-{sequence % 2}.json"


def _decoded(content: bytes) -> Commit:
    text, _, rest = content.partition(b"\n")
    expected = b"%08x\n" % zlib.crc32(text)
    if rest != expected:
        raise ValueError(f"checksum {rest[:9]!r}, expected {expected!r}")
    plain = json.loads(text)
    versions = {name: Version(**fields) for name, fields in plain.pop("versions").items()}
    return Commit(**plain, versions=versions)


def agreed(own: Mapping[int, list[Commit]]) -> int | None:
    """The newest sequence that every rank has; None if there is none."""
    sets = [{commit.sequence for commit in commits} for commits in own.values()]
    return max(set.intersection(*sets), default=None) if sets else None
