"""Thousands of short steps, traced: what happens once in a thousand steps would happen here."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zerosim.base.config import Light
from zerosim.record import load
from zerosim.verify.outcome import Outcome
from zerosim.verify.verify import verify

pytestmark = [pytest.mark.ranks, pytest.mark.long, pytest.mark.timeout(1800)]

ZEROSIM = Path(sys.executable).with_name("zerosim")
PROGRAM = Path(__file__).parent / "programs" / "soak.py"
NUM_STEPS = 20_000
FLAT_BYTES = 5_000_000
MOST_BYTES = 50_000_000
WITHOUT_DEEPSPEED = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None,
    reason="DeepSpeed is not installed: `make deepspeed` installs it",
)


def soak(folder, system, *options):
    """Trace so many steps; what of each rank's memory was resident after each tenth of them."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [
            *(ZEROSIM, "trace", *options, "--out", folder, "--"),
            *(*torchrun, PROGRAM, system, str(NUM_STEPS)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=1700,
        env={**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line)["resident_bytes"] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "system", ["ddp", "fsdp2", "engine", pytest.param("deepspeed", marks=WITHOUT_DEEPSPEED)]
)
def test_tracing_survives_many_short_steps_and_keeps_nothing_of_them(tmp_path, system):
    ranks = soak(tmp_path / "t", system)
    assert len(ranks) == 2
    for resident in ranks:
        assert max(resident) - resident[0] < FLAT_BYTES, resident
    for rank in load(tmp_path / "t", strict=True).ranks:
        assert rank.memory_samples
        assert max(event.iteration for event in rank.events) == NUM_STEPS - 1
        assert not [event for event in rank.events if event.error]


@pytest.mark.parametrize("system", ["ddp", "fsdp2", "engine"])
def test_a_light_trace_does_not_grow(tmp_path, system):
    folder = tmp_path / "t"
    for resident in soak(folder, system, "--light"):
        assert max(resident) - resident[0] < FLAT_BYTES, resident
    assert sum(path.stat().st_size for path in folder.iterdir()) < MOST_BYTES
    report = verify(load(folder, strict=True))
    assert report.outcome is not Outcome.UNEXPLAINED
    assert len(report.iterations) >= Light().keep
    assert report.iterations[-1] == NUM_STEPS - Light().every
