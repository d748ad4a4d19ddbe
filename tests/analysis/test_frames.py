"""What ranks hold, as sets of shards: what may happen to them, and what is against the laws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.runs import Plan
from zerosim.analysis.frames import (
    Band,
    Frames,
    Holdings,
    IllegalFrame,
    Piece,
    ShardLayout,
    ShardState,
    play,
    steps,
)
from zerosim.analysis.graph import build_graph
from zerosim.base.config import EngineConfig
from zerosim.record import Events
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.schema.manifest import BucketLayout, Segment
from zerosim.schema.memory import MODEL_STATES, Role

UNIT = "block"
PIECE = Piece(unit=UNIT, index=0)


def layout(stage=3, num_ranks=3, **changes) -> ShardLayout:
    fields = {
        "config": EngineConfig(stage=stage),
        "ranks": tuple(range(num_ranks)),
        "num_ranks": num_ranks,
        "trainable": {UNIT: True},
        "num_pieces": {UNIT: 1},
        "states": tuple(map(Band, MODEL_STATES)),
        "first_update": False,
        "keeps_gradients": stage < 2,
    }
    return ShardLayout(**fields | changes)


# ------------------------------------------------------------------------------- holdings


def test_a_rank_of_stage_3_cannot_compute_with_what_it_has_not_gathered():
    held = Holdings(layout())
    with pytest.raises(IllegalFrame, match=r"^rank 0 computes with shard 1 of block, which it doe"):
        held.compute(0, UNIT)
    held.gathered(0, UNIT, 1)
    held.gathered(0, UNIT, 2)
    held.compute(0, UNIT)
    assert held.cell(0, Band(Role.PARAMETERS), UNIT, 0) is ShardState.KEPT
    assert held.cell(0, Band(Role.PARAMETERS), UNIT, 2) is ShardState.GATHERED
    held.free_parameters(0, UNIT)
    assert held.parameters[0, UNIT] == {0}


def test_what_another_rank_has_updated_is_of_before_until_it_is_gathered():
    held = Holdings(layout(stage=1))
    for rank in range(3):
        held.make_gradient(rank, UNIT)
    for rank in range(3):
        held.add(rank, PIECE, rank, frozenset({0, 1, 2} - {rank}))
        held.finish_reduction(rank, [PIECE])
        held.update(rank, UNIT)
        held.updated(rank, UNIT)
    assert held.cell(0, Band(Role.PARAMETERS), UNIT, 1) is ShardState.STALE
    with pytest.raises(IllegalFrame, match="holds only in its pre-update state"):
        held.compute(0, UNIT)
    held.gathered(0, UNIT, 1)
    held.gathered(0, UNIT, 2)
    held.compute(0, UNIT)


def test_a_gradient_is_not_added_twice():
    held = Holdings(layout())
    held.make_gradient(0, UNIT)
    held.add(0, PIECE, 2, frozenset({1}))
    assert held.cell(0, Band(Role.GRADIENTS), UNIT, 2) is ShardState.SUMMED
    with pytest.raises(IllegalFrame, match="rank 0 reduces shard 2 of block twice: the gradient "):
        held.add(0, PIECE, 2, frozenset({1, 2}))


def test_a_reduction_is_not_over_while_a_rank_is_missing():
    held = Holdings(layout())
    held.make_gradient(0, UNIT)
    held.add(0, PIECE, 0, frozenset({1}))
    with pytest.raises(IllegalFrame, match="but the gradient of rank 2 is not in it"):
        held.finish_reduction(0, [PIECE])
    with pytest.raises(IllegalFrame, match="rank 0 applies shard 0 of block as reduced, but"):
        held.update(0, UNIT)


def test_an_update_needs_a_gradient():
    held = Holdings(layout())
    with pytest.raises(IllegalFrame, match="updates with the gradient of shard 1 of block, which"):
        held.update(1, UNIT)


@pytest.mark.parametrize("stage", range(4))
def test_what_is_left_of_a_gradient_when_it_is_reduced(stage):
    held = Holdings(layout(stage, num_pieces={UNIT: 2}))
    pieces = list(held.pieces(UNIT))
    held.make_gradient(1, UNIT)
    assert {held.cell(1, Band(Role.GRADIENTS), UNIT, s) for s in range(3)} == {ShardState.PARTIAL}
    for piece in pieces:
        assert held.cell(1, Band(Role.GRADIENTS), UNIT, 1) is ShardState.PARTIAL
        for shard in range(3) if stage == 0 else [1]:
            held.add(1, piece, shard, frozenset({0, 2}))
        held.finish_reduction(1, [piece])
    rest = {0: ShardState.REDUCED, 1: ShardState.PARTIAL}.get(stage, ShardState.ABSENT)
    cells = [held.cell(1, Band(Role.GRADIENTS), UNIT, shard) for shard in range(3)]
    assert cells == [rest, ShardState.REDUCED, rest]
    held.update(1, UNIT)
    held.updated(1, UNIT)
    held.end_update(1)
    after = {held.cell(1, Band(Role.GRADIENTS), UNIT, shard) for shard in range(3)}
    assert after == {ShardState.STALE if stage < 2 else ShardState.ABSENT}


@pytest.mark.parametrize("stage", range(4))
def test_who_keeps_which_states(stage):
    held = Holdings(layout(stage, first_update=True, keeps_gradients=False))

    def kept(role):
        return [held.cell(1, Band(role), UNIT, shard) is ShardState.KEPT for shard in range(3)]

    own = [False, True, False]
    assert kept(Role.PARAMETERS) == (own if stage == 3 else [True] * 3)
    assert kept(Role.MASTER) == (own if stage else [True] * 3)
    assert kept(Role.MOMENTUM) == kept(Role.VARIANCE) == [False] * 3  # before the first update
    assert kept(Role.GRADIENTS) == [False] * 3
    held.updated(1, UNIT)
    assert kept(Role.MOMENTUM) == kept(Role.VARIANCE) == (own if stage else [True] * 3)


def test_a_frozen_unit_has_parameters_only():
    held = Holdings(layout(stage=0, trainable={UNIT: False}, keeps_gradients=True))
    codes = {
        held.cell(0, Band(role), UNIT, 0) for role in MODEL_STATES if role is not Role.PARAMETERS
    }
    assert codes == {ShardState.ABSENT}


# -------------------------------------------------------------------------------- frames


def replayed(plan: Plan, change=lambda found: found) -> Frames:
    """A simulated run's frames, after `change` of its steps."""
    trace = load_plan(plan)
    found = change(list(steps(build_graph(trace), 0).steps))
    held = layout(
        plan.stage,
        plan.num_ranks,
        trainable=dict.fromkeys(plan.units, True),
        num_pieces=dict.fromkeys(plan.units, 1),
    )
    buckets = [
        BucketLayout(name=unit, segments=(Segment(unit=unit, start=0, stop=1),))
        for unit in plan.units
    ]
    return play(held, buckets, found)


