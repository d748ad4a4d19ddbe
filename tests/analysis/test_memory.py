"""Memory over time: arrays against a plain fold, and the moments that readers ask for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import header
from tests.verify.memory_traces import OTHER_BYTES, memory_trace, write
from zerosim.analysis.memory import (
    ROLES,
    disagreement,
    in_steps,
    peak,
    peak_between,
    states,
    states_of,
    timeline,
    updates_begin,
    whole_iteration,
)
from zerosim.record import RankTrace, load
from zerosim.schema.events import STEP_PHASES, Event, Kind, Phase
from zerosim.schema.memory import MODEL_STATES, Allocations, Holding, MemorySample, Moment, Role


def sample(number, changes=(), **fields) -> MemorySample:
    defaults = {
        "event": None,
        "moment": Moment.PHASE,
        "iteration": 0,
        "micro_step": 0,
        "phase": Phase.FORWARD,
        "time_ns": number,
    }
    return MemorySample(number=number, changes=tuple(changes), **defaults | fields)


def rank_of(samples, allocations=(), events=()) -> RankTrace:
    return RankTrace(
        rank=0,
        header=header(0, 1),
        events=tuple(events),
        groups={},
        sockets={},
        wire_samples=(),
        memory_samples=tuple(samples),
        allocations=tuple(allocations),
        metrics=(),
        failure=None,
        unfinished=(),
        num_rows=1,
        complete=True,
    )


holdings = st.builds(
    Holding,
    role=st.sampled_from(ROLES),
    unit=st.sampled_from(["", "a", "b"]),
    bytes=st.integers(0, 2**40),
)
histories = st.lists(st.lists(holdings, max_size=4), min_size=1, max_size=12)


@given(histories)
def test_arrays_are_the_fold_of_the_changes(history):
    line = timeline(rank_of([sample(i, changes) for i, changes in enumerate(history)]))
    state: dict[tuple[Role, str], int] = {}
    for number, changes in enumerate(history):
        state |= {(one.role, one.unit): one.bytes for one in changes}
        alive = {place: size for place, size in state.items() if size}
        assert line.at(number) == alive
        for role in ROLES:
            expected = sum(size for (own, _), size in alive.items() if own is role)
            assert line.roles_at(number)[role] == expected
        assert line.known[number] == sum(alive.values())
        assert line.model_states()[number] == sum(
            size for (role, _), size in alive.items() if role in MODEL_STATES
        )
    assert line.at(-1) == {}
    seen = [(number, dict(state)) for number, state in states(line)]
    assert seen == [(number, line.at(number)) for number in range(len(history))]
    for role in ROLES:
        for number, of_units, changed in states_of(line, role):
            alive = {unit: size for (own, unit), size in line.at(number).items() if own is role}
            assert of_units == alive
            assert changed == any(one.role is role for one in history[number])


def test_other_is_what_the_allocator_counts_beside_the_roles():
    changes = [Holding(Role.PARAMETERS, "a", 100)]
    samples = [
        sample(0, changes, unrecorded_bytes=60),
        sample(1, [Holding(Role.ACTIVATIONS, "a", 7)], unrecorded_bytes=60),
        sample(2, [Holding(Role.ACTIVATIONS, "a", 0)], unrecorded_bytes=60),
    ]
    counted = Allocations(numbers=(0, 2), allocated_bytes=(45, 38), peak_bytes=(50, 99))
    line = timeline(rank_of(samples, [counted]))
    assert [line.other(number) for number in range(3)] == [5, None, -2]
    assert list(line.alive()) == [105, 107, 100]  # what the roles have is alive in any case
    assert line.is_measured
    found = disagreement(line)
    assert (found.num_samples, found.position, found.bytes, found.least_bytes) == (2, 0, 5, -2)
    everything = np.arange(3)
    assert (peak(line, everything).position, peak(line, everything).bytes) == (1, 107)
    between = peak_between(line, everything)
    assert (between.position, between.bytes) == (2, 159)
    assert peak(line, everything[:0]) is None


def test_the_worst_disagreement_may_be_too_little():
    samples = [sample(n, [Holding(Role.PARAMETERS, "a", 100 + n)]) for n in range(3)]
    counted = Allocations(numbers=(0, 1, 2), allocated_bytes=(103, 61, 104), peak_bytes=(0, 0, 0))
    found = disagreement(timeline(rank_of(samples, [counted])))
    assert (found.position, found.bytes, found.least_bytes) == (1, -40, -40)


def test_on_a_gpu_each_sample_says_what_is_allocated():
    samples = [
        sample(0, [Holding(Role.PARAMETERS, "a", 100)], allocated_bytes=512),
        sample(1, [Holding(Role.PARAMETERS, "a", 90)]),
    ]
    line = timeline(rank_of(samples))
    assert [line.other(number) for number in range(2)] == [412, None]
    assert peak_between(line, np.arange(2)) is None


def test_without_the_allocator_nothing_is_guessed():
    line = timeline(rank_of([sample(0, [Holding(Role.PARAMETERS, "a", 100)])]))
    assert not line.is_measured
    assert (line.other(0), disagreement(line), peak_between(line, np.arange(1))) == (None,) * 3
    assert list(line.alive()) == [100]


def test_who_took_a_sample():
    events = [
        Event(id=4, rank=0, kind=Kind.COMPUTE, iteration=0, phase=Phase.FORWARD, issue_ns=0),
        Event(id=5, rank=0, kind=Kind.COLLECTIVE, iteration=0, phase=Phase.FORWARD, issue_ns=0),
        Event(id=6, rank=0, kind=Kind.COMPUTE, iteration=0, phase=Phase.FORWARD, issue_ns=0),
    ]
    samples = [
        sample(0),
        sample(1, event=4, moment=Moment.BEGIN),
        sample(2, event=5, moment=Moment.END),
    ]
    line = timeline(rank_of(samples, events=events))
    assert [line.is_beside(number) for number in range(3)] == [False, False, True]
    assert [line.event_of(number) for number in range(3)] == [None, *events[:2]]
    assert set(line.events) == {4, 5}


def test_where_updates_begin():
    places = [
        (-1, Phase.OUTSIDE, Moment.PHASE),
        (0, Phase.BACKWARD, Moment.PHASE),
        (0, Phase.UPDATE, Moment.PHASE),
        (0, Phase.OUTSIDE, Moment.PHASE),
        (1, Phase.BACKWARD, Moment.END),
        (1, Phase.UPDATE, Moment.END),
        (1, Phase.OUTSIDE, Moment.PHASE),
        (4, Phase.FORWARD, Moment.PHASE),
    ]
    line = timeline(
        rank_of(
            sample(number, iteration=iteration, phase=phase, moment=moment)
            for number, (iteration, phase, moment) in enumerate(places)
        )
    )
    # iteration 1 has no sample at the border, 2 and 3 have none at all, 5 comes after the last
    assert updates_begin(line, range(6)) == {0: 2, 1: 4, 2: 6, 3: 6, 4: 7, 5: 7}
    assert list(in_steps(line)) == [1, 2, 4, 5, 7]
    assert list(in_steps(line, [1])) == [4, 5]
    assert list(whole_iteration(line, 1)) == [4, 5, 6]
    assert list(whole_iteration(line, 4)) == [7]
    assert list(whole_iteration(line, 3)) == []


def test_a_position_left_over_from_an_earlier_trace_is_no_iteration():
    samples = [
        sample(0, iteration=9, phase=Phase.OUTSIDE),
        sample(1, iteration=0),
        sample(2, iteration=0, phase=Phase.UPDATE),
    ]
    line = timeline(rank_of(samples))
    assert list(in_steps(line)) == [1, 2]
    assert updates_begin(line, [0]) == {0: 2}


@pytest.mark.parametrize("stage", range(4))
def test_a_whole_trace(tmp_path, stage):
    trace = load(write(tmp_path, memory_trace(stage, 3)), strict=True)
    for rank in trace.ranks:
        line = timeline(rank)
        assert all(line.other(number) == OTHER_BYTES for number in range(len(line.samples)))
        for number in in_steps(line):
            assert line.samples[number].phase in STEP_PHASES
        for position in updates_begin(line, range(3)).values():
            assert line.samples[position].phase is Phase.UPDATE


def test_a_long_trace_is_no_trouble():
    """Built column by column: a hundred thousand samples of a thousand units."""
    samples = [
        sample(number, [Holding(Role.ACTIVATIONS, f"u{number % 1000}", number)])
        for number in range(100_000)
    ]
    line = timeline(rank_of(samples))
    assert line.known[-1] == sum(range(99_000, 100_000))
    assert line.at(999) == {(Role.ACTIVATIONS, f"u{n}"): n for n in range(1, 1000)}
    later = replace(samples[0], changes=())
    assert timeline(rank_of([later])).known[0] == 0
