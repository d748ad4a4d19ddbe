"""The graph's nodes, edges and reasons; and that it is one for every run."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.planted import Planted, plant, straggling
from tests.analysis.graph.runs import Plan
from tests.strategies import write_trace
from zerosim.analysis.graph import EdgeKind, NodeKind, build_graph, check_graph
from zerosim.analysis.graph.order import find_cycle, positions
from zerosim.record import load
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.memory import MemorySample, Moment


def edges_of(graph, kind=set):
    """Edges as (rank and label of the source, of the target, kind, reason, ready)."""

    def name(node):
        kind, label = graph.kind_of(node), graph.label(node)
        return label if kind is NodeKind.MATCH else f"{graph.rank[node]}: {label}"

    return kind(
        (
            name(int(graph.source[edge])),
            name(int(graph.target[edge])),
            graph.kind_of_edge(edge).value,
            graph.words(edge),
            int(graph.ready[edge]),
        )
        for edge in range(graph.num_edges)
    )


def test_every_edge_of_a_small_run(tmp_path):
    graph = build_graph(straggling(tmp_path))
    reduce = "all-reduce of a (reduce gradients)"
    order, match = EdgeKind.ORDER.value, EdgeKind.MATCH.value
    expected = set()
    for rank, slow, issue, start, end, wait, last in (
        (0, 50, 55, 60, 130, (58, 135), 190),
        (1, 90, 95, 100, 128, (97, 131), 200),
    ):
        goes_on = f"rank {rank} continues"
        expected |= {
            (f"{rank}: forward begins", f"{rank}: forward of a", order, goes_on, 0),
            (f"{rank}: forward of a", f"{rank}: wait for {reduce}", order, goes_on, wait[0]),
            (f"{rank}: wait for {reduce}", f"{rank}: forward of b", order, goes_on, wait[1]),
            (f"{rank}: forward of b", f"{rank}: the end", order, goes_on, last),
            (f"{rank}: forward of a", f"{rank}: arrival at {reduce}", order,
             f"rank {rank} calls it", issue),
            (f"{rank}: arrival at {reduce}", reduce, match, f"rank {rank} has arrived", start),
            (reduce, f"{rank}: wait for {reduce}", match, f"it completes on rank {rank}", end),
        }  # fmt: skip
        assert slow < issue
    assert edges_of(graph) == expected
    node = int(np.flatnonzero(graph.is_kind(NodeKind.MATCH))[0])
    assert (graph.start[node], graph.end[node], graph.rank[node]) == (100, 130, 1)


def test_the_face_says_everything(tmp_path):
    face = build_graph(straggling(tmp_path)).to_networkx()
    assert isinstance(face, nx.DiGraph)
    assert nx.is_directed_acyclic_graph(face)
    matched = [data for _, data in face.nodes(data=True) if data["kind"] == "collective"]
    assert matched == [
        {
            "kind": "collective", "rank": 1, "ranks": "0,1", "iteration": 0, "phase": "forward",
            "unit": "a", "op": "all-reduce", "purpose": "reduce gradients", "payload_bytes": 100,
            "start_ns": 100, "end_ns": 130, "source": "train.py:7 in step",
            "label": "all-reduce of a (reduce gradients)",
        }
    ]  # fmt: skip
    assert all(data["reason"] and data["kind"] for _, _, data in face.edges(data=True))


@pytest.mark.parametrize("stage", [1, 3])
def test_tensors_live_from_who_made_them_to_who_uses_them(stage):
    graph = build_graph(load_plan(Plan(stage=stage)))
    lives = {
        edge[:2] + edge[3:4]
        for edge in edges_of(graph.within(1))
        if edge[2] == EdgeKind.LIFETIME.value and edge[0].startswith(("0", "all", "reduce"))
    }
    gather, scatter = "all-gather of block (gather", "reduce-scatter of block (reduce gradients)"
    gather = f"{gather} parameters)"
    expected = {
        ("0: forward of block", "0: backward of block",
         "activations of block were saved for backward"),
        ("0: backward of block", f"0: arrival at {scatter}", "gradients of block are reduced"),
        (scatter, "0: update of block", "reduced gradients of block are applied"),
    }  # fmt: skip
    used = "block computes with gathered parameters"
    if stage == 3:
        expected |= {(gather, f"0: {phase} of block", used) for phase in ("forward", "backward")}
    else:
        made = "new parameters of block are gathered"
        expected |= {("0: update of block", f"0: arrival at {gather}", made)}
    assert expected <= lives
    whole = {edge[:2] + edge[3:4] for edge in edges_of(graph)}
    if stage == 3:  # an update's shards are gathered in the next iteration's forward
        made = "new parameters of block are gathered"
        assert ("0: update of block", f"0: arrival at {gather}", made) in whole
    else:
        assert (gather, "0: forward of block", used) in whole


def test_every_micro_step_s_reduction_is_applied(tmp_path):
    rank = Planted(0, 1)
    rank.call(0, 0, 5, op=Op.BROADCAST, purpose=Purpose.BROADCAST_STATE, iteration=-1)
    for micro_step, begin in enumerate((10, 50)):
        fields = {"micro_step": micro_step, "phase": Phase.BACKWARD}
        rank.compute("a", begin, begin + 10, **fields)
        rank.call(begin + 11, begin + 12, begin + 20, op=Op.REDUCE_SCATTER, **fields)
    rank.compute("a", 90, 95, phase=Phase.UPDATE)
    rank.compute("a", 100, 110, iteration=1)
    scatter = "reduce-scatter of a (reduce gradients)"
    lives = sorted(
        (edge[4], *edge[:2], edge[3])
        for edge in edges_of(build_graph(plant(tmp_path, rank)), list)
        if edge[2] == EdgeKind.LIFETIME.value
    )
    initial = "a computes with its initial parameters"
    assert lives == [
        (5, "broadcast of a (broadcast initial state)", "0: backward of a", initial),
        (5, "broadcast of a (broadcast initial state)", "0: backward of a", initial),
        (20, "0: backward of a", f"0: arrival at {scatter}", "gradients of a are reduced"),
        (30, scatter, "0: update of a", "reduced gradients of a are applied"),
        (60, "0: backward of a", f"0: arrival at {scatter}", "gradients of a are reduced"),
        (70, scatter, "0: update of a", "reduced gradients of a are applied"),
        (95, "0: update of a", "0: forward of a", "new parameters of a are used"),
    ]


def test_messages_go_round_the_ring():
    graph = build_graph(load_plan(Plan(num_ranks=3, units=("block",), iterations=1)))
    edges = edges_of(graph)
    messages = [edge for edge in edges if edge[2] == EdgeKind.MESSAGE.value]
    assert {edge[3] for edge in messages} == {
        "message from rank 0 to rank 1",
        "message from rank 1 to rank 2",
        "message from rank 2 to rank 0",
    }
    passed = ("1: receive shard 0 from rank 0", "1: send shard 0 to rank 2")
    assert passed in {edge[:2] for edge in edges if edge[3] == "rank 1 forwards shard 0"}


def test_what_was_interrupted_is_in_pieces(tmp_path):
    rank = Planted(0, 1)
    rank.border(0, Phase.FORWARD)
    rank.border(130, Phase.OUTSIDE)
    rank.compute("outer", 10, 100)
    rank.compute("inner", 30, 50)
    call = rank.call(55, 55, 70)
    rank.wait(60, 80, call)
    graph = build_graph(plant(tmp_path, rank))
    lane = sorted(
        (int(graph.at[node]), int(graph.end[node]), graph.label(node))
        for node in np.flatnonzero(graph.is_kind(NodeKind.COMPUTE, NodeKind.WAIT))
    )
    assert lane == [
        (10, 30, "forward of outer"),
        (30, 50, "forward of inner"),
        (50, 60, "forward of outer"),
        (80, 80, "wait for all-reduce of a (reduce gradients)"),
        (80, 100, "forward of outer"),
    ]
    asked = [edge for edge in edges_of(graph) if edge[3] == "rank 0 calls it"]
    assert [edge[0] for edge in asked] == ["0: forward of outer"]


def test_a_root_that_was_done_before_the_others_came_did_not_wait(tmp_path):
    first, second = Planted(0), Planted(1)
    one = first.call(0, 0, 10, op=Op.BROADCAST, purpose=Purpose.BROADCAST_STATE)
    first.wait(1, 12, one)
    two = second.call(100, 100, 120, op=Op.BROADCAST, purpose=Purpose.BROADCAST_STATE)
    second.wait(101, 121, two)
    graph = build_graph(plant(tmp_path, first, second))
    assert not find_cycle(graph)
    over = {(edge[0][:2], edge[1][:2]) for edge in edges_of(graph) if "completes" in edge[3]}
    assert over == {("0:", "0:"), ("br", "1:")}


def test_a_trace_without_phase_rows_has_the_phases_of_its_events(tmp_path):
    rank = Planted(0, 1)
    rank.compute("a", 10, 20, iteration=3, phase=Phase.FORWARD)
    rank.compute("a", 30, 45, iteration=3, phase=Phase.BACKWARD)
    rank.compute("a", 60, 70, iteration=4, phase=Phase.FORWARD)
    graph = build_graph(plant(tmp_path, rank))
    marks = np.flatnonzero(graph.is_kind(NodeKind.PHASE))
    found = [(int(graph.iteration[m]), graph.label(m), int(graph.start[m])) for m in marks]
    assert found == [
        (3, "forward begins", 10),
        (3, "backward begins", 30),
        (3, "the end", 45),
        (4, "forward begins", 60),
        (4, "the end", 70),
    ]


def test_phases_are_also_known_from_the_memory_s_rows(tmp_path):
    planted = Planted(0, 1)
    planted.compute("a", 10, 20)
    rows = planted.rows()
    for number, (time, phase) in enumerate(((5, Phase.FORWARD), (25, Phase.OUTSIDE))):
        sample = MemorySample(
            number=number, event=None, moment=Moment.PHASE, iteration=0, micro_step=0,
            phase=phase, time_ns=time, changes=(),
        )  # fmt: skip
        rows.append(("memory", sample))
    graph = build_graph(load(write_trace(tmp_path, {0: rows})))
    assert sorted((one[0], one[1], one[4]) for one in edges_of(graph)) == [
        ("0: forward begins", "0: forward of a", 5),
        ("0: forward of a", "0: the end", 20),
    ]


@given(plan=plans())
def test_every_run_is_a_graph_without_circles_in_which_nothing_is_ready_too_late(plan):
    graph = build_graph(load_plan(plan))
    assert all(check.holds for check in check_graph(graph))
    assert nx.is_directed_acyclic_graph(graph.to_networkx())
    position = positions(graph)
    assert position is not None
    assert np.all(position[graph.source] < position[graph.target])
    assert np.all(graph.ready <= graph.at[graph.target])
    assert np.all(graph.at[graph.source] <= graph.ready)


@pytest.mark.parametrize("stage", [1, 3])
def test_every_iteration_adds_as_many_nodes_and_edges(stage):
    graphs = [build_graph(load_plan(Plan(stage=stage, iterations=count))) for count in (2, 3, 4, 5)]
    for sizes in ([g.num_nodes for g in graphs], [g.num_edges for g in graphs]):
        assert len(set(np.diff(sizes).tolist())) == 1