def is_hop(step, purpose, hop=None):
    return (
        step.kind is Kind.TRANSFER
        and step.event.purpose is purpose
        and (hop is None or step.hop == hop)
    )


@given(plans())
def test_every_run_of_a_ring_keeps_the_laws_and_ends_as_it_began(plan):
    assume(plan.hop_ns and plan.gap_ns)  # within one nanosecond nothing comes first
    frames = replayed(plan)
    assert frames.broken is None
    last = frames.at(len(frames.changes) - 1)
    gradients = MODEL_STATES.index(Role.GRADIENTS)
    states = len(MODEL_STATES) * len(plan.units) * plan.num_ranks
    for cell, (before, after) in enumerate(zip(frames.initial, last, strict=True)):
        state = cell % states // (len(plan.units) * plan.num_ranks)
        if state != gradients or plan.stage == 3:
            assert after is before


@given(plans())
def test_steps_never_turn_a_thread_of_a_rank_around(plan):
    found = steps(build_graph(load_plan(plan)), 0).steps
    assert [step.time_ns for step in found] == sorted(step.time_ns for step in found)
    for rank in range(plan.num_ranks):
        for kinds in ((Kind.COMPUTE, Kind.MARK), (Kind.TRANSFER,)):
            times = [s.starts[rank] for s in found[:-1] if s.kind in kinds and rank in s.starts]
            assert times == sorted(times)
    for place, step in enumerate(found):
        assert place <= step.until < len(found)
        assert step.start_ns <= step.time_ns <= step.end_ns


