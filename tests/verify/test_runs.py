"""Real runs: theory, trace and wire agree to the byte, or the difference has its name."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import zerosim
from tests.cli.command import Answer, command
from tests.ranks import run_ranks
from tests.signed import read_rows, signed
from zerosim.base.config import EngineConfig, ModelName, RunConfig
from zerosim.record import Trace, iterations, load, wire_by_peer
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.rows import rank_file_name
from zerosim.train.launch.forkserver import lent
from zerosim.train.launch.job import Job
from zerosim.train.launch.launcher import launch
from zerosim.verify import Outcome, Report, verify

pytestmark = pytest.mark.ranks

STEPS = 2
CONTROL_BYTES = 48
"""Of Gloo's header, send-ready and receive-ready."""
LAW = {0: 2, 1: 2, 2: 2, 3: 3}


def run_stages(folder, stages="all", **options) -> Answer:
    """Every stage in one launch, traces in stage-N of the folder."""
    flags = [
        text
        for name, value in options.items()
        for text in ([f"--{name}"] if value is True else [f"--{name}", value])
    ]
    return command("run", "--stage", stages, "--steps", STEPS, "--out", folder, *flags)


def assert_exact(report: Report) -> None:
    """No byte that a rank sends is without a name; what is received adds up; all claims hold.

    Gloo's small control messages may be received before the collective that they belong to, so
    a row's received bytes on the wire are right to a few of them, and their sum over the run is
    exact.
    """
    for row in report.rows:
        assert len(row.sent) == len(row.received) == report.num_ranks
        for cell in (*row.sent, *row.received):
            assert cell.trace == cell.theory, (row.phase, row.purpose, cell)
        for cell in row.sent:
            assert cell.kernel == cell.theory + cell.framing, (row.phase, row.purpose, cell)
        for cell in row.received:
            assert cell.unexplained_kernel % CONTROL_BYTES == 0, (row.phase, row.purpose, cell)
            if cell.theory >= 1_000_000:
                assert abs(cell.unexplained_kernel) < 0.002 * cell.theory
    assert report.unexplained_trace == 0
    if report.num_ranks > 1:
        assert report.unexplained_wire == 0
        assert set(report.outside_bytes) == {0}
    assert [verdict.id for verdict in report.verdicts if verdict.holds is not True] == []
    assert report.holds is True
    assert report.iterations == tuple(range(STEPS))


def assert_conserved(trace: Trace) -> None:
    """Over the run, what each rank sent to each other is what that one received from it."""
    moved = wire_by_peer(trace)
    for rank, by_peer in moved.items():
        assert len(by_peer) == trace.manifest.num_ranks - 1
        for peer, bytes_moved in by_peer.items():
            assert bytes_moved.sent_bytes == moved[peer][rank].received_bytes
        # only neighbours in the ring exchange anything
        assert not by_peer or sum(each.sent_bytes for each in by_peer.values()) > 0


def reports_of(folder, stages=(0, 1, 2, 3)) -> dict[int, Report]:
    """Every iteration of every stage was exact; the last ones are returned."""
    reports = {}
    for stage in stages:
        trace = load(folder / f"stage-{stage}", strict=True)
        assert_conserved(trace)
        for iteration in range(STEPS):
            report = verify(trace, iteration)
            assert report.stage == stage
            assert_exact(report)
            reports[stage] = report
    return reports


