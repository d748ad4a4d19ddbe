"""`zerosim graph`: the same as JSON and as text, in files, and for traces that do not fit."""

from __future__ import annotations

import json

import networkx as nx
import pytest

from tests.analysis.graph.planted import Planted
from tests.analysis.graph.runs import Plan, record
from tests.cli.command import assert_one_line, command
from tests.strategies import trace_files, write_files, write_trace
from zerosim.analysis import report
from zerosim.analysis.graph import build_graph
from zerosim.record import load


def slow_one(rank: int, *_: object) -> int:
    return 3_000_000 if rank == 1 else 1_000_000


@pytest.fixture
def folder(tmp_path):
    plan = Plan(num_ranks=3, iterations=3, compute_ns=slow_one, hop_ns=100_000, gap_ns=10_000)
    return write_files(tmp_path / "t", trace_files(record(plan)))


def test_text_and_json_say_the_same(folder):
    answer = report(build_graph(load(folder)))
    shown = command("graph", folder)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == f"✓ {answer.headline}"
    assert "iteration 2 of 0..2" in lines[1]
    plain = json.loads(command("graph", folder, "--json").out)
    assert plain == json.loads(json.dumps(answer.to_plain()))
    for ns in plain["critical_path"]["by_cause_ns"].values():
        assert f"{ns / 1e6:,.3f}" in shown.out
    for row in plain["budgets"]:
        for name in ("wall_ns", "compute_ns", "exposed_ns", "waiting_ns", "other_ns"):
            assert f"{row[name] / 1e6:,.3f}" in shown.out
    for row in plain["waited"]:
        assert f"{row['waited_ns'] / 1e6:,.3f}" in shown.out
    for step in plain["steps"]:
        assert step["label"] in shown.out
        assert step["source"] in shown.out
    for check in plain["checks"]:
        assert f"✓ {check['title']}: {check['counted']}" in lines


def test_a_slow_rank_is_in_the_first_line(folder):
    first = command("graph", folder).out.splitlines()[0]
    assert "runs mostly on rank 1; the others waited" in first
    assert first.endswith("ms for rank 1.")


def test_another_iteration_fewer_steps_and_one_rank_s_slack(folder):
    shown = command("graph", folder, "--iteration", 1, "--top", 2, "--rank", 0).out
    assert "iteration 1 of 0..2" in shown
    assert "the 2 longest steps" in shown
    assert "rank 0's events" in shown
    assert "forward of embedding" in shown
    assert "longest steps" not in command("graph", folder, "--top", 0).out
    assert "critical" in command("graph", folder, "--rank", 1).out


def test_exports(folder, tmp_path):
    graphml, nodelink = tmp_path / "graph.graphml", tmp_path / "graph.json"
    shown = command("graph", folder, "--graphml", graphml, "--nodelink", nodelink)
    face = build_graph(load(folder)).within(2).to_networkx()
    counts = f"{len(face):,} nodes, {face.number_of_edges():,} edges"
    assert shown.out.splitlines()[-2:] == [
        f"wrote {graphml}: {counts}",
        f"wrote {nodelink}: {counts}",
    ]
    read = nx.read_graphml(graphml)
    assert len(read) == len(face)
    on_path = [data["slack_ns"] for _, data in read.nodes(data=True) if data["on_path"]]
    assert on_path
    assert not any(on_path)
    assert len(json.loads(nodelink.read_text())["nodes"]) == len(face)
    plain = command("graph", folder, "--json", "--nodelink", nodelink)
    assert json.loads(plain.out)["holds"] is True  # nothing else is printed


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--iteration", 7), ("iteration 7", "expected one of 0 to 2")),
        (("--iteration", "x"), ("iteration is 'x'", "whole number")),
        (("--rank", 9), ("rank 9", "expected one of 0, 1, 2")),
        (("--top", -1), ("top is -1", "0 or more")),
        (("--frob",), ("--frob", "zerosim graph --help")),
    ],
)
def test_wrong_words(folder, args, words):
    assert_one_line(command("graph", folder, *args), *words)


