"""A process that imports PyTorch once and forks ranks: they begin at once, not in two seconds.

The server computes nothing and starts no thread, so that a fork takes all of it along. A rank that
will use CUDA is forked all the same and then begins anew, as CUDA must not have been looked at
before a fork. The ranks end with the server (the kernel sees to it), and the server with who
started it, whose end of their connection closes however it goes.
That side, `ForkServer`, imports the standard library and `zerosim.errors` only, so that a server
can be started while its owner imports PyTorch for itself.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import NoReturn

from zerosim.errors import EnvironmentFault, cannot_load

_POLL_S = 0.02
_END_S = 30.0
"""How long processes that were killed may take to be gone."""
_LONGEST = 4096
"""Of what a rank says of its end, in bytes: less than a pipe takes at once."""
_TELLING = "ZEROSIM_TELLING"
"""The variable that tells a rank where to say why it ends."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
"""Both from linux/prctl.h."""
_DEFAULTS = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
"""What a rank finds where nothing else was asked for: one thread each, and no word of its end
beside ours."""


_FIRST = "import json, sys; sys.path[:] = json.loads(sys.argv[1])"
"""A new interpreter finds modules where the one that starts it does."""


@dataclass(frozen=True, slots=True)
class Work:
    """What each rank does: calls a function with a text.

    Attributes:
        function: its module and its name, "package.module:name"; it returns the exit code.
        begins_anew: each rank imports PyTorch for itself.
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
    """Ranks to be forked: what they do, where, with which path to modules, which environment."""

    work: Work
    folder: str
    path: tuple[str, ...]
    environments: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a rank ended.

    Attributes:
        code: its exit code; negative for a signal.
        error: the last line of its traceback; "" if it had none.
    """

    rank: int
    code: int
    error: str


class ForkServer:
    """The owner's side: starts ranks, hears how they end, ends them.

    Attributes:
        is_ready: it has imported what ranks need.
    """

    def __init__(self) -> None:
        try:
            self._server, theirs = Pipe()
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                    _interpreter("main", sys.path),
                    stdin=theirs.fileno(),
                    env=_DEFAULTS | os.environ | {"OMP_NUM_THREADS": "1"},
                    start_new_session=True,
                )
        except OSError as error:
            raise EnvironmentFault(_cannot_start("a process for the ranks", error)) from None
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
        """Whether a signal such as SIGSTOP has stopped it, and it has not gone on."""
        if self._process.returncode is not None:
            return False
        look = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
        state = os.waitid(os.P_PID, self._process.pid, look)
        return state is not None and state.si_code == os.CLD_STOPPED

    def start(self, work: Work, environments: Sequence[Mapping[str, str]]) -> None:
        """Start a rank for each environment, which is added to that of this process."""
        assert len(self._codes) == self._num_ranks, "the ranks of another run have not ended"
        own = _DEFAULTS | os.environ
        self._num_ranks, self._codes, self._errors = len(environments), {}, {}
        given = tuple(own | dict(environment) for environment in environments)
        self._tell(Start(work, str(Path.cwd()), tuple(sys.path), given))

    def exit_codes(self) -> dict[int, int]:
        """Those of the ranks that have ended, by rank; negative for a signal.

        Raises:
            EnvironmentFault: there can be no ranks.
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
        """What those ranks said of their ends that had something to say, by rank."""
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
        """End the server, and with it the ranks and what they started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._server.close()

    def _tell(self, request: Start | None) -> None:
        try:
            self._server.send(request)
        except OSError:  # it is gone: `exit_codes` will say so
            self._process.wait()


def _cannot_start(what: str, error: OSError) -> str:
    return (
        f"{what} cannot be started ({error.strerror}): expected room for more processes and open "
        "files; try fewer --ranks, or see ulimit -a"
    )


def _interpreter(function: str, path: Sequence[str], *words: str) -> tuple[str, ...]:
    """The command that calls a function of this module in an interpreter of its own."""
    code = f"{_FIRST}; from {__name__} import {function}; {function}()"
    return (sys.executable, "-c", code, json.dumps(list(path)), *words)


class _KeptServer:
    """The server that this process keeps for its next run, if it keeps one."""

    wanted = False
    server: ForkServer | None = None


def keep() -> None:
    """Have all runs of this process share one server.

    What is read when PyTorch is imported, and where ranks print, is then as it was at the first.
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


# the server itself and its ranks


def die_of_interrupts() -> None:
    """Have Ctrl-C end this process as any signal would: its owner tells a person what happened.

    Where it is ignored it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def serve(owner: Connection) -> None:
    """Fork the ranks that the owner asks for, tell it how they end; until it is gone."""
    # by process id: the rank, and where it says why it ends
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
                    owner.send(_cannot_start(f"rank {rank}", error))
                    return  # and the ranks that there are end with this process
        while ranks:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            rank, hearing = ranks.pop(pid)
            owner.send(Ended(rank, os.waitstatus_to_exitcode(status), _heard(hearing)))


def _heard(hearing: int) -> str:
    """What a rank said that has ended; whatever it started may still have the pipe open."""
    os.set_blocking(hearing, False)
    try:
        return os.read(hearing, _LONGEST).decode(errors="replace")
    except BlockingIOError:
        return ""
    finally:
        os.close(hearing)


def tell(error: BaseException, telling: int | None = None) -> None:
    """Say to the owner in one line why this rank ends; it takes no disk, which may be full.

    Args:
        telling: where; as the environment says, by default.
    """
    line = traceback.format_exception_only(error)[0].splitlines()[0]
    to = int(os.environ[_TELLING]) if telling is None else telling
    os.write(to, line.encode(errors="replace")[:_LONGEST])


def _fork(request: Start, rank: int, owner: Connection, others: Sequence[int]) -> tuple[int, int]:
    """Fork a rank; what is the server's own is closed there.

    Returns:
        Its process id, and where to read why it ends.
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
        words = _interpreter("begin", request.path, work.function, work.argument)
        os.execve(sys.executable, words, environment)  # noqa: S606
    sys.path[:] = request.path
    os.environ.clear()
    os.environ.update(environment)
    return work.do()


def begin() -> None:
    """Be a rank in an interpreter of its own."""
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
    """Import what ranks need, then fork them."""
    die_of_interrupts()
    owner = Connection(os.dup(0))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    try:
        # an optimizer imports the last one when it is made
        for module in ("zerosim.launch.worker", "torch._dynamo"):
            importlib.import_module(module)
    except (ImportError, MemoryError, OSError) as error:
        with suppress(OSError):
            owner.send(cannot_load(error))
        os._exit(1)
    gc.collect()
    gc.freeze()  # ranks need not look through what was imported, nor copy its pages to do so
    try:
        owner.send(None)  # it is ready
        serve(owner)
    except (EOFError, OSError):  # the owner is gone
        os._exit(0)
