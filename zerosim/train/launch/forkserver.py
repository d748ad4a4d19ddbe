"""A process that imports PyTorch once and forks ranks, which saves two seconds for each.

This is the owner's side; the server is in `forking`. The ranks end with the server (the kernel
ensures it), and the server with its owner, whose end of their connection closes in any case.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from pathlib import Path

from zerosim.base.errors import EnvironmentFault

_POLL_S = 0.02
_END_S = 30.0
"""Timeout for killed processes to disappear."""
_DEFAULTS = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
"""Default environment of a rank: one thread, and no exit message besides ours."""
_FIRST = "import json, sys; sys.path[:] = json.loads(sys.argv[1])"
"""A new interpreter has the module path of its parent."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of each rank: a function called with a text.

    Attributes:
        function: its module and its name, "package.module:name"; it returns the exit code.
        begins_anew: whether each rank imports PyTorch itself.
    """

    function: str
    argument: str
    begins_anew: bool = False

    def do(self) -> int:
        """Call the function; returns the exit code."""
        module, _, name = self.function.partition(":")
        code: int = getattr(importlib.import_module(module), name)(self.argument)
        return code


@dataclass(frozen=True, slots=True)
class Start:
    """Ranks to fork: their work, folder, module path and environment."""

    work: Work
    folder: str
    path: tuple[str, ...]
    environments: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a rank.

    Attributes:
        code: its exit code; negative for a signal.
        error: the last line of its traceback; "" if it had none.
    """

    rank: int
    code: int
    error: str


class ForkServer:
    """Starts ranks, receives their outcomes, and ends them.

    Attributes:
        is_ready: whether it has imported the modules of ranks.
    """

    def __init__(self) -> None:
        try:
            self._server, theirs = Pipe()
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                    interpreter("main", sys.path),
                    stdin=theirs.fileno(),
                    env=_DEFAULTS | os.environ | {"OMP_NUM_THREADS": "1"},
                    start_new_session=True,
                )
        except OSError as error:
            raise EnvironmentFault(cannot_start("a process for the ranks", error)) from None
        self.is_ready = False
        self._num_ranks = 0
        self._codes: dict[int, int] = {}
        self._errors: dict[int, str] = {}

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can start ranks."""
        return self._process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether a signal such as SIGSTOP has stopped it, and it has not continued."""
        if self._process.returncode is not None:
            return False
        look = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
        state = os.waitid(os.P_PID, self._process.pid, look)
        return state is not None and state.si_code == os.CLD_STOPPED

    def start(self, work: Work, environments: Sequence[Mapping[str, str]]) -> None:
        """Start a rank for each environment, which extends that of this process."""
        assert len(self._codes) == self._num_ranks, "the ranks of another run have not ended"
        own = _DEFAULTS | os.environ
        self._num_ranks, self._codes, self._errors = len(environments), {}, {}
        given = tuple(own | dict(environment) for environment in environments)
        self._tell(Start(work, str(Path.cwd()), tuple(sys.path), given))

    def exit_codes(self) -> dict[int, int]:
        """The exit codes of ended ranks, by rank; negative for a signal.

        Raises:
            EnvironmentFault: no rank can be started.
        """
        try:
            while self._server.poll():
                told: Ended | str | None = self._server.recv()
                if told is None:
                    self.is_ready = True
                    continue
                if isinstance(told, str):
                    raise EnvironmentFault(told)
                self._codes[told.rank] = told.code
                if told.error:
                    self._errors[told.rank] = told.error
        except (EOFError, OSError):  # it was killed, and its ranks with it
            for rank in range(self._num_ranks):
                self._codes.setdefault(rank, -signal.SIGKILL)
        return dict(self._codes)

    def errors(self) -> dict[int, str]:
        """The messages of ended ranks, by rank."""
        return dict(self._errors)

    def end_ranks(self) -> None:
        """Kill the ranks that are left, and wait until they are gone."""
        if len(self.exit_codes()) == self._num_ranks:
            return
        self._tell(None)
        deadline = time.monotonic() + _END_S
        while len(self.exit_codes()) < self._num_ranks:
            if self.is_stopped or time.monotonic() > deadline:
                self.close()
            time.sleep(_POLL_S)

    def close(self) -> None:
        """End the server, its ranks and their children."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._server.close()

    def _tell(self, request: Start | None) -> None:
        try:
            self._server.send(request)
        except OSError:  # the server has ended: `exit_codes` will report that
            self._process.wait()


def cannot_start(what: str, error: OSError) -> str:
    """The message for a system without room for a process."""
    return (
        f"{what} cannot be started ({error.strerror}): expected room for more processes and open "
        "files; try fewer --ranks, or see ulimit -a"
    )


def interpreter(function: str, path: Sequence[str], *words: str) -> tuple[str, ...]:
    """The command that calls a function of `forking` in a separate interpreter.

    Args:
        path: its module path.
        words: the words after the path in its `sys.argv`.
    """
    code = f"{_FIRST}; from zerosim.train.launch.forking import {function}; {function}()"
    return (sys.executable, "-c", code, json.dumps(list(path)), *words)


class _KeptServer:
    """The server that this process keeps for its next run, if it keeps one."""

    wanted = False
    server: ForkServer | None = None


def keep() -> None:
    """Make all runs of this process share one server.

    Settings that PyTorch reads on import, and the output streams, are those of the first start.
    """
    _KeptServer.wanted = True


@contextmanager
def lent() -> Iterator[ForkServer]:
    """A server for one run."""
    if _KeptServer.wanted:
        if _KeptServer.server is None or not _KeptServer.server.is_alive:
            _KeptServer.server = ForkServer()
        yield _KeptServer.server
        return
    server = ForkServer()
    try:
        yield server
    finally:
        server.close()
