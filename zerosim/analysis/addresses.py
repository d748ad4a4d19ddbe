"""Address maps of a device with a limit, and the fragmentation of its free memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from zerosim.record import RankTrace
from zerosim.schema.memory import AddressMap, MapMoment, Role


@dataclass(frozen=True, slots=True)
class AddressRow:
    """The memory of one rank's device in one iteration.

    Attributes:
        peak: the map at the peak.
        scattered: the map, at the start of a phase or at the peak, whose largest free block is the
            smallest fraction of the free memory.
        full: the map when an allocation failed; None if none did.
    """

    iteration: int
    peak: AddressMap
    scattered: AddressMap
    full: AddressMap | None


def address_table(rank: RankTrace) -> tuple[AddressRow, ...]:
    """One row per iteration with recorded address maps of this rank; -1 is the set-up.

    An incomplete iteration has no map of its peak; the fullest map takes its place.
    """
    by_iteration: dict[int, list[AddressMap]] = {}
    for drawn in rank.address_maps:
        by_iteration.setdefault(drawn.iteration, []).append(drawn)
    return tuple(_row(number, maps) for number, maps in sorted(by_iteration.items()))


def _row(iteration: int, maps: Sequence[AddressMap]) -> AddressRow:
    return AddressRow(
        iteration=iteration,
        peak=max(maps, key=lambda one: one.used_bytes),
        scattered=min(maps, key=lambda one: one.largest_free_share),
        full=next((one for one in maps if one.moment is MapMoment.FULL), None),
    )


def sketch(drawn: AddressMap, num_cells: int) -> tuple[Role | None, ...]:
    """The addresses, in order, as cells of equal size.

    Returns:
        The role of most bytes in each cell; None if most are free.
    """
    borders = [drawn.limit_bytes * cell // num_cells for cell in range(num_cells + 1)]
    cells = []
    for start, end in pairwise(borders):
        counted: Counter[Role | None] = Counter()
        for block in drawn.blocks:
            shared = min(end, block.offset + block.bytes) - max(start, block.offset)
            if shared > 0:
                counted[block.role] += shared
        counted[None] = end - start - counted.total()
        cells.append(counted.most_common(1)[0][0])
    return tuple(cells)
