"""An address space against the simplest one there is: a bitmap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zerosim.train.device import ALIGNMENT_BYTES, AddressSpace


def test_neighbours_that_are_given_back_become_one() -> None:
    space = AddressSpace(4 * ALIGNMENT_BYTES)
    first, second, third = (space.take(1) for _ in range(3))
    assert (first, second, third) == (0, ALIGNMENT_BYTES, 2 * ALIGNMENT_BYTES)
    assert first is not None
    assert second is not None
    assert third is not None
    space.give(first)
    space.give(third)
    assert (space.free_bytes, space.num_free_pieces) == (3 * ALIGNMENT_BYTES, 2)
    # enough is free, but not in one piece
    assert space.take(3 * ALIGNMENT_BYTES) is None
    space.give(second)
    assert (space.largest_free_bytes, space.num_free_pieces) == (4 * ALIGNMENT_BYTES, 1)
    assert space.take(4 * ALIGNMENT_BYTES) == 0


def test_the_smallest_piece_that_is_large_enough_is_taken() -> None:
    space = AddressSpace(8 * ALIGNMENT_BYTES)
    places = [space.take(size * ALIGNMENT_BYTES) for size in (3, 1, 2, 1, 1)]
    for place in (places[0], places[2]):
        assert place is not None
        space.give(place)
    assert space.take(2 * ALIGNMENT_BYTES) == places[2]


@given(
    st.integers(0, 12),
    st.lists(st.one_of(st.integers(1, 5 * ALIGNMENT_BYTES), st.integers(-8, -1)), max_size=60),
)
def test_every_place_is_free_when_it_is_taken_and_nothing_is_lost(
    size: int, steps: list[int]
) -> None:
    """Steps above 0 take so many bytes, those below give the n-th last place back."""
    space = AddressSpace(size * ALIGNMENT_BYTES)
    cells = [False] * size
    taken: list[tuple[int, int]] = []
    for step in steps:
        if step > 0:
            needed = -(-step // ALIGNMENT_BYTES)
            offset = space.take(step)
            runs = _free_runs(cells)
            if offset is None:
                assert all(length < needed for _, length in runs)
                continue
            start = offset // ALIGNMENT_BYTES
            assert offset % ALIGNMENT_BYTES == 0
            fitting = [length for _, length in runs if length >= needed]
            assert (start, min(fitting)) in runs, "not the smallest, or not its beginning"
            cells[start : start + needed] = [True] * needed
            taken.append((start, needed))
        elif len(taken) >= -step:
            start, needed = taken.pop(step)
            space.give(start * ALIGNMENT_BYTES)
            cells[start : start + needed] = [False] * needed
        runs = _free_runs(cells)
        assert space.used_bytes == sum(cells) * ALIGNMENT_BYTES
        assert space.num_free_pieces == len(runs)
        longest = max((length for _, length in runs), default=0)
        assert space.largest_free_bytes == longest * ALIGNMENT_BYTES


def _free_runs(cells: list[bool]) -> list[tuple[int, int]]:
    """Start and length of each run of free cells."""
    runs: list[tuple[int, int]] = []
    for index, is_taken in enumerate(cells):
        if is_taken:
            continue
        if runs and sum(runs[-1]) == index:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return runs
