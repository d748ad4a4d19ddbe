"""Our own all-to-all: a message from each rank to each other rank, all of them intercepted.

With n ranks there are n - 1 rounds: in round s, rank r sends to rank r + s the part for that rank,
and receives its own from rank r - s. All messages are posted at once, in that order.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.schema.events import Algorithm, Op
from zerosim.trace import labels
from zerosim.trace.sink import CollectiveRequest
from zerosim.train.collectives.executor import Done, Executor
from zerosim.train.collectives.group import RankGroup
from zerosim.train.collectives.protocol import Carried, Handle, require_matrix


class Pairwise:
    """Messages between every two ranks of a group."""

    def __init__(self, group: RankGroup, executor: Executor) -> None:
        """Create the collectives of a group."""
        self.group = group
        self._executor = executor

    def all_to_all(
        self, outgoing: torch.Tensor, incoming: torch.Tensor, carried: Carried | None = None
    ) -> Handle:
        """Send row p of `outgoing` to the rank at index p; row p of `incoming` is received from it.

        Args:
            outgoing, incoming: (n, columns), rows contiguous; both must stay untouched until a wait
                for the handle.
            carried: dtype and elements behind the bytes; by default those of the buffers.

        Raises:
            ConfigError: a buffer does not have a row for each rank.
        """
        for buffer in (outgoing, incoming):
            require_matrix(Op.ALL_TO_ALL, buffer, self.group)
        payload = carried or Carried.of(outgoing)
        request = CollectiveRequest(
            op=Op.ALL_TO_ALL,
            algorithm=Algorithm.PAIRWISE,
            group=self.group.name,
            peers=self.group.others,
            dtype=payload.dtype,
            elements=payload.elements,
            payload_bytes=outgoing.numel() * outgoing.element_size(),
        )

        def work() -> None:
            with labels.collective(request):
                self._exchange(outgoing, incoming)

        if self.group.size == 1:
            incoming.copy_(outgoing)
            return Done()
        return self._executor.submit(work)

    def _exchange(self, outgoing: torch.Tensor, incoming: torch.Tensor) -> None:
        own, size = self.group.rank, self.group.size
        posted = []
        if outgoing.shape[1]:
            for step in range(1, size):
                to, source = (own + step) % size, (own - step) % size
                posted.append(self._post(step - 1, outgoing[to], incoming[source], to, source))
        incoming[own].copy_(outgoing[own])
        for hop, sent, received in posted:
            received.wait()
            hop.finish(Op.RECEIVE)
            sent.wait()
            hop.finish(Op.SEND)

    def _post(
        self, number: int, outgoing: torch.Tensor, incoming: torch.Tensor, to: int, source: int
    ) -> tuple[labels.Hop, dist.Work, dist.Work]:
        group, ranks = self.group.process_group, self.group.ranks
        operations = [
            dist.P2POp(dist.isend, outgoing, ranks[to], group=group),
            dist.P2POp(dist.irecv, incoming, ranks[source], group=group),
        ]
        with labels.hop(number, to, self.group.rank) as hop:
            works = dist.batch_isend_irecv(operations)
        # NCCL returns one work for a whole batch
        return hop, works[0], works[-1]
