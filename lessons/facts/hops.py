"""One collective of a ring, hop by hop: sender, receiver and piece of each message.

A collective is named by its op and its unit; the first such of the iteration is meant. Ranks and
shards count from 0, hops from 1. All of it is traced: these are the messages that were sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.base import Base
from zerosim.schema.events import Algorithm, Op
from zerosim.theory import cost

UNIT = "blocks.2"
"""The default unit of the lessons: one in the middle."""
_PACKET = 6  # sender, receiver, shard, bytes, start, end


@dataclass(frozen=True, slots=True)
class HopMessage:
    """A message from one rank to another in one hop."""

    hop: int
    source: int
    target: int
    shard: int
    bytes: int


class HopFacts(Base):
    """Facts of one collective."""

    def ops(self, run: str, unit: str = UNIT) -> list[str]:
        """The kinds of collectives of a unit, in the order of a step."""
        found = [e["op"] for e in self._document(run)["collectives"] if e["unit_name"] == unit]
        return list(dict.fromkeys(found))

    def num_hops(self, run: str, op: str, unit: str = UNIT) -> int:
        """Rounds of a collective's ring."""
        return max(message.hop for message in self.messages(run, op, unit))

    def pieces_sent(self, run: str, op: str, unit: str = UNIT, rank: int = 0) -> int:
        """Pieces that a rank sends in one collective, a piece in each hop."""
        return len({each.hop for each in self.messages(run, op, unit) if each.source == rank})

    def bytes_sent(self, run: str, op: str, unit: str = UNIT, rank: int = 0) -> int:
        """Bytes that a rank sends in one collective."""
        return sum(each.bytes for each in self.messages(run, op, unit) if each.source == rank)

    def share_sent(self, run: str, op: str, unit: str = UNIT, rank: int = 0) -> float:
        """The same as a multiple of the collective's payload."""
        payload: int = self._collective(run, op, unit)["payload_bytes"]
        return self.bytes_sent(run, op, unit, rank) / payload

    def first_receiver(self, run: str, op: str, shard: int, unit: str = UNIT) -> str:
        """The rank that receives a piece in the first hop that it makes."""
        return str(next(m.target for m in self.messages(run, op, unit) if m.shard == shard))

    def last_receiver(self, run: str, op: str, shard: int, unit: str = UNIT) -> str:
        """The rank that receives a piece in its last hop: for a reduce-scatter, its owner."""
        return str([m.target for m in self.messages(run, op, unit) if m.shard == shard][-1])

    def messages(self, run: str, op: str, unit: str = UNIT) -> tuple[HopMessage, ...]:
        """All messages of a collective, hop by hop, then by sender.

        Raises:
            ConfigError: there is no such collective, or its hops are unknown.
        """
        document = self._document(run)
        index = document["collectives"].index(self._collective(run, op, unit))
        sizes: dict[tuple[int, int, int, int], int] = {}
        for step in document["steps"]:
            if step["collective"] != index or step["hop"] < 0:
                continue
            packets = step["packets"]
            for at in range(0, len(packets), _PACKET):
                source, target, shard, size = packets[at : at + 4]
                # a long piece travels in chunks
                key = (step["hop"] + 1, source, target, shard)
                sizes[key] = sizes.get(key, 0) + size
        if not sizes:
            raise ConfigError(f"{run}: the hops of the {op} of {unit} are not known")
        ranks = document["ranks"]
        return tuple(
            HopMessage(hop, ranks[source], ranks[target], shard, size)
            for (hop, source, target, shard), size in sorted(sizes.items())
        )

    def ring_share(self, op: str, num_ranks: int) -> float:
        """By theory: traffic of a rank of a ring, as a multiple of the payload."""
        elements = num_ranks  # one a piece
        return cost(Algorithm.RING, Op(op), num_ranks, 0, elements, 1).sent_bytes / elements

    def _collective(self, run: str, op: str, unit: str) -> Mapping[str, Any]:
        for each in self._document(run)["collectives"]:
            if each["op"] == op and each["unit_name"] == unit:
                found: Mapping[str, Any] = each
                return found
        raise ConfigError(f"{run} has no {op} of {unit}")
