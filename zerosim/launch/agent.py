"""PyTorch's elastic agent, with ranks from a nursery, and with patience and haste.

It holds the store where the ranks meet, and here it starts them and notices how they end. PyTorch's
own way to do that ends all others in the moment in which one fails, before they can write down
where they were, and then waits 30 s for one that hangs. Here the others are given a few seconds,
and what is left is killed: a trace holds whatever was written, so there is nothing to wait for.
Imports torch and launch.nursery.
"""

from __future__ import annotations

import logging
import signal
import time
import uuid
from typing import Any

import torch.distributed.elastic.rendezvous.registry as rendezvous
from torch.distributed.elastic.agent.server.api import (
    RunResult,
    SimpleElasticAgent,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from torch.distributed.elastic.rendezvous import RendezvousParameters

from zerosim.launch.nursery import Nursery

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.05
_GRACE_S = 4.0
"""How long the other ranks have to notice that one is gone, and to write down where they were."""


class PatientAgent(SimpleElasticAgent):
    """The agent of one run.

    Attributes:
        exit_codes: of the ranks that ended by themselves, by rank; negative for a signal.
    """

    def __init__(self, spec: WorkerSpec, nursery: Nursery, *, begins_anew: bool) -> None:
        super().__init__(spec)
        self.exit_codes: dict[int, int] = {}
        self._nursery = nursery
        self._begins_anew = begins_anew
        self._deadline: float | None = None

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        environments = [
            {
                "RANK": str(worker.global_rank),
                "LOCAL_RANK": str(worker.local_rank),
                "WORLD_SIZE": str(worker.world_size),
                "LOCAL_WORLD_SIZE": str(worker_group.spec.local_world_size),
                "MASTER_ADDR": str(worker_group.master_addr),
                "MASTER_PORT": str(worker_group.master_port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            for worker in worker_group.workers
        ]
        (job,) = worker_group.spec.args
        self._nursery.start(job, environments, begins_anew=self._begins_anew)
        return {worker.local_rank: worker.global_rank for worker in worker_group.workers}

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        self.exit_codes = self._nursery.exit_codes()
        failed = any(self.exit_codes.values())
        now = time.monotonic()
        if self._deadline is None and failed:
            self._deadline = now + _GRACE_S
        is_late = self._deadline is not None and now >= self._deadline
        if len(self.exit_codes) < len(worker_group.workers) and not is_late:
            return RunResult(state=WorkerState.HEALTHY)
        if failed:
            return RunResult(state=WorkerState.FAILED)
        return RunResult(state=WorkerState.SUCCEEDED, return_values=dict.fromkeys(self.exit_codes))

    def _stop_workers(self, worker_group: WorkerGroup) -> None:  # noqa: ARG002 - all of them
        self._nursery.end_ranks()

    def _shutdown(
        self,
        death_sig: signal.Signals = signal.SIGKILL,  # noqa: ARG002 - none but this one is quick
        timeout: int = 30,  # noqa: ARG002 - and it needs no patience
    ) -> None:
        self._nursery.end_ranks()


def make_agent(
    job: str, num_ranks: int, port: int, nursery: Nursery, *, begins_anew: bool
) -> PatientAgent:
    """An agent whose ranks, all on this host, will do `job`.

    Args:
        port: where the ranks meet; 0 for a free one.
        begins_anew: each rank imports PyTorch for itself.

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
        entrypoint="zerosim.launch.worker",
        args=(job,),
        rdzv_handler=rendezvous.get_rendezvous_handler(meeting),
        max_restarts=0,
        monitor_interval=_POLL_S,
        local_addr=_LOOPBACK,
    )
    return PatientAgent(spec, nursery, begins_anew=begins_anew)