@pytest.mark.parametrize(
    ("ranks", "dtype", "accumulate"),
    [
        (2, "fp32", 1),
        pytest.param(4, "bf16", 1, marks=pytest.mark.long),
        (4, "bf16", 2),
    ],
)
def test_three_ledgers_agree_to_the_byte(tmp_path, ranks, dtype, accumulate):
    answer = run_stages(tmp_path, ranks=ranks, dtype=dtype, accumulate=accumulate)
    assert (answer.code, answer.err) == (0, "")
    for stage, report in reports_of(tmp_path).items():
        # the law, computed here once more from the paper
        payloads = {0: 2, 1: 2, 2: accumulate + 1, 3: 3 * accumulate}[stage]
        size = 4 if dtype == "fp32" else 2
        law_bytes = payloads * report.num_parameters * size * (ranks - 1)
        assert report.law_bytes * ranks == law_bytes
        assert f"sends {payloads}Ψ(N-1)/N a step, as the law says" in report.headline
        # overhead: padding, and one fp32 a rank for the loss
        assert report.total("theory", 0) - report.law_bytes < 0.001 * report.law_bytes
        # blocks of 1.5 MB and more: less than 0.2 % of them is framing
        largest = max(report.rows, key=lambda row: row.payload_bytes)
        for cell in largest.sent:
            assert 0 < cell.kernel - cell.theory < 0.002 * cell.theory


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"clip": 0.5, "prefetch": 0, "no-overlap": True}, id="clip, nothing at once"),
        pytest.param(
            {"bucket-elements": 50_000, "prefetch": 2, "accumulate": 3, "dtype": "fp16"},
            id="fp16, buckets across units",
        ),
    ],
)
def test_options_change_what_is_sent_and_every_byte_keeps_its_name(tmp_path, options):
    answer = run_stages(tmp_path, ranks=3, model="mlp", **options)
    assert (answer.code, answer.err) == (0, "")
    for stage, report in reports_of(tmp_path).items():
        purposes = {row.purpose for row in report.rows}
        assert (Purpose.GRADIENT_NORM in purposes) == ("clip" in options and stage > 0)
        assert (Purpose.OVERFLOW_FLAG in purposes) == ("dtype" in options and stage > 0)
        if "bucket-elements" in options:
            reduced = next(r for r in report.rows if r.purpose is Purpose.REDUCE_GRADIENTS)
            num_buckets = -(-report.num_parameters // 50_000)
            assert reduced.num_calls >= num_buckets


def test_a_skipped_update_gathers_nothing_and_is_named(tmp_path):
    folders = [tmp_path / f"stage-{stage}" for stage in range(4)]
    engines = tuple(
        (EngineConfig(stage=stage, dtype="fp16", initial_loss_scale=2.0**40), folder)
        for stage, folder in enumerate(folders)
    )
    job = Job(RunConfig(model=ModelName.MLP, ranks=2, steps=STEPS), engines)
    with lent() as server:
        launch(job, server)
    for stage, report in reports_of(tmp_path).items():
        names = {m.name for m in load(folders[stage]).ranks[0].metrics if m.iteration == 0}
        assert "overflow" in names
        gathers = [row for row in report.rows if row.phase is Phase.UPDATE and row.payload_bytes]
        assert Purpose.GATHER_PARAMETERS not in {row.purpose for row in gathers}
        skipped = [cause for cause in report.causes if cause.cause == "skipped update"]
        assert len(skipped) == (1 if stage in (1, 2) else 0)
        if skipped:
            assert skipped[0].bytes == -report.num_parameters * 2 / 2


@pytest.mark.parametrize("ranks", [1, 5])
def test_other_numbers_of_ranks(tmp_path, ranks):
    answer = run_stages(tmp_path, ranks=ranks, model="mlp")
    assert (answer.code, answer.err) == (0, "")
    for stage, report in reports_of(tmp_path).items():
        if ranks == 1:
            assert report.rows == ()
            assert "has a single rank, so it sends nothing" in report.headline
        else:
            assert report.law_bytes == LAW[stage] * report.num_parameters * 2 * 4 / 5


def test_native_gloo_differs_and_every_byte_is_explained(tmp_path):
    answer = run_stages(tmp_path, ranks=4, collectives="native", model="mlp")
    assert answer.code == 0
    for stage, actual in {0: 2, 1: 3, 2: 3, 3: 4}.items():
        trace = load(tmp_path / f"stage-{stage}", strict=True)
        report = verify(trace)
        assert report.unexplained_trace == 0
        assert report.unexplained_wire == 0
        share = report.num_parameters * 2 * 3 / 4
        # the trace has what was asked for; what the backend makes of it only the wire sees
        asked = sum(cell.trace for row in report.rows for cell in row.sent) / 4
        assert asked == pytest.approx(LAW[stage] * share, rel=1e-4)
        sent = sum(cell.kernel - cell.framing for row in report.rows for cell in row.sent) / 4
        assert sent == pytest.approx(actual * share, rel=1e-4)
        told = command("verify", tmp_path / f"stage-{stage}")
        if stage == 0:
            assert (report.outcome, told.code) == (Outcome.AS_PREDICTED, 0)
            assert "sends 2Ψ(N-1)/N a step, as the law says" in told.out
            continue
        assert (report.outcome, told.code) == (Outcome.EXPLAINED, 0)
        first = told.out.splitlines()[0]
        assert f"sends {actual}Ψ(N-1)/N a step, not {LAW[stage]}Ψ(N-1)/N" in first
        assert "Gloo implements reduce-scatter as all-reduce" in first
        assert first in answer.out
        assert first.startswith("≠")
        differs = {v.id for v in report.verdicts if v.outcome is not Outcome.AS_PREDICTED}
        assert differs == {"sent-a-step", "sent-in-backward"}
        refuting = [cause for cause in report.causes if not cause.is_excused]
        assert [cause.bytes for cause in refuting] == [pytest.approx(share, rel=1e-4)]


def test_bytes_that_only_the_kernel_saw_refute_the_trace(tmp_path):
    """The wire is a ledger of its own: what it shows beyond the trace is found."""
    run_stages(tmp_path, "2", ranks=2, model="mlp")
    assert iterations(load(tmp_path)) == (0, 1)
    assert command("verify", tmp_path).code == 0
    path = tmp_path / rank_file_name(1)
    rows = read_rows(path)
    for row in rows:
        if row["row"] == "close" and row.get("wire") and row["wire"][0]["sent_bytes"] > 10_000:
            row["wire"][0]["sent_bytes"] += 9_999
    path.write_text(signed(rows))
    report = verify(load(tmp_path, strict=True))
    assert report.unexplained_trace == 0
    assert report.unexplained_wire > 0
    failed = {verdict.id: verdict.measured for verdict in report.verdicts if not verdict.holds}
    assert {"sent-a-step", "sent-in-backward", "wire-is-trace"} <= failed.keys()
    assert " more for rank 1 in backward of iteration " in failed["sent-in-backward"]
    assert command("verify", tmp_path).code == 1


def test_a_foreign_program_is_shown_and_not_judged(tmp_path):
    """Any program under `zerosim.trace`: its trace and wire are printed, no law is claimed."""
    run_ranks(all_reduce_under_trace, 2, str(tmp_path / "t"))
    answer = command("verify", tmp_path / "t")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("- No law is known for this program")
    report = verify(load(tmp_path / "t"))
    assert (report.law_bytes, report.stage, report.causes) == (None, None, ())
    [barrier, row] = sorted(report.rows, key=lambda row: row.payload_bytes)
    assert (barrier.op, row.op) == (Op.BARRIER, Op.ALL_REDUCE)
    assert row.payload_bytes == 4_000_000
    assert [cell.trace for cell in row.sent] == [4_000_000, 4_000_000]
    # calls may overlap, so the wire is known of all together: one all-reduce and its framing
    assert [cell.kernel for cell in row.sent] == [None, None]
    assert all(4_000_000 < counted < 4_008_000 for counted in report.outside_bytes)
    assert "4,000,7" in answer.out
    assert "4,000,000" in answer.out


def all_reduce_under_trace(folder) -> None:
    dist.barrier()
    with zerosim.trace(folder):
        dist.all_reduce(torch.ones(1_000_000))
        dist.barrier()
