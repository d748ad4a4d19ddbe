"""Calls a function on several ranks, for tests: of projects (the pytest plugin) and our own.

The function is passed by name, its arguments and its result as pickles, in a folder that only this
user can open.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch.distributed as dist

from zerosim.train.launch.forkserver import ForkServer, Work
from zerosim.train.launch.ranks import RankTimeouts, run_ranks
from zerosim.train.launch.rendezvous import join, open_rendezvous

_REQUEST = "request"
_RESULT = "result-{rank}"
_GRACE_S = 10.0
"""How long ranks may continue after one of them failed."""
_CALLERS = (f"{Path(__file__).parent}{os.sep}", f"{Path(__file__).parents[2]}/pytest_plugin/")
"""The folders of the frames above the function's own frame in a traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """The function to call on ranks, once they have joined a process group.

    Attributes:
        backend: of the process group; None leaves it to PyTorch.
    """

    function: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    backend: str | None = "gloo"
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """The outcome of a call on one rank.

    Attributes:
        value: the function's result, pickled; None if it did not return.
        problem: the traceback; "" if there is none.
        time_s: the time of the failure.
        code: the exit code of a rank without an outcome, negative for a signal; None if it had to
            be killed, or reported an outcome.
    """

    value: bytes | None = None
    problem: str = ""
    time_s: float = 0.0
    code: int | None = None


def call_on_ranks(
    server: ForkServer, call: FunctionCall, num_ranks: int, *, port: int | None = None
) -> list[RankResult]:
    """Call a function on ranks of this host; it must not take longer than its timeout.

    Args:
        port: the rendezvous port, as for `open_rendezvous`.

    Returns:
        The outcome of each rank.

    Raises:
        EnvironmentFault: the ranks cannot be started.
        RunError: the fork server was stopped for too long.
    """
    timeouts = RankTimeouts(stopped_s=call.timeout_s, grace_s=_GRACE_S, deadline_s=call.timeout_s)
    with tempfile.TemporaryDirectory(prefix="zerosim-") as folder, open_rendezvous(port) as place:
        Path(folder, _REQUEST).write_bytes(pickle.dumps(call))
        work = Work("zerosim.train.launch.calls:answer", folder)
        codes = run_ranks(server, work, num_ranks, place, timeouts)
        return [_result(Path(folder), rank, codes.get(rank)) for rank in range(num_ranks)]


def _result(folder: Path, rank: int, code: int | None) -> RankResult:
    try:
        told = Path(folder, _RESULT.format(rank=rank)).read_bytes()
    except FileNotFoundError:
        return RankResult(code=code)
    result: RankResult = pickle.loads(told)  # noqa: S301 - our own rank wrote it
    return result


# on a rank


def answer(folder: str) -> int:
    """Call the function as one of the ranks; returns the exit code."""
    rank = os.environ["RANK"]
    result = _call(Path(folder, _REQUEST).read_bytes())
    target = Path(folder, _RESULT.format(rank=rank))
    temporary = target.with_name(f".{target.name}")
    temporary.write_bytes(pickle.dumps(result))
    temporary.replace(target)
    return 1 if result.problem else 0


def _call(request: bytes) -> RankResult:
    try:
        call: FunctionCall = pickle.loads(request)  # noqa: S301 - the parent of this rank wrote it
        ranks = join(call.backend, call.timeout_s)
        value = call.function(*call.args, **call.kwargs)
        ranks.meet("all have returned")
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException as error:  # noqa: BLE001 - every error is reported
        return RankResult(problem=_describe(error), time_s=time.time())
    try:
        return RankResult(value=pickle.dumps(value))
    except Exception as error:  # noqa: BLE001 - pickle raises any exception
        return RankResult(
            problem=f"the function's return value cannot be sent back ({error}): expected numbers, "
            f"strings, tensors and the like\n",
            time_s=time.time(),
        )


def _describe(error: BaseException) -> str:
    """A traceback without the frames of the function's callers."""
    told = traceback.TracebackException.from_exception(error)
    told.stack[:] = [frame for frame in told.stack if not frame.filename.startswith(_CALLERS)]
    return "".join(told.format())
