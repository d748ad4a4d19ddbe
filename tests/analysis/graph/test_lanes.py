"""Pieces of a main thread: what began last runs, and no time is lost or counted twice."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zerosim.analysis.graph.lanes import main_lane

spans = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.booleans()), min_size=1, max_size=8
)


@given(spans=spans)
def test_pieces_share_out_the_time(spans):
    start = np.array([begin for begin, _, _ in spans])
    end = start + np.array([length for _, length, _ in spans])
    is_moment = np.array([moment for _, _, moment in spans])
    lane = main_lane(start, end, is_moment)
    assert set(lane.item.tolist()) == set(range(len(spans)))  # nothing is lost
    moments = is_moment[lane.item]
    assert np.count_nonzero(moments) == np.count_nonzero(is_moment)  # a moment is one piece
    assert np.all(lane.start <= lane.end)
    assert np.all(lane.start[1:] >= lane.end[:-1])
    computing, waiting = set(), set()
    for begin, over, moment in zip(start, end, is_moment, strict=True):
        (waiting if moment else computing).update(range(begin, over))
    shown = [t for i in np.flatnonzero(~moments) for t in range(lane.start[i], lane.end[i])]
    assert len(shown) == len(set(shown))
    assert computing - waiting <= set(shown) <= computing
