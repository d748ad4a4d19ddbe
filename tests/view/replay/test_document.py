"""The document of a replay: what it says, and that no trace makes it fail in another way."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from tests.analysis.graph.plans import load_plan
from tests.analysis.graph.runs import Plan, record
from tests.strategies import Written, trace_files, traces, write_files
from zerosim.analysis.frames import find
from zerosim.base.errors import TraceError, ZerosimError
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import Trace, load
from zerosim.schema.events import Metric
from zerosim.schema.manifest import UnitLayout
from zerosim.view.replay import replay_document, subject
from zerosim.view.replay.tour import MOST


def read(written: Written) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        return load(write_files(Path(folder), trace_files(written)))


def text_of(found, number):
    return found["texts"][number]


def check(found) -> None:
    """Whatever the trace: plain finite JSON, and every reference leads somewhere."""
    encoded = json.dumps(found, allow_nan=False)
    assert json.loads(encoded) == found
    num_steps, num_ranks = len(found["steps"]), len(found["ranks"])
    cells = num_ranks * len(found["states"]) * len(found["units"]) * found["num_shards"]
    assert len(found["cells"]) == cells
    assert [len(times) for times in found["local_ns"]] == [num_steps] * num_ranks
    for number, step in enumerate(found["steps"]):
        assert number <= step["until"] < num_steps
        assert -1 <= step["collective"] < len(found["collectives"])
        assert -1 <= step["unit"] < len(found["units"])
        assert len(step["packets"]) % 6 == 0
        assert len(step["cells"]) % 2 == 0
        assert all(0 <= cell < cells for cell in step["cells"][::2])
        assert set(step["cells"][1::2]) <= set(range(8))
        assert all(0 <= rank < num_ranks for rank in step["ranks"])
        for name in ("title", "what", "why"):
            assert text_of(found, step[name])
    last = num_steps - 1 if found["broken"] is None else found["broken"]["step"]
    stops = [stop["step"] for stop in found["tour"]]
    assert stops == sorted(stops)
    assert 1 <= len(stops) <= MOST
    assert 0 <= stops[0] <= stops[-1] <= last
    for times in found["local_ns"]:
        assert times == sorted(times)
    assert len(found["timeline"]["bars"]) % 7 == 0
    assert all(number < num_steps for number in found["timeline"]["bars"][6::7])
    assert len(found["timeline"]["path"]) % 4 == 0
    assert len(found["timeline"]["launches"]) % 4 == 0


@given(traces())
def test_any_trace_is_replayed_or_refused_in_one_line(written):
    trace = read(written)
    try:
        found = replay_document(trace)
    except ZerosimError as error:
        complaint = str(error)
    else:
        complaint = ""
        check(found)
    assert "\n" not in complaint


@pytest.mark.parametrize("stage", [1, 3])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_a_simulated_run(num_ranks, stage):
    found = replay_document(
        load_plan(Plan(num_ranks=num_ranks, stage=stage, payload_bytes=4104)), 1
    )
    check(found)
    assert found["broken"] is None
    assert found["run"]["iterations"] == [0, 1]
    assert found["run"]["stage"] == stage
    assert found["memory"] is None
    hops = [step for step in found["steps"] if step["kind"] == "transfer"]
    assert len(hops) == (num_ranks - 1) * {1: 4, 3: 6}[stage]
    assert {len(step["packets"]) // 6 for step in hops} <= {num_ranks}
    for one in found["collectives"]:
        steps = found["steps"][one["first"] : one["last"] + 1]
        own = [step for step in steps if step["kind"] == "transfer"]
        assert one["num_hops"] == num_ranks - 1
        share = 4104 * (num_ranks - 1) // num_ranks
        assert one["theory"] == one["trace"] == [share] * num_ranks
        assert one["wire"] == [None] * num_ranks
        filled = text_of(found, one["filled"])
        assert filled.startswith(f"{num_ranks - 1}/{num_ranks} · 2,052 · 2 B = ")
        assert (
            text_of(found, one["formula"]) == f"(N\N{MINUS SIGN}1)/N · Ψ({one['unit_name']}) · 2 B"
        )
        assert own


def test_the_last_complete_iteration_is_shown_and_others_can_be_asked_for():
    trace = load_plan(Plan(iterations=3))
    assert replay_document(trace)["run"]["iteration"] == 2
    assert replay_document(trace, 0)["run"]["iteration"] == 0
    with pytest.raises(TraceError, match=r"^iteration 3 is not in .*: expected one of 0 to 2$"):
        replay_document(trace, 3)


def test_a_rank_that_is_missing_leaves_its_neighbours_packets():
    trace = load_plan(Plan(num_ranks=3))
    part = replace(trace, ranks=trace.ranks[:2], warnings=("rank 2: its file is missing",))
    found = replay_document(part)
    check(found)
    assert found["broken"] is None
    assert found["ranks"] == [0, 1]
    assert found["num_shards"] == 3
    assert found["notes"][0] == "rank 2: its file is missing"


def test_a_run_that_stopped_in_the_middle_can_be_watched_as_far_as_it_came():
    written = record(Plan(num_ranks=2, iterations=1))
    cut = {rank: rows[: len(rows) // 2] for rank, rows in written.rows.items()}
    found = replay_document(read(replace(written, rows=cut)))
    check(found)
    assert found["broken"] is None
    assert found["verdict"]["outcome"] is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_left_out(value):
    written = record(Plan())
    for rows in written.rows.values():
        rows.append(("metric", Metric(iteration=1, name="loss", value=value, time_ns=9)))
    found = replay_document(read(written))
    check(found)
    assert found["run"]["loss"] is None


def test_names_are_kept_as_they_are():
    """The document contains text; a page must not show it as markup."""
    name = "<script>alert(1)</script>\u2028\"'&"
    found = replay_document(load_plan(Plan(units=(name, "plain"))))
    check(found)
    assert found["units"][0]["name"] == name
    assert any(name in text for text in found["texts"])


def test_too_many_ranks_are_refused():
    trace = load_plan(Plan(num_ranks=2))
    huge = replace(trace, manifest=replace(trace.manifest, num_ranks=10**9))
    with pytest.raises(TraceError, match="has 1,000,000,000 ranks, 2 of them recorded: a replay"):
        replay_document(huge)


def test_too_many_units_for_a_map_leave_the_map_out(monkeypatch):
    monkeypatch.setattr(subject, "MOST_CELLS", 10)
    found = replay_document(load_plan(Plan()))
    check(found)
    assert found["states"] == []
    assert found["notes"] == ["2 units on 2 ranks are more than the model-state map can show"]


def test_too_many_messages_are_shown_by_collective(monkeypatch):
    plan = Plan(num_ranks=3)
    by_hop = replay_document(load_plan(plan))
    monkeypatch.setattr(find, "MOST_MESSAGES", 5)
    found = replay_document(load_plan(plan))
    check(found)
    assert found["broken"] is None
    assert not [step for step in found["steps"] if step["kind"] == "transfer"]
    assert "it is shown by collective instead of by hop" in found["notes"][0]
    sent = [sum(step["sent"][0] for step in found["steps"] if step["sent"])]
    of_hops = [
        step["packets"][place + 3]
        for step in by_hop["steps"]
        for place in range(0, len(step["packets"]), 6)
        if step["packets"][place] == 0
    ]
    assert sent == [sum(of_hops)]


def test_too_many_steps_are_refused(monkeypatch):
    monkeypatch.setattr(find, "MOST_STEPS", 5)
    with pytest.raises(TraceError, match=r"has 16 steps: a replay holds up to 5"):
        replay_document(load_plan(Plan()))


def test_absurd_sizes_are_numbers_like_others():
    written = record(Plan())
    units = tuple(
        UnitLayout(name=unit.name, elements=10**15, padded_elements=10**15, trainable=True)
        for unit in written.manifest.units
    )
    found = replay_document(read(replace(written, manifest=replace(written.manifest, units=units))))
    check(found)
    assert found["units"][0]["elements"] == 10**15


@pytest.mark.parametrize(
    ("name", "formula", "num_planned"),
    [
        ("profiles/ddp", "2 · (N\N{MINUS SIGN}1)/N · Ψ(bucket 0) · 4 B", 2),
        ("profiles/fsdp2", "(N\N{MINUS SIGN}1)/N · Ψ(hidden.1) · 4 B", 11),
        ("parallel/tensor-parallel", "2 · (N\N{MINUS SIGN}1)/N · b·s·h · 4 B", 16),
        ("parallel/1f1b", "b·s·h · 4 B", 48),
        ("deepspeed/deepspeed-2", "(N\N{MINUS SIGN}1)/N · Ψ(group 0) · 4 B", 2),
    ],
)
def test_the_plan_of_a_program_says_what_each_of_its_calls_sends(name, formula, num_planned):
    found = replay_document(load(COMMITTED / name))
    planned = [one for one in found["collectives"] if one["formula"] >= 0]
    assert len(planned) == num_planned
    assert formula in {found["texts"][one["formula"]] for one in planned}
    for one in planned:
        assert one["theory"] == one["trace"]


def test_a_program_without_a_law_is_shown_as_it_is():
    written = record(Plan(num_ranks=2))
    foreign = replace(written.manifest, config={}, units=(), buckets=())
    found = replay_document(read(replace(written, manifest=foreign)))
    check(found)
    assert found["run"]["stage"] == -1
    assert found["states"] == []
    assert found["traffic"]["law"] == ""
    assert {one["formula"] for one in found["collectives"]} == {-1}
    assert [None] * 2 not in [one["trace"] for one in found["collectives"]]


def test_a_run_on_a_backend_without_a_law_is_shown_without_a_verdict():
    written = record(Plan(num_ranks=2))
    other = replace(written.manifest, backend="mpi")
    rows = {
        rank: [(name, replace(row, backend="mpi") if name == "group" else row) for name, row in one]
        for rank, one in written.rows.items()
    }
    found = replay_document(read(replace(written, manifest=other, rows=rows)))
    check(found)
    assert found["verdict"]["outcome"] is None
    assert "with algorithm 'other' is not known" in found["verdict"]["headline"]
    assert found["traffic"]["total"] == [None, None]


def test_where_a_trace_lies_is_not_said(tmp_path):
    written = record(Plan(num_ranks=3))
    files = trace_files(written)
    del files["rank-1.jsonl"]
    found = replay_document(load(write_files(tmp_path / "run", files)))
    check(found)
    assert found["verdict"]["headline"].startswith("no iteration is complete on all 3 ranks")
    assert str(tmp_path) not in json.dumps(found)


def test_without_events_or_without_their_groups_there_is_nothing_to_replay():
    written = record(Plan(num_ranks=2))
    rows = {rank: [row for row in rows if row[0] != "group"] for rank, rows in written.rows.items()}
    only_headers = {rank: own[:1] for rank, own in rows.items()}
    with pytest.raises(TraceError, match="contains no events: nothing to replay"):
        replay_document(read(replace(written, rows=only_headers)))
    with pytest.raises(TraceError, match="of group 'world', which is unknown"):
        read(replace(written, rows=rows))


def test_a_ring_of_two_of_four_ranks_carries_two_shards_in_each_message():
    document = replay_document(load(COMMITTED / "hpz" / "stage-3"))
    calls = [one for one in document["collectives"] if one["purpose"] == "gather parameters"]
    each = {(one["phase"], one["shards_each"]) for one in calls}
    assert each == {("forward", 1), ("backward", 2)}
    for one in calls:
        shard = one["payload_bytes"] // 4
        sent = document["steps"][one["first"]]["packets"][3::6]
        assert set(sent) == {shard * one["shards_each"]}
