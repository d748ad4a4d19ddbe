"""The holdings and the cells that may have changed; all rules share them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from zerosim.analysis.frames.holdings import Holdings, ShardState
from zerosim.analysis.frames.layout import Band, ShardLayout
from zerosim.analysis.frames.step import Step
from zerosim.schema.events import Kind, Op
from zerosim.schema.memory import Role

Change = tuple[int, ShardState]
"""A cell's number, and its new state."""
Spot = tuple[int, Band, str, int]
"""A rank, a state in a tier, a unit, a shard."""


def cell_number(layout: ShardLayout, place: int, band: Band, unit: int, shard: int) -> int:
    """Number of a cell: rank by rank, state by state, unit by unit, shard by shard.

    Args:
        place: of the rank in `layout.ranks`.
        unit: position among the units.
    """
    state = layout.states.index(band)
    row = (place * len(layout.states) + state) * len(layout.trainable) + unit
    return row * len(layout.shards) + shard


@dataclass(slots=True)
class Ledger:
    """The holdings, and the possible changes since the last query.

    Attributes:
        cells: their states at the last query.
    """

    layout: ShardLayout
    holdings: Holdings
    cells: list[ShardState] = field(default_factory=list)
    touched: set[Spot] = field(default_factory=set)
    units: dict[str, int] = field(init=False)
    places: dict[int, int] = field(init=False)
    bands: dict[Role, tuple[Band, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.units = {unit: index for index, unit in enumerate(self.layout.trainable)}
        self.places = {rank: place for place, rank in enumerate(self.layout.ranks)}
        self.bands = {
            role: tuple(band for band in self.layout.states if band.role is role) for role in Role
        }

    def all_cells(self) -> tuple[ShardState, ...]:
        """Every cell as it is now."""
        layout = self.layout
        return tuple(
            self.holdings.cell(rank, band, unit, shard)
            for rank in layout.ranks
            for band in layout.states
            for unit in self.units
            for shard in layout.shards
        )

    def changed(self) -> Iterator[Change]:
        """The cells that have changed."""
        numbers = sorted(
            (cell_number(self.layout, self.places[rank], band, self.units[unit], shard), spot)
            for spot in self.touched
            for rank, band, unit, shard in (spot,)
        )
        self.touched.clear()
        for number, spot in numbers:
            holding = self.holdings.cell(*spot)
            if holding is not self.cells[number]:
                self.cells[number] = holding
                yield number, holding

    def group_of(self, step: Step, rank: int) -> tuple[int, ...]:
        """The ranks that communicate with a rank in a step, itself included."""
        everyone = tuple(range(self.layout.num_ranks))
        return next((group for group in step.groups if rank in group), everyone)

    def touch(self, rank: int, role: Role, unit: str, shards: Iterable[int] | None = None) -> None:
        """Cells that may have changed, in every tier."""
        every = self.layout.shards if shards is None else tuple(shards)
        self.touched.update(
            (rank, band, unit, shard) for band in self.bands[role] for shard in every
        )

    def announce(self, rank: int, unit: str, band: Band, shards: Iterable[int]) -> None:
        """Shards are in flight."""
        for shard in shards:
            self.holdings.arriving.add((rank, unit, band.role, shard, band.tier))
        self.touch(rank, band.role, unit, shards)

    def arrive(self, rank: int, unit: str, band: Band, shards: Iterable[int]) -> None:
        """The shards are no longer in flight."""
        for shard in shards:
            self.holdings.arriving.discard((rank, unit, band.role, shard, band.tier))
        self.touch(rank, band.role, unit, shards)


def is_message(step: Step) -> bool:
    """A message outside of any collective, sent and received."""
    event = step.event
    return step.kind is Kind.COLLECTIVE and event is not None and event.op in (Op.SEND, Op.RECEIVE)