def test_what_was_received_was_sent_though_its_send_is_not_over():
    whole = load_plan(Plan(num_ranks=3))
    held = [  # a ring waits for its sends after the last hop
        replace(rank, events=Events([e for e in rank.events if e.op is not Op.SEND]))
        for rank in whole.ranks
    ]
    found = [
        [
            (step.hop, {(one.source, one.target, one.shard) for one in step.messages})
            for step in steps(build_graph(trace), 0).steps
            if step.kind is Kind.TRANSFER
        ]
        for trace in (whole, replace(whole, ranks=tuple(held)))
    ]
    assert found[0]
    assert found[1] == found[0]


def test_a_gather_that_is_missing_is_found_where_it_is_needed():
    def without_a_hop(found):
        first = next(s for s in found if is_hop(s, Purpose.GATHER_PARAMETERS, 1))
        return [step for step in found if step is not first]

    frames = replayed(Plan(num_ranks=3), without_a_hop)
    assert frames.broken is not None
    assert "of embedding, which it does not hold" in frames.broken.reason
    assert len(frames.changes) == frames.broken.step + 1


def test_a_hop_that_comes_twice_is_a_gradient_added_twice():
    def with_a_hop_again(found):
        place = next(i for i, s in enumerate(found) if is_hop(s, Purpose.REDUCE_GRADIENTS, 0))
        again = replace(found[place])
        found[place] = replace(found[place], until=place)
        later = [
            replace(step, until=step.until + 1) if number > place else step
            for number, step in enumerate(found)
        ]
        return [*later[: place + 1], replace(again, until=again.until + 1), *later[place + 1 :]]

    frames = replayed(Plan(num_ranks=3), with_a_hop_again)
    assert frames.broken is not None
    assert "twice: the gradient of rank" in frames.broken.reason


def test_a_rank_cannot_pass_on_what_it_has_not_received():
    def with_another_shard(found):
        for place, step in enumerate(found):
            if is_hop(step, Purpose.GATHER_PARAMETERS, 0):
                wrong = tuple(replace(m, shard=(m.shard + 1) % 3) for m in step.messages)
                found[place] = replace(step, messages=wrong)
                return found
        raise AssertionError

    frames = replayed(Plan(num_ranks=3), with_another_shard)
    assert frames.broken is not None
    assert frames.broken.reason == ("rank 0 sends shard 1 of embedding, which it does not hold")


def test_an_update_before_the_reduction_is_found():
    def without_reductions(found):
        return [s for s in found if not is_hop(s, Purpose.REDUCE_GRADIENTS)]

    frames = replayed(Plan(num_ranks=2), without_reductions)
    assert frames.broken is not None
    assert "as reduced, but the gradient of rank 1 is not in it" in frames.broken.reason


def test_native_calls_have_one_step_each_and_the_same_result():
    def natively(found):
        """Hops become one step each, as of a backend that does not show them."""
        made = []
        for step in found:
            if step.kind is not Kind.TRANSFER:
                made.append(step)
            elif step.hop == 0:
                native = replace(step, kind=Kind.COLLECTIVE, messages=(), hop=None)
                made.append(replace(native, is_last_hop=True, until=len(made)))
        return [replace(step, until=place) for place, step in enumerate(made)]

    plan = Plan(num_ranks=3, overlap=False)
    by_hop, at_once = replayed(plan), replayed(plan, natively)
    assert at_once.broken is None
    assert at_once.at(len(at_once.changes) - 1) == by_hop.at(len(by_hop.changes) - 1)


def test_a_step_is_the_same_thing_on_all_ranks():
    found = steps(build_graph(load_plan(Plan(num_ranks=4))), 1).steps
    hops = [step for step in found if step.kind is Kind.TRANSFER]
    assert {len(step.messages) for step in hops} == {4}
    assert {(m.target - m.source) % 4 for step in hops for m in step.messages} == {1}
    assert sum(step.is_last_hop for step in hops) == 6
    of_ring = {Op.ALL_GATHER: 4, Op.REDUCE_SCATTER: 2}
    for op, number in of_ring.items():
        assert sum(step.is_last_hop for step in hops if step.event.op is op) == number
    marks = [step.phase for step in found if step.kind is Kind.MARK]
    assert marks == [Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.OUTSIDE]
    assert {len(s.events) for s in found if s.kind is Kind.COMPUTE} == {4}
