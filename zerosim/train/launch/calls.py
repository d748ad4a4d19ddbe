"""Calling a function on several ranks, for tests: those of a project (the pytest plugin) and ours.

The function is handed over by its name, its arguments and what it returns as pickles, in a folder
that only this user can open.
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
"""How long ranks may go on when one of them has failed."""
_CALLERS = (f"{Path(__file__).parent}{os.sep}", f"{Path(__file__).parents[2]}/pytest_plugin/")
"""Where the frames lie that stand above the function's own in a traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """What ranks are to call, once they have joined a process group.

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
    """How a call went on one rank.

    Attributes:
        value: what the function returned, pickled; None if it did not.
        problem: the traceback; "" if there is none.
        time_s: when it failed.
        code: the exit code of one that said nothing, negative for a signal; None if it had to be
            ended, or said how it went.
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
        port: where they meet, as for `open_rendezvous`.

    Returns:
        How it went, by rank.

    Raises:
        EnvironmentFault: they cannot be started.
        RunError: what starts them was stopped for too long.
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
        call: FunctionCall = pickle.loads(request)  # noqa: S301 - who started this rank wrote it
        ranks = join(call.backend, call.timeout_s)
        value = call.function(*call.args, **call.kwargs)
        ranks.meet("all have returned")
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException as error:  # noqa: BLE001 - whatever it was is told
        return RankResult(problem=_describe(error), time_s=time.time())
    try:
        return RankResult(value=pickle.dumps(value))
    except Exception as error:  # noqa: BLE001 - pickle raises what an object likes
        return RankResult(
            problem=f"what the function returned cannot be sent back ({error}): expected numbers, "
            f"texts, tensors and the like\n",
            time_s=time.time(),
        )


def _describe(error: BaseException) -> str:
    """A traceback without the frames of those who called the function."""
    told = traceback.TracebackException.from_exception(error)
    told.stack[:] = [frame for frame in told.stack if not frame.filename.startswith(_CALLERS)]
    return "".join(told.format())
