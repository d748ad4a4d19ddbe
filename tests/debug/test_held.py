"""Ranks that are held before their events, go step by step, and end as if never held."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.debug import programs
from tests.debug.programs import held, until
from tests.ranks import run_ranks
from zerosim.analysis.beats import Sign, cut
from zerosim.analysis.frames import steps as steps_of_trace
from zerosim.analysis.graph import build_graph
from zerosim.base.errors import ConfigError
from zerosim.debug import Goal
from zerosim.debug.outcomes import Why
from zerosim.debug.sums import compare_sums
from zerosim.record import load
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.verify import verify
from zerosim.view.replay import replay_document

pytestmark = pytest.mark.ranks

HURRIED_S = 6.0
"""A group's timeout: the longest delay of a rank on a busy machine without a debugger."""
ZERO_1 = {"stage": 1, "overlap": False}
ZERO_3 = {"stage": 3, "overlap": True, "chunk_bytes": 1024}
PROGRAMS = {
    "ZeRO-1": (programs.engine, (ZERO_1,)),
    "ZeRO-3": (programs.engine, (ZERO_3,)),
    "DDP": (programs.ddp, ()),
    "FSDP2": (programs.fsdp2, ()),
}
RARELY = ("ZeRO-1", "FSDP2")
"""Of four ranks ZeRO-1 is stepped below, and `test_systems` steps HSDP, which is FSDP2 and more."""


def walk(controller, goal=Goal.INTO):
    """Step to the end; returns the stands at which the ranks were held together."""
    stands = []
    while True:
        following = controller.steps()[0]
        assert not following.missing
        stands.append(following.stand)
        outcome = controller.step(goal)
        if outcome.why is not Why.REACHED:
            assert outcome.why is Why.ENDED, outcome
            return stands


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.long) if one in RARELY else one for one in PROGRAMS],
)
def test_held_before_every_event_a_run_ends_with_the_same_bits(name, tmp_path):
    function, arguments = PROGRAMS[name]
    free = run_ranks(function, 2, str(tmp_path / "free"), *arguments)
    with held(function, 2, str(tmp_path / "held"), *arguments) as run:
        stands = walk(run.controller)
        assert run.end() == free
    marks = [one.phase for one in stands if one.kind is Kind.MARK and one.iteration == 1]
    assert marks[:4] == [Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.OUTSIDE]
    computed = {one.phase for one in stands if one.kind is Kind.COMPUTE}
    assert computed == {Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE}
    called = {(one.op, one.purpose) for one in stands if one.kind is Kind.COLLECTIVE}
    if name == "DDP":
        assert (Op.ALL_REDUCE, Purpose.REDUCE_GRADIENTS) in called
    else:
        assert (Op.ALL_GATHER, Purpose.GATHER_PARAMETERS) in called
        assert (Op.REDUCE_SCATTER, Purpose.REDUCE_GRADIENTS) in called
    trace = load(tmp_path / "held", strict=True)
    begun = [one for one in trace.ranks[0].events if one.kind in (Kind.COMPUTE, Kind.COLLECTIVE)]
    assert len(begun) == len([one for one in stands if one.kind in (Kind.COMPUTE, Kind.COLLECTIVE)])


def test_of_four_ranks_each_hop_of_a_ring_is_a_step_and_theory_holds(tmp_path):
    free = run_ranks(programs.engine, 4, str(tmp_path / "free"), ZERO_1, 1)
    with held(programs.engine, 4, str(tmp_path / "held"), ZERO_1, 1) as run:
        stands = walk(run.controller)
        assert run.end() == free
    hops = [one.hop for one in stands if one.kind is Kind.TRANSFER]
    assert hops.count(1) >= 4
    assert hops.count(1) == hops.count(2)  # hop 0 belongs to its collective's begin
    assert verify(load(tmp_path / "held", strict=True)).outcome.name == "AS_PREDICTED"


LIKE_A_REPLAY = {
    "ZeRO-3": (programs.engine, 3, (ZERO_3,)),
    "FSDP2": (programs.fsdp2, 2, ()),
    "FSDP2, gathered ahead": (programs.fsdp2, 2, ("ahead",)),
}


