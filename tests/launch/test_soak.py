"""Thousands of short steps, traced: what happens once in a thousand steps would happen here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zerosim.record import load

pytestmark = [pytest.mark.ranks, pytest.mark.long, pytest.mark.timeout(1800)]

ZEROSIM = Path(sys.executable).with_name("zerosim")
PROGRAM = Path(__file__).parent / "programs" / "soak.py"
NUM_STEPS = 5000
WITHOUT_DEEPSPEED = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None,
    reason="DeepSpeed is not installed: `make deepspeed` installs it",
)


@pytest.mark.parametrize(
    "system", ["ddp", "fsdp2", pytest.param("deepspeed", marks=WITHOUT_DEEPSPEED)]
)
def test_tracing_survives_5000_short_steps(tmp_path, system):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [
            ZEROSIM,
            "trace",
            "--out",
            tmp_path / "t",
            "--",
            *torchrun,
            PROGRAM,
            system,
            str(NUM_STEPS),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=1700,
        env={**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for rank in load(tmp_path / "t", strict=True).ranks:
        assert max(event.iteration for event in rank.events) == NUM_STEPS - 1
        assert not [event for event in rank.events if event.error]
        assert rank.memory_samples
