"""Traces side by side: every number is the one that the other commands print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import command
from zerosim.base.errors import ConfigError, TraceError
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.schema.events import Phase
from zerosim.schema.memory import Role
from zerosim.verify import verify, verify_memory
from zerosim.view.reading import Comparison
from zerosim.view.reading.differences import differences, headline, notes

pytestmark = pytest.mark.ranks

RUN = ("run", "--ranks", 2, "--model", "mlp", "--steps", 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    assert command(*RUN, "--stage", "all", "--out", folder).code == 0
    buckets = ("--bucket-elements", 50_000, "--no-memory")
    assert command(*RUN, "--stage", 1, *buckets, "--out", folder / "cut").code == 0
    assert command(*RUN, "--stage", 1, "--no-overlap", "--out", folder / "inline").code == 0
    return folder


@pytest.fixture(scope="module")
def stages(folder):
    return [load(folder / f"stage-{stage}", strict=True) for stage in range(4)]


def test_bytes_are_those_of_the_verification(stages):
    for side, trace in zip(Comparison(stages).sides, stages, strict=True):
        report = verify(trace)
        assert side.iteration == report.iteration
        assert side.total_bytes == report.total("trace", 0)
        assert side.wire_bytes == report.total("kernel", 0)
        assert sum(side.unit_bytes.values()) == side.total_bytes
        assert side.stage == report.stage
        assert side.traffic_law == ("3Ψ(N-1)/N" if side.stage == 3 else "2Ψ(N-1)/N")


def test_peaks_are_those_of_the_memory_report(stages):
    for side, trace in zip(Comparison(stages).sides, stages, strict=True):
        report = verify_memory(trace)
        (peak, _) = report.peaks
        assert side.held.highest_bytes == peak.bytes
        assert sum(side.held.roles.values()) == peak.bytes
        assert side.held.roles.get(Role.OTHER) == peak.other_bytes
        assert side.held.states_bytes == sum(row.measured_bytes[0] for row in report.rows)
        assert side.states_law == report.law


def test_every_system_has_its_law():
    profiles = Path(__file__).parents[3] / "lessons" / "traces" / "profiles"
    laws = {"ddp": "16Ψ", "ddp-zero": "8Ψ + 8Ψ/N", "fsdp2": "16Ψ/N", "fsdp2-kept": "16Ψ/N"}
    sides = Comparison([load(profiles / name) for name in laws]).sides
    assert [side.states_law for side in sides] == list(laws.values())


def test_times_leave_the_first_iteration_out(stages):
    for side in Comparison(stages).sides:
        assert side.times.num_iterations == 3
        assert side.times.duration_ns > 0
        assert set(side.times.wall_ns) >= {Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE}
        for phase, wall in side.times.wall_ns.items():
            assert 0 <= side.times.exposed_ns[phase] <= wall
        assert 0 <= side.times.overlap <= 1


def test_units_are_aligned_however_buckets_are_cut(folder, stages):
    whole, cut = Comparison([stages[1], load(folder / "cut")]).sides
    assert {bucket.name for bucket in load(folder / "cut").manifest.buckets} >= {"bucket 0"}
    assert cut.unit_bytes == whole.unit_bytes
    assert cut.held is None


def test_sides_are_named_by_what_tells_them_apart(folder, stages):
    names = [side.name for side in Comparison(stages).sides]
    assert names == ["data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3"]
    same = Comparison([stages[1], load(folder / "cut"), load(folder / "inline")]).sides
    assert [side.name for side in same] == ["stage-1", "cut", "inline"]


def test_iterations_in_which_nothing_was_called_are_compared():
    alone, fused = (load(COMMITTED / name) for name in ("one/stage-0", "fused/stage-0"))
    side = Comparison([alone, fused]).sides[1]
    assert (side.iterations, side.sent_bytes) == ((0, 1), {})
    assert side.times is not None


def test_differences_are_told_in_words(folder, stages):
    zero, three = Comparison([stages[0], stages[3]]).sides
    psi, loss = zero.num_parameters, 4
    lines = differences([zero, three])
    assert lines[0].startswith(
        f"ZeRO-3 sends {3 * psi + loss:,} B, data parallel {2 * psi + loss:,} B, "
        "1.500 times as much: "
    )
    assert "(+0.50 Ψ) to gather parameters in forward (all-gather)" in lines[0]
    assert "(-1.00 Ψ) to reduce gradients in backward (all-reduce)" in lines[0]
    assert lines[1].startswith("ZeRO-3 needs ")
    assert "momentum -" in lines[1]
    assert "gathered parameters +" in lines[1]
    assert lines[2].startswith("ZeRO-3 takes ")
    assert "sends 1.500 times as much, needs 0." in headline([zero, three])
    sides = Comparison([stages[1], load(folder / "inline")]).sides
    assert "stage-1 → inline: different configuration: overlap on → off." in differences(sides)
    assert any("sends as much as stage-1" in line for line in differences(sides))


def test_the_command_prints_what_the_functions_say(folder, stages):
    paths = [folder / f"stage-{stage}" for stage in range(4)]
    answer = command("compare", *paths)
    assert (answer.code, answer.err) == (0, "")
    sides = Comparison(stages).sides
    assert answer.out.splitlines()[0] == headline(sides)
    assert [line[2:] for line in answer.out.splitlines() if line.startswith("- ")] == list(
        differences(sides)
    )
    for side in sides:
        assert f"{side.total_bytes:,}" in answer.out
        assert f"{side.held.highest_bytes:,}" in answer.out
    plain = json.loads(command("compare", *paths[:2], "--json").out)
    assert [side["total_bytes"] for side in plain["sides"]] == [s.total_bytes for s in sides[:2]]
    assert plain["headline"] == headline(sides[:2])


def killed(folder: Path) -> Path:
    """A run of which rank 1 was killed in iteration 1."""
    short = folder.parent / "killed"
    short.mkdir()
    for path in folder.iterdir():
        lines = path.read_bytes().splitlines(keepends=True)
        if path.name == "rank-1.jsonl":
            del lines[next(n for n, line in enumerate(lines) if b'"iteration":1,' in line) + 3 :]
        (short / path.name).write_bytes(b"".join(lines))
    return short


def test_a_trace_that_ends_early_is_told_and_compared_as_far_as_it_came(folder, stages):
    short = killed(folder / "stage-2")
    sides = whole, cut = Comparison([stages[2], load(short)]).sides
    assert whole.iterations == cut.iterations == (0,)
    assert whole.held.states_bytes == cut.held.states_bytes
    assert whole.held.states_bytes < Comparison(stages[2:]).sides[0].held.states_bytes
    assert (whole.sent_bytes, whole.loss) == (cut.sent_bytes, cut.loss)
    assert whole.incomplete == ""
    assert cut.incomplete.startswith("rank 1: the trace stops after")
    assert notes(sides) == (
        f"killed is incomplete: {cut.incomplete}",
        "the comparison covers the iteration that all runs finished: 0",
    )
    answer = command("compare", folder / "stage-2", short)
    assert answer.code == 0
    assert answer.out.splitlines()[0].endswith("in the iterations that all runs finished.")
    told = [line for line in answer.out.splitlines() if line.startswith("note: ")]
    assert told == [f"note: {note}" for note in notes(sides)]
    plain = json.loads(command("compare", folder / "stage-2", short, "--json").out)
    assert plain["notes"] == list(notes(sides))
    assert [side["incomplete"] for side in plain["sides"]] == ["", cut.incomplete]


def test_too_few_too_many_and_nothing_to_compare(folder, stages):
    for traces in (stages[:1], [*stages, stages[0]]):
        with pytest.raises(ConfigError, match=f"{len(traces)} traces to compare: expected 2 to 4"):
            Comparison(traces)
    file = folder / "stage-0" / "rank-1.jsonl"
    short = folder / "short"
    short.mkdir()
    for path in (folder / "stage-0").iterdir():
        lines = path.read_bytes().splitlines(keepends=True)
        (short / path.name).write_bytes(b"".join(lines[:12] if path.name == file.name else lines))
    with pytest.raises(TraceError, match="nothing to compare"):
        Comparison([stages[0], load(short)])
    answer = command("compare", folder / "stage-0", folder / "nowhere")
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1
