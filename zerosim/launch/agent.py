"""PyTorch's elastic agent, taught patience and haste.

It starts the ranks, holds their store, and notices how they end. As it is, it ends all others in
the moment in which one fails, before they can write down where they were, and then waits 30 s for
one that hangs. Here the others are given a few seconds, and what is left is killed: a trace holds
whatever was written, so there is nothing to wait for.
Imports torch.
"""

from __future__ import annotations

import logging
import signal
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import torch.distributed.elastic.rendezvous.registry as rendezvous
from torch.distributed.elastic.agent.server.api import (
    RunResult,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SubprocessContext
from torch.distributed.elastic.rendezvous import RendezvousParameters

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.05
_GRACE_S = 4.0
"""How long the other ranks have to notice that one is gone, and to write down where they were."""


class PatientAgent(LocalElasticAgent):
    """The agent of one run.

    Attributes:
        exit_codes: of the ranks that ended by themselves, by rank; negative for a signal.
    """

    def __init__(self, spec: WorkerSpec, logs: DefaultLogsSpecs) -> None:
        super().__init__(spec, logs)
        self.exit_codes: dict[int, int] = {}
        self._deadline: float | None = None

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        assert isinstance(self._pcontext, SubprocessContext)
        processes = {rank: h.proc for rank, h in self._pcontext.subprocess_handlers.items()}
        codes = {rank: process.poll() for rank, process in processes.items()}
        self.exit_codes = {rank: code for rank, code in codes.items() if code is not None}
        now = time.monotonic()
        if self._deadline is None and any(self.exit_codes.values()):
            self._deadline = now + _GRACE_S
        if len(self.exit_codes) < len(processes):
            if self._deadline is None or now < self._deadline:
                return RunResult(state=WorkerState.HEALTHY)
            self._shutdown()
        result: RunResult = super()._monitor_workers(worker_group)
        return result

    def _shutdown(
        self,
        death_sig: signal.Signals = signal.SIGKILL,  # noqa: ARG002 - none but this one is quick
        timeout: int = 30,
    ) -> None:
        super()._shutdown(signal.SIGKILL, timeout)


def make_agent(command: Sequence[str], num_ranks: int, port: int, folder: str) -> PatientAgent:
    """An agent that will run `command` as every rank of this host.

    Args:
        port: where the ranks meet; 0 for a free one.
        folder: where the agent keeps its own files.

    Raises:
        RendezvousConnectionError: the port is in use.
    """
    # how a run ended is told once, by zerosim; each of these loggers has a level of its own
    for name in logging.root.manager.loggerDict:
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    meeting = RendezvousParameters(
        backend="c10d",
        endpoint=f"{_LOOPBACK}:{port}",
        run_id=uuid.uuid4().hex,
        min_nodes=1,
        max_nodes=1,
        local_addr=_LOOPBACK,
        is_host=True,
    )
    spec = WorkerSpec(
        role="rank",
        local_world_size=num_ranks,
        entrypoint=command[0],
        args=tuple(command[1:]),
        rdzv_handler=rendezvous.get_rendezvous_handler(meeting),
        max_restarts=0,
        monitor_interval=_POLL_S,
        local_addr=_LOOPBACK,
    )
    return PatientAgent(spec, DefaultLogsSpecs(log_dir=str(Path(folder))))
