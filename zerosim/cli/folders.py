"""The folders of recorded runs: their files, and a lock for one run at a time.

A run locks its folder before it writes the first file, and until its verdict is printed. The lock
belongs to this host's kernel, which releases it when the process ends, in whatever way. Nodes on
other machines that share the folder have their own kernels, so the lock does not affect them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from zerosim.base.errors import EnvironmentFault

RANK_FILES = "rank-*.jsonl"
NOTES = "note-*.txt"
"""The tracer's messages of ranks, until they have been printed."""
_OWN_NAME = re.compile(
    r"manifest\.json|rank-\d+\.(jsonl(\.before)?|error\.txt)|note-\d+\.txt|\.(manifest\.json\.|zerosim-)\d+"
    r"|\.rank-\d+\.jsonl\.next|attach-\d+\.json"
)
_ATTEMPT = re.compile(r"attempt-\d+")
"""Folders of torchrun's earlier attempts."""
_BEGINNINGS = {".jsonl": b'{"row":"header"', ".json": b'{\n  "schema": '}
"""The files that make a folder a trace: such names are not used by us alone."""


def moment() -> str:
    """The current time, as part of a folder's name."""
    return datetime.now().strftime("%Y%m%d-%H%M%S")  # noqa: DTZ005 - the user's own clock


def trace_files(folder: Path) -> list[Path]:
    """The files of a trace in a folder, by name."""
    found = [*folder.glob("*"), *(path for one in _attempts(folder) for path in one.glob("*"))]
    return [path for path in found if _OWN_NAME.fullmatch(path.name) and path.is_file()]


def _attempts(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if _ATTEMPT.fullmatch(path.name) and path.is_dir()]


def require_free(folder: Path, *, overwrite: bool) -> None:
    """Check that a folder is empty, or contains a trace that may be replaced.

    Raises:
        EnvironmentFault: it contains a trace that must be kept, or other files.
    """
    try:
        held = trace_files(folder)
        other = _of_others(folder, held)
    except OSError as error:
        raise _no_folder(folder, error) from None
    if other is not None:
        raise EnvironmentFault(
            f"{folder} is not a trace folder: it contains {other.name}: give an --out that is "
            "new or empty"
        )
    if held and not overwrite:
        raise EnvironmentFault(
            f"{folder} already contains a trace: give another --out, or --overwrite"
        )


def _of_others(folder: Path, held: list[Path]) -> Path | None:
    """A file that keeps a folder from being replaced; None if there is none.

    Files beside a trace stay; a file that only has a trace file's name is not ours.
    """
    recorded = [path for path in held if path.suffix in _BEGINNINGS]
    strange = (path for path in recorded if not _begins_as_ours(path))
    if recorded or not folder.is_dir():
        return next(strange, None)
    return next(
        (path for path in folder.iterdir() if path not in held and not _is_trace(path)), None
    )


def _is_trace(path: Path) -> bool:
    """Whether a run, for example of several stages, has left a folder of its own there."""
    manifest = path / "manifest.json"
    return manifest.is_file() and _begins_as_ours(manifest)


def _begins_as_ours(path: Path) -> bool:
    expected = _BEGINNINGS.get(path.suffix, b"")
    begin = b""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        begin = file.read(len(expected))
    return expected.startswith(begin)  # a full disk may have left an incomplete one


def reserve(folder: Path, held: ExitStack, *, overwrite: bool) -> None:
    """Keep other runs of this host out of a folder until `held` is closed, and clear it.

    Raises:
        EnvironmentFault: a run is being recorded there, it has a trace that must be kept or other
            files, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise _no_folder(folder, error) from None
    held.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise EnvironmentFault(
            f"{folder}: a run is being recorded there{_recorder(folder)}: give another --out, or "
            "wait until it has ended"
        ) from None
    except OSError:  # a file system without locks: no run there can exclude another
        pass
    require_free(folder, overwrite=overwrite)
    make_free(folder)


def _recorder(folder: Path) -> str:
    """The process that locks a folder, and its start time, if the kernel provides it."""
    place = folder.stat()
    device = f"{os.major(place.st_dev):02x}:{os.minor(place.st_dev):02x}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, pid, where, *_ = line.split()
            if (kind, where) == ("FLOCK", f"{device}:{place.st_ino}"):
                return f" (process {pid}, since {_began(pid):%Y-%m-%d %H:%M:%S})"
    return ""


def _began(pid: str) -> datetime:
    # after the name, which may be anything, the twentieth field: ticks since boot
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(time.time() - seconds)  # noqa: DTZ006 - the user's own clock


def make_free(folder: Path) -> None:
    """Create a folder if needed, and remove an earlier trace from it.

    Raises:
        EnvironmentFault: it cannot be written.
    """
    # another host may be doing the same in a folder that they share
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".zerosim-{os.getpid()}"
        probe.touch()
        probe.unlink(missing_ok=True)
        for path in trace_files(folder):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise _no_folder(folder, error) from None
    for path in _attempts(folder):
        with contextlib.suppress(OSError):  # it has other contents
            path.rmdir()


def _no_folder(folder: Path, error: OSError) -> EnvironmentFault:
    why = "it is not a folder" if isinstance(error, FileExistsError) else error.strerror
    return EnvironmentFault(f"cannot write to {folder}: {why}; give an --out that can be written")
