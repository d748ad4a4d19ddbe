"""The ranks of one run: they are started, monitored and ended together.

When a rank fails, the others get a few seconds to notice and to record their positions; then they
are killed: a trace has all rows written so far, so there is nothing to wait for. PyTorch's elastic
agent is not used, because its rendezvous unpickles state from a store that listens on every
address; a single host needs neither.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from zerosim.base.errors import RunError
from zerosim.train.launch.forkserver import ForkServer, Work
from zerosim.train.launch.silence import Silence

_POLL_S = 0.02
_LOOK_S = 0.5
"""Interval of checks for silent ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTimeouts:
    """Timeouts for ranks.

    Attributes:
        stopped_s: how long the fork server may be stopped.
        grace_s: time for the other ranks to notice a failure and to record their positions.
        deadline_s: the limit for the whole run.
    """

    stopped_s: float
    grace_s: float
    deadline_s: float = math.inf


def run_ranks(
    server: ForkServer,
    work: Work,
    num_ranks: int,
    rendezvous: Mapping[str, str],
    timeouts: RankTimeouts,
    silence: Silence | None = None,
) -> dict[int, int]:
    """Start ranks and wait until all have ended, or must be.

    Args:
        rendezvous: the result of `open_rendezvous`.
        silence: checks whether ranks have not responded for too long; None for no check.

    Returns:
        The exit codes of those that ended by themselves, by rank; negative for a signal.

    Raises:
        RunError: the fork server was stopped for too long.
        EnvironmentFault: the fork server cannot fork them.
    """
    count = str(num_ranks)
    environments = [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": count,
            "LOCAL_WORLD_SIZE": count,
            **rendezvous,
        }
        for rank in range(num_ranks)
    ]
    try:
        server.start(work, environments)
        return _watch(server, num_ranks, timeouts, silence)
    finally:
        server.end_ranks()


def _watch(
    server: ForkServer, num_ranks: int, timeouts: RankTimeouts, silence: Silence | None
) -> dict[int, int]:
    went_on, deadline, has_failed = time.monotonic(), math.inf, False
    next_look = went_on
    while True:
        time.sleep(_POLL_S)
        codes = server.exit_codes()
        now = time.monotonic()
        if not server.is_stopped:
            went_on = now
        elif now - went_on >= timeouts.stopped_s:
            raise RunError(
                f"process {server.pid}, which starts and supervises the ranks, was "
                f"stopped for {timeouts.stopped_s:g} s (SIGSTOP): all were killed; the ranks' "
                "traces are kept"
            )
        if server.is_ready and deadline == math.inf:
            deadline = now + timeouts.deadline_s
        if not has_failed and any(codes.values()):
            has_failed, deadline = True, min(deadline, now + timeouts.grace_s)
        if silence is not None and now >= next_look and not has_failed:
            next_look = now + _LOOK_S
            if silence.is_over(now, tuple(codes)):
                return codes
        if now >= deadline or len(codes) == num_ranks:
            return codes
