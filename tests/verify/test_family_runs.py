"""Real runs of every system of the family: theory, trace and kernel agree to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

import zerosim
from tests.cli.command import command
from tests.recorded import recorded_family
from zerosim.base.config import EngineConfig
from zerosim.base.tiers import Link
from zerosim.record import load
from zerosim.schema.events import Purpose
from zerosim.verify import verify

pytestmark = pytest.mark.ranks

STEPS = 3
IN, WIDTH, OUT = 37, 41, 7
PSI = (IN + 1) * WIDTH + (WIDTH + 1) * 30 + 31 * OUT
CPU = {"offload_optimizer": "cpu"}
NVME = {"offload_optimizer": "nvme"}
INFINITY = {**NVME, "offload_param": "nvme"}
ZEROPP = {"quantize_weights": True, "secondary_partition": 2, "quantize_gradients": True}
OVERFLOWS = {"dtype": "fp16", "initial_loss_scale": 2.0**40}
ON_TWO = {
    "ZeRO-1 offload": {"stage": 1, **CPU},
    "ZeRO-2 offload": {"stage": 2, **CPU, "accumulate": 2, "bucket_elements": 500, "clip": 1.0},
    "ZeRO-3 offload": {"stage": 3, **CPU, "dtype": "fp32"},
    "delayed": {"stage": 1, **CPU, "delayed_update": True},
    "delayed, skipped": {"stage": 2, **CPU, "delayed_update": True, **OVERFLOWS},
    "states on disk": {"stage": 2, **NVME, "accumulate": 2},
    "states on disk, skipped": {"stage": 3, **NVME, **OVERFLOWS},
    "parameters on host": {"stage": 3, "offload_param": "cpu", "prefetch": 2},
    "all on disk": {"stage": 3, **INFINITY, "accumulate": 2, "constant_buffers": True}
    | {"bucket_elements": 500},
    "all on disk, at once": {"stage": 3, **INFINITY, "overlap": False},
    "owners": {"stage": 3, **CPU, "offload_param": "cpu", "owner_broadcast": "parameters"},
    "owners of all": {"stage": 3, "owner_broadcast": "states", "accumulate": 2, "clip": 1.0}
    | {"contiguous_memory": True},
    "qwZ": {"stage": 3, "quantize_weights": True, "ranks_per_node": 1},
    "qgZ": {"stage": 3, "quantize_gradients": True, "ranks_per_node": 1},
}
ON_FOUR = {
    "ZeRO-3": {"stage": 3, "ranks_per_node": 2},
    "ZeRO-2 offload": {"stage": 2, **CPU, "ranks_per_node": 2},
    "all on disk": {"stage": 3, **INFINITY},
    "owners": {"stage": 3, **INFINITY, "owner_broadcast": "parameters", "ranks_per_node": 2},
    "owners of all": {"stage": 3, "owner_broadcast": "states", "ranks_per_node": 2}
    | {"chunk_bytes": 512, "frozen": True},
    "owners, native": {"stage": 3, "owner_broadcast": "states", "collectives": "native"},
    "hpZ": {"stage": 3, "secondary_partition": 2, "ranks_per_node": 2, "accumulate": 2},
    "hpZ, parameters on host": {"stage": 3, "secondary_partition": 4, "offload_param": "cpu"}
    | {"frozen": True},
    "ZeRO++": {"stage": 3, **ZEROPP, "ranks_per_node": 2},
    "quantized, all on disk": {"stage": 3, **INFINITY, "ranks_per_node": 2}
    | {"quantize_weights": True, "quantize_gradients": True},
    "ZeRO++ in buckets": {"stage": 3, **ZEROPP, "ranks_per_node": 2, "accumulate": 2}
    | {"bucket_elements": 700, "quantization_block": 64},
}


def train(folder: str, cases: dict[str, dict]) -> None:
    """Train a small model with each configuration, traced."""
    for name, case in cases.items():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Linear(IN, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 30), nn.ReLU(), nn.Linear(30, OUT)
        )
        model[2].weight.requires_grad_(not case.get("frozen"))
        config = {key: value for key, value in case.items() if key != "frozen"}
        disk = Path(folder, "disks", name)
        disk.mkdir(parents=True, exist_ok=True)
        on_disk = {"nvme_path": str(disk)} if "nvme" in config.values() else {}
        with zerosim.trace(Path(folder, name)):
            engine = zerosim.initialize(model, EngineConfig(**config, **on_disk))
            for _ in range(STEPS * engine.config.accumulate):
                engine.backward(engine(torch.randn(4, IN)).float().square().mean())
                engine.step()
            engine.close()
            dist.barrier()


@pytest.fixture(scope="module")
def on_two():
    return recorded_family(2, train, ON_TWO)


@pytest.fixture(scope="module")
def on_four():
    return recorded_family(4, train, ON_FOUR)


def assert_exact(folder) -> list:
    """Every iteration is exact in every tier and link class; the reports are returned."""
    trace = load(folder, strict=True)
    reports = [verify(trace, iteration) for iteration in range(STEPS)]
    for report in reports:
        assert report.iterations == tuple(range(STEPS))
        assert (report.unexplained_trace, report.unexplained_wire) == (0, 0)
        on_disk = any(row.link is Link.STORAGE for row in report.copies)
        assert report.unexplained_disk == (0 if on_disk else None)
        assert set(report.outside_bytes) == {0}
        for row in report.links:
            for cell in row.sent:
                assert cell.unexplained_trace == cell.unexplained_kernel == 0
        assert {v.id: v.measured for v in report.verdicts if v.holds is False} == {}
        # ranks of such a program do not meet before the first and after the last reading
        unknown = {v.id for v in report.verdicts if v.holds is None}
        assert unknown <= {"sent-is-received"}
        assert report.holds
    return reports


@pytest.mark.parametrize("name", ON_TWO)
def test_two_ranks(on_two, name):
    *_, last = assert_exact(on_two / name)
    config = EngineConfig(**ON_TWO[name], nvme_path="somewhere")
    over_the_bus = last.total("trace", 0, Link.BUS) or 0
    if config.offload_optimizer.value == "cpu" and config.offload_param.value == "none":
        # 2 + 2 bytes a parameter of a rank's own part, in 16 bits; one element is padding
        passes = config.accumulate if config.stage > 1 else 1
        skipped = "skipped" in name
        of_law = config.dtype.element_bytes * (passes + (not skipped)) * (PSI + 1) // 2
        assert over_the_bus == of_law
    if "skipped" in name:
        assert {row.purpose for row in last.copies} == {Purpose.OFFLOAD_GRADIENTS}


def test_a_delayed_update_hands_nothing_on_in_the_first_step(on_two):
    first, second, _ = assert_exact(on_two / "delayed")
    gathers = [
        [row.purpose for row in report.rows if row.purpose is Purpose.GATHER_PARAMETERS]
        for report in (first, second)
    ]
    assert gathers == [[], [Purpose.GATHER_PARAMETERS]]
    causes = [{cause.cause for cause in report.causes} for report in (first, second)]
    assert ["delayed update" in found for found in causes] == [True, False]
    assert len(first.copies) == 1
    assert len(second.copies) == 2


@pytest.mark.parametrize("name", ON_FOUR)
def test_four_ranks(on_four, name):
    *_, last = assert_exact(on_four / name)
    assert bool(last.links) == ("ranks_per_node" in ON_FOUR[name])


def test_zeropp_sends_a_quarter_of_stage_3_across_nodes(on_four):
    across = {}
    for name in ("ZeRO-3", "ZeRO++"):
        *_, last = assert_exact(on_four / name)
        rows = [row for row in last.links if row.link is Link.NETWORK]
        across[name] = sum(cell.trace for row in rows for cell in row.sent)
        [verdict] = [v for v in last.verdicts if v.id == "sent-between-nodes"]
        assert verdict.holds
    # of a node: 3M(N-1)/N, and M/2 (N-1)/N + M/4 (K-1)/K with M = 2 Psi; both with padding
    m = 2 * PSI
    assert across["ZeRO-3"] / 2 == pytest.approx(3 * m * 3 / 4, rel=0.003)
    assert across["ZeRO++"] / 2 == pytest.approx(m / 2 * 3 / 4 + m / 4 / 2, rel=0.05)


def test_the_command_shows_each_counter_and_p_a_adds_a_twelfth(tmp_path):
    """Tensor parallel ranks, checkpoints divided among them and kept on the host."""
    answer = command(
        *("run", "--stage", "3", "--ranks", 4, "--tensor-parallel", 2, "--checkpoint-activations"),
        *("--partition-activations", "--cpu-checkpointing", "--layers", 2, "--width", 32),
        *("--batch", 1, "--steps", STEPS, "--ranks-per-node", 2, "-v", "--out", tmp_path / "t"),
    )
    assert (answer.code, answer.err) == (0, "")
    *_, last = assert_exact(tmp_path / "t")
    [verdict] = [v for v in last.verdicts if v.id == "activations"]
    assert verdict.holds
    assert verdict.measured.endswith("= 12.000")
    sums = [row for row in last.links if row.purpose is Purpose.ACTIVATIONS]
    assert {row.link for row in sums} == {Link.NODE}
    for head in (
        "bytes sent by each rank;",
        "between its tiers;",
        "by link, 2 nodes",
        "over the bus",
    ):
        assert head in answer.out
    assert verdict.title in answer.out
