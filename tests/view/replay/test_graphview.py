"""The Graph page's document: sums and path are those of the analysis, steps those of the replay."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.planted import Planted, plant
from tests.analysis.graph.runs import Plan
from tests.strategies import traces
from tests.view.replay.test_document import read
from zerosim.analysis import budgets, critical_path, exposed, report, slack
from zerosim.analysis.graph import NodeKind, build_graph
from zerosim.analysis.graph.table import NONE
from zerosim.base.errors import TraceError, ZerosimError
from zerosim.schema.events import Phase
from zerosim.view.replay import graph_document, graphview, replay_document


def slow_one(rank: int, *_: object) -> int:
    return 3_000_000 if rank == 1 else 1_000_000


PLAN = Plan(num_ranks=3, iterations=2, compute_ns=slow_one, hop_ns=100_000, gap_ns=10_000)


def check(found) -> None:
    """Whatever the trace: plain finite JSON, and every reference leads somewhere."""
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    nodes, edges = found["nodes"], found["edges"]
    num_nodes, num_edges = len(nodes["kind"]), len(edges["source"])
    assert {len(column) for column in nodes.values()} == {num_nodes}
    assert {len(edges[name]) for name in ("source", "target", "reason", "ready")} == {num_edges}
    assert len(edges["binding"]) == num_nodes
    for name in ("label", "unit", "source"):
        assert all(-1 <= text < len(found["texts"]) for text in nodes[name])
    assert all(text >= 0 for text in nodes["label"])
    assert all(0 <= rank < len(found["ranks"]) for rank in nodes["rank"])
    assert all(0 <= start <= end for start, end in zip(nodes["start"], nodes["end"], strict=True))
    assert all(0 <= node < num_nodes for node in edges["source"] + edges["target"])
    assert all(
        edge == NONE or edges["target"][edge] == node for node, edge in enumerate(edges["binding"])
    )


@pytest.mark.parametrize("stage", [1, 3])
@pytest.mark.parametrize("iteration", [0, 1])
def test_it_is_the_graph_and_its_analysis_to_the_nanosecond(stage, iteration):
    trace = load_plan(replace(PLAN, stage=stage))
    found = graph_document(trace, iteration)
    check(found)
    whole = build_graph(trace)
    graph, answer = whole.within(iteration), report(whole, iteration)
    nodes, zero, texts = found["nodes"], int(graph.start.min()), found["texts"]
    assert f"{'; '.join(found['clauses'])}." == answer.headline
    assert (found["iteration"], found["iterations"]) == (iteration, [0, 1])
    assert nodes["start"] == (graph.start - zero).tolist()
    assert nodes["end"] == (graph.end - zero).tolist()
    assert nodes["slack"] == slack(graph).tolist()
    assert [texts[one] for one in nodes["label"]] == [graph.label(n) for n in range(len(graph.end))]
    assert found["edges"]["source"] == graph.source.tolist()
    assert found["edges"]["ready"] == (graph.ready - zero).tolist()

    path = critical_path(graph)
    assert found["path"]["nodes"] == list(path.nodes)
    pieces = np.array(found["path"]["pieces"]).reshape(-1, 5)
    assert [tuple(row) for row in pieces[:, [0, 2, 3]].tolist()] == [
        (piece.node, piece.start_ns - zero, piece.end_ns - zero) for piece in path.pieces
    ]
    assert found["path"]["by_cause_ns"] == list(path.by_cause().values())
    by_cause = Counter(dict.fromkeys(found["causes"], 0))
    for _, cause, start, end, _ in pieces.tolist():
        by_cause[found["causes"][cause]] += end - start
    assert list(by_cause.values()) == found["path"]["by_cause_ns"]
    assert sum(by_cause.values()) == found["path"]["duration_ns"] == found["duration_ns"]
    shown = {texts[row[4]] for row in pieces.tolist()}
    assert {step.label for step in answer.steps} <= shown

    spent = budgets(graph)
    assert found["time"]["ranks"] == [
        asdict(spent.of(rank=rank))
        | {
            "overlap": spent.of(rank=rank).overlap,
            "copying_overlap": spent.of(rank=rank).copying_overlap,
        }
        for rank in found["ranks"]
    ]
    waited = np.array(found["time"]["waited"]).reshape(-1, 3).tolist()
    assert {(a, b): ns for a, b, ns in waited} == spent.waited_ns
    assert [one["exposed_ns"] for one in found["time"]["exposed"]] == [
        one.exposed_ns for one in exposed(graph)
    ]


def test_the_reasons_say_what_the_graph_says():
    trace = load_plan(PLAN)
    found, graph = graph_document(trace, 1), build_graph(trace).within(1)
    nodes, texts = found["nodes"], found["texts"]

    def unit(node: int) -> str:
        text = nodes["unit"][node]
        return "a unit" if text == NONE else texts[text]

    for edge, (source, target) in enumerate(
        zip(found["edges"]["source"], found["edges"]["target"], strict=True)
    ):
        words = found["reasons"][found["edges"]["reason"][edge]]["words"].format(
            source_rank=found["ranks"][nodes["rank"][source]],
            target_rank=found["ranks"][nodes["rank"][target]],
            source_unit=unit(source),
            target_unit=unit(target),
            shard=nodes["shard"][target],
        )
        assert words == graph.words(edge)


@pytest.mark.parametrize("stage", [1, 3])
def test_each_event_leads_to_the_step_that_shows_it(stage):
    trace = load_plan(replace(PLAN, stage=stage))
    found, replayed = graph_document(trace, 1), replay_document(trace, 1)
    graph = build_graph(trace).within(1)
    steps = replayed["steps"]
    of_kind = {
        NodeKind.PHASE: "mark", NodeKind.COMPUTE: "compute", NodeKind.SEND: "transfer",
        NodeKind.RECEIVE: "transfer", NodeKind.CALL: "transfer", NodeKind.MATCH: "transfer",
    }  # fmt: skip
    for node, number in enumerate(found["nodes"]["step"]):
        kind, event, step = graph.kind_of(node), graph.event_of(node), steps[number]
        if kind is NodeKind.WAIT:
            assert step["start_ns"] <= found["nodes"]["end"][node]
            continue
        assert step["kind"] == of_kind[kind]
        if event is None:
            assert step["phase"] == found["phases"][found["nodes"]["phase"][node]]
        elif kind is NodeKind.COMPUTE:
            assert (step["unit_name"], step["phase"]) == (event.unit, event.phase)
        else:
            assert step["unit_name"] == event.unit
            assert step["op"] == graph.collective_of(node).op
            if kind in (NodeKind.SEND, NodeKind.RECEIVE):
                assert step["hop"] == event.hop
            else:
                assert replayed["collectives"][step["collective"]]["first"] == number


@settings(max_examples=30, deadline=None)
@given(traces())
def test_any_trace_is_shown_or_refused_in_one_line(written):
    complaint = ""
    try:
        found = graph_document(read(written))
    except ZerosimError as error:
        complaint = str(error)
    else:
        check(found)
    assert "\n" not in complaint


@given(plans())
def test_of_every_run_all_of_it_is_there(plan):
    trace = load_plan(plan)
    found = graph_document(trace, 0)
    check(found)
    graph = build_graph(trace).within(0)
    assert len(found["nodes"]["kind"]) == graph.num_nodes
    assert len(found["edges"]["source"]) == graph.num_edges
    assert min(found["nodes"]["step"]) >= 0


def test_too_many_messages_are_left_out_and_said(monkeypatch):
    trace = load_plan(PLAN)
    graph = build_graph(trace).within(1)
    messages = graph.is_kind(NodeKind.SEND, NodeKind.RECEIVE)
    monkeypatch.setattr(graphview, "MOST_NODES", graph.num_nodes - 1)
    found = graph_document(trace, 1)
    check(found)
    on_path = critical_path(graph).nodes
    left_out = int(messages.sum()) - int(messages[list(on_path)].sum())
    assert len(found["nodes"]["kind"]) == graph.num_nodes - left_out
    assert found["notes"][-1].startswith(f"{left_out} sends and receives are left out")
    assert len(found["path"]["nodes"]) == len(on_path)
    assert found["path"]["by_cause_ns"] == list(critical_path(graph).by_cause().values())
    monkeypatch.setattr(graphview, "MOST_NODES", 3)
    with pytest.raises(TraceError, match=r"has \d+ events besides messages: the page shows 3"):
        graph_document(trace, 1)


def test_a_program_that_did_not_say_when_it_waited_has_no_path(tmp_path):
    ranks = [Planted(0), Planted(1)]
    for rank in ranks:
        rank.border(0, Phase.FORWARD)
        rank.border(90, Phase.OUTSIDE)
        rank.call(10, 10 + 20 * rank.rank, 60)
    found = graph_document(plant(tmp_path, *ranks))
    check(found)
    assert found["path"] is None
    assert set(found["nodes"]["slack"]) == {-1}
    assert found["time"]["ranks"] == found["time"]["exposed"] == []
    assert found["time"]["waited"] == [0, 1, 20]
    assert any("waits were not recorded" in note for note in found["notes"])


def test_calls_in_a_circle_are_shown_without_a_path_and_named(tmp_path):
    ranks = [Planted(0), Planted(1)]
    for rank, order in zip(ranks, ("ab", "ba"), strict=True):
        rank.border(0, Phase.FORWARD)
        rank.groups = {"a": (0, 1), "b": (0, 1)}
        for place, group in enumerate(order):
            rank.call(10 + 40 * place, 10 + 40 * place, 40 + 40 * place, group=group)
        rank.compute("a", 90, 95)
        rank.border(100, Phase.OUTSIDE)
    found = graph_document(plant(tmp_path, *ranks))
    check(found)
    assert found["path"] is None
    assert found["holds"] is False
    assert "deadlock" in found["clauses"][0]
    assert any("cycle" in one or "wait" in one for one in found["violations"])


def test_a_trace_without_events_and_one_of_too_many_ranks_are_refused():
    trace = load_plan(PLAN)
    empty = replace(trace, ranks=tuple(replace(rank, events=()) for rank in trace.ranks))
    with pytest.raises(TraceError, match="contains no events"):
        graph_document(empty)
    many = replace(trace, manifest=replace(trace.manifest, num_ranks=65))
    with pytest.raises(TraceError, match="65 ranks"):
        graph_document(many)
