"""The trace of an unmodified program: it begins when the process joins a group, and ends with it.

`zerosim trace` makes PyTorch call `joined` in each process that joins a process group; only such a
process is a rank. Errors here become notes, and the program continues as it would have.
"""

from __future__ import annotations

import fcntl
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from zerosim.base.config import Light
from zerosim.base.errors import EnvironmentFault, ZerosimError, first_line
from zerosim.schema.faults import read_faults
from zerosim.schema.rows import MANIFEST_NAME, rank_file_name
from zerosim.trace import guard, labels
from zerosim.trace.extent import Extent
from zerosim.trace.session import Session

_OWN_FILES = f"{Path(__file__).parent}{os.sep}"
_RESTARTS = "TORCHELASTIC_RESTART_COUNT"
ATTEMPT = "attempt-"
"""Prefix of the folders of earlier attempts, followed by the attempt's number."""
_OF_AN_ATTEMPT = ("rank-*.jsonl", "rank-*.jsonl.before", MANIFEST_NAME)
"""Files in the order of their removal: the lock of the manifest shows that it is unfinished."""


@dataclass(slots=True)
class _Process:
    """The state of this process.

    Attributes:
        pid: the process of this state; a forked child starts with its parent's.
        identity: rank and number of ranks at the beginning of the trace.
        failed_with: the error that ends the process, once recorded.
        is_over: the trace has ended, and no other will begin.
    """

    pid: int
    say: Callable[[str], None]
    session: Session | None = None
    identity: tuple[int, int] = (-1, 0)
    failed_with: BaseException | None = None
    is_over: bool = False


_this: _Process | None = None


def joined(settings: dict[str, Any], say: Callable[[str], None]) -> None:
    """This process has joined the default process group.

    Args:
        settings: options of the command: the folder, the program, whether to record memory, the
            extent of a light trace.
        say: passes a line to the command to print.
    """
    global _this  # noqa: PLW0603 - a process has one trace
    if _this is None or _this.pid != os.getpid():
        _this = _Process(os.getpid(), say)
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    if _this.is_over or rank < 0:
        return
    if _this.session is None:
        _this.identity = rank, num_ranks
        _begin(_this, settings)
    elif _this.identity == (rank, num_ranks):
        _this.session.rejoined()
    else:
        before = "rank {} of {}".format(*_this.identity)
        say(f"{before} joined again as rank {rank} of {num_ranks}: its trace ends there")
        end()


def end() -> None:
    """End the trace: the process is exiting, or the trace cannot continue."""
    this = _this
    if this is None or this.pid != os.getpid() or this.session is None:
        return
    _note(this, _uncaught())
    session, this.session, this.is_over = this.session, None, True
    if dist.is_initialized():  # else its connections are closed, and were read before
        guard.guarded(session.recorder.read)()
    try:
        session.end()
    except Exception as error:  # noqa: BLE001 - the program ends as it would have
        this.say(f"rank {this.identity[0]}: the trace could not be closed: {_words(error)}")


def _begin(this: _Process, settings: dict[str, Any]) -> None:
    folder = Path(settings["folder"])
    rank, _ = this.identity
    _set_earlier_attempts_aside(this, folder)
    if (folder / rank_file_name(rank)).exists():
        this.is_over = True
        this.say(_again(this))
        return
    try:
        said = settings.get("light")  # the command may be from an earlier version
        light = Light.from_plain(said) if said else None
        checks = settings.get("check_replicas", 0)
        extent = Extent(memory=settings["memory"], light=light, check_replicas=checks)
        faults = read_faults(settings.get("faults", ()))
        this.session = Session(folder, extent=extent, program=settings["program"], faults=faults)
    except Exception as error:  # noqa: BLE001 - the program continues after any error
        this.is_over = True
        if not isinstance(error, EnvironmentFault):  # else the file may belong to another process
            (folder / rank_file_name(rank)).unlink(missing_ok=True)
        this.say(f"rank {rank} is not traced: {_words(error)}")
        return
    guard.arm(lambda error: _stop(this, error), lambda what: this.say(f"rank {rank}: {what}"))
    this.session.gives_way = lambda other: _give_way(this, other)
    sys.excepthook = _noting(this, sys.excepthook)
    os.register_at_fork(after_in_child=lambda: _forget(this))
    if parent_process() is not None:
        # a process forked by multiprocessing exits without calling exit handlers
        Finalize(None, end, exitpriority=-sys.maxsize)


