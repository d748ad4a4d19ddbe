"""The commits of a rank: which version of each file belongs to a complete state.

A rank keeps its last two commits, in files that are replaced atomically (written beside, flushed to
the disk, renamed). There are two because ranks commit one after another: if some died before their
commit, the others still have the previous state. A commit's file is one line of JSON and its
CRC-32.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from zerosim.base.errors import DiskError, EnvironmentFault, first_line
from zerosim.train.offload.files import DiskFile
from zerosim.train.offload.layout import Version

SLOTS = 2
"""Files per name: that of the last commit, and the one being written."""
_LONGEST_NAME = 200
"""Maximum length of a file's name in bytes, of Linux's 255."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A state that was committed.

    Attributes:
        sequence: number of the commit, counted from 1.
        values: the program's argument of `commit`.
    """

    sequence: int
    values: dict[str, object]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of one rank.

    Attributes:
        versions: the versions of the state, by name.
    """

    sequence: int
    num_ranks: int
    values: dict[str, object]
    versions: dict[str, Version]


def rank_folder(folder: Path, rank: int) -> Path:
    """The folder of a rank's files."""
    return folder / f"rank-{rank}"


def file_of(folder: Path, name: str, slot: int) -> DiskFile:
    """One of the files of a name, in a rank's folder."""
    known = quote(name, safe="")
    if len(known) > _LONGEST_NAME:
        known = f"{known[:_LONGEST_NAME]}~{zlib.crc32(name.encode()):08x}"
    return DiskFile(folder / f"{known}.slot-{slot}", name)


def empty(folder: Path) -> Commit:
    """Remove the files of an earlier run in a rank's folder: first the commits, then the rest.

    Returns:
        The initial state of a rank without commits.

    Raises:
        EnvironmentFault: they could not be removed.
    """
    try:
        for path in [*folder.glob("commit-*.json*"), *folder.glob("*.slot-[01]")]:
            path.unlink(missing_ok=True)
        _sync(folder)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot empty {folder}: {error.strerror}; give another folder"
        ) from None
    return Commit(0, 0, {}, {})


def go_back(folder: Path, sequence: int) -> Commit:
    """The commit of a rank with this sequence number; later ones are removed.

    Raises:
        DiskError: there is none, its files are incomplete, or a later one could not be removed.
    """
    commits, problems = _read(folder)
    found = [commit for commit in commits if commit.sequence == sequence]
    if not found:
        known = ", ".join(str(commit.sequence) for commit in commits) or "none"
        raise DiskError(
            f"{folder} has no commit {sequence}: found {'; '.join([known, *problems])}; start over"
        )
    _inspect(folder, found[0])
    try:
        for commit in commits:
            if commit.sequence > sequence:
                _path(folder, commit.sequence).unlink()
        _sync(folder)
    except OSError as error:
        raise DiskError(
            f"cannot remove a commit in {folder}: {error.strerror}; make it writable"
        ) from error
    return found[0]


def set_aside(folder: Path, sequence: int) -> None:
    """Discard a commit of a rank, because its files are damaged.

    Raises:
        DiskError: it could not be discarded.
    """
    try:
        _path(folder, sequence).unlink(missing_ok=True)
        _sync(folder)
    except OSError as error:
        raise DiskError(
            f"cannot remove a commit in {folder}: {error.strerror}; make it writable"
        ) from error


def newest_state(folder: Path, num_ranks: int) -> SavedState | None:
    """The newest state that is complete on every rank; None if not all ranks committed one.

    Raises:
        DiskError: states were committed, but none is complete on all ranks.
    """
    own: list[dict[int, Commit]] = []
    problems: list[tuple[int, str]] = []
    newest = 0
    for rank in range(num_ranks):
        place = rank_folder(folder, rank)
        commits, unreadable = _read(place)
        problems += [(0, problem) for problem in unreadable]
        newest = max([newest, *(commit.sequence for commit in commits)])
        own.append({})
        for commit in commits:
            try:
                _require_ranks(place, commit, num_ranks)
                _inspect(place, commit)
            except DiskError as error:
                problems.append((commit.sequence, str(error)))
            else:
                own[rank][commit.sequence] = commit
    sequence = max(set.intersection(*(set(commits) for commits in own)), default=None)
    if sequence is not None:
        return SavedState(sequence, own[0][sequence].values)
    if problems or newest > 1:
        by_rank = ", ".join(f"{rank}: {sorted(commits)}" for rank, commits in enumerate(own))
        # files of an older state are overwritten by design: the newest one's error is the cause
        _, why = max(problems, default=(0, "expected one in common"))
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise DiskError(
            f"no state in {folder} is complete on all {num_ranks} ranks (commits by "
            f"rank: {by_rank}): "
            f"{why}{more}; start over"
        )
    return None


def write_commit(folder: Path, commit: Commit) -> None:
    """Make a commit the last one of a rank, or leave everything unchanged.

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
        _sync(folder)  # the commit may refer to new files
        beside.rename(path)
        _sync(folder)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise DiskError(
            f"cannot write {path}: {error.strerror}; the previous state is kept: "
            "free space or check the disk, then resume from that state"
        ) from error


def _read(folder: Path) -> tuple[list[Commit], list[str]]:
    """The readable commits of a rank, newest first, and the errors of the others."""
    commits, problems = [], []
    for path in sorted(folder.glob("commit-*.json")):
        try:
            commits.append(_decoded(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{path}: {first_line(error)}")
    return sorted(commits, key=lambda commit: -commit.sequence), problems


def _inspect(folder: Path, commit: Commit) -> None:
    """Check that the files of a commit exist, in its versions."""
    for name, version in commit.versions.items():
        file_of(folder, name, version.slot).inspect(version)


def _require_ranks(folder: Path, commit: Commit, num_ranks: int) -> None:
    if commit.num_ranks != num_ranks:
        raise DiskError(
            f"{folder} is from a run on {commit.num_ranks} ranks, but this run has {num_ranks}: "
            f"resume with {commit.num_ranks}"
        )


def _sync(folder: Path) -> None:
    """Return when the names of new, renamed and removed files are on the disk."""
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
