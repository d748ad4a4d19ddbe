"""Hypothesis draws runs of a ring, with all durations, zero included."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import strategies as st

from tests.analysis.graph.runs import Plan, record
from tests.strategies import trace_files, write_files
from zerosim.record import Trace, load

small = st.integers(0, 40)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of up to four ranks."""
    num_ranks = draw(st.integers(1, 4))
    units = tuple(f"unit {index}" for index in range(draw(st.integers(1, 4))))
    times = draw(st.lists(st.integers(0, 2000), min_size=1, max_size=7))

    def compute_ns(rank: int, unit: str, phase: object) -> int:
        return times[(7 * rank + 3 * units.index(unit) + len(str(phase))) % len(times)]

    return Plan(
        num_ranks=num_ranks,
        units=units,
        iterations=draw(st.integers(1, 2)),
        stage=draw(st.sampled_from([1, 3])),
        overlap=draw(st.booleans()),
        compute_ns=compute_ns,
        hop_ns=draw(small),
        gap_ns=draw(small),
        handover_ns=draw(small),
        wake_ns=draw(small),
    )


def load_plan(plan: Plan) -> Trace:
    """What a plan's ranks record, written and read."""
    with tempfile.TemporaryDirectory() as folder:
        return load(write_files(Path(folder), trace_files(record(plan))))
