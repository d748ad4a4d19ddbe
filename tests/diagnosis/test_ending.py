"""What `zerosim trace` says by itself when a run ends badly; the exit code is the program's."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from zerosim.cli import ending

DEADLINE_S = 120.0
PROGRAM = """
import os, signal, sys, time
rank = 0 if (child := os.fork()) else 1
os.environ |= dict(RANK=str(rank), WORLD_SIZE="2")
import torch, torch.distributed as dist
from datetime import timedelta

what, store = sys.argv[1:]
wait = timedelta(seconds=4 if what == "hang" else 60)
where = f"file://{store}"
dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2, timeout=wait)
try:
    for step in range(3):
        if rank == 1 and step == 2 and what == "crash":
            raise ValueError("no more data")
        if rank == 1 and step == 2 and what == "hang":
            time.sleep(100)
        dist.all_reduce(torch.ones(4))
except RuntimeError:  # as a launcher does
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    sys.exit(7)
dist.destroy_process_group()
if child:
    os.waitpid(child, 0)
"""


def traced(what, folder):
    """Trace the program; its exit code, and what was said of it."""
    program = folder / "train.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "zerosim.cli", "trace", "--out", str(folder / "t"), "--"),
            *(sys.executable, str(program), what, str(folder / "store")),
        ],
        capture_output=True,
        check=False,
        text=True,
        timeout=DEADLINE_S,
    )
    own = [line for line in done.stderr.splitlines() if line.startswith("zerosim: ")]
    return done.returncode, own


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("what", "code", "words"), [("crash", 7, "rank 1 failed"), ("hang", 7, "rank 1 has not called")]
)
def test_of_a_run_that_ends_badly_the_culprit_is_named(what, code, words, tmp_path):
    ended, said = traced(what, tmp_path)
    assert ended == code
    assert any(line.removeprefix("zerosim: ").startswith(words) for line in said), said
    assert any(line.startswith("zerosim: try: ") for line in said), said


@pytest.mark.ranks
def test_of_a_clean_run_there_is_no_word(tmp_path):
    ended, said = traced("clean", tmp_path)
    assert ended == 0
    assert not any("rank 0" in line or "rank 1" in line or "try: " in line for line in said), said


def test_what_takes_too_long_is_left_to_who_asks(monkeypatch, tmp_path):
    may_end = threading.Event()
    monkeypatch.setattr(ending, "_MOST_S", 0.05)
    monkeypatch.setattr(ending, "diagnose_folder", lambda _: may_end.wait(10))
    assert ending.lines_about(tmp_path) == []
    may_end.set()
