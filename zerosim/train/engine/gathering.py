"""How stage 3 brings a unit's parameters together, before it computes.

`RowGathering` is the stage as the paper has it. ZeRO++ (`zeropp`) sends less, or between fewer
ranks; `owners` has what ZeRO-Infinity is held against.
"""

from __future__ import annotations

from zerosim.schema.events import Purpose
from zerosim.train.collectives import Handle
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.stores import ParameterStore


class Gathering:
    """Fills a unit's flat vector, which has memory and nothing in it; keeps nothing of it."""

    def start(self, flat: FlatUnit) -> Handle:
        """Fill `flat.rows`; which phase it is, `labels.position()` says."""
        raise NotImplementedError

    def forward_is_over(self, flat: FlatUnit) -> None:
        """All rows are there and about to be freed: the unit's forward is over."""

    def update_is_over(self) -> None:
        """What was gathered before is of no use any more."""

    def release(self) -> None:
        """The engine is closed."""


class RowGathering(Gathering):
    """Each rank's own row, from its store; all other rows by an all-gather."""

    def __init__(self, context: Context, store: ParameterStore) -> None:
        """Gather what this store keeps."""
        self.context = context
        self._store = store

    def start(self, flat: FlatUnit) -> Handle:
        """Fetch the own row, and gather the others once it is there."""
        fetched = self._store.fetch(flat)
        if not self.context.communicates:
            return fetched
        self.context.order_after(fetched)
        with flat.labelled(Purpose.GATHER_PARAMETERS):
            return self.all_gather(flat)

    def all_gather(self, flat: FlatUnit) -> Handle:
        """Bring the rows together of which each rank has its own."""
        return self.context.collectives.all_gather(flat.rows)
