"""Real runs of the whole family: what is in each tier equals theory to the byte, on every rank."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import zerosim
from tests.ranks import run_ranks
from tests.train.engine.samples import Case, train
from zerosim.base.config import EngineConfig
from zerosim.base.tiers import Tier
from zerosim.record import load
from zerosim.trace.holdings import holdings
from zerosim.verify import MemoryReport, verify_memory

pytestmark = pytest.mark.ranks

STEPS = 3
CPU, NVME = {"offload_optimizer": "cpu"}, {"offload_optimizer": "nvme"}
SYSTEMS = {
    "1-cpu": {"stage": 1, **CPU},
    "2-cpu": {"stage": 2, **CPU, "accumulate": 2, "bucket_elements": 700},
    "2-delayed": {"stage": 2, **CPU, "delayed_update": True},
    "3-cpu-fp32": {"stage": 3, **CPU, "dtype": "fp32"},
    "3-both-cpu-fp32": {"stage": 3, **CPU, "offload_param": "cpu", "dtype": "fp32"},
    "3-both-nvme": {"stage": 3, **NVME, "offload_param": "nvme"},
    "3-owners": {"stage": 3, "offload_param": "cpu", "owner_broadcast": "parameters"},
    "3-owners-states": {"stage": 3, "owner_broadcast": "states", "clip": 0.5},
    "3-plus-plus": {
        "stage": 3, "quantize_weights": True, "secondary_partition": 2,
        "quantize_gradients": True, "ranks_per_node": 2,
    },
    "2-constant": {"stage": 2, "constant_buffers": True, "bucket_elements": 700},
}  # fmt: skip
MORE = {
    "1-nvme": {"stage": 1, **NVME},
    "3-nvme-clip": {"stage": 3, **NVME, "clip": 0.5, "accumulate": 2},
    "3-cpu-fp16": {"stage": 3, **CPU, "dtype": "fp16"},
    "3-param-nvme": {"stage": 3, "offload_param": "nvme", "prefetch": 2},
    "3-param-cpu-fp32": {"stage": 3, "offload_param": "cpu", "dtype": "fp32"},
    "3-owners-nvme": {"stage": 3, **NVME, "offload_param": "nvme", "owner_broadcast": "parameters"},
    "3-owners-fp32": {
        "stage": 3, **CPU, "offload_param": "cpu", "owner_broadcast": "parameters", "dtype": "fp32",
    },
    "3-owners-states-fp32": {
        "stage": 3, "owner_broadcast": "states", "dtype": "fp32", "accumulate": 2,
    },
    "3-owners-states-contiguous": {
        "stage": 3, "owner_broadcast": "states", "contiguous_memory": True,
    },
    "3-no-overlap": {"stage": 3, **CPU, "offload_param": "cpu", "overlap": False},
    "3-hpz-accumulate": {"stage": 3, "secondary_partition": 2, "accumulate": 2},
    "3-infinity-checkpoints": {
        "stage": 3, **NVME, "offload_param": "nvme", "checkpoint_activations": True,
        "cpu_checkpointing": True,
    },
    "3-contiguous": {"stage": 3, "contiguous_memory": True},
}  # fmt: skip


def train_all(folder, systems):
    for name, options in systems.items():
        # an engine before this one may be alive still: its tensors are not this trace's
        gc.collect()
        holdings._held.clear()
        config = EngineConfig(**options, nvme_path=str(Path(folder) / "disk" / name))
        with zerosim.trace(Path(folder) / name, allocations=True):
            model = "gpt" if config.checkpoint_activations else "mlp"
            train(Case(model, config, steps=STEPS))


def assert_exact(report: MemoryReport, options: dict) -> None:
    assert [verdict.measured for verdict in report.verdicts if verdict.holds is False] == []
    by_id = {verdict.id: verdict.holds for verdict in report.verdicts}
    assert by_id["model-states"] is True
    assert by_id["allocated"] is True
    assert report.unexplained_bytes == 0
    found = {one.tier: one for one in report.tiers}
    expected = {Tier.HOST} if "offload_optimizer" in options else set()
    expected |= {TIERS[options[key]] for key in OFFLOADS & options.keys()}
    for tier in expected:
        assert by_id[f"model-states-{tier}"] is True
        one = found[tier]
        measured = sum(row.measured_bytes[0] for row in one.rows)
        assert one.law_bytes + sum(cause.bytes for cause in one.causes) == measured > 0
    assert ("secondary-parameters" in by_id) == ("secondary_partition" in options)
    assert ("constant-buffers" in by_id) == ("constant_buffers" in options)
    for top in report.peaks:
        assert top.bytes == report.law_bytes + sum(cause.bytes for cause in top.causes)
        assert all(cause.is_excused for cause in top.causes)


TIERS = {"cpu": Tier.HOST, "nvme": Tier.DISK}
OFFLOADS = {"offload_optimizer", "offload_param"}


@pytest.mark.parametrize("systems", [SYSTEMS, MORE], ids=["some", "more"])
def test_every_tier_holds_what_theory_says(tmp_path, systems):
    run_ranks(train_all, 2, str(tmp_path), systems)
    for name, options in systems.items():
        assert_exact(verify_memory(load(tmp_path / name, strict=True)), options)
