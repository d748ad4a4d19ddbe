"""`zerosim whatif`: what would be, held against runs in which it is; in words, JSON, as a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis.graph.runs import Plan, record
from tests.cli.command import assert_one_line, command
from tests.strategies import trace_files, write_files
from zerosim.predict.placement import Changes
from zerosim.record import load
from zerosim.schema.manifest import Source
from zerosim.view.reading import load as open_run

TRACES = Path(__file__).parents[2] / "lessons" / "traces"
USUAL = {"num_ranks": 3, "units": ("a", "b", "c"), "gap_ns": 0}


def slow(rank, *_):
    return 3000 if rank == 1 else 1000


def written(folder, **fields):
    return write_files(folder, trace_files(record(Plan(**USUAL | fields))))


def duration(folder):
    plain = json.loads(command("graph", folder, "--json").out)
    return plain["critical_path"]["duration_ns"]


def predicted(folder, *args):
    return json.loads(command("whatif", folder, "--json", *args).out)


@pytest.mark.parametrize("overlap", [True, False])
def test_without_a_straggler(tmp_path, overlap):
    slowed = written(tmp_path / "slow", compute_ns=slow, overlap=overlap)
    steady = written(tmp_path / "steady", overlap=overlap)
    plain = predicted(slowed, "--no-straggler")
    assert plain["straggler"] == 1
    assert plain["recorded_ns"] == duration(slowed)
    assert plain["predicted_ns"] == duration(steady)
    assert plain["predicted_ns"] == sum(plain["predicted_by_cause_ns"].values())
    again = predicted(steady, "--slow", "1=x3")
    assert again["predicted_ns"] == pytest.approx(duration(slowed), rel=0.01)


def test_another_network_and_another_processor(tmp_path):
    recorded = written(tmp_path / "one", overlap=False)
    faster = written(tmp_path / "two", overlap=False, hop_ns=10, compute_ns=lambda *_: 500)
    plain = predicted(recorded, "--bandwidth", "x10", "--compute", "x2")
    assert plain["predicted_ns"] == duration(faster)
    # one size says nothing of a latency
    assert predicted(recorded, "--latency", "x0.1")["predicted_ns"] == plain["recorded_ns"]


def test_a_larger_batch(tmp_path):
    recorded = written(tmp_path / "one", overlap=False)
    larger = written(
        tmp_path / "two",
        overlap=False,
        compute_ns=lambda rank, unit, phase: 1000 if phase == "update" else 2000,
    )
    plain = predicted(recorded, "--batch", "x2")
    assert plain["predicted_ns"] == duration(larger)
    share = plain["predicted_ns"] / plain["recorded_ns"]
    said = command("whatif", recorded, "--batch", "x2").out
    assert "with 2 times the sequences in a micro-batch" in said
    assert f"{share:.2f} of the time, {share / 2:.2f} of the time per sequence" in said


def test_what_an_iteration_put_off_is_its_own():
    # its parameters are gathered after the update, and read in the next iteration
    run = open_run(TRACES / "device" / "stage-2")
    for iteration in run.iterations:
        prediction, _ = run.what_if(Changes(overlap=True), iteration=iteration)
        assert prediction.share < 1


def test_the_first_iteration_makes_no_straggler():
    # rank 0 took longer to begin; rank 1 sleeps three times in each forward
    prediction, _ = open_run(TRACES / "slow" / "stage-3").what_if(Changes(without_straggler=True))
    assert prediction.straggler.rank == 1
    assert prediction.share < 0.7


@pytest.mark.parametrize("stage", [1, 3])
def test_in_another_schedule(tmp_path, stage):
    hidden = written(tmp_path / "hidden", stage=stage)
    serial = written(tmp_path / "serial", stage=stage, overlap=False)
    # waits that one of the two runs does not have, and their hand-over, are a percent
    now = predicted(hidden, "--serial")["predicted_ns"]
    assert now == pytest.approx(duration(serial), rel=0.01)
    now = predicted(serial, "--overlap")["predicted_ns"]
    # nobody waits for a reduction before the next one, as the recorded runs do
    assert now == pytest.approx(duration(hidden), rel=0.06)
    assert now < duration(serial)


def test_the_predicted_run_is_a_run(tmp_path):
    folder, out = written(tmp_path / "run"), tmp_path / "predicted"
    said = command("whatif", folder, "--compute", "x2", "--out", out).out
    assert said.startswith("Predicted: with computations 2 times as fast, iteration 1 would take")
    assert "predicted, ms" in said
    assert f"wrote {out}; next: zerosim replay {out}" in said
    assert load(out).manifest.source is Source.PREDICTED
    graph = command("graph", out).out
    assert "is predicted to take" in graph
    assert "all times are predicted" in graph
    assert "measured" not in graph.split("\n\n")[0]
    assert_one_line(command("whatif", folder, "--compute", "x2", "--out", out), "already")


def test_the_same_seed_is_the_same_jitter(tmp_path):
    folder = written(tmp_path)
    once, twice, other = (
        predicted(folder, "--jitter", 0.2, "--seed", seed)["predicted_ns"] for seed in (1, 1, 2)
    )
    assert once == twice != other


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ("no change was given",)),
        (("--bandwidth", "much"), ("bandwidth", "'much'", "x10")),
        (("--compute", "0"), ("compute is 0", "above 0")),
        (("--slow", "7=x2"), ("rank 7", "0, 1, 2")),
        (("--slow", "fast"), ("'fast'", "RANK=FACTOR")),
        (("--jitter", "-1"), ("jitter is -1",)),
        (("--jitter", "1e9"), ("jitter is 1e+09", "to 10")),
        (("--compute", "x1e-300"), ("compute is 1e-300", "of 1e-09 to 1e+09")),
        (("--compute", "x2", "--iteration", "9"), ("iteration 9",)),
    ],
)
def test_what_cannot_be_changed_is_one_line(tmp_path, args, words):
    assert_one_line(command("whatif", written(tmp_path), *args), *words)
