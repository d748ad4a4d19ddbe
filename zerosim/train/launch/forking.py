"""The process that forks ranks, and the beginning and end of a rank in it.

It computes nothing and starts no thread, because a fork does not copy threads. A rank that will use
CUDA is forked as well and then starts a new interpreter, since CUDA must not be initialized before
a fork.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from zerosim.base.errors import cannot_load
from zerosim.train.launch.forkserver import Ended, Start, Work, cannot_start, interpreter

_POLL_S = 0.02
_LONGEST = 4096
"""Maximum size of a rank's exit message, in bytes: a pipe accepts this in one write."""
_TELLING = "ZEROSIM_TELLING"
"""The environment variable with the descriptor for a rank's exit message."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
"""Two constants of linux/prctl.h."""


def die_of_interrupts() -> None:
    """Let Ctrl-C end this process like any other signal; its owner reports the cause.

    An ignored SIGINT stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def serve(owner: Connection) -> None:
    """Fork the ranks that the owner requests, and report their exits, until the owner exits."""
    # by process id: the rank, and the descriptor of its message
    ranks: dict[int, tuple[int, int]] = {}
    while True:
        if owner.poll(_POLL_S if ranks else None):
            request: Start | None = owner.recv()
            if request is None:
                for pid in ranks:
                    os.kill(pid, signal.SIGKILL)
            else:
                try:
                    for rank in range(len(request.environments)):
                        others = [hearing for _, hearing in ranks.values()]
                        pid, hearing = _fork(request, rank, owner, others)
                        ranks[pid] = rank, hearing
                except OSError as error:
                    owner.send(cannot_start(f"rank {rank}", error))
                    return  # the existing ranks end with this process
        while ranks:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            rank, hearing = ranks.pop(pid)
            owner.send(Ended(rank, os.waitstatus_to_exitcode(status), _heard(hearing)))


def _heard(hearing: int) -> str:
    """The message of an ended rank; its children may still have the pipe open."""
    os.set_blocking(hearing, False)
    try:
        return os.read(hearing, _LONGEST).decode(errors="replace")
    except BlockingIOError:
        return ""
    finally:
        os.close(hearing)


def tell(error: BaseException, telling: int | None = None) -> None:
    """Report to the owner in one line why this rank ends; uses no disk, which may be full.

    Args:
        telling: the descriptor; by default that in the environment.
    """
    line = traceback.format_exception_only(error)[0].splitlines()[0]
    to = int(os.environ[_TELLING]) if telling is None else telling
    os.write(to, line.encode(errors="replace")[:_LONGEST])


def _fork(request: Start, rank: int, owner: Connection, others: Sequence[int]) -> tuple[int, int]:
    """Fork a rank; the server's own descriptors are closed in it.

    Returns:
        Its process id, and the descriptor of its message.
    """
    server = os.getpid()
    hearing, telling = os.pipe()
    pid = os.fork()
    if pid:
        os.close(telling)
        return pid, hearing
    code = 1
    try:
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == server:
            libc.prctl(_PR_SET_NAME, f"zerosim rank {rank}".encode())
            owner.close()
            for each in (hearing, *others):
                os.close(each)
            code = _be_rank(request, rank, telling)
    except BaseException as error:  # noqa: BLE001 - it must never become a second server
        tell(error, telling)
    finally:
        _leave(code)


def _be_rank(request: Start, rank: int, telling: int) -> int:
    """Do the work; returns the exit code."""
    os.chdir(request.folder)
    environment = request.environments[rank] | {_TELLING: str(telling)}
    work = request.work
    if work.begins_anew:
        os.set_inheritable(telling, True)  # noqa: FBT003 - Python's own
        words = interpreter("begin", request.path, work.function, work.argument)
        os.execve(sys.executable, words, environment)  # noqa: S606
    sys.path[:] = request.path
    os.environ.clear()
    os.environ.update(environment)
    return work.do()


def begin() -> None:
    """Run as a rank in a separate interpreter."""
    die_of_interrupts()
    code = 1
    try:
        code = Work(sys.argv[2], sys.argv[3]).do()
    except BaseException as error:  # noqa: BLE001 - as above
        tell(error)
    finally:
        _leave(code)


def _leave(code: int) -> NoReturn:
    """End this process at once, without waiting for lost peers."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def main() -> None:
    """Import the modules of ranks, then fork them."""
    die_of_interrupts()
    owner = Connection(os.dup(0))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    try:
        # optimizers import the last one on creation
        for module in ("zerosim.train.launch.worker", "torch._dynamo"):
            importlib.import_module(module)
    except (ImportError, MemoryError, OSError) as error:
        with suppress(OSError):
            owner.send(cannot_load(error))
        os._exit(1)
    gc.collect()
    gc.freeze()  # else ranks' garbage collectors scan, and thus copy, them
    try:
        owner.send(None)  # the server is ready
        serve(owner)
    except (EOFError, OSError):  # the owner has ended
        os._exit(0)