def test_wrong_folders_and_files(folder, tmp_path):
    assert_one_line(command("graph", tmp_path / "nowhere"), "nowhere", "no such folder")
    assert_one_line(command("graph"), "folder", "zerosim graph --help")
    assert_one_line(command("graph", tmp_path), "t", f"try {folder}")
    for option in ("--graphml", "--nodelink"):
        for path in (tmp_path, tmp_path / "no" / "file"):
            answer = command("graph", folder, option, path)
            assert_one_line(answer, f"cannot write {path}", "give a file")


def test_what_does_not_fit_is_named_and_is_exit_1(tmp_path):
    first, second = Planted(0), Planted(1)
    first.call(0, 0, 9, unit="blocks.0", source="train.py:7 in step")
    second.call(0, 0, 9, unit="blocks.0", source="other.py:9 in go", payload_bytes=104)
    folder = write_trace(tmp_path, {0: first.rows(), 1: second.rows()})
    answer = command("graph", folder)
    assert answer.code == 1
    assert answer.out.startswith("✗ 1 of 4 checks fail; see below. ")
    line = next(line for line in answer.out.splitlines() if "payload" in line and "104 B" in line)
    for word in ("rank 0", "rank 1", "blocks.0", "100 B", "train.py:7 in step", "other.py:9 in go"):
        assert word in line
    assert command("graph", folder, "--json").code == 1


def test_a_deadlock_is_named(tmp_path):
    """With an export that has no path."""
    first, second = Planted(0), Planted(1)
    for rank, order in ((first, ("left", "right")), (second, ("right", "left"))):
        rank.groups = {"left": (0, 1), "right": (0, 1)}
        for place, group in enumerate(order):
            rank.call(10 * place, 10 * place, 10 * place + 8, group=group, unit=f"the {group} one")
    folder = write_trace(tmp_path, {0: first.rows(), 1: second.rows()})
    answer = command("graph", folder, "--nodelink", tmp_path / "graph.json")
    assert answer.code == 1
    nodes = json.loads((tmp_path / "graph.json").read_text())["nodes"]
    assert nodes
    assert not any("on_path" in node for node in nodes)
    refused = command("whatif", folder, "--bandwidth", "x2", "--out", tmp_path / "predicted")
    assert_one_line(refused, "cycle")
    assert "a deadlock, named below" in answer.out.splitlines()[0]
    assert "rank 0 reaches all-reduce of the right one" in answer.out
    assert "critical path over all ranks" not in answer.out


def test_a_trace_cut_short_is_shown_with_a_note(folder):
    file = folder / "rank-1.jsonl"
    file.write_bytes(file.read_bytes()[:-60])  # within the end row: nothing else is missing
    answer = command("graph", folder)
    assert answer.code == 0
    assert "note: rank 1: the trace stops after" in answer.out
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[: len(lines) // 2]))
    answer = command("graph", folder)
    assert answer.code == 1
    assert "iteration 0 of 0..2" in answer.out
    assert "rank 1: stopped before it" in answer.out
    (folder / "rank-2.jsonl").unlink()
    answer = command("graph", folder)
    assert answer.code == 1
    assert "rank 2" in answer.out


def test_several_hosts_have_their_clocks_shown(tmp_path):
    plan = Plan(hosts=("a", "b"), shift_ns={"b": 10**9})
    folder = write_files(tmp_path, trace_files(record(plan)))
    shown = command("graph", folder).out
    assert "clocks, aligned with that of the first host" in shown
    line = next(line for line in shown.splitlines() if line.startswith("b "))
    assert "-1.0000000" in line or "-0.9999999" in line
    assert "ns, from 36 exchanges" in line
    assert "note: times across hosts are accurate to ± 0.1 µs" in shown


def test_many_ranks_are_summed_up(tmp_path):
    folder = write_files(tmp_path, trace_files(record(Plan(num_ranks=9, compute_ns=slow_one))))
    shown = command("graph", folder).out
    assert "waits between ranks, the longest" in shown
    assert "sum   forward" in shown