@pytest.mark.parametrize(
    "name",
    # gathered ahead it has all that FSDP2 has
    [pytest.param(one, marks=pytest.mark.long) if one == "FSDP2" else one for one in LIKE_A_REPLAY],
)
def test_stepping_through_an_iteration_shows_the_beats_of_the_recorded_run(name, tmp_path):
    function, num_ranks, arguments = LIKE_A_REPLAY[name]
    with held(function, num_ranks, str(tmp_path / "held"), *arguments) as run:
        controller = run.controller
        while controller.steps()[0].stand.iteration < 1:
            assert controller.step(Goal.ITERATION).why is Why.REACHED
        seen, stops = [], []
        while True:
            outcome = controller.step(Goal.OVER)
            assert outcome.why is Why.REACHED
            following = controller.steps()[0]
            beats = controller.history.beats(following)
            if following.stand.phase is Phase.OUTSIDE:
                seen += [(one.first, one.last, one.signs, one.units) for one in beats[:-1]]
                break
            assert beats[-1].first == beats[-1].last  # a beat that has not begun
            stops.append(beats[-1].sign)
        controller.detach()
        run.end()
    recorded = steps_of_trace(build_graph(load(tmp_path / "held", strict=True)), 1)
    # what comes after it is the reading of the weights
    expected = cut([one for one in recorded.steps if one.phase is not Phase.OUTSIDE])
    assert seen == [(one.first, one.last, one.signs, one.units) for one in expected]
    assert len(seen) > 10
    if function is programs.engine:  # whose hops go on beside: their beat is known at their end
        return
    kinds = [recorded.steps[one.first].kind for one in expected[1:]]
    marked = [Sign.BEGIN if kind is Kind.MARK else None for kind in kinds]
    assert stops == [mark or one.sign for mark, one in zip(marked, expected[1:], strict=True)]


def test_replay_of_ranks_that_stand_says_where_and_not_that_the_iteration_is_over(tmp_path):
    folder = tmp_path / "held"
    with held(programs.engine, 2, str(folder), ZERO_1) as run:
        run.controller.step(Goal.ITERATION)
        run.controller.step(Goal.PHASE)
        title, what = last_words(folder, 0)
        assert title == "The iteration has not ended"
        assert what == "Ranks 0-1 have reached: Forward · compute head."
        assert run.controller.step(Goal.ITERATION, only=1).why is Why.WAITS
        _, what = last_words(folder, 0)
        assert what.startswith("Rank 0 has reached: Forward · compute head; rank 1 has reached: Ba")
        run.controller.detach()
        run.end()
    title, what = last_words(folder, 0)
    assert title == "The iteration ends"
    assert what == "The next iteration starts from this state."


def last_words(folder, iteration):
    """What Replay says in the last beat of an iteration; before it is over, nothing ends there."""
    document = replay_document(load(folder), iteration)
    beat = document["beats"][-1]
    assert not document["steps"][-1]["cells"] or beat["signs"] == ["end"]
    assert document["texts"][document["steps"][-1]["title"]] == document["texts"][beat["title"]]
    return tuple(document["texts"][beat[one]] for one in ("title", "what"))


def test_one_rank_alone_goes_until_it_must_wait_and_it_is_said_for_whom(tmp_path):
    with held(programs.engine, 2, str(tmp_path / "held"), ZERO_1) as run:
        controller = run.controller
        controller.step(Goal.ITERATION)
        controller.step(Goal.PHASE)
        outcome = controller.step(Goal.ITERATION, only=1)
        assert outcome.why is Why.WAITS
        assert outcome.said.startswith("rank 1 waits for rank 0: reduce-scatter of ")
        assert {one.rank for one in controller.standing()} == {0}
        assert controller.step(Goal.PHASE).why is Why.REACHED
        assert {one.rank for one in controller.standing()} == {0, 1}
        with pytest.raises(ConfigError, match="rank is 7: expected one of 0, 1"):
            controller.step(Goal.INTO, only=7)
        controller.detach()
        run.end()


def test_breakpoints_stop_ranks_that_run(tmp_path):
    with held(programs.engine, 2, str(tmp_path / "held"), ZERO_1) as run:
        controller = run.controller
        controller.add_breakpoint('phase == "backward" and unit == "blocks.1" and rank == 1')
        outcome = controller.run()
        assert outcome.why is Why.BREAKPOINT
        assert outcome.said.startswith("rank 1, breakpoint 1: ")
        hit = [one for one in controller.steps() if one.standing[-1].why]
        first = hit[0]
        assert (first.stand.unit, first.stand.phase) == ("blocks.1", Phase.BACKWARD)
        assert 1 in {one.rank for one in first.standing}  # the other may be ahead
        controller.breakpoints.clear()
        controller.add_breakpoint('momentum("head").norm() > 0 and iteration == 1')
        assert controller.run().why is Why.BREAKPOINT
        assert controller.steps()[0].stand.iteration == 1
        controller.breakpoints.clear()
        assert controller.run().why is Why.ENDED
        run.end()


