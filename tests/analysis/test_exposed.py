"""What exposed communication was for: by hand, and of every run it sums to the budgets'."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.planted import Planted, plant, straggling
from zerosim.analysis import budgets, exposed
from zerosim.analysis.graph import build_graph
from zerosim.schema.events import Op, Phase, Purpose


def test_by_hand(tmp_path):
    found = exposed(build_graph(straggling(tmp_path)))
    assert [(one.rank, one.phase, one.purpose, one.num_waits, one.exposed_ns) for one in found] == [
        (0, Phase.FORWARD, "reduce gradients", 1, 60 - 58 + 135 - 100),  # then rank 1 was missing
        (1, Phase.FORWARD, "reduce gradients", 1, 131 - 97),  # it was the last
    ]


def test_waits_that_touch_and_that_overlap_are_counted_once(tmp_path):
    ranks = [Planted(0), Planted(1)]
    for rank in ranks:
        rank.border(0, Phase.FORWARD)
        rank.border(200, Phase.OUTSIDE)
        first = rank.call(5, 10, 50)
        second = rank.call(6, 50, 100, op=Op.ALL_GATHER, purpose=Purpose.GATHER_PARAMETERS)
        third = rank.call(7, 100, 150, op=Op.ALL_GATHER, purpose=None)
        rank.wait(20, 50, first)
        rank.wait(50, 110, second)
        rank.wait(90, 150, third)
    graph = build_graph(plant(tmp_path, *ranks))
    found = [(one.purpose, one.exposed_ns) for one in exposed(graph) if one.rank == 0]
    assert found == [("gather parameters", 60), ("all-gather", 40), ("reduce gradients", 30)]
    assert budgets(graph).of(rank=0).exposed_ns == 130


@given(plan=plans())
def test_of_every_run_it_sums_to_the_budget(plan):
    whole = build_graph(load_plan(plan))
    for graph in (whole, whole.within(0)):
        total: Counter[int] = Counter()
        for one in exposed(graph):
            assert one.exposed_ns > 0
            total[one.rank] += one.exposed_ns
        spent = budgets(graph)
        assert all(total[rank] == spent.of(rank=rank).exposed_ns for rank in spent.ranks)
