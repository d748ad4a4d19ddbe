"""A run whose states are on a disk: killed in the middle of a write, on a full disk, with damage.

Each time one clear line says what happened, the trace can be read, and the run goes on from the
last good state as if nothing had been.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import DEADLINE_S, process, start
from zerosim.record import load
from zerosim.rows import rank_file_name

pytestmark = pytest.mark.ranks

STEPS = 5
RANKS = 2
_LARGEST_FILE = 3 << 20
"""With such a limit a trace can be written, and a unit's states of 4.7 MB cannot: a full disk."""
_TAIL_BYTES = 1 << 16
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
    done = process(*_arguments(folder / "trace", folder / "disk", STEPS))
    assert done.code == 0, done.err
    return _losses(folder / "trace")


def _kill_in_a_write(folder: Path, run: subprocess.Popen[str], rank: int) -> None:
    """Kill a rank while its trace says that it writes to the disk, a few steps after the start."""
    path = folder / rank_file_name(rank)
    while run.poll() is None:
        time.sleep(0.002)
        if not path.exists():
            continue
        with path.open("rb") as file:  # its end alone: it grows faster than it can be read again
            first = file.readline()
            size = file.seek(0, os.SEEK_END)
            file.seek(max(len(first), size - _TAIL_BYTES))
            rows = file.read().splitlines()
        try:
            header, last = json.loads(first), json.loads(rows[-1])
        except (ValueError, IndexError):  # a row that is being written
            continue
        is_write = last["row"] == "open" and last.get("target") == "disk"
        if is_write and last["iteration"] >= 2:
            os.kill(header["pid"], signal.SIGKILL)
            return
    pytest.fail(f"the run ended by itself: {run.communicate()}")


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_rank_is_killed_in_the_middle_of_a_write(rank, whole, tmp_path):
    disk, first, second = tmp_path / "disk", tmp_path / "first", tmp_path / "second"
    run = start(*_arguments(first, disk, 1000))
    try:
        _kill_in_a_write(first, run, rank)
        _, err = run.communicate(timeout=DEADLINE_S)
    finally:
        run.kill()
    assert run.returncode == 3, err
    assert f"rank {rank} was killed (SIGKILL)" in err
    assert "Traceback" not in err
    done = int(err.split("the state after ")[1].split()[0])
    assert f"the state after {done} steps is in {disk}: --resume goes on from it" in err
    broken = load(first)
    assert any("stops after" in warning for warning in broken.warnings)

    refused = process(*_arguments(second, disk, STEPS))
    assert refused.code == 2
    assert "holds the state of an earlier run: --resume" in refused.err

    again = process(*_arguments(second, disk, max(STEPS, done + 1), "--resume"))
    assert again.code == 0, again.err
    resumed = _losses(second)
    assert min(resumed) == done
    for iteration in resumed.keys() & whole.keys():
        assert resumed[iteration] == whole[iteration]
    before = _losses(first)
    assert all(before[iteration] == whole[iteration] for iteration in before.keys() & whole.keys())


@pytest.mark.long  # the store's own tests fill a disk, too
def test_a_full_disk_and_then_more_room(whole, tmp_path):
    disk, first, second = tmp_path / "disk", tmp_path / "first", tmp_path / "second"
    words = [str(word) for word in _arguments(first, disk, STEPS)]
    run = subprocess.run(
        (
            shutil.which("prlimit"),
            f"--fsize={_LARGEST_FILE}",
            sys.executable,
            "-m",
            "zerosim.cli",
            *words,
        ),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert run.returncode == 3, run.stderr
    assert "no room for" in run.stderr
    assert "Traceback" not in run.stderr
    assert load(first).ranks[0].failure is not None
    again = process(*_arguments(second, disk, STEPS, "--overwrite"))
    assert again.code == 0, again.err
    assert _losses(second) == whole


@pytest.mark.long  # and damage a file
def test_a_truncated_and_a_damaged_file(whole, tmp_path):
    disk = tmp_path / "disk"
    begun = process(*_arguments(tmp_path / "begun", disk, 3))
    assert begun.code == 0, begun.err
    newest = max(
        (disk / "rank-1").glob("commit-*.json"), key=lambda path: _commit(path)["sequence"]
    )
    slot = _commit(newest)["versions"]["states/blocks.1"]["slot"]
    (states,) = (disk / "rank-1").glob(f"states*blocks.1.slot-{slot}")
    content = states.read_bytes()

    # inside, where only its checksum tells
    states.write_bytes(content[:100_000] + bytes([content[100_000] ^ 1]) + content[100_001:])
    damaged = process(*_arguments(tmp_path / "damaged", disk, 5, "--resume"))
    assert damaged.code == 3
    assert f"{states.name} is damaged between byte 0 and" in damaged.err
    assert "this state was set aside" in damaged.err
    assert "Traceback" not in damaged.err
    assert "the state after 2 steps" in damaged.err

    # the state before it is whole
    again = process(*_arguments(tmp_path / "again", disk, 4, "--resume"))
    assert again.code == 0, again.err
    assert _losses(tmp_path / "again") == {step: whole[step] for step in (2, 3)}

    # cut off: seen at once, on all ranks
    for path in (disk / "rank-1").glob("states*blocks.1.slot-*"):
        path.write_bytes(path.read_bytes()[:-5000])
    cut = process(*_arguments(tmp_path / "cut", disk, 5, "--resume"))
    assert cut.code == 3
    assert "ends at byte" in cut.err
    assert "Traceback" not in cut.err


def _commit(path: Path) -> dict:
    return json.loads(path.read_text().splitlines()[0])
