"""What a light trace says of a hang in an iteration that it left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from zerosim.base.config import Light
from zerosim.record import load
from zerosim.schema.events import Standstill
from zerosim.verify.diagnosis import diagnose

TRACES = Path(__file__).parents[3] / "lessons" / "traces"


def light(every, *positions):
    trace = load(TRACES / "ring" / "stage-0")
    stopped = [
        Standstill(since_ns=0, time_ns=2 * 10**9, stack=(position,)) for position in positions
    ]
    ranks = [
        replace(rank, standstills=tuple(stopped[place : place + 1]))
        for place, rank in enumerate(trace.ranks)
    ]
    manifest = replace(trace.manifest, light=Light(every=every))
    return replace(trace, manifest=manifest, ranks=tuple(ranks))


def test_iterations_left_out_are_named_with_the_last_position_of_each_rank():
    found = diagnose(light(10, "train.py:8 in step", "train.py:5 in load", "train.py:8 in step"))

    assert not found.findings
    assert found.notes[0].startswith("this light trace records one iteration in 10, and a hang in")
    assert found.notes[1] == "last position of ranks 0 and 2: train.py:8 in step"
    assert found.notes[2] == "last position of rank 1: train.py:5 in load"


def test_a_light_trace_of_every_iteration_leaves_nothing_out():
    assert not any("light" in note for note in diagnose(light(1)).notes)
