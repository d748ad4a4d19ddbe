"""Where a killed rank was, in words."""

import signal
from dataclasses import replace

import pytest

from tests import strategies as draw
from tests.record.samples import stop
from zerosim.record import explain_failure
from zerosim.schema.events import Phase, WireSample

STEPS = 3


def after(iteration, phase=Phase.OUTSIDE):
    return (
        "wire",
        WireSample(iteration=iteration, micro_step=0, phase=phase, time_ns=0, counters=()),
    )


@pytest.mark.parametrize(
    ("run", "sample", "place"),
    [
        ({"steps": STEPS}, after(0), "before iteration 0"),
        ({"steps": STEPS}, after(2), "before iteration 2"),
        ({"steps": STEPS}, after(2, Phase.UPDATE), "in update of iteration 2"),
        ({"steps": STEPS}, after(3), "after the last iteration"),
        ({}, after(3), "before iteration 3"),
        ({"steps": "many"}, after(3), "before iteration 3"),
    ],
)
def test_where_a_rank_was_killed(tmp_path, run, sample, place):
    rows = {rank: [("header", draw.header(rank, 2)), sample] for rank in range(2)}
    written = draw.Written(replace(draw.manifest(2), run=run), rows)
    draw.write_files(tmp_path, draw.trace_files(written))
    for rank in range(2):
        stop(tmp_path, rank, 2)
    lines = explain_failure(tmp_path, 2, {1: -signal.SIGKILL}, 60).splitlines()
    assert lines[:2] == [
        f"rank 1 was killed (SIGKILL), {place}",
        f"rank 0 was in no collective, {place}",
    ]
