"""Run a function on several ranks: real processes, Gloo over loopback, a deadline.

They are forked by a process that has imported PyTorch once and computed nothing, the one that forks
the ranks of the commands that a test runs in its own process.
"""

from __future__ import annotations

import os
import pickle
import random
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.deadlines import RANKS_S
from zerosim.train.launch.calls import FunctionCall, RankResult, call_on_ranks
from zerosim.train.launch.forkserver import keep, lent

_LOWEST_PORT = 10_000
"""Below it services have their own."""


def free_port() -> int:
    """A TCP port without a listener, which no other caller gets while this process lives.

    It is outside the range from which the kernel assigns ports to connections and to requests for
    any port, which may be taken between now and its use. Other callers, in any process, get a
    different port: this one is reserved by a name in the kernel's abstract namespace.
    """
    given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    below = range(_LOWEST_PORT, int(given.split()[0]))
    for port in random.sample(below, len(below)):
        with socket.socket() as probe, socket.socket(socket.AF_UNIX) as name:
            try:
                name.bind(f"\0zerosim-tests-port-{port}")
                probe.bind(("", port))
            except OSError:  # it is taken
                continue
            name.detach()  # held until this process ends
            return port
    raise AssertionError(f"no port of {below.start:,} to {below.stop:,} is free")


def run_ranks(
    function: Callable[..., Any],
    num_ranks: int,
    *args: Any,
    deadline_s: float = RANKS_S,
    backend: str | None = "gloo",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> list[Any]:
    """Call `function(*args)` in `num_ranks` processes joined by Gloo.

    Args:
        function: importable by name; asks torch.distributed for its rank.
        backend: as the ranks name it; None leaves it to PyTorch.
        environment: of the ranks, beside that of this process, which stays as it is: other threads
            of a test read that as well.

    Returns:
        What each rank returned, by rank.

    Raises:
        AssertionError: a rank raised, died or did not end in time; with its traceback.
    """
    keep()
    if environment:
        function, args = _call_in, (dict(environment), function, args)
    call = FunctionCall(function=function, args=args, backend=backend, timeout_s=deadline_s)
    with lent() as server:
        results = call_on_ranks(server, call, num_ranks)
    problems = [
        f"rank {rank} {_words(result, deadline_s)}"
        for rank, result in enumerate(results)
        if result.value is None
    ]
    assert not problems, "\n".join(problems)
    return [pickle.loads(result.value or b"") for result in results]  # noqa: S301 - our rank's


def _call_in(
    environment: dict[str, str], function: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    os.environ.update(environment)
    return function(*args)


def _words(result: RankResult, deadline_s: float) -> str:
    if result.problem:
        return f"failed: {result.problem}"
    if result.code is not None:
        return f"died ({result.code})"
    return f"did not end within {deadline_s} s, or of another's failure"
