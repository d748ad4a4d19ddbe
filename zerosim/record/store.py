"""The folder of a trace: the files that it must have, and their joint contents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from zerosim.base.errors import TraceError
from zerosim.base.quantities import first_of
from zerosim.record.alike import alike_ranks, num_alike
from zerosim.record.collector import collector_paused
from zerosim.record.rankfile import RankTrace, read_rank
from zerosim.record.schema import DAMAGE, OtherSchemaError, decode_manifest, reason
from zerosim.record.text import name_runs, one_line
from zerosim.record.window import in_common
from zerosim.schema.manifest import Manifest, Source
from zerosim.schema.rows import MANIFEST_NAME, earlier_file_name, rank_file_name

_RANK_FILE = re.compile(r"rank-(.*)\.jsonl(?:\.before)?", re.DOTALL)
_RANK_NUMBER = re.compile(r"0|[1-9][0-9]*")
_WHAT_A_TRACE_IS = f"a trace is a folder with {MANIFEST_NAME}, {rank_file_name(0)} and so on"
_NAMED_SINGLY = 64
"""More missing files than this are named in one warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A run, as recorded by its ranks.

    Attributes:
        folder: the folder of the trace.
        manifest: the description of the run.
        ranks: the ranks that have at least a header, ascending.
        warnings: missing parts, one line per rank; empty if nothing is missing.
    """

    folder: Path
    manifest: Manifest
    ranks: tuple[RankTrace, ...]
    warnings: tuple[str, ...]

    @property
    def num_alike(self) -> int:
        """Ranks without a file, represented by another rank."""
        return num_alike(self.manifest)

    @property
    def complete(self) -> bool:
        """True if every rank is present and closed its trace properly.

        For an imported run, this concerns the ranks with a file.
        """
        return not self.warnings

    @property
    def lacks(self) -> tuple[int, ...]:
        """The ranks of an imported run without a file."""
        if self.manifest.source is not Source.IMPORTED:
            return ()
        present = {rank.rank for rank in self.ranks}
        return tuple(rank for rank in range(self.manifest.num_ranks) if rank not in present)


def load(folder: str | Path, *, strict: bool = False) -> Trace:
    """Read a trace.

    Args:
        folder: the folder with `manifest.json` and one `rank-N.jsonl` per rank.
        strict: refuse an incomplete trace; otherwise it is read up to the last whole row of each
            rank, and `Trace.warnings` lists the missing parts.

    Returns:
        The trace, all its rows checked.

    Raises:
        TraceError: missing, unreadable, damaged, contradictory, of a different schema; or, if
            `strict`, incomplete. The message is one line.
    """
    path = Path(folder)
    names = _list(path)
    manifest = _read_manifest(path, names)
    ranks: list[RankTrace] = []
    warnings: dict[int, str] = {}
    files = _rank_files(path, names, manifest.num_ranks)
    for rank, of_rank in files.items():
        for file in of_rank:
            _require_file(file)
        with collector_paused():
            trace, missing = read_rank(of_rank, rank, manifest.num_ranks)
        if trace is not None:
            ranks.append(trace)
        if missing:
            warnings[rank] = missing
    lines = list(warnings.values())
    if manifest.source is not Source.IMPORTED:  # it may have only some of the ranks
        said = sorted({*files, *alike_ranks(manifest)})
        lines += _missing_files(said, manifest.num_ranks)
    if not ranks:
        raise _error(path, f"no rank file has a header ({lines[0]}): record the run again")
    if strict and lines:
        raise _error(
            path,
            f"incomplete: {first_of(lines)}: load it without strict to read the rest, "
            f"or record the run again",
        )
    return Trace(
        folder=path,
        manifest=manifest,
        ranks=in_common(ranks),
        warnings=tuple(one_line(line) for line in lines),
    )


def read_manifest(folder: str | Path) -> Manifest:
    """The manifest of a trace, which may still be recording.

    Raises:
        TraceError: there is no manifest, or it cannot be read.
    """
    path = Path(folder)
    return _read_manifest(path, _list(path))


def rank_files(folder: str | Path) -> dict[int, list[Path]]:
    """The files of a trace by rank, ascending, without reading them.

    A rank has one file, in a light trace up to two, in the order of writing.

    Raises:
        TraceError: there is no trace, its manifest cannot be read, or an entry is not a regular
            file.
    """
    path = Path(folder)
    names = _list(path)
    files = _rank_files(path, names, _read_manifest(path, names).num_ranks)
    for file in chain.from_iterable(files.values()):
        _require_file(file)
    return files


def _error(path: Path, message: str) -> TraceError:
    return TraceError(one_line(f"{path}: {message}"))


def _list(path: Path) -> list[str]:
    try:
        return sorted(child.name for child in path.iterdir())
    except FileNotFoundError:
        found = "there is no such folder"
    except NotADirectoryError:
        found = "this is a file, expected its folder"
    except (OSError, ValueError) as error:
        found = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise _error(path, f"{found}: {_WHAT_A_TRACE_IS}: check the path, or record a run") from None


def _require_file(path: Path) -> None:
    # opening a pipe would block forever, so check before reading
    try:
        is_file = path.is_file()
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror or error}") from None
    if not is_file:
        raise _error(path, f"expected a file, found something else: {_WHAT_A_TRACE_IS}")


def _read_manifest(path: Path, names: list[str]) -> Manifest:
    if MANIFEST_NAME not in names:
        if any(_RANK_FILE.fullmatch(name) for name in names):
            raise _error(
                path,
                f"there are rank files but no {MANIFEST_NAME}: the run was killed before it wrote "
                f"one, or it was not copied: copy it too, or record again",
            )
        raise _error(path, f"it has no {MANIFEST_NAME}: {_WHAT_A_TRACE_IS}: check the path")
    file = path / MANIFEST_NAME
    _require_file(file)
    try:
        return decode_manifest(file.read_bytes())
    except OSError as error:
        raise _error(file, f"cannot be read: {error.strerror or error}") from None
    except OtherSchemaError as error:
        raise _error(file, str(error)) from None
    except DAMAGE as error:
        raise _error(
            file,
            f"{reason(error)}: expected the manifest as it was written: copy it again from where "
            f"it was recorded, or record again",
        ) from None


def _rank_files(path: Path, names: list[str], num_ranks: int) -> dict[int, list[Path]]:
    """The files by rank, ascending; those of a rank in the order of writing."""
    files: dict[int, list[Path]] = {}
    for name in names:
        if (match := _RANK_FILE.fullmatch(name)) is None:
            continue
        # one spelling for each rank, so no two files can claim the same one
        if not _RANK_NUMBER.fullmatch(match[1]):
            raise _error(
                path / name,
                f"not the name of a rank file, such as {rank_file_name(7)}: move it away",
            )
        rank = int(match[1])
        if rank >= num_ranks:
            raise _error(
                path / name,
                f"the manifest says {num_ranks} ranks, counted from 0, and this is rank {rank}: "
                f"files of two runs are mixed: move those of the other run away",
            )
        own = (earlier_file_name(rank), rank_file_name(rank))
        files[rank] = [path / one for one in own if one in names]
    if not files:
        raise _error(
            path,
            f"a {MANIFEST_NAME} for {num_ranks} ranks but no rank file: expected "
            f"{rank_file_name(0)} and so on: copy them too, or record again",
        )
    return dict(sorted(files.items()))


def _missing_files(present: list[int], num_ranks: int) -> list[str]:
    """A warning for each rank without a file; one for all if they are many."""
    gaps: list[tuple[int, int]] = []
    for before, after in zip([-1, *present], [*present, num_ranks], strict=True):
        if after - before > 1:
            gaps.append((before + 1, after - 1))
    why = "the rank was killed before its first row or the file was not copied"
    if num_ranks - len(present) > _NAMED_SINGLY:
        return [f"{name_runs(gaps)}: {num_ranks - len(present)} files are missing: {why}"]
    return [
        f"rank {rank}: {rank_file_name(rank)} is missing: {why}"
        for first, last in gaps
        for rank in range(first, last + 1)
    ]
