"""Where each rank's time went: by hand, to the nanosecond for every run, and by overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.planted import Planted, plant, straggling
from tests.analysis.graph.runs import Plan
from zerosim.analysis import Budget, RankActivity, budgets, occupancy
from zerosim.analysis.graph import NodeKind, build_graph
from zerosim.schema.events import Phase


def test_a_budget_by_hand(tmp_path):
    found = budgets(build_graph(straggling(tmp_path)))
    assert found.waits_recorded
    assert found.by_phase == {
        (0, Phase.FORWARD): Budget(
            wall_ns=200, compute_ns=40 + 50, exposed_ns=2 + 30 + 5, waiting_ns=40, other_ns=33
        ),
        (1, Phase.FORWARD): Budget(
            wall_ns=205, compute_ns=80 + 60, exposed_ns=34, waiting_ns=0, other_ns=31
        ),
    }
    assert found.waited_ns == {(0, 1): 40}
    assert found.waited_for(1) == 40
    assert found.waited_for(0) == 0
    assert found.of().wall_ns == 405


def test_what_is_communicated_while_the_program_computes_is_hidden(tmp_path):
    """Each collective is charged once, behind the ones before it on its thread.

    rank 0   aaaaaaaaaaaaaaaaaa|.waits for the 2nd.|
    thread      [1st 10-40 ][2nd: rank 1 comes at 70, over at 100]
    """
    first, second = Planted(0), Planted(1)
    for rank, begin in ((first, 40), (second, 70)):
        rank.border(0, Phase.FORWARD)
        rank.border(50, Phase.BACKWARD)
        rank.border(120, Phase.OUTSIDE)
        rank.compute("a", 0, 60)
        rank.call(5, 10, 40)
        call = rank.call(8, begin, 100)
        rank.wait(65, 104, call, phase=Phase.BACKWARD)
    found = budgets(build_graph(plant(tmp_path, first, second)))
    assert found.by_phase[0, Phase.FORWARD] == Budget(wall_ns=50, compute_ns=50, hidden_ns=30)
    assert found.by_phase[0, Phase.BACKWARD] == Budget(
        wall_ns=70, compute_ns=10, exposed_ns=34, waiting_ns=5, other_ns=21
    )
    assert found.by_phase[1, Phase.BACKWARD] == Budget(
        wall_ns=70, compute_ns=10, exposed_ns=39, other_ns=21
    )
    assert found.of(phase=Phase.FORWARD).overlap == 1.0
    assert found.of(phase=Phase.BACKWARD).overlap == 0.0
    assert found.waited_ns == {(0, 1): 5}


def test_of_a_program_that_does_not_say_when_it_waits_only_arrivals_are_known(tmp_path):
    first, second = Planted(0), Planted(1)
    first.call(0, 0, 100, unit="", iteration=-1, phase=Phase.OUTSIDE)
    second.call(60, 60, 100, unit="", iteration=-1, phase=Phase.OUTSIDE)
    found = budgets(build_graph(plant(tmp_path, first, second)))
    assert not found.waits_recorded
    assert found.waited_ns == {(0, 1): 60}


@given(plan=plans())
def test_every_rank_s_time_is_accounted_for(plan):
    graph = build_graph(load_plan(plan))
    for part in (graph, graph.within(0)):
        found = budgets(part)
        for budget in found.by_phase.values():
            parts = (budget.compute_ns, budget.exposed_ns, budget.waiting_ns, budget.other_ns)
            assert min(parts) >= 0
            assert sum(parts) == budget.wall_ns
            assert 0 <= budget.hidden_ns <= budget.wall_ns
        waiting = sum(budget.waiting_ns for budget in found.by_phase.values())
        assert sum(found.waited_ns.values()) == waiting
        assert all(rank != straggler for rank, straggler in found.waited_ns)
        for place in range(plan.num_ranks):
            pieces = occupancy(part, place)
            assert np.all(pieces.start[1:] == pieces.end[:-1])
            own = part.is_kind(NodeKind.WAIT) & (part.place == place)
            stood = np.isin(pieces.state, [RankActivity.EXPOSED, RankActivity.WAITING])
            length = pieces.end - pieces.start
            assert length[stood].sum() == (part.end[own] - part.start[own]).sum()


def test_overlap_hides_what_is_exposed_without_it():
    plan = Plan(num_ranks=3, units=("a", "b", "c", "d"), hop_ns=300)
    found = {
        overlap: budgets(build_graph(load_plan(replace(plan, overlap=overlap))).within(1))
        for overlap in (True, False)
    }
    assert found[False].of().overlap == 0.0
    assert found[True].of().overlap > 0.5
    assert found[True].of().exposed_ns < found[False].of().exposed_ns / 2
    compute = {budget.of().compute_ns for budget in found.values()}
    assert len(compute) == 1


def test_waiting_is_booked_on_the_slow_rank():
    def compute_ns(rank: int, *_: object) -> int:
        return 5000 if rank == 2 else 1000

    found = budgets(build_graph(load_plan(Plan(num_ranks=4, compute_ns=compute_ns))).within(1))
    waited = {rank: found.waited_for(rank) for rank in found.ranks}
    assert waited[2] > 0.9 * sum(waited.values())
    assert found.of(rank=2).waiting_ns == 0
    assert all(found.waited_ns[rank, 2] > 0 for rank in (0, 1, 3))
