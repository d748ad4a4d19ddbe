"""A process that imports PyTorch once and forks ranks: they begin at once, not in two seconds.

The nursery computes nothing and starts no thread, so that a fork takes all of it along. A rank that
will use CUDA is forked all the same and then begins anew, as CUDA must not have been looked at
before a fork. The ranks end with the nursery (the kernel sees to it), and the nursery with its
launcher, whose end of their connection closes however it goes.
The launcher's side, `Nursery`, imports the standard library only, so that a nursery can be started
while the launcher imports PyTorch for itself.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

_POLL_S = 0.02
_END_S = 30.0
"""How long processes that were killed may take to be gone."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
"""Both from linux/prctl.h."""
_DEFAULTS = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
"""What a rank finds where nothing else was asked for: one thread each, and no word of its end
beside ours."""


@dataclass(frozen=True, slots=True)
class Request:
    """Ranks to be forked: what they do, where, and with which environment."""

    job: str
    folder: str
    environments: tuple[dict[str, str], ...]
    begins_anew: bool


class Nursery:
    """The launcher's side: starts ranks, hears how they end, ends them."""

    def __init__(self) -> None:
        self._nursery, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                (sys.executable, "-m", "zerosim.launch.nursery"),
                stdin=theirs.fileno(),
                env=_DEFAULTS | os.environ | {"OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self._num_ranks = 0
        self._codes: dict[int, int] = {}

    @property
    def is_alive(self) -> bool:
        """Whether it can start ranks."""
        return self._process.poll() is None

    def start(
        self, job: str, environments: Sequence[Mapping[str, str]], *, begins_anew: bool
    ) -> None:
        """Start a rank for each environment, which is added to that of this process."""
        assert len(self._codes) == self._num_ranks, "the ranks of another run have not ended"
        own = _DEFAULTS | os.environ
        self._num_ranks, self._codes = len(environments), {}
        request = Request(
            job, str(Path.cwd()), tuple(own | dict(env) for env in environments), begins_anew
        )
        self._tell(request)

    def exit_codes(self) -> dict[int, int]:
        """Those of the ranks that have ended, by rank; negative for a signal."""
        try:
            while self._nursery.poll():
                rank, code = self._nursery.recv()
                self._codes[rank] = code
        except (EOFError, OSError):  # it was killed, and its ranks with it
            for rank in range(self._num_ranks):
                self._codes.setdefault(rank, -signal.SIGKILL)
        return dict(self._codes)

    def end_ranks(self) -> None:
        """Kill the ranks that are left, and wait until they are gone."""
        if len(self.exit_codes()) == self._num_ranks:
            return
        self._tell(None)
        deadline = time.monotonic() + _END_S
        while len(self.exit_codes()) < self._num_ranks:
            if time.monotonic() > deadline:
                self.close()
            time.sleep(_POLL_S)

    def close(self) -> None:
        """End the nursery, and with it what it started."""
        self._process.kill()
        self._process.wait()
        self._nursery.close()

    def _tell(self, request: Request | None) -> None:
        try:
            self._nursery.send(request)
        except OSError:  # it is gone: `exit_codes` will say so
            self._process.wait()


class _Kept:
    """The nursery that this process keeps for its next run, if it keeps one."""

    wanted = False
    nursery: Nursery | None = None


def keep() -> None:
    """Have all runs of this process share one nursery.

    What is read when PyTorch is imported, and where ranks print, is then as it was at the first.
    """
    _Kept.wanted = True


@contextmanager
def lent() -> Iterator[Nursery]:
    """A nursery for one run."""
    if _Kept.wanted:
        if _Kept.nursery is None or not _Kept.nursery.is_alive:
            _Kept.nursery = Nursery()
        yield _Kept.nursery
        return
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.close()


# the nursery itself


def serve(launcher: Connection) -> None:
    """Fork the ranks that the launcher asks for, tell it how they end; until it is gone."""
    ranks: dict[int, int] = {}
    while True:
        if launcher.poll(_POLL_S if ranks else None):
            request: Request | None = launcher.recv()
            if request is None:
                for pid in ranks:
                    os.kill(pid, signal.SIGKILL)
            else:
                for rank in range(len(request.environments)):
                    ranks[_fork(request, rank, launcher)] = rank
        while ranks:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            launcher.send((ranks.pop(pid), os.waitstatus_to_exitcode(status)))


def _fork(request: Request, rank: int, launcher: Connection) -> int:
    nursery = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == nursery:
            libc.prctl(_PR_SET_NAME, f"zerosim rank {rank}".encode())
            launcher.close()
            _be_rank(request, rank)
    except BaseException:  # noqa: BLE001 - it must never become a second nursery
        traceback.print_exc()
    finally:
        os._exit(1)


def _be_rank(request: Request, rank: int) -> None:
    os.chdir(request.folder)
    environment = request.environments[rank]
    module = "zerosim.launch.worker"
    if request.begins_anew:
        os.execve(sys.executable, (sys.executable, "-m", module, request.job), environment)  # noqa: S606
    os.environ.clear()
    os.environ.update(environment)
    importlib.import_module(module).work(request.job)


def main() -> None:
    """Import what ranks need, then fork them."""
    launcher = Connection(os.dup(0))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    # an optimizer imports the last one when it is made
    for module in ("zerosim.launch.worker", "torch._dynamo"):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # ranks need not look through what was imported, nor copy its pages to do so
    try:
        serve(launcher)
    except (EOFError, OSError):  # the launcher is gone
        os._exit(0)


if __name__ == "__main__":
    # records are pickled by the name of their module, which is not __main__
    importlib.import_module("zerosim.launch.nursery").main()
