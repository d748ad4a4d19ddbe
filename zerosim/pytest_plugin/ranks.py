"""Starts ranks for a function of a test, and reports their outcomes."""

from __future__ import annotations

import os
import pickle
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerosim.base.errors import ConfigError, RunError
from zerosim.pytest_plugin.options import Options
from zerosim.pytest_plugin.rank import call_traced
from zerosim.record.postmortem import end_words
from zerosim.train.launch.calls import FunctionCall, RankResult, call_on_ranks
from zerosim.train.launch.forkserver import lent


def run_ranks(
    function: Callable[..., Any],
    num_ranks: int,
    call: tuple[tuple[Any, ...], dict[str, Any]],
    *,
    home: Path,
    backend: str,
    name: str,
    options: Options,
) -> list[Any]:
    """Call a function on several ranks, each traced.

    Args:
        call: arguments and keyword arguments.
        home: a new folder; the trace is in `trace` below it.
        name: of the test.

    Returns:
        Each rank's result, by rank.

    Raises:
        ConfigError: the function or an argument cannot be passed to another process.
        EnvironmentFault: there is no loopback.
        RunError: a rank raised, died, or did not end in time; with its traceback.
    """
    if isinstance(num_ranks, bool) or not isinstance(num_ranks, int) or num_ranks < 1:
        raise ConfigError(f"ranks is {num_ranks!r}: expected a whole number of 1 or more")
    kwargs = {
        "call": _pickle(function, call),
        "files": _files(function),
        "traces": str(home / "trace"),
        "program": f"pytest {name}",
        "options": options,
    }
    traced = FunctionCall(
        function=call_traced, kwargs=kwargs, backend=backend, timeout_s=options.timeout_s
    )
    with lent() as server:
        # use a port, so that a function that leaves its groups can rejoin in the usual way
        results = call_on_ranks(server, traced, num_ranks, port=0)
    if any(result.value is None for result in results):
        raise RunError(_words(function, results, options.timeout_s))
    return [pickle.loads(result.value or b"") for result in results]  # noqa: S301


def _pickle(function: Callable[..., Any], call: tuple[tuple[Any, ...], dict[str, Any]]) -> bytes:
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise ConfigError(f"run was given {function!r}: expected a function")
    try:
        pickle.dumps(function)
    except Exception as error:  # noqa: BLE001 - pickle raises any exception
        raise ConfigError(
            f"{name} cannot be passed to ranks, which are separate processes ({error}): "
            f"expected a top-level function of a module"
        ) from None
    try:
        return pickle.dumps((function, *call))
    except Exception as error:  # noqa: BLE001 - the same
        raise ConfigError(
            f"an argument of {name} cannot be passed to ranks, which are separate processes "
            f"({error}): expected numbers, strings, tensors and the like; create the rest in {name}"
        ) from None


def _files(function: Callable[..., Any]) -> dict[str, str]:
    """The module path of this process: ranks may not find its modules by name."""
    own = getattr(function, "__module__", "")
    paths = sysconfig.get_paths()
    installed = tuple(f"{paths[name]}{os.sep}" for name in ("stdlib", "purelib", "platlib"))
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name == "__main__":
            continue
        if name == own or not file.startswith(installed):
            found[name] = file
    return found


def _words(function: Callable[..., Any], results: list[RankResult], timeout_s: float) -> str:
    """The error message: the first failure in full, its consequences in one line each."""
    name = getattr(function, "__qualname__", repr(function))
    failed = sorted(
        ((rank, result) for rank, result in enumerate(results) if result.problem),
        key=lambda found: found[1].time_s,
    )
    of = f"of {len(results)}"
    # a killed rank is why others failed, whichever reported first
    codes = enumerate(result.code for result in results)
    killed = {rank: code for rank, code in codes if code is not None}
    lines = [f"rank {rank} {of} {end_words(code)} in {name}" for rank, code in killed.items()]
    for rank, result in failed[:1]:
        lines += [f"rank {rank} {of} failed in {name}:", "", result.problem.rstrip()]
    for rank, result in failed[1:]:
        lines += ["", f"rank {rank}, later: {result.problem.rstrip().splitlines()[-1]}"]
    for rank, each in enumerate(results):
        if rank in killed or each.value or each.problem:
            continue
        if lines:
            lines += ["", f"rank {rank} was still running, and was ended"]
        else:
            lines.append(f"rank {rank} {of} did not end {name} within {timeout_s:g} s")
    return "\n".join(lines)
