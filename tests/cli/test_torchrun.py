"""`torchrun` starts the ranks, on one node or on two; each command becomes one rank."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.command import command
from tests.deadlines import RANKS_S
from tests.ranks import free_port
from zerosim.record import load
from zerosim.verify import verify

pytestmark = pytest.mark.ranks

OPTIONS = ("--model", "mlp", "--steps", "2", "--stage", "1")


def torchrun(*args: object, cwd) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-m", "torch.distributed.run", *map(str, args)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(*started: subprocess.Popen[str]) -> list[tuple[int, str, str]]:
    try:
        ends = [(*each.communicate(timeout=RANKS_S), each.returncode) for each in started]
    finally:
        for each in started:
            each.kill()
    return [(code, out, err) for out, err, code in ends]


def assert_proved(folder) -> None:
    answer = command("verify", folder)
    assert (answer.code, answer.err) == (0, ""), answer
    report = verify(load(folder, strict=True))
    assert report.holds is True
    assert report.unexplained_wire == 0
    assert report.num_ranks == 2
    assert report.iterations == (0, 1)


def test_one_node(tmp_path):
    """Without a folder all ranks choose the same."""
    ranks = ("--nproc-per-node", 2, "--master-port", free_port())
    [(code, out, err)] = finish(torchrun(*ranks, "-m", "zerosim", "run", *OPTIONS, cwd=tmp_path))
    assert code == 0, err
    [folder] = (tmp_path / "traces").iterdir()
    assert out.splitlines() == [
        f"rank 0 wrote its trace to {folder.relative_to(tmp_path)}",
        "with the files of all ranks in one folder: zerosim verify FOLDER",
    ]
    assert "Traceback" not in err
    assert_proved(folder)


def test_a_wrong_word_is_told_by_each_rank_in_one_line(tmp_path):
    ranks = ("--nproc-per-node", 1, "--master-port", free_port())
    [(code, out, err)] = finish(
        torchrun(*ranks, "-m", "zerosim", "run", "--ranks", 3, cwd=tmp_path)
    )
    assert code != 0
    assert out == ""
    told = [line for line in err.splitlines() if line.startswith("zerosim: ")]
    assert told == ["zerosim: ranks is 3: this launcher started 1; leave --ranks out"]
    assert not (tmp_path / "traces").exists()
