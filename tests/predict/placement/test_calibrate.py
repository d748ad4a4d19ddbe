"""Calibration: constants that a run was made with are found, and predict another run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.graph.runs import Plan, record
from tests.cli.command import assert_one_line, command
from tests.strategies import trace_files, write_files
from zerosim.analysis import critical_path
from zerosim.analysis.graph import build_graph
from zerosim.base.tiers import Link
from zerosim.lessons.recordings import COMMITTED
from zerosim.predict.placement import Modelled, load_machine, place
from zerosim.predict.placement.calibrate import calibrate, write_machine
from zerosim.predict.placement.fitting import fit_line
from zerosim.predict.placement.parameters import UPDATE_BYTES, ByParameters
from zerosim.record import load
from zerosim.schema.manifest import UnitLayout

TRACES = Path(__file__).parents[3] / "lessons" / "traces"
TOKENS = 10
ELEMENTS = {"a": 500, "b": 1000}


def made(folder, num_ranks, payload_bytes, stage=3, gap_ns=0, wake_ns=0):
    """A run with 100 ns a message and 1 ns a byte, 10 FLOPs a ns, an update's 14 bytes a ns.

    Args:
        gap_ns: of the program's own code before each event.
        wake_ns: until a waiting rank continues.
    """

    def compute_ns(rank, unit, phase):
        flops = {"forward": 2, "backward": 4}.get(phase, 0) * ELEMENTS[unit] * TOKENS
        return flops // 10 if flops else UPDATE_BYTES * ELEMENTS[unit] // num_ranks // 14

    plan = Plan(
        num_ranks=num_ranks, units=tuple(ELEMENTS), stage=stage, overlap=False,
        compute_ns=compute_ns, payload_bytes=payload_bytes, gap_ns=gap_ns, wake_ns=wake_ns,
        hop_ns=100 + payload_bytes // num_ranks,
    )  # fmt: skip
    written = record(plan)
    units = tuple(
        UnitLayout(name=unit, elements=count, padded_elements=count, trainable=True)
        for unit, count in ELEMENTS.items()
    )
    written = replace(written, manifest=replace(written.manifest, units=units))
    return load(write_files(folder, trace_files(written)))


def test_a_line_is_found():
    sizes = np.array([0, 100, 1000, 1000, 10_000])
    line = fit_line(sizes, 50 + 2 * sizes)
    assert (line.latency_ns, line.ns_per_byte) == pytest.approx((50, 2))
    assert line.residual == pytest.approx(0)
    one_size = fit_line(np.array([100, 100]), np.array([300, 300]))
    assert (one_size.latency_ns, one_size.ns_per_byte) == (0, 3)
    falling = fit_line(np.array([10, 20]), np.array([200, 100]))
    assert (falling.latency_ns, falling.ns_per_byte) == (150, 0)


def test_what_a_run_was_made_with_is_found_and_predicts_another(tmp_path):
    runs = [made(tmp_path / str(size), 2, size) for size in (400, 4000)]
    found = calibrate([(run, ByParameters(run, TOKENS)) for run in runs])
    assert found.computing.flops_per_second == pytest.approx(10e9)
    assert found.computing.bytes_per_second == pytest.approx(14e9)
    assert found.handover_ns == 5
    file = tmp_path / "machine.toml"
    file.write_text(write_machine(found, "made up", "a test", None))
    machine = load_machine(str(file))
    assert machine.link(Link.NODE).latency_ns == pytest.approx(100)
    assert machine.link(Link.NODE).bytes_per_second == pytest.approx(1e9)
    other = made(tmp_path / "other", 4, 20_000)
    predicted = place(other, Modelled(machine, ByParameters(other, TOKENS)))
    was, would = (
        critical_path(build_graph(run).within(1)).duration_ns for run in (other, predicted)
    )
    assert would == pytest.approx(was, rel=0.01)


@pytest.mark.parametrize(("gap_ns", "wake_ns"), [(300, 0), (0, 40), (300, 40)])
def test_a_programs_own_code_is_found_and_predicts_another(tmp_path, gap_ns, wake_ns):
    own = {"gap_ns": gap_ns, "wake_ns": wake_ns}
    runs = [made(tmp_path / str(size), 2, size, **own) for size in (400, 4000)]
    found = calibrate([(run, ByParameters(run, TOKENS)) for run in runs])
    assert (found.program_ns, found.wake_ns) == pytest.approx((gap_ns, wake_ns))
    assert found.ask.latency_ns == pytest.approx(gap_ns, abs=1)
    file = tmp_path / "machine.toml"
    file.write_text(write_machine(found, "made up", "a test", None))
    other = made(tmp_path / "other", 4, 20_000, **own)
    machine = load_machine(str(file))
    predicted = place(other, Modelled(machine, ByParameters(other, TOKENS)))
    was, would = (
        critical_path(build_graph(run).within(1)).duration_ns for run in (other, predicted)
    )
    assert would == pytest.approx(was, rel=0.01)


def test_the_command_writes_a_machine_and_says_what_is_left(tmp_path):
    fitted, other = TRACES / "ring" / "stage-2", TRACES / "ring" / "stage-3"
    out = tmp_path / "here.toml"
    said = command("calibrate", fitted, "--check", other, "--out", out)
    assert said.code == 0
    assert "off in the median" in said.out
    assert "predicted, ms" in said.out
    plain = json.loads(command("calibrate", fitted, "--check", other, "--out", out, "--json").out)
    assert [one["is_fitted"] for one in plain["runs"]] == [True, False]
    assert load_machine(str(out)).links[Link.NODE].bytes_per_second > 0


def test_a_run_that_says_too_little_is_one_line(tmp_path):
    made(tmp_path / "run", 2, 400)
    out = tmp_path / "machine.toml"
    words = ("its model and batch are not recorded", "zerosim run")
    assert_one_line(command("calibrate", tmp_path / "run", "--out", out), *words)
    words = ("cores is 0", "more than 0")
    ring = TRACES / "ring" / "stage-2"
    assert_one_line(command("calibrate", ring, "--cores", "0", "--out", out), *words)


def test_a_run_of_one_rank_fits_no_link(tmp_path):
    out = tmp_path / "machine.toml"
    answer = command("calibrate", COMMITTED / "one" / "stage-0", "--out", out)
    assert_one_line(answer, "a run of one rank sends nothing", "expected a run of several ranks")
    assert not out.exists()