def _set_earlier_attempts_aside(this: _Process, folder: Path) -> None:
    """If torchrun restarted all ranks, the last attempt becomes the trace.

    The files of an earlier attempt are moved to a folder of their own by the first rank to arrive,
    while the others of its host wait.
    """
    restarts = os.environ.get(_RESTARTS, "")
    if not restarts.isdecimal() or restarts == "0":
        return
    before = int(restarts) - 1
    aside = folder / f"{ATTEMPT}{before}"
    try:
        # the folder itself is locked for the whole run by the command that traces it
        descriptor = os.open(folder / MANIFEST_NAME, os.O_RDONLY)
    except OSError:
        return  # no earlier attempt recorded anything
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        left = [path for pattern in _OF_AN_ATTEMPT for path in folder.glob(pattern)]
        if left and not aside.exists():
            aside.mkdir()
            for path in left:
                path.rename(aside / path.name)
            this.say(
                f"torchrun started the ranks again: attempt {restarts} is recorded here, and "
                f"attempt {before} in {aside}"
            )
    finally:
        os.close(descriptor)


def _again(this: _Process) -> str:
    rank, _ = this.identity
    return f"process {this.pid} also joined as rank {rank}: only the first is recorded"


def _give_way(this: _Process, folder: Path) -> None:
    this.say(f"the program began a trace of its own in {folder}: this one ends there")
    end()
    guard.arm(None)


def _stop(this: _Process, error: Exception) -> None:
    """Tracing failed: nothing more is written."""
    labels.attach(None)
    this.say(f"rank {this.identity[0]}: tracing stopped: {_words(error)}")


def _words(error: Exception) -> str:
    """An error as one line; a bug of the tracer with its location."""
    if isinstance(error, ZerosimError):
        return first_line(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {first_line(error)}{place}"


def _forget(this: _Process) -> None:
    """Drop the parent's trace in a forked child."""
    session, this.session, this.is_over = this.session, None, True
    if session is not None:
        session.abandon()


def _noting(this: _Process, hook: Callable[..., Any]) -> Callable[..., Any]:
    """Record an uncaught exception, then call the previous hook."""

    def excepthook(kind: Any, error: BaseException, trace: Any) -> Any:
        if this.session is not None and this.pid == os.getpid():
            _note(this, error)
            _hide_own_frames(error, set())
        return hook(kind, error, trace)

    return excepthook


def _note(this: _Process, error: BaseException | None) -> None:
    if error is not None and this.failed_with is not error and this.session is not None:
        this.failed_with = error
        guard.guarded(this.session.fail)(error)


def _uncaught() -> BaseException | None:
    """The error that ends this process, if known."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        # torch.multiprocessing passes an error on in a file, and exits
        return error.__context__ if error.code not in (None, 0) else None
    # Python keeps the uncaught error, even if the program prints errors itself
    return error or getattr(sys, "last_value", None)


def _hide_own_frames(error: BaseException | None, seen: set[int]) -> None:
    """Remove the tracer's frames from a traceback."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    frames, was_own = [], False
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        # the interception passes a call on through a PyTorch function
        is_own = name.startswith(_OWN_FILES) or (was_own and name == torch._ops.__file__)
        if not is_own:
            frames.append(trace)
        was_own, trace = is_own, trace.tb_next
    for frame, following in pairwise([*frames, None]):
        if frame is not None:
            frame.tb_next = following
    error.__traceback__ = frames[0] if frames else None
    _hide_own_frames(error.__cause__, seen)
    _hide_own_frames(error.__context__, seen)
