"""How stage 3 brings a unit's parameters together, before it computes.

`RowGathering` is the stage as the paper has it: each rank's own row, from where it is kept, then an
all-gather. Others send less of it, or between fewer ranks.
Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zerosim.collectives import Handle
from zerosim.engine.flat import FlatUnit
from zerosim.engine.homes import Home
from zerosim.engine.owners import OwnerBroadcast, OwnerHome
from zerosim.engine.zeropp import QuantizedRows, SecondaryGathering
from zerosim.events import Phase, Purpose
from zerosim.trace import labels

if TYPE_CHECKING:
    from zerosim.engine.stage import Context


class Gathering(Protocol):
    """Fills a unit's flat vector, which has memory and nothing in it."""

    def start(self, flat: FlatUnit) -> Handle:
        """Fill `flat.rows`; which phase it is, `labels.position()` says."""
        ...

    def forward_is_over(self, flat: FlatUnit) -> None:
        """All rows are there and about to be freed: the unit's forward is over."""
        ...

    def update_is_over(self) -> None:
        """What was gathered before is of no use any more."""
        ...

    def let_go(self) -> None:
        """The engine is closed."""
        ...


class RowGathering:
    """Each rank's own row, from its home; all other rows by an all-gather."""

    def __init__(self, context: Context, home: Home) -> None:
        """Gather what this home keeps."""
        self._context = context
        self._home = home
        self._quantized = QuantizedRows(context) if context.config.quantize_weights else None

    def start(self, flat: FlatUnit) -> Handle:
        """Fetch the own row, and gather the others once it is there."""
        context = self._context
        fetched = self._home.fetch(flat)
        if not context.communicates:
            return fetched
        context.first(fetched)
        with labels.scope(unit=flat.name, purpose=Purpose.GATHER_PARAMETERS, tensors=(flat.name,)):
            # what belongs to no iteration is gathered exactly
            if self._quantized is None or labels.position().phase is Phase.OUTSIDE:
                return context.collectives.all_gather(flat.rows)
            return self._quantized.gather(flat)

    def forward_is_over(self, flat: FlatUnit) -> None:
        """Nothing is kept."""

    def update_is_over(self) -> None:
        """Nothing was kept."""
        if self._quantized is not None:
            self._quantized.update_is_over()

    def let_go(self) -> None:
        """The engine is closed."""
        if self._quantized is not None:
            self._quantized.let_go()


def make_gathering(context: Context, home: Home) -> Gathering:
    """What the configuration asks for."""
    if isinstance(home, OwnerHome):
        return OwnerBroadcast(context, home)
    primary = RowGathering(context, home)
    if context.config.secondary_partition == 1:
        return primary
    return SecondaryGathering(context, primary)
