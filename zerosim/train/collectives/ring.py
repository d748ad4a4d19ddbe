"""Our own collectives: rings over send and receive, at the bandwidth bound; each hop is traced.

N ranks form a ring; each sends only to the next. To reduce-scatter a matrix of N rows takes N-1
hops, to all-gather it another N-1; in each hop a rank sends one row, so it sends (N-1)/N of the
matrix, which is optimal (Patarasuk and Yuan 2009, section 3).

    reduce-scatter  hop h: send row r-1-h, receive row r-2-h, add      row r ends complete on rank r
    all-gather      hop h: send row r-h,   receive row r-1-h, keep     every row ends on every rank
    all-reduce      the first, then the second

Operations with a root use a chain, chunk by chunk: a broadcast begins at the root, a reduction ends
there and begins at the rank after it. Every rank but the last of a chain sends the whole buffer
once.

    broadcast       hop h: rank root + h sends, the next one keeps
    reduce          hop h: rank root + 1 + h sends, the next one adds

The sum of row j is always computed in the order j+1, j+2, ..., j, so results are bitwise equal in
every run, on every rank, and for every division of a unit into buckets. A chain to a root adds all
rows in the root's order; with three or more ranks, other rows are therefore rounded differently.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
import torch.distributed as dist

from zerosim.schema.events import Algorithm, Op
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold
from zerosim.trace.sink import CollectiveRequest
from zerosim.train.collectives.executor import Done, Executor, Work
from zerosim.train.collectives.group import RankGroup
from zerosim.train.collectives.protocol import Carried, Handle, require_matrix

_IN_FLIGHT = 2
"""Messages in flight per direction: one arrives while another is added."""


class Ring:
    """The `Collectives` protocol over send and receive."""

    def __init__(self, group: RankGroup, executor: Executor, chunk_bytes: int) -> None:
        """Create the collectives of a group.

        Args:
            chunk_bytes: longer messages are split, so that a chunk is added while the next arrives.
        """
        self.group = group
        self._executor = executor
        self._chunk_bytes = chunk_bytes
        self._scratch: dict[tuple[torch.dtype, torch.device], _Scratch] = {}

    def all_reduce(self, buffer: torch.Tensor) -> Handle:
        """See `Collectives.all_reduce`."""
        rows = self._rows(buffer)
        scratch = self._make_room(rows)

        def work() -> None:
            self._rotate(rows, self.group.rank - 1, scratch)
            self._rotate(rows, self.group.rank, None, first_hop=self.group.size - 1)

        return self._submit(Op.ALL_REDUCE, buffer, work)

    def reduce_scatter(self, buffer: torch.Tensor) -> Handle:
        """See `Collectives.reduce_scatter`."""
        require_matrix(Op.REDUCE_SCATTER, buffer, self.group)
        rows = buffer.unbind(0)
        scratch = self._make_room(rows)
        return self._submit(
            Op.REDUCE_SCATTER, buffer, lambda: self._rotate(rows, self.group.rank - 1, scratch)
        )

    def all_gather(self, buffer: torch.Tensor, carried: Carried | None = None) -> Handle:
        """See `Collectives.all_gather`.

        Args:
            buffer: (N, columns); row r is filled on rank r.
            carried: dtype and elements behind the bytes; by default those of the buffer.
        """
        require_matrix(Op.ALL_GATHER, buffer, self.group)

        def work() -> None:
            self._rotate(buffer.unbind(0), self.group.rank, None)

        return self._submit(Op.ALL_GATHER, buffer, work, carried)

    def broadcast(self, buffer: torch.Tensor, root: int) -> Handle:
        """See `Collectives.broadcast`: a chain from the root, chunk by chunk."""
        return self._submit(Op.BROADCAST, buffer, lambda: self._chain(buffer.view(-1), root, None))

    def reduce(self, buffer: torch.Tensor, root: int) -> Handle:
        """See `Collectives.reduce`: a chain to the root, chunk by chunk."""
        flat = buffer.view(-1)
        scratch = self._make_room([flat])
        return self._submit(Op.REDUCE, buffer, lambda: self._chain(flat, root + 1, scratch))

    def send(self, buffer: torch.Tensor, to: int) -> Handle:
        """See `Collectives.send`."""
        peer = self.group.ranks[to]

        def work() -> None:
            with labels.exclusive():
                dist.send(buffer, peer, group=self.group.process_group)

        return self._executor.submit(work)

    def receive(self, buffer: torch.Tensor, source: int) -> Handle:
        """See `Collectives.receive`."""
        peer = self.group.ranks[source]

        def work() -> None:
            with labels.exclusive():
                dist.recv(buffer, peer, group=self.group.process_group)

        return self._executor.submit(work)

    def _submit(
        self, op: Op, buffer: torch.Tensor, work: Work, carried: Carried | None = None
    ) -> Handle:
        payload = carried or Carried.of(buffer)
        request = CollectiveRequest(
            op=op,
            algorithm=Algorithm.RING,
            group=self.group.name,
            peers=tuple({self.group.previous: None, self.group.next: None}),
            dtype=payload.dtype,
            elements=payload.elements,
            payload_bytes=buffer.numel() * buffer.element_size(),
        )

        if self.group.size == 1:
            return Done()

        def labelled() -> None:
            with labels.collective(request, buffer):
                work()

        return self._executor.submit(labelled)

    def _rows(self, buffer: torch.Tensor) -> Sequence[torch.Tensor]:
        if buffer.dim() == 2 and buffer.shape[0] == self.group.size:
            return buffer.unbind(0)
        return buffer.view(-1).tensor_split(self.group.size)

    def _make_room(self, rows: Sequence[torch.Tensor]) -> _Scratch:
        """Scratch memory for received rows that are added.

        The calling thread allocates it: PyTorch records the allocations of that one.
        """
        scratch = self._scratch.setdefault((rows[0].dtype, rows[0].device), _Scratch())
        chunks = [self._chunks(row)[0] for row in rows if row.numel()]
        if chunks and self.group.size > 1:
            scratch.fit(max(chunks, key=len))
        return scratch

    def _chunks(self, row: torch.Tensor) -> Sequence[torch.Tensor]:
        elements = max(1, self._chunk_bytes // row.element_size())
        return row.split(elements) if row.numel() else ()

    def _rotate(
        self,
        rows: Sequence[torch.Tensor],
        first: int,
        scratch: _Scratch | None,
        first_hop: int = 0,
    ) -> None:
        """Pass rows around the ring: at hop h send row `first - h`, receive the one before it.

        Args:
            scratch: receives rows to add; None if rows are kept.
        """
        size = self.group.size
        chunks = [self._chunks(row) for row in rows]
        under_way: deque[_ChunkHop] = deque()
        sends: list[tuple[_ChunkHop, dist.Work]] = []
        arrived: set[tuple[int, int]] = set()

        def finish_oldest() -> None:
            step = under_way.popleft()
            step.finish()
            arrived.add((step.hop, step.chunk))

        for hop in range(size - 1):
            out_row, in_row = (first - hop) % size, (first - hop - 1) % size
            pairs = zip_longest(chunks[out_row], chunks[in_row])
            for index, (outgoing, incoming) in enumerate(pairs):
                # the row to send arrived one hop ago
                needs = (hop - 1, index)
                while under_way and (
                    len(under_way) >= _IN_FLIGHT or (hop > 0 and needs not in arrived)
                ):
                    finish_oldest()
                step = _ChunkHop(hop, index, incoming, scratch)
                sent = step.post(self.group, outgoing, out_row, in_row, first_hop)
                if sent is not None:
                    sends.append((step, sent))
                under_way.append(step)
        while under_way:
            finish_oldest()
        for step, sent in sends:
            sent.wait()
            step.finish_label(Op.SEND)

    def _chain(self, buffer: torch.Tensor, first: int, scratch: _Scratch | None) -> None:
        """Pass a buffer from rank to rank, around the ring except for the last step.

        Args:
            first: index of the first rank of the chain.
            scratch: receives chunks to add; None if chunks are kept.
        """
        group = self.group
        place = (group.rank - first) % group.size
        sends = []
        for index, chunk in enumerate(self._chunks(buffer)):
            if place > 0:
                landing = chunk if scratch is None else scratch.take(chunk.numel())
                with labels.hop(place - 1, None, index) as arriving:
                    dist.recv(landing, group.previous, group=group.process_group)
                arriving.finish(Op.RECEIVE)
                if scratch is not None:
                    chunk.add_(landing)
            if place < group.size - 1:
                with labels.hop(place, index, None) as leaving:
                    sent = dist.isend(chunk, group.next, group=group.process_group)
                assert sent is not None
                sends.append((leaving, sent))
        for leaving, sent in sends:
            sent.wait()
            leaving.finish(Op.SEND)


class _Scratch:
    """Buffers of one dtype for chunks that are added: one arrives while another is added.

    They are reused from one collective to the next: fresh memory would cost as much as the
    addition. When larger buffers replace them, a collective in progress continues with the old
    ones, so those are kept until the next replacement.
    """

    def __init__(self) -> None:
        self._buffers: list[torch.Tensor] = []
        self._replaced: list[torch.Tensor] = []
        self._taken = 0

    def fit(self, longest: torch.Tensor) -> None:
        """Make sure that the buffers fit a chunk of this size."""
        if not self._buffers or self._buffers[0].numel() < longest.numel():
            self._replaced = self._buffers
            self._buffers = [torch.empty_like(longest) for _ in range(_IN_FLIGHT)]
            for buffer in self._buffers:
                hold(buffer, Role.BUFFERS, "")

    def take(self, elements: int) -> torch.Tensor:
        """The buffer used longest ago: its contents have been added by now."""
        buffer = self._buffers[self._taken % _IN_FLIGHT]
        self._taken += 1
        if buffer.is_cuda:  # allocated for one stream, used on another
            buffer.record_stream(torch.cuda.current_stream())
        return buffer[:elements]


@dataclass(slots=True)
class _ChunkHop:
    """One chunk in one hop: sent to the next rank, received from the previous one."""

    hop: int
    chunk: int
    incoming: torch.Tensor | None
    scratch: _Scratch | None
    landing: torch.Tensor | None = None
    received: dist.Work | None = None
    posted: labels.Hop | None = None

    def post(
        self,
        group: RankGroup,
        outgoing: torch.Tensor | None,
        out_row: int,
        in_row: int,
        first_hop: int,
    ) -> dist.Work | None:
        """Post both messages; returns the send's work, if any."""
        operations = []
        if outgoing is not None:
            operations.append(
                dist.P2POp(dist.isend, outgoing, group.next, group=group.process_group)
            )
        if self.incoming is not None:
            self.landing = self.incoming
            if self.scratch is not None:
                self.landing = self.scratch.take(self.incoming.numel())
            operations.append(
                dist.P2POp(dist.irecv, self.landing, group.previous, group=group.process_group)
            )
        with labels.hop(first_hop + self.hop, out_row, in_row) as self.posted:
            works = dist.batch_isend_irecv(operations)
        # NCCL returns one work for a whole batch
        self.received = works[-1] if self.incoming is not None else None
        return works[0] if outgoing is not None else None

    def finish(self) -> None:
        """Wait for the incoming message, and add it if this ring reduces."""
        if self.received is None or self.incoming is None or self.landing is None:
            return
        self.received.wait()
        self.finish_label(Op.RECEIVE)
        if self.scratch is not None:
            self.incoming.add_(self.landing)

    def finish_label(self, op: Op) -> None:
        """Report the end of a message of this step."""
        if self.posted is not None:
            self.posted.finish(op)
