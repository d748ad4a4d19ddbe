"""Who is slow in made traces: computations of three ranks, some of them long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verify.diagnosis.test_sequences import rank_trace, trace_of
from zerosim.record import Events
from zerosim.schema.events import Event, Kind, Phase
from zerosim.verify.diagnosis import ProcessStates, Wrong, diagnose

UNITS = ("blocks.0", "blocks.1", "blocks.2", "blocks.3")
MS = 10**6


def computing(rank, num_steps, ms_of):
    """A rank's computations one after another; `ms_of(step, unit)` says how long they take."""
    events, now = [], 0
    for step in range(num_steps):
        for unit in UNITS:
            end = now + int(ms_of(step, unit) * MS)
            one = Event(
                id=len(events), rank=rank, kind=Kind.COMPUTE, iteration=step,
                phase=Phase.FORWARD, unit=unit, issue_ns=now, start_ns=now, end_ns=end,
            )  # fmt: skip
            events.append(one)
            now = end
    return replace(rank_trace(rank, 3, []), events=Events(events), num_rows=len(events))


def told(ms_of, num_steps, tmp_path):
    """What is said when rank 1 takes so long, and the others 2 ms for each unit."""
    ranks = [computing(rank, num_steps, ms_of if rank == 1 else lambda *_: 2) for rank in range(3)]
    return diagnose(trace_of(ranks, tmp_path), ProcessStates()).findings


def interrupted(step, unit):
    """In each step another unit takes longer."""
    return 90 if UNITS[step % len(UNITS)] == unit else 2


@pytest.mark.parametrize("num_steps", [5, 6, 8])
def test_a_rank_that_is_interrupted_now_and_then_in_a_short_run_is_not_slow(num_steps, tmp_path):
    assert not told(interrupted, num_steps, tmp_path)


def test_a_rank_that_is_interrupted_in_each_of_many_iterations_is_slow(tmp_path):
    (found,) = told(interrupted, 14, tmp_path)
    assert (found.wrong, found.ranks) == (Wrong.SLOW, (1,))


def test_a_rank_whose_every_computation_is_longer_is_slow(tmp_path):
    (found,) = told(lambda step, _: 40 if step >= 2 else 2, 6, tmp_path)
    assert (found.wrong, found.ranks, found.place.iteration) == (Wrong.SLOW, (1,), 2)


def test_a_rank_of_which_one_unit_is_longer_is_slow_there(tmp_path):
    (found,) = told(lambda step, unit: 60 if unit == "blocks.2" else 2, 6, tmp_path)
    assert (found.wrong, found.ranks, found.place.unit) == (Wrong.SLOW, (1,), "blocks.2")
