"""A run, read: what it says of itself, its tables, its answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache

import pytest

import zerosim
from tests.dashboards.samples import HOSTILE, put_trace
from tests.lessons.committed import but_later
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.base.tables import Column, Evidence, Table
from zerosim.lessons.recordings import COMMITTED, committed, settings
from zerosim.schema.events import Op, Phase
from zerosim.view.reading import Run, Source

RUNS = committed()
STAGE_3 = "ring/stage-3"


@cache
def run_of(name):
    return zerosim.load(COMMITTED / name)


@pytest.mark.parametrize("name", but_later(RUNS))
def test_a_run_is_one_screen(name):
    run = run_of(name)
    assert isinstance(run, Run)
    setting = settings()[name.partition("/")[0]]
    if setting.get("dry"):
        assert run.source is Source.SIMULATED
    elif name.startswith("device-clock/"):
        assert run.source is Source.IMPORTED
    else:
        assert run.source is (Source.EXECUTED if run.trace.manifest.config else Source.TRACED)
    assert len(repr(run).splitlines()) <= 25
    assert "<table>" in run._repr_html_()


def test_a_run_knows_what_it_is():
    run = run_of(STAGE_3)
    assert run.ranks == (0, 1, 2, 3)
    assert run.iterations == (0, 1)
    assert run.units == ("embedding", "blocks.0", "blocks.1", "blocks.2", "blocks.3", "head")
    assert run.configuration["stage"] == 3
    assert [group.ranks for group in run.groups.values()] == [(0, 1, 2, 3)]
    assert run.complete
    assert run_of("native/stage-3").source is Source.EXECUTED
    assert run_of("profiles/ddp").strategies[0].system == "DDP"


@pytest.mark.parametrize("name", but_later(RUNS))
def test_every_table_can_be_asked_of_every_run(name):
    run = run_of(name)
    tables = [
        run.traffic(by=("phase", "purpose", "op")),
        run.traffic(by=("iteration", "rank")),
        run.traffic(by="link"),
        run.copies(),
        run.wire(by=("rank", "phase")),
        run.time(),
        run.time(by=("rank", "phase")),
        run.events(rank=0),
        run.pieces(),
        run.critical_path(),
        run.memory(by=("rank", "role"), rank=None),
    ]
    for table in tables:
        assert repr(table)
        assert "<table>" in table._repr_html_()
        plain = json.loads(json.dumps(table.to_dict(), allow_nan=False))
        assert len(plain["rows"]) == len(table)


def test_traffic_is_what_the_verification_says():
    run = run_of(STAGE_3)
    ledger = run.verify().ledger(rank=0)
    table = run.traffic(by=("phase", "purpose", "op"), rank=0)
    reasons = [tuple(row[name] for name in ("phase", "purpose", "op")) for row in ledger]
    assert [tuple(row[name] for name in ("phase", "purpose", "op")) for row in table] == reasons
    assert table["sent_bytes"] == ledger["trace_bytes"]
    assert table["wire_sent_bytes"] == ledger["wire_bytes"]
    assert run.traffic(rank=0).total("wire_sent_bytes") == run.verify().report.total("kernel", 0)
    everyone = sum(run.traffic(rank=rank).sent_bytes for rank in run.ranks)
    assert run.traffic().sent_bytes == everyone


def test_filters_are_added_up_by_what_they_leave():
    run = run_of(STAGE_3)
    by_unit = run.traffic(by="unit", phase="backward", purpose="gather_parameters")
    assert set(by_unit["unit"]) == set(run.units)
    one = run.traffic(phase="backward", purpose="gather parameters", unit="blocks.1")
    assert [one.sent_bytes] == [r["sent_bytes"] for r in by_unit if r["unit"] == "blocks.1"]
    both = run.traffic(phase=("forward", Phase.BACKWARD), op=("all_gather", "reduce-scatter"))
    assert both.sent_bytes + run.traffic(phase="update").sent_bytes == run.traffic().sent_bytes
    assert len(run.events(op="all_gather", rank=0)) == sum(
        event.op is Op.ALL_GATHER and event.iteration == 1 and event.kind == "collective"
        for event in run.trace.ranks[0].events
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda run: run.traffic(rank=7), "rank is 7: expected 0 to 3"),
        (lambda run: run.traffic(iteration=9), "iteration is 9: expected 0 to 1"),
        (lambda run: run.traffic(phase="sideways"), "phase is 'sideways': expected one of"),
        (lambda run: run.traffic(purpose=3), "purpose is 3: expected one of"),
        (lambda run: run.traffic(op="gossip"), "op is 'gossip': expected one of"),
        (lambda run: run.traffic(unit="blocks.9"), "unit is 'blocks.9': expected one of embedding"),
        (lambda run: run.traffic(by="colour"), "by is 'colour': expected one of rank"),
        (lambda run: run.traffic(link="pigeon"), "link is 'pigeon': expected one of"),
        (lambda run: run.memory(at="noon"), "at is 'noon': expected 'peak'"),
        (lambda run: run.memory(tier="attic"), "tier is 'attic': expected one of"),
        (lambda run: run.time(by=("cause", "rank")), "expected 'cause' alone"),
        (lambda run: run.traffic()["size"], "column is 'size': expected one of calls"),
        (lambda run: run.verify(against="3 apples"), "'3 apples' is not a quantity"),
        (lambda run: run.replay(at="backward dance"), "has no step 'backward dance'"),
    ],
)
def test_what_a_run_does_not_know_is_refused_in_a_line(asked, words):
    with pytest.raises(ConfigError) as refused:
        asked(run_of(STAGE_3))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_nobody_recorded_is_no_number():
    ddp = run_of("profiles/ddp")
    table = ddp.traffic(by="phase", rank=0)
    assert set(table["wire_sent_bytes"]) == {None}  # its buckets run beside each other
    assert "not recorded" in repr(table)
    assert any("run.wire()" in note for note in table.notes)
    sent = next(column for column in table.columns if column.name == "sent_bytes")
    assert sent.evidence is Evidence.COMPUTED  # a native call is not seen hop by hop
    assert ddp.wire(rank=0).sent_bytes >= table.sent_bytes
    nodes = run_of("nodes/stage-3")
    assert set(nodes.traffic(by="link")["payload_bytes"]) == {None}


def test_memory_is_the_peak_that_the_command_tells():
    for name in (STAGE_3, "ring/stage-0", "offload/stage-2"):
        run = run_of(name)
        for peak in run.verify_memory().report.peaks:
            assert sum(run.memory(rank=peak.rank)["bytes"]) == peak.bytes
    states = {row["role"]: row["bytes"] for row in run_of(STAGE_3).memory("update")}
    assert states["momentum"] == 4 * 3_307_008 // 4  # 4 bytes of each parameter, divided by N
    both = run_of(STAGE_3).memory("every sample")
    assert both.names == ("time_ns", "role", "bytes")


def test_a_law_that_is_typed_is_held_against_the_run():
    run = run_of(STAGE_3)
    for law in ("3Psi", "3Ψ", "3Psi(N-1)/N"):
        assert run.verify(against=law).holds
    wrong = run.verify(against="2Psi")
    assert not wrong.holds
    assert wrong.headline.startswith("2Ψ does not hold: rank 0 in iteration 0 moves 3.000 Ψ")
    assert len(wrong.table) == len(run.ranks) * len(run.iterations)
    assert run_of("ring/stage-1").verify(against="2Psi").holds
    assert run.verify(against="2Psi", tolerance=0.5).holds


def test_verify_is_the_commands_report():
    found = run_of(STAGE_3).verify()
    assert found.holds
    assert found.to_dict() == found.report.to_plain()
    assert found.claims == found.report.verdicts
    assert found.headline in repr(found)
    assert run_of(STAGE_3).verify_memory().holds


def test_runs_stand_side_by_side():
    found = run_of("ring/stage-0").compare(run_of(STAGE_3))
    assert found.table.names == ("first rank", "data parallel", "ZeRO-3")
    assert found.headline in repr(found)
    assert json.dumps(found.to_dict())


def test_a_replay_stands_where_it_is_told(tmp_path):
    found = run_of(STAGE_3).replay(at="backward gather blocks.2")
    step = found.document["steps"][found.step]
    assert (step["phase"], step["unit_name"]) == ("backward", "blocks.2")
    assert f"#at={found.step + 1}" in found._repr_html_()
    assert found.title in repr(found)
    assert found.save(tmp_path / "replay.html").read_text() == found.html


def test_a_table_becomes_what_is_installed(monkeypatch):
    table = Table("t", (Column("a"), Column("b", Evidence.TRACED)), ((1, None), (2, 3)))
    assert table.total("a") == 3
    assert table.total("b") is None
    assert list(table) == [{"a": 1, "b": None}, {"a": 2, "b": 3}]
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    for become in (table.to_pandas, table.to_polars):
        with pytest.raises(EnvironmentFault, match="is not installed: pip install"):
            become()


def test_in_a_notebook_a_table_is_shown_once(monkeypatch, capsys):
    table = run_of(STAGE_3).traffic(by="phase", rank=0)
    outside = repr(table)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert repr(table) == outside
    assert capsys.readouterr().out == ""


def test_reading_needs_neither_torch_nor_plotly_nor_dash():
    code = (
        f"import sys, zerosim; run = zerosim.load({str(COMMITTED / STAGE_3)!r}); repr(run); "
        "run.verify(); run.critical_path(); run.memory(); "
        "print(sorted({'torch', 'plotly', 'dash', 'flask'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_that_ends_early_says_so(tmp_path):
    shutil.copytree(COMMITTED / STAGE_3, tmp_path / "cut")
    rows = (tmp_path / "cut" / "rank-2.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut" / "rank-2.jsonl").write_bytes(b"".join(rows[: len(rows) // 3]))
    run = zerosim.load(tmp_path / "cut")
    assert not run.complete
    assert "incomplete" in repr(run)
    assert run.traffic(by="phase")


@pytest.mark.parametrize("name", [*HOSTILE, "\x1b[2Jgone", "half \udc80"])
def test_what_a_trace_says_steers_no_terminal_and_no_page(tmp_path, name):
    run = zerosim.load(put_trace(tmp_path / "t", model=name))
    tables = [run.traffic(by="unit"), run.memory(by="unit"), run.events(), run.critical_path()]
    for shown in (run, run.verify(), run.compare(run), run.replay(), *tables):
        assert all(char.isprintable() or char in "\n\t" for char in repr(shown))
        page = shown._repr_html_()
        assert "<script>" not in page
        assert "<img" not in page
        page.encode()


def test_what_cannot_be_told_apart_is_refused():
    run = run_of(STAGE_3)
    with pytest.raises(ConfigError, match="the kernel does not count by purpose"):
        run.wire(purpose="gather_parameters")
    with pytest.raises(ConfigError, match="a copy has no operation"):
        run.copies(op="all_gather")
    with pytest.raises(TypeError, match="fase"):
        run.traffic(fase="forward")
