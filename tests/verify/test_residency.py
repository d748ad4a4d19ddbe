"""What computes when: the windows that decide what a rank may hold."""

from __future__ import annotations

from tests.analysis.test_memory import rank_of, sample
from zerosim.analysis.memory import timeline
from zerosim.schema.events import Event, Kind, Phase
from zerosim.schema.memory import Holding, Moment, Role
from zerosim.verify.residency import windows, with_windows

B, F, U = Phase.BACKWARD, Phase.FORWARD, Phase.UPDATE


def computations(*spans, micro_step=0):
    """Events of (phase, unit, begin, end)."""
    return [
        Event(
            id=number, rank=0, kind=Kind.COMPUTE, iteration=0, micro_step=micro_step, phase=phase,
            unit=unit, issue_ns=begin, start_ns=begin, end_ns=end,
        )
        for number, (phase, unit, begin, end) in enumerate(spans)
    ]  # fmt: skip


def found(events, units=()):
    return [
        (window.begins_ns, set(window.computing), set(window.computed))
        for window in windows(rank_of([], events=events), units)
    ][1:]


def test_one_after_another():
    events = computations((F, "a", 1, 2), (F, "b", 3, 4), (B, "b", 5, 6), (B, "a", 7, 8))
    assert found(events) == [
        (1, {"a"}, set()),
        (3, {"b"}, set()),
        (5, {"b"}, set()),
        (7, {"a"}, {"b"}),
        (8, {"a"}, {"b"}),
    ]
    befores = [set(window.before) for window in windows(rank_of([], events=events))]
    assert befores == [set(), set(), {"a"}, {"b"}, {"b"}, {"a"}]


def test_what_is_recomputed_first_is_not_complete():
    events = computations((B, "b", 1, 2), (B, "b", 3, 4), (B, "a", 5, 6))
    assert found(events)[:3] == [(1, {"b"}, set()), (3, {"b"}, set()), (5, {"a"}, {"b"})]


def test_two_at_once():
    events = computations((B, "b", 1, 9), (B, "a", 3, 4))
    assert found(events)[:2] == [(1, {"b"}, set()), (3, {"a", "b"}, set())]


def test_units_without_gradients_come_last():
    events = computations((B, "b", 1, 2), (B, "a", 3, 4))
    assert found(events, units=["a", "b", "unused"])[-1] == (4, {"a", "unused"}, {"b"})


def test_the_update_is_no_window():
    assert found(computations((F, "a", 1, 2), (U, "root", 3, 4))) == [(1, {"a"}, set())]


def test_a_backward_that_never_ended():
    assert found(computations((B, "b", 1, 2), (B, "a", 3, None)), ["c"]) == [
        (1, {"b"}, set()),
        (3, {"a"}, {"b"}),
    ]


def test_what_another_thread_saw_may_be_in_two_windows():
    events = [
        *computations((F, "a", 1, 4), (F, "b", 5, 8), (F, "c", 9, 12)),
        Event(id=7, rank=0, kind=Kind.COLLECTIVE, iteration=0, phase=F, issue_ns=5),
    ]
    holding = Holding(Role.GATHERED, "a", 1)
    samples = [
        sample(0, [holding], time_ns=2, event=0, moment=Moment.BEGIN),
        sample(1, [Holding(Role.GATHERED, "b", 1)], time_ns=6, event=7, moment=Moment.END),
        sample(2, [Holding(Role.GATHERED, "a", 0)], time_ns=7, event=1, moment=Moment.END),
        # the same in the same window says nothing new, in the next one it does
        sample(3, [Holding(Role.MASTER, "a", 1)], time_ns=8, event=1, moment=Moment.END),
        sample(4, [Holding(Role.MASTER, "a", 2)], time_ns=9, event=2, moment=Moment.BEGIN),
    ]
    rank = rank_of(samples, events=events)
    seen = [
        (number, dict(held), [set(window.computing) for window in path])
        for number, held, path in with_windows(timeline(rank), rank, Role.GATHERED)
    ]
    assert seen == [
        (0, {"a": 1}, [{"a"}]),
        (1, {"a": 1, "b": 1}, [{"a"}, {"b"}]),
        (2, {"b": 1}, [{"b"}]),
        (4, {"b": 1}, [{"c"}]),
    ]
