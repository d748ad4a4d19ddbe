"""The time of a program's own code: between events, and in hand-overs between threads.

None of it is an event. On the computing thread: the time before each event, and that of the request
of a collective or a copy, which copies the data to send. On other threads: until a thread starts a
request, until a waiting one is woken, until a ring's next message is posted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph import NodeKind, Reason
from zerosim.analysis.graph.table import NONE, Ints, Mask
from zerosim.predict.placement.costs import Tasks
from zerosim.predict.placement.fitting import Floats
from zerosim.predict.placement.network import Network


@dataclass(frozen=True)
class OwnCode:
    """Moments and edges of a network that are a program's own code.

    Attributes:
        between: moments of the computing thread that follow its own code.
        taken_up: moments at which another thread starts a request.
        asks: edges of requests, by their source and then in order; turn: the number of those with
            the same source, up to this one; asked_bytes: bytes of each.
        onwards: edges along the computing thread.
        posts: edges before the posting of a message of a ring.
        wakes: edges from the end of an event to its waiter.
    """

    network: Network
    between: Ints
    taken_up: Ints
    asks: Ints
    turn: Ints
    asked_bytes: Ints
    onwards: Ints
    posts: Ints
    wakes: Ints

    @classmethod
    def of(cls, network: Network) -> OwnCode:
        """Find them."""
        graph = network.graph
        asks = np.flatnonzero(network.is_reason(Reason.ASKED))
        asks = asks[np.lexsort((network.target[asks], network.offset[asks], network.source[asks]))]
        source = network.source[asks]
        first = np.concatenate([[True], source[1:] != source[:-1]])[: len(asks)]
        asked = Tasks(graph, NodeKind.CALL, network.target[asks], np.zeros_like(asks))
        place = np.arange(len(asks))
        turn = place - np.maximum.accumulate(np.where(first, place, 0)) + 1
        is_message = np.zeros(len(network.time), np.bool_)
        is_message[network.rows(NodeKind.SEND, NodeKind.RECEIVE)] = True
        inside = is_message[network.target] & (network.reason == NONE) & network.begins
        return cls(
            network=network,
            between=np.flatnonzero(graph.is_kind(NodeKind.COMPUTE, NodeKind.PHASE)),
            taken_up=network.rows(NodeKind.CALL, NodeKind.COPY),
            asks=asks,
            turn=turn,
            asked_bytes=np.array(asked.column("payload_bytes"), np.int64),
            onwards=np.flatnonzero(network.is_reason(Reason.NEXT)),
            posts=np.flatnonzero(inside),
            wakes=np.flatnonzero(network.is_reason(Reason.OVER)),
        )

    def before(self, taken: Floats) -> Floats:
        """By request, its time, with a given duration of each."""
        sums = np.concatenate([[0.0], np.cumsum(taken)])
        place = np.arange(len(taken))
        made: Floats = sums[1:] - sums[place - self.turn + 1]
        return made

    def spent(self, taken: Floats) -> Floats:
        """By edge of `onwards`, the total time of the requests from its source."""
        of = np.zeros(len(self.network.time))
        np.add.at(of, self.network.source[self.asks], taken)
        spent: Floats = of[self.network.source[self.onwards]]
        return spent

    def made(self) -> Ints:
        """By request, the time since the previous one from the same source, ns."""
        offset = self.network.offset[self.asks]
        made: Ints = offset - np.where(self.turn > 1, np.roll(offset, 1), 0)
        return made

    def within_iterations(self) -> Mask:
        """The edges of `onwards` that lead from an event of an iteration to a moment in
        `between`.
        """
        network, iteration = self.network, self.network.graph.iteration
        source, target = network.source[self.onwards], network.target[self.onwards]
        rows = network.computes[source]
        is_node = source < len(iteration)
        of_node = iteration[np.where(is_node, source, 0)]
        of_piece = iteration[np.where(rows == NONE, 0, rows)]
        came_from = np.where(rows != NONE, of_piece, np.where(is_node, of_node, NONE))
        is_between = np.zeros(len(network.time), np.bool_)
        is_between[self.between] = True
        found: Mask = is_between[target] & (came_from == iteration[target])
        return found
