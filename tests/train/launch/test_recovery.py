"""A run whose states are on a disk is killed in the middle of a write.

One clear line says what happened, the trace can be read, and the run goes on from the last good
state as if nothing had been. Full disks and damage are in the tests of `zerosim.train.offload`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.command import Answer, command
from tests.deadlines import RANKS_S
from zerosim.record import load, raw_rows
from zerosim.schema.rows import last_row, rank_file_name
from zerosim.schema.shortrows import BEGIN, RECORD, SIZE
from zerosim.train.launch import forkserver

pytestmark = pytest.mark.ranks

STEPS = 5
RANKS = 2
_TAIL_BYTES = 1 << 17
"""More than a row of a trace has."""
ON_DISK = ("--offload-optimizer", "nvme", "--offload-param", "nvme")


def _arguments(folder: Path, disk: Path, steps: int, *more: str) -> tuple[object, ...]:
    return (
        *("run", "--stage", 3, "--ranks", RANKS, "--steps", steps),
        *(*ON_DISK, "--nvme-path", disk, "--out", folder, *more),
    )


def _losses(folder: Path) -> dict[int, float]:
    metrics = load(folder).ranks[0].metrics
    return {metric.iteration: metric.value for metric in metrics if metric.name == "loss"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Losses of a run to which nothing happens."""
    folder = tmp_path_factory.mktemp("whole")
    done = command(*_arguments(folder / "trace", folder / "disk", STEPS))
    assert done.code == 0, done.err
    return _losses(folder / "trace")


def _kill_in_a_write(folder: Path, run: Future[Answer], rank: int) -> None:
    """Kill a rank while its trace says that it writes to the disk, a few steps after the start."""
    path = folder / rank_file_name(rank)
    disk_writes: set[int] = set()
    while not run.done():
        time.sleep(0.002)
        if not path.exists():
            continue
        with path.open("rb") as file:  # its end alone: it grows faster than it can be read again
            first = file.readline()
            size = file.seek(0, os.SEEK_END)
            file.seek(max(len(first), size - _TAIL_BYTES))
            last = last_row(file.read())
        if len(last) != SIZE or last[0] != BEGIN:
            continue
        _, _, template, _, iteration, *_ = RECORD.unpack(last)
        if iteration <= 2:
            continue
        disk_writes = disk_writes or _disk_writes(path)
        if template in disk_writes:
            os.kill(json.loads(first)["pid"], signal.SIGKILL)
            return
    pytest.fail(f"the run ended by itself: {run.result()}")


def _disk_writes(path: Path) -> set[int]:
    """The numbers of the templates of copies to a disk, of those that are written by now."""
    rows = [row.own for row in raw_rows(path) if row.name == "template"]
    return {row["number"] for row in rows if row.get("target") == "disk"}


def test_a_rank_is_killed_in_the_middle_of_a_write(whole, tmp_path):
    disk, first, second = tmp_path / "disk", tmp_path / "first", tmp_path / "second"
    with ThreadPoolExecutor(1) as aside:
        run = aside.submit(command, *_arguments(first, disk, 1000))
        try:
            _kill_in_a_write(first, run, 1)
        except BaseException:
            forkserver._KeptServer.server.close()  # else it would go on
            raise
        killed = run.result(RANKS_S)
    err = killed.err
    assert killed.code == 3, err
    assert "rank 1 was killed (SIGKILL)" in err
    assert "Traceback" not in err
    done = int(err.split("the state after ")[1].split()[0])
    assert f"the state after {done} steps is in {disk}: --resume continues from it" in err
    broken = load(first)
    assert any("stops after" in warning for warning in broken.warnings)

    refused = command(*_arguments(second, disk, STEPS))
    assert refused.code == 2
    assert "holds the state of an earlier run: --resume" in refused.err

    again = command(*_arguments(second, disk, max(STEPS, done + 1), "--resume"))
    assert again.code == 0, again.err
    resumed = _losses(second)
    assert min(resumed) == done
    for iteration in resumed.keys() & whole.keys():
        assert resumed[iteration] == whole[iteration]
    before = _losses(first)
    assert all(before[iteration] == whole[iteration] for iteration in before.keys() & whole.keys())
