"""The search for the largest model that fits, against devices that are formulas."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from zerosim.train.launch.fitting import Fit, Try, find_largest

MOST = 40


def _search(peak_of: Callable[[int], int], limit_bytes: int) -> Fit:
    def attempt(layers: int) -> Try:
        peak_bytes = peak_of(layers)
        return Try(layers, 10 * layers, peak_bytes if peak_bytes <= limit_bytes else None)

    return find_largest(attempt, limit_bytes, MOST)


@given(
    st.integers(0, 100),
    st.lists(st.integers(0, 20), min_size=MOST, max_size=MOST),
    st.integers(0, 900),
)
def test_it_finds_the_largest_and_tries_none_twice(
    constant: int, steps: list[int], limit_bytes: int
) -> None:
    peaks = [constant + sum(steps[: layers + 1]) for layers in range(MOST)]
    fit = _search(lambda layers: peaks[layers - 1], limit_bytes)
    expected = sum(peak <= limit_bytes for peak in peaks)
    assert (fit.largest.layers if fit.largest else 0) == expected
    assert fit.is_bounded == (expected < MOST)
    tried = [one.layers for one in fit.tries]
    assert len(set(tried)) == len(tried)


def test_where_memory_grows_evenly_it_takes_few_tries() -> None:
    fit = _search(lambda layers: 7 + 3 * layers, limit_bytes=100)
    assert [one.layers for one in fit.tries] == [1, 2, 31, 32]
    assert fit.largest == Try(31, 310, 100)
