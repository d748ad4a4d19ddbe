"""Every command that reads runs labels each time without a measurement as predicted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.analysis.graph.runs import Plan, record
from tests.cli.command import command, plain_text
from tests.strategies import trace_files, write_files
from zerosim import load as load_run
from zerosim.cli.app import app
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load, write
from zerosim.schema.manifest import Source

READING = {
    "verify": (("{dry}",), ("{dry}", "-v")),
    "diagnose": (("{one}",), ("{dry}",)),
    "memory": (("{held}",),),
    "graph": (("{one}", "--rank", "0"),),
    "whatif": (("{one}", "--bandwidth", "x2"), ("{one}", "--no-straggler")),
    "compare": (("{one}", "{other}"), ("{measured}", "{other}"), ("{one}", "{measured}")),
    "show": (("{one}",), ("{one}", "--hops"), ("{one}", "--tour")),
}
OTHERS = {
    *("run", "trace", "import", "debug", "profiles", "systems", "fit"),  # what they show was run
    # their own tests hold them
    *("simulate", "plan", "calibrate", "table", "doctor", "puzzle", "notebook"),
    *("replay", "serve", "export"),  # pages: tests/browser/test_predicted.py; files: below
}
TIME = re.compile(r"\d ?(?:ns|µs|ms|s)\b|\bms\b|\bseconds\b")


def slow_one(rank, *_):
    return 3_000_000 if rank == 1 else 1_000_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    plan = Plan(num_ranks=3, iterations=3, compute_ns=slow_one, hop_ns=100_000, gap_ns=10_000)
    measured = write_files(folder / "measured", trace_files(record(plan)))
    stage_3 = COMMITTED / "ring" / "stage-3"
    for name, was in {"one": measured, "other": measured, "held": stage_3}.items():
        trace = load(was)
        manifest = replace(trace.manifest, source=Source.SIMULATED, machine="dgx-h100")
        write(replace(trace, manifest=manifest), folder / name)
    dry = COMMITTED / "spread" / "stage-3"
    return {"dry": dry, **{name: folder / name for name in ("one", "other", "held", "measured")}}


def unsaid(text: str) -> list[str]:
    """Paragraphs that have a time and not the word."""
    paragraphs = re.split(r"\n\s*\n", plain_text(text))
    return [one for one in paragraphs if TIME.search(one) and "predicted" not in one]


def test_every_command_is_known_here():
    names = {one.name or one.callback.__name__.rstrip("_") for one in app.registered_commands}
    assert names == READING.keys() | OTHERS


@pytest.mark.parametrize("name", READING)
def test_every_paragraph_with_a_time_says_predicted(runs, name):
    for args in READING[name]:
        said = command(name, *(arg.format(**runs) for arg in args))
        assert said.code == 0, said
        assert unsaid(said.out) == []


def test_a_measured_run_has_paragraphs_that_do_not(runs):
    assert unsaid(command("graph", runs["measured"]).out)
    assert "predicted" not in command("show", runs["measured"]).out


def test_no_size_of_a_dry_run_is_measured(runs):
    assert " measured" not in command("memory", runs["held"]).out.replace("not measured", "")


def test_json_of_events_and_of_a_prediction_says_so(runs):
    assert '"is_predicted": true' in command("show", runs["one"], "--json").out
    assert "is_predicted" not in command("show", runs["measured"], "--json").out
    told = command("whatif", runs["one"], "--bandwidth", "x2", "--json").out
    assert '"is_recorded_predicted": true' in told


def test_files_for_other_tools_say_so(runs, tmp_path):
    files = {name: tmp_path / f"{name}.out" for name in ("csv", "perfetto", "graphml")}
    for name, file in files.items():
        assert command("export", runs["one"], f"--{name}", file).code == 0
    assert "predicted_start_ns" in files["csv"].read_text().splitlines()[0]
    assert b"times predicted" in files["perfetto"].read_bytes()
    assert "predicted" in files["graphml"].read_text()
    assert command("export", runs["one"], "--chakra", tmp_path / "et").code == 0
    assert b"predicted" in (tmp_path / "et.0.et").read_bytes()
    assert command("export", runs["one"], "--hta", tmp_path / "hta").code == 0
    assert '"times": "predicted"' in (tmp_path / "hta" / "rank-0.json").read_text()


def test_tables_and_figures_say_so(runs):
    run = load_run(runs["one"])
    for table in (run.time(), run.time("rank"), run.critical_path(), run.pieces(), run.events()):
        times = [one.evidence for one in table.columns if one.name.endswith("_ns")]
        assert times
        assert set(times) == {"predicted"}
    assert run.plot.timeline().layout.xaxis.title.text == "ms, predicted"
    measured = load_run(runs["measured"])
    assert measured.plot.timeline().layout.xaxis.title.text == "ms"
