"""Bandwidths as nccl-tests defines them, by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.analysis.graph.planted import Planted, plant
from zerosim.analysis import Bandwidth, bandwidths, bus_factor
from zerosim.analysis.graph import build_graph
from zerosim.schema.events import Op


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        (Op.ALL_REDUCE, Fraction(6, 4)),
        (Op.ALL_GATHER, Fraction(3, 4)),
        (Op.REDUCE_SCATTER, Fraction(3, 4)),
        (Op.ALL_TO_ALL, Fraction(3, 4)),
        (Op.BROADCAST, 1),
        (Op.REDUCE, 1),
        (Op.SEND, 1),
    ],
)
def test_the_factors_of_nccl_tests(op, factor):
    assert bus_factor(op, 4) == factor


def test_bandwidth_by_hand(tmp_path):
    first, second = Planted(0), Planted(1)
    # calls of 1000, 2000 and 4000 ns on the slower rank; the other comes 400 ns later
    for begin, time in ((0, 1000), (10_000, 4000), (20_000, 2000)):
        first.call(begin, begin, begin + time, payload_bytes=3000)
        second.call(begin, begin + 400, begin + time - 100, payload_bytes=3000)
    first.call(30_000, 30_000, 30_500, op=Op.BARRIER, payload_bytes=0)
    second.call(30_000, 30_000, 30_500, op=Op.BARRIER, payload_bytes=0)
    first.call(40_000, 40_000, 40_500, payload_bytes=8)
    second.call(40_000, 40_000, None, payload_bytes=8)  # never ended
    (found,) = bandwidths(build_graph(plant(tmp_path, first, second)))
    assert found == Bandwidth(
        op=Op.ALL_REDUCE,
        payload_bytes=3000,
        num_ranks=2,
        num_collectives=3,
        call_ns=2000,
        moving_ns=1600,
    )
    assert found.algorithm_bytes_per_s == 1.5e9
    assert found.bus_bytes_per_s == 1.5e9  # of two ranks the factor is 1
    assert found.moving_bus_bytes_per_s == 1.875e9
