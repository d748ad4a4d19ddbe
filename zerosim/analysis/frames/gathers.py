"""The effect of a gather of parameters on the contents of the ranks: ring, broadcast, messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zerosim.analysis.frames.layout import Band
from zerosim.analysis.frames.ledger import Ledger, is_message
from zerosim.analysis.frames.step import Step
from zerosim.schema.events import Kind, Op, Phase
from zerosim.schema.memory import Role

_PARAMETERS = Band(Role.PARAMETERS)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Shards arriving at a rank; the sender is None if every owner sends its own."""

    source: int | None
    target: int
    shards: tuple[int, ...]


class Gathers:
    """Parameters in flight between ranks."""

    def __init__(self, ledger: Ledger) -> None:
        """Apply gathers to these holdings."""
        self._ledger = ledger

    def begin(self, step: Step, unit: str) -> None:
        """Shards are sent; the sender must have them.

        Parts that a rank has kept since forward do not arrive at it, although they are sent.
        """
        holdings = self._ledger.holdings
        self._take_from_secondary(step, unit)
        for one in self._arrivals(step, unit):
            for shard in one.shards:
                sender = self._owner(step, one.target, unit, shard)
                sender = sender if one.source is None else one.source
                if sender in self._ledger.places:
                    holdings.require_parameters(sender, unit, [shard], "sends")
            held = (
                holdings.parameters[one.target, unit]
                if self._is_secondary(step, one.target, unit)
                else ()
            )
            coming = [shard for shard in one.shards if shard not in held]
            self._ledger.announce(one.target, unit, _PARAMETERS, coming)

    def end(self, step: Step, unit: str) -> None:
        """The shards have arrived."""
        for one in self._arrivals(step, unit):
            self._ledger.arrive(one.target, unit, _PARAMETERS, one.shards)
            for shard in one.shards:
                self._ledger.holdings.gathered(one.target, unit, shard)

    def _take_from_secondary(self, step: Step, unit: str) -> None:
        """In backward, a rank takes parts kept since forward from itself.

        Its neighbours send the rest: their whole parts, including those of this rank (ZeRO++, 3.2).
        """
        for rank in step.events if not step.hop else ():
            if self._is_secondary(step, rank, unit):
                kept = self._ledger.holdings.secondary[rank, unit]
                for shard in kept:
                    self._ledger.holdings.gathered(rank, unit, shard)
                self._ledger.touch(rank, Role.PARAMETERS, unit, kept)

    def _owner(self, step: Step, rank: int, unit: str, shard: int) -> int:
        """The rank of the group that owns each shard."""
        holdings, layout = self._ledger.holdings, self._ledger.layout
        group = self._ledger.group_of(step, rank)
        recorded = [one for one in group if one in self._ledger.places]
        if self._is_secondary(step, rank, unit):
            kept = (one for one in recorded if shard in holdings.secondary.get((one, unit), ()))
            return next(kept, -1)
        return next((one for one in recorded if shard in layout.own(one, unit)), -1)

    def _arrivals(self, step: Step, unit: str) -> Iterator[_Arrival]:
        """The shards arriving at ranks in the trace.

        For a native call only the result is known: each rank receives the shards that it lacks.
        """
        ledger = self._ledger
        if step.kind is Kind.TRANSFER or is_message(step):
            for message in step.messages:
                if message.target in ledger.places:
                    shards = self._carried(step, message.source, message.shard)
                    if shards:
                        yield _Arrival(message.source, message.target, shards)
            return
        event, owner = step.event, ledger.layout.divided.owners.get(unit)
        for rank in step.events:
            if owner is not None or (event is not None and event.op is Op.BROADCAST):
                root = event.peers[0] if event is not None and event.peers else None
                root = root if owner is None else owner
                if rank != root:
                    yield _Arrival(root, rank, tuple(ledger.layout.shards))
            else:
                own = set(ledger.layout.own(rank, unit))
                if self._is_secondary(step, rank, unit):
                    own = ledger.holdings.secondary[rank, unit]
                computed = ledger.layout.computes(rank, unit)
                yield _Arrival(None, rank, tuple(one for one in computed if one not in own))

    def _carried(self, step: Step, source: int, shard: int | None) -> tuple[int, ...]:
        """The shards of a unit that a message carries."""
        layout, event = self._ledger.layout, step.event
        if event is not None and event.op is Op.BROADCAST:
            return tuple(layout.shards)
        if is_message(step):
            return (source,)
        if shard is None:
            return ()
        return tuple(layout.part(shard, len(self._ledger.group_of(step, source))))

    def _is_secondary(self, step: Step, rank: int, unit: str) -> bool:
        """Whether a rank gathers from its neighbours' secondary copies, not from the owners."""
        is_backward = step.phase is Phase.BACKWARD
        return is_backward and bool(self._ledger.holdings.secondary.get((rank, unit)))
