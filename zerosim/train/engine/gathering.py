"""The gathering of a unit's parameters in stage 3, before its computation.

`RowGathering` is the stage as in the paper. ZeRO++ (`zeropp`) sends less, or between fewer ranks.
Module `owners` has the baseline that ZeRO-Infinity compares with: one rank owns a unit.
"""

from __future__ import annotations

from zerosim.schema.events import Purpose
from zerosim.train.collectives import Handle
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.stores import ParameterStore


class Gathering:
    """Fills a unit's flat vector, which is uninitialized."""

    def start(self, flat: FlatUnit) -> Handle:
        """Fill `flat.rows`; the phase is that of `labels.position()`."""
        raise NotImplementedError

    def forward_is_over(self, flat: FlatUnit) -> None:
        """The unit's forward has ended; all rows are present and about to be freed."""

    def update_is_over(self) -> None:
        """Gathered parameters are now out of date."""

    def release(self) -> None:
        """The engine is closed."""


class RowGathering(Gathering):
    """Reads each rank's own row from its store, and all-gathers the other rows."""

    def __init__(self, context: Context, store: ParameterStore) -> None:
        """Gather the rows in this store."""
        self.context = context
        self._store = store

    def start(self, flat: FlatUnit) -> Handle:
        """Fetch this rank's row, and gather the others once it is present."""
        fetched = self._store.fetch(flat)
        if not self.context.communicates:
            return fetched
        self.context.order_after(fetched)
        with flat.labelled(Purpose.GATHER_PARAMETERS):
            return self.all_gather(flat)

    def all_gather(self, flat: FlatUnit) -> Handle:
        """Gather the rows; each rank has its own."""
        return self.context.collectives.all_gather(flat.rows)