def test_what_ranks_hold_is_looked_at(tmp_path):
    with held(programs.engine, 2, str(tmp_path / "held"), ZERO_1) as run:
        controller = run.controller
        controller.step(Goal.ITERATION)
        answers = controller.ask("tensors", role="parameters", unit="blocks.0")
        rows = [answer["tensors"] for answer in answers.values()]
        assert rows[0] == rows[1]
        assert (rows[0][0]["elements"], rows[0][0]["non_finite"]) == (90, 0)
        assert sum(rows[0][0]["histogram"]) == 90
        masters = controller.ask("tensors", role="fp32 master")
        checksums = [[row["checksum"] for row in masters[rank]["tensors"]] for rank in (0, 1)]
        assert not checksums[0] or checksums[0] != checksums[1]
        assert all(not one.differ for one in controller.compare_replicas())
        assert controller.compare_replicas()
        controller.step(Goal.INTO)
        where = controller.ask("where")
        assert any("test" not in line for line in where[0]["threads"][0]["stack"])
        assert any("in engine" in line for line in where[0]["threads"][0]["stack"])
        with pytest.raises(ConfigError, match=r"condition has \.system"):
            controller.ask("evaluate", text="os.system('x')")
        controller.detach()
        run.end()


def test_no_timeout_ends_a_run_that_is_held_and_it_is_put_back(tmp_path):
    with held(programs.hurried, 2, str(tmp_path / "held"), HURRIED_S) as run:
        assert run.controller.step(Goal.INTO, only=0).why is Why.WAITS
        time.sleep(1.5 * HURRIED_S)  # it is in its all-reduce, and the other before it
        assert "rank 0 waits for rank 1" in run.controller.why_waiting(0)
        while run.controller.standing()[0].stand.op is not Op.RECEIVE:
            run.controller.step(Goal.INTO)
        outcome = run.controller.step(Goal.INTO, only=0)
        assert outcome.said.startswith("rank 0 waits for rank 1: receive")
        time.sleep(1.5 * HURRIED_S)
        run.controller.detach()
        assert run.end() == [8.0, 8.0]


def test_a_rank_that_dies_lets_the_others_go(tmp_path):
    with held(programs.engine, 2, str(tmp_path / "held"), ZERO_1) as run:
        run.controller.step(Goal.ITERATION)
        os.kill(run.door.links[1].pid, signal.SIGKILL)
        until(lambda: run.controller.here == (0,))
        outcome = run.controller.step(Goal.INTO)
        assert outcome.why is Why.LEFT
        assert outcome.said == (
            "rank 1 is gone; all others were released; to see the trace up to that point: zerosim "
            f"replay {tmp_path / 'held'}"
        )
        with pytest.raises(AssertionError, match=r"rank 1 died \(-9\)"):
            run.end()


def test_without_its_controller_a_run_goes_on(tmp_path):
    free = run_ranks(programs.engine, 2, str(tmp_path / "free"), ZERO_1)
    with held(programs.engine, 2, str(tmp_path / "held"), ZERO_1) as run:
        run.controller.step(Goal.ITERATION)
        run.door.close()
        assert run.end() == free


def test_only_this_user_reaches_the_ranks(tmp_path):
    with held(programs.engine, 2, str(tmp_path / "held"), ZERO_1) as run:
        assert run.door.path.stat().st_mode & 0o777 == 0o600
        assert run.door.path.parent.stat().st_mode & 0o777 == 0o700
        run.controller.detach()
        run.end()
    assert not run.door.path.parent.exists()


@pytest.mark.parametrize("stage", [1, 2])
def test_a_reduced_gradient_is_the_sum_of_the_ranks_own(stage, tmp_path):
    with held(programs.engine, 2, str(tmp_path / "held"), ZERO_1 | {"stage": stage}) as run:
        controller = run.controller
        controller.step(Goal.ITERATION)
        with pytest.raises(ConfigError, match="are not stopped before a gradient reduction"):
            controller.check_sum()
        while controller.steps()[0].stand.purpose is not Purpose.REDUCE_GRADIENTS:
            controller.step(Goal.INTO)
        found = controller.check_sum()
        assert (found.unit, found.elements) == ("head", 25)
        assert found.largest <= 1e-6 * found.greatest
        controller.detach()
        run.end()


def test_a_sum_that_is_wrong_is_seen():
    right = compare_sums("a", {0: [1, 2, 3, 4], 1: [1, 1, 1, 1]}, {0: [1, 1.5, 9, 9], 1: [2, 2.5]})
    assert (right.largest, right.is_mean, right.greatest) == (0, True, 2.5)
    wrong = compare_sums("a", {0: [1, 2], 1: [1, 1]}, {0: [2], 1: [4]})
    assert (wrong.largest, wrong.is_mean) == (1, False)
