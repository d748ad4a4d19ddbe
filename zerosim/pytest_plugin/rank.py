"""What the processes do that `zerosim_trace.run` starts.

One process imports PyTorch and forks the ranks, so they begin at once; it computes nothing itself,
and holds the store where they meet, so that no rank's death takes it away. The function that the
ranks call is found by the file that defines it: pytest imports test files in ways of its own.
Imports torch, zerosim's L0, trace, and launch's doors.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._dynamo  # an optimizer imports it when it is made
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed import distributed_c10d

from zerosim.launch.doors import LOOPBACK, take
from zerosim.pytest_plugin.options import Options
from zerosim.trace.session import trace

ANSWER = "answer-{rank}"
"""The file in which it is told how it went on a rank."""
_POLL_S = 0.02
_GRACE_S = 10.0
"""How long ranks may go on when one of them has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the test wants its ranks to do.

    Attributes:
        call: function, arguments and named arguments, pickled.
        files: of the modules that the test's process has from its project, by their names.
        traces: the folder of the trace.
    """

    call: bytes
    files: dict[str, str]
    num_ranks: int
    backend: str
    traces: str
    program: str
    options: Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How it went on one rank.

    Attributes:
        value: what the function returned, pickled; None if it raised.
        problem: the traceback; "" if there is none.
        time_s: when it failed.
        code: the exit code of one that gave no answer, negative for a signal; None if it had to be
            ended, or gave one.
    """

    value: bytes | None = None
    problem: str = ""
    time_s: float = 0.0
    code: int | None = None


def main(folder: str) -> None:
    """Fork the ranks and wait for them.

    Args:
        folder: holds the request, and takes the answers.
    """
    request: Request = pickle.loads(Path(folder, "request").read_bytes())  # noqa: S301 - the test's
    # ranks are forked with one thread, and must not fork with more
    torch.set_num_threads(1)
    with take(0) as door:
        port = door.getsockname()[1]
        ranks: dict[int, int] = {}
        for rank in range(request.num_ranks):
            pid = os.fork()
            if pid == 0:
                door.close()
                _be_rank(request, Path(folder), rank, port)
            ranks[pid] = rank
        store = TCPStore(
            LOOPBACK,
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=os.dup(door.fileno()),
        )
        for rank, code in _wait(ranks, request.options.timeout_s):
            if not Path(folder, ANSWER.format(rank=rank)).exists():
                _leave(Path(folder), rank, Answer(code=code))
        del store


def _wait(ranks: dict[int, int], timeout_s: float) -> Iterator[tuple[int, int | None]]:
    """Wait for ranks; kill those that are late, or that another's failure leaves waiting.

    Args:
        ranks: by their process ids.

    Yields:
        Each rank and its exit code; negative for a signal, None if it had to be ended.
    """
    deadline = time.monotonic() + timeout_s
    while ranks and time.monotonic() < deadline:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(_POLL_S)
        elif pid in ranks:
            yield ranks.pop(pid), os.waitstatus_to_exitcode(status)
            if status != 0:
                deadline = min(deadline, time.monotonic() + _GRACE_S)
    for pid, rank in ranks.items():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        yield rank, None


def _be_rank(request: Request, folder: Path, rank: int, port: int) -> None:
    """Call the function as one of the ranks; never returns."""
    code = 1
    try:
        answer = _answer(request, rank, port)
        _leave(folder, rank, answer)
        code = 1 if answer.problem else 0
    except BaseException:  # noqa: BLE001 - it must never go on as the process that forked it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _leave(folder: Path, rank: int, answer: Answer) -> None:
    target = folder / ANSWER.format(rank=rank)
    temporary = target.with_name(f".{target.name}")
    temporary.write_bytes(pickle.dumps(answer))
    temporary.replace(target)


def _answer(request: Request, rank: int, port: int) -> Answer:
    number, count = str(rank), str(request.num_ranks)
    os.environ |= {
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        "RANK": number,
        "LOCAL_RANK": number,
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    try:
        value = _call(request, rank)
    except BaseException as error:  # noqa: BLE001 - whatever it was is told
        return Answer(problem=_describe(error), time_s=time.time())
    try:
        return Answer(value=pickle.dumps(value))
    except Exception as error:  # noqa: BLE001 - pickle raises what an object likes
        return Answer(
            problem=f"what the function returned cannot be sent back ({error}): expected numbers, "
            f"texts, tensors and the like\n",
            time_s=time.time(),
        )


def _call(request: Request, rank: int) -> Any:
    timeout = timedelta(seconds=request.options.timeout_s)
    dist.init_process_group(request.backend, timeout=timeout)
    store = distributed_c10d._get_default_store()  # noqa: SLF001 - it has no other name
    function, args, kwargs = _Reader(io.BytesIO(request.call), request.files).load()
    options = request.options

    def meet(what: str) -> None:
        """No collective: what the ranks record is the function's alone."""
        keys = [f"zerosim/{what}/{other}" for other in range(request.num_ranks)]
        store.set(keys[rank], "1")
        store.wait(keys, timeout)

    with trace(
        request.traces,
        program=request.program,
        memory=options.memory,
        wire=options.wire,
        allocations=options.allocations,
    ):
        value = function(*args, **kwargs)
        # the kernel's counters are read last when nothing is under way
        meet("returned")
    meet("recorded")
    if dist.is_initialized():
        dist.destroy_process_group()
    return value


def _describe(error: BaseException) -> str:
    """A traceback without the frames of this file and of the trace's block."""
    told = traceback.TracebackException.from_exception(error)
    told.stack[:] = [frame for frame in told.stack if frame.filename != __file__]
    return "".join(told.format())


class _Reader(pickle.Unpickler):
    """Finds functions and classes where the test's process has them from."""

    def __init__(self, file: io.BytesIO, files: dict[str, str]) -> None:
        super().__init__(file)
        self._files = files

    def find_class(self, module: str, name: str) -> Any:
        """The function or class, with its module imported."""
        if module not in sys.modules and module in self._files:
            _import(module, self._files[module])
        return super().find_class(module, name)


def _import(name: str, file: str) -> None:
    """Import a module by its name if that leads to this file, else from the file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None and Path(spec.origin) == Path(file):
        importlib.import_module(name)
        return
    place = Path(file).parent
    for parent in reversed(_parents(name)):
        if parent not in sys.modules:
            package = ModuleType(parent)
            package.__path__ = []
            sys.modules[parent] = package
    if "." in name:
        # so that it finds its neighbours
        vars(sys.modules[name.rpartition(".")[0]])["__path__"] = [str(place)]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "the test's process has imported it from there"
    assert spec.loader is not None, "likewise"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _parents(name: str) -> list[str]:
    """The packages that a module is in, from the innermost."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
