"""One iteration's answers: which one is shown, in which words."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.graph.plans import load_plan
from tests.analysis.graph.planted import Planted, plant, straggling
from tests.analysis.graph.runs import Plan, record
from tests.strategies import trace_files, traces, write_files
from zerosim.analysis import TimeCause, report
from zerosim.analysis.graph import build_graph
from zerosim.base.errors import ConfigError, ZerosimError
from zerosim.record import load
from zerosim.schema.events import WHOLE, Phase


def slow_one(rank: int, *_: object) -> int:
    return 3000 if rank == 1 else 1000


def test_the_answer_in_a_sentence(tmp_path):
    answer = report(build_graph(straggling(tmp_path)))
    assert answer.headline == (
        "Iteration 0 took 0.000 ms; its critical path is 68 % compute, 14 % communication, "
        "14 % other, 4 % scheduling, and runs mostly on rank 1; rank 0 waited 0.000 ms for rank 1."
    )
    assert answer.holds
    step = answer.steps[0]
    assert (step.duration_ns, step.cause, step.rank) == (80, TimeCause.COMPUTE, 1)
    assert (step.label, step.unit, step.start_ns) == ("forward of a", "a", 10)
    communication = next(step for step in answer.steps if step.cause is TimeCause.COMMUNICATION)
    assert communication.source == "train.py:7 in step"
    assert sum(step.duration_ns for step in answer.steps) == 205


def test_the_last_complete_iteration_is_shown():
    graph = build_graph(load_plan(Plan(iterations=3, compute_ns=slow_one)))
    assert report(graph).iteration == 2
    assert report(graph, 1).iteration == 1
    with pytest.raises(ConfigError, match=r"iteration 3 .* expected one of 0 to 2"):
        report(graph, 3)
    with pytest.raises(ConfigError, match=r"rank 7 .* expected one of 0, 1"):
        report(graph, rank=7)


def test_slack_of_one_rank_s_events():
    graph = build_graph(load_plan(Plan(compute_ns=slow_one)))
    assert report(graph).slacks == ()
    fast, slow = (report(graph, rank=rank).slacks for rank in (0, 1))
    assert {one.rank for one in fast} == {0}
    assert min(one.slack_ns for one in slow) == 0
    forward = next(one for one in fast if one.label == "forward of block")
    assert forward.slack_ns > 1000


def test_a_trace_cut_short_is_shown_up_to_there(tmp_path):
    files = trace_files(record(Plan(iterations=3)))
    lines = files["rank-1.jsonl"].splitlines(keepends=True)
    files["rank-1.jsonl"] = b"".join(lines[: len(lines) // 2])
    answer = report(build_graph(load(write_files(tmp_path, files))))
    assert answer.iteration == 0
    assert "rank 1" in answer.notes[0]
    assert not answer.holds
    assert "checks fail" in answer.headline
    cut = report(build_graph(load(tmp_path)), answer.iterations[-1])
    assert cut.path is not None
    for budget in cut.budgets.by_phase.values():
        parts = (budget.compute_ns, budget.exposed_ns, budget.waiting_ns, budget.other_ns)
        assert sum(parts) == budget.wall_ns


def test_a_program_without_iterations_is_shown_as_a_whole(tmp_path):
    first, second = Planted(0), Planted(1)
    for rank, begin in ((first, 0), (second, 2_000_000)):
        call = rank.call(begin, begin, 3_000_000, unit="", iteration=-1, phase=Phase.OUTSIDE)
        rank.call(
            begin + 5_000_000, begin + 5_000_000, 8_000_000, iteration=-1, phase=Phase.OUTSIDE
        )
        assert call.id == 0
    trace = plant(tmp_path, first, second)
    answer = report(build_graph(trace))
    assert answer.iteration == WHOLE
    assert answer.headline == (
        "The recording took 8.00 ms; the program's waits were not recorded; collectives of "
        "rank 0 waited 4.00 ms for rank 1."
    )
    with pytest.raises(ConfigError, match="no iterations: leave --iteration out"):
        report(build_graph(trace), 0)


def test_one_rank_waits_for_nobody():
    answer = report(build_graph(load_plan(Plan(num_ranks=1))))
    assert "wait" not in answer.headline
    assert answer.budgets.waited_ns == {}


def test_the_answer_as_plain_values():
    answer = report(build_graph(load_plan(Plan())), rank=0)
    plain = json.loads(json.dumps(answer.to_plain()))
    assert plain["headline"] == answer.headline
    assert plain["critical_path"]["duration_ns"] == sum(
        plain["critical_path"]["by_cause_ns"].values()
    )
    assert {"budgets", "waited", "bandwidths", "steps", "slacks", "checks", "clocks"} <= set(plain)


@given(written=traces(), rank=st.none() | st.integers(0, 2))
@settings(max_examples=25, deadline=None)
def test_whatever_a_trace_holds_there_is_an_answer_or_an_error_of_ours(written, rank):
    with tempfile.TemporaryDirectory() as folder:
        trace = load(write_files(Path(folder), trace_files(written)))
    with suppress(ZerosimError):
        answer = report(build_graph(trace), rank=rank)
        json.dumps(answer.to_plain())
        assert answer.headline


def test_many_ranks_are_the_others():
    answer = report(build_graph(load_plan(replace(Plan(num_ranks=4), compute_ns=slow_one))))
    assert ", and runs mostly on rank 1; the others waited 0.0" in answer.headline
