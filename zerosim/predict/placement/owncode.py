"""Where a program's own code takes time: between events, and where threads take something up.

None of it is an event. On the thread that computes: what lies before each event, and what asking
for a collective or a copy takes, which copies what is to be sent. On others: until a thread takes
up what it was asked for, until one that waits is woken, until a ring's next message is posted.
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
        taken_up: moments at which another thread begins what it was asked for.
        asks: edges by which something is asked for, by their source and then in order; turn: how
            many of them have the same source, up to this one; asked_bytes: of each.
        onwards: edges along the computing thread.
        posts: edges after which a message of a ring is posted.
        wakes: edges from what is over to who waits for it.
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
        """By ask, when it is made, where each of them takes so long."""
        sums = np.concatenate([[0.0], np.cumsum(taken)])
        place = np.arange(len(taken))
        made: Floats = sums[1:] - sums[place - self.turn + 1]
        return made

    def spent(self, taken: Floats) -> Floats:
        """By edge of `onwards`, how long the asks from its source take together."""
        of = np.zeros(len(self.network.time))
        np.add.at(of, self.network.source[self.asks], taken)
        spent: Floats = of[self.network.source[self.onwards]]
        return spent

    def made(self) -> Ints:
        """By ask, how long it was after the one before it from the same source, ns."""
        offset = self.network.offset[self.asks]
        made: Ints = offset - np.where(self.turn > 1, np.roll(offset, 1), 0)
        return made

    def within_iterations(self) -> Mask:
        """Which edges of `onwards` lead from something of an iteration to a moment in `between`."""
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
