"""The critical path and slack: by hand, and for every run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.planted import straggling
from tests.analysis.graph.runs import Plan
from zerosim.analysis import TimeCause, critical_path, slack
from zerosim.analysis.graph import NodeKind, build_graph
from zerosim.schema.events import Phase


def test_a_path_by_hand(tmp_path):
    graph = build_graph(straggling(tmp_path))
    path = critical_path(graph)
    assert [
        (piece.cause.value, piece.rank, piece.start_ns, piece.end_ns) for piece in path.pieces
    ] == [
        ("other", 1, 0, 10),
        ("compute", 1, 10, 90),
        ("other", 1, 90, 95),
        ("scheduling", 1, 95, 100),
        ("communication", 1, 100, 128),
        ("scheduling", 1, 128, 131),
        ("other", 1, 131, 140),
        ("compute", 1, 140, 200),
        ("other", 1, 200, 205),
    ]
    assert path.by_cause() == {
        TimeCause.COMPUTE: 140,
        TimeCause.COMMUNICATION: 28,
        TimeCause.SCHEDULING: 8,
        TimeCause.OTHER: 29,
    }
    assert path.duration_ns == 205
    assert path.by_rank() == {1: 177}


def test_slack_by_hand(tmp_path):
    graph = build_graph(straggling(tmp_path))
    spare = slack(graph)
    found = {
        (int(graph.rank[node]), graph.kind_of(node), graph.label(node)): int(spare[node])
        for node in range(graph.num_nodes)
    }
    reduce = "all-reduce of a (reduce gradients)"
    assert {key: value for key, value in found.items() if value} == {
        (0, NodeKind.COMPUTE, "forward of a"): 40,  # rank 1 comes 40 ns later
        (0, NodeKind.CALL, f"arrival at {reduce}"): 40,
        (0, NodeKind.PHASE, "forward begins"): 40,
        (0, NodeKind.WAIT, f"wait for {reduce}"): 5,  # rank 1 ends 5 ns later
        (0, NodeKind.COMPUTE, "forward of b"): 5,
        (0, NodeKind.PHASE, "the end"): 5,
    }


@given(plan=plans())
def test_of_every_run_the_path_is_as_long_as_the_run_and_has_no_slack(plan):
    whole = build_graph(load_plan(plan))
    for graph in (whole, whole.within(0)):
        path = critical_path(graph)
        assert path.start_ns == graph.start.min()
        assert path.end_ns == graph.end.max()
        assert sum(path.by_cause().values()) == path.duration_ns
        moment = path.start_ns
        for piece in path.pieces:
            assert piece.start_ns == moment
            moment = piece.end_ns
        assert moment == path.end_ns
        spare = slack(graph)
        assert spare.min() >= 0
        assert not np.any(spare[list(path.nodes)])


@pytest.mark.parametrize("stage", [1, 3])
@pytest.mark.parametrize("slow", [0, 2])
def test_a_slow_rank_is_on_the_path(stage, slow):
    def compute_ns(rank: int, *_: object) -> int:
        return 5000 if rank == slow else 1000

    graph = build_graph(load_plan(Plan(num_ranks=3, stage=stage, compute_ns=compute_ns))).within(1)
    path = critical_path(graph)
    computed = [piece for piece in path.pieces if piece.cause is TimeCause.COMPUTE]
    assert {piece.rank for piece in computed} == {slow}
    assert path.by_cause()[TimeCause.COMPUTE] == 6 * 5000
    assert max(path.by_rank(), key=path.by_rank().get) == slow


def test_more_slack_than_there_is_ends_the_run_later():
    """Slack means what it says: up to it the end stays, beyond it the end moves."""

    def plan(more_ns: int) -> Plan:
        def compute_ns(rank: int, unit: str, phase: Phase) -> int:
            base = 1000 + 400 * rank
            return base + more_ns * ((rank, unit, phase) == (0, "block", Phase.BACKWARD))

        return Plan(iterations=1, compute_ns=compute_ns)

    def end(more_ns: int) -> int:
        return int(build_graph(load_plan(plan(more_ns))).end.max())

    graph = build_graph(load_plan(plan(0)))
    node = next(
        int(n)
        for n in np.flatnonzero(graph.is_kind(NodeKind.COMPUTE) & (graph.rank == 0))
        if graph.label(n) == "backward of block"
    )
    spare = int(slack(graph)[node])
    assert spare > 0
    assert end(spare) == end(0)
    assert end(spare + 10) == end(0) + 10
