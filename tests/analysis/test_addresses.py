"""Address maps, read: a row for each iteration, and a line of cells."""

from __future__ import annotations

from types import SimpleNamespace

from zerosim.analysis.addresses import address_table, sketch
from zerosim.schema.events import Phase
from zerosim.schema.memory import AddressBlock, AddressMap, MapMoment, Role


def _drawn(iteration: int, moment: MapMoment, *blocks: tuple[int, int, Role]) -> AddressMap:
    return AddressMap(
        moment=moment,
        iteration=iteration,
        micro_step=0,
        phase=Phase.FORWARD,
        time_ns=0,
        limit_bytes=1000,
        blocks=tuple(AddressBlock(offset, size, role, "") for offset, size, role in blocks),
    )


def test_what_is_free_and_in_how_large_a_piece() -> None:
    drawn = _drawn(
        0,
        MapMoment.PHASE,
        (0, 100, Role.PARAMETERS),
        (100, 50, Role.MASTER),
        (350, 250, Role.OTHER),
    )
    assert (drawn.used_bytes, drawn.free_bytes, drawn.largest_free_bytes) == (400, 600, 400)
    assert drawn.largest_free_share == 400 / 600
    assert drawn.fragmentation == 1 - 400 / 600
    between = _drawn(0, MapMoment.PHASE, (0, 100, Role.OTHER), (400, 600, Role.OTHER))
    assert between.largest_free_bytes == between.free_bytes == 300
    everything = _drawn(0, MapMoment.PHASE, (0, 1000, Role.OTHER))
    assert (everything.largest_free_share, everything.fragmentation) == (1.0, 0.0)


def test_a_row_tells_the_fullest_and_the_most_scattered_moment_of_an_iteration() -> None:
    whole = _drawn(0, MapMoment.PHASE, (0, 500, Role.PARAMETERS))
    peak = _drawn(0, MapMoment.PEAK, (0, 900, Role.PARAMETERS))
    scattered = _drawn(0, MapMoment.PHASE, (400, 200, Role.PARAMETERS))
    full = _drawn(1, MapMoment.FULL, (0, 400, Role.MASTER), (500, 100, Role.OTHER))
    rank = SimpleNamespace(address_maps=(whole, scattered, peak, full))
    first, second = address_table(rank)  # type: ignore[arg-type]
    assert (first.iteration, first.peak, first.scattered) == (0, peak, scattered)
    assert first.full is None
    assert (second.peak, second.scattered, second.full) == (full, full, full)


def test_a_sketch_says_of_each_cell_what_most_of_it_is() -> None:
    drawn = _drawn(
        0,
        MapMoment.PHASE,
        (0, 260, Role.PARAMETERS),
        (260, 230, Role.MASTER),
        (900, 100, Role.OTHER),
    )
    assert sketch(drawn, 4) == (Role.PARAMETERS, Role.MASTER, None, None)
    assert sketch(drawn, 10)[-1] is Role.OTHER
    assert sketch(drawn, 1) == (None,)
