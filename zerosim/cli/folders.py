"""The folders that runs are recorded in: the files in them, and one run at a time.

A run keeps its folder for itself from before its first file until its verdict is printed, by a lock
that the kernel holds for this host: it is gone with the process, however that ends. Nodes on other
machines, which may share the folder, each have their own kernel.
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
"""What ranks had to say while they were traced, until it has been printed."""
_OWN_NAME = re.compile(
    r"manifest\.json|rank-\d+\.(jsonl(\.before)?|error\.txt)|note-\d+\.txt|\.(manifest\.json\.|zerosim-)\d+"
    r"|\.rank-\d+\.jsonl\.next|attach-\d+\.json"
)
_ATTEMPT = re.compile(r"attempt-\d+")
"""Folders of what torchrun's earlier attempts recorded."""
_BEGINNINGS = {".jsonl": b'{"row":"header"', ".json": b'{\n  "schema": '}
"""Of the files that make a folder a trace: names like theirs are not ours alone."""


def moment() -> str:
    """Now, as part of a folder's name."""
    return datetime.now().strftime("%Y%m%d-%H%M%S")  # noqa: DTZ005 - the user's own clock


def trace_files(folder: Path) -> list[Path]:
    """The files of a trace that a folder holds, by their names."""
    found = [*folder.glob("*"), *(path for one in _attempts(folder) for path in one.glob("*"))]
    return [path for path in found if _OWN_NAME.fullmatch(path.name) and path.is_file()]


def _attempts(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if _ATTEMPT.fullmatch(path.name) and path.is_dir()]


def require_free(folder: Path, *, overwrite: bool) -> None:
    """See that a folder holds nothing, or a trace that may go.

    Raises:
        EnvironmentFault: it holds a trace, or other files.
    """
    try:
        held = trace_files(folder)
        other = _of_others(folder, held)
    except OSError as error:
        raise _no_folder(folder, error) from None
    if other is not None:
        raise EnvironmentFault(
            f"{folder} is not a trace folder: it holds {other.name}: give an --out that is "
            "new or empty"
        )
    if held and not overwrite:
        raise EnvironmentFault(
            f"{folder} already holds a trace: give another --out, or --overwrite"
        )


def _of_others(folder: Path, held: list[Path]) -> Path | None:
    """A file that keeps a folder from being replaced; None if there is none.

    What lies beside a trace stays as it is; what has the name of one and is none is not ours.
    """
    recorded = [path for path in held if path.suffix in _BEGINNINGS]
    strange = (path for path in recorded if not _begins_as_ours(path))
    if recorded or not folder.is_dir():
        return next(strange, None)
    return next(
        (path for path in folder.iterdir() if path not in held and not _is_trace(path)), None
    )


def _is_trace(path: Path) -> bool:
    """Whether a run of several stages, say, has left a folder of its own there."""
    manifest = path / "manifest.json"
    return manifest.is_file() and _begins_as_ours(manifest)


def _begins_as_ours(path: Path) -> bool:
    expected = _BEGINNINGS.get(path.suffix, b"")
    begin = b""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        begin = file.read(len(expected))
    return expected.startswith(begin)  # a full disk may have left less


def reserve(folder: Path, held: ExitStack, *, overwrite: bool) -> None:
    """Keep other runs of this host out of a folder until `held` is closed, and make it free.

    Raises:
        EnvironmentFault: a run is being recorded there, it holds a trace that may not go or what is
            none, or it cannot be written.
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
    except OSError:  # a file system without locks: no run there can keep another out
        pass
    require_free(folder, overwrite=overwrite)
    make_free(folder)


def _recorder(folder: Path) -> str:
    """The process that keeps a folder, and since when it runs, as far as the kernel tells."""
    place = folder.stat()
    device = f"{os.major(place.st_dev):02x}:{os.minor(place.st_dev):02x}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, pid, where, *_ = line.split()
            if (kind, where) == ("FLOCK", f"{device}:{place.st_ino}"):
                return f" (process {pid}, since {_began(pid):%Y-%m-%d %H:%M:%S})"
    return ""


def _began(pid: str) -> datetime:
    # after the name, which may hold anything, the twentieth field: ticks since the system began
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(time.time() - seconds)  # noqa: DTZ006 - the user's own clock


def make_free(folder: Path) -> None:
    """Make a folder if there is none, and remove what it holds of an earlier trace.

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
        with contextlib.suppress(OSError):  # something else is in it
            path.rmdir()


def _no_folder(folder: Path, error: OSError) -> EnvironmentFault:
    why = "it is not a folder" if isinstance(error, FileExistsError) else error.strerror
    return EnvironmentFault(f"cannot write to {folder}: {why}; give an --out that can be written")
