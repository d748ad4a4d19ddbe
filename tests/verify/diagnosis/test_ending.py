"""What `zerosim trace` says by itself when a run ends badly; the exit code is the program's."""

from __future__ import annotations

import sys
import threading

import pytest

from tests.cli.command import command
from tests.deadlines import RANKS_S
from zerosim.cli import ending

PROGRAM = """
import os, signal, sys, time
import torch, torch.distributed as dist
from datetime import timedelta
rank = 0 if (child := os.fork()) else 1
os.environ |= dict(RANK=str(rank), WORLD_SIZE="2")

what, store, trace = sys.argv[1:]
where = f"file://{store}"
dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2)
try:
    for step in range(3):
        if rank == 0 and step == 2 and what == "hang":
            dist.distributed_c10d._set_pg_timeout(timedelta(seconds=4))
        if rank == 1 and step == 2 and what == "crash":
            raise ValueError("no more data")
        if rank == 1 and step == 2 and what == "hang":
            time.sleep(1000)
        dist.all_reduce(torch.ones(4))
except RuntimeError:  # as a launcher does, which is not so quick that nothing was said of the other
    other = f"{trace}/rank-1.jsonl"
    while what == "hang" and b'"row":"standstill"' not in open(other, "rb").read():
        time.sleep(0.1)
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    sys.exit(7)
dist.destroy_process_group()
if child:
    os.waitpid(child, 0)
"""


@pytest.fixture
def traced(monkeypatch, tmp_path):
    """Trace the program; its exit code, and what was said of it however long that took."""
    monkeypatch.setattr(ending, "_MOST_S", RANKS_S)

    def trace(what):
        program, trace = tmp_path / "train.py", tmp_path / "t"
        program.write_text(PROGRAM)
        words = (sys.executable, program, what, tmp_path / "store", trace)
        done = command("trace", "--out", trace, "--", *words)
        return done.code, done.err.splitlines()

    return trace


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("what", "code", "words"), [("crash", 7, "rank 1 failed"), ("hang", 7, "rank 1 has not called")]
)
def test_of_a_run_that_ends_badly_the_culprit_is_named(what, code, words, traced):
    ended, said = traced(what)
    assert ended == code
    assert any(line.removeprefix("zerosim: ").startswith(words) for line in said), said
    assert any(line.startswith("zerosim: try: ") for line in said), said


@pytest.mark.ranks
def test_of_a_clean_run_there_is_no_word(traced):
    ended, said = traced("clean")
    assert ended == 0
    assert not any("rank 0" in line or "rank 1" in line or "try: " in line for line in said), said


def test_what_takes_too_long_is_left_to_who_asks(monkeypatch, tmp_path):
    may_end = threading.Event()
    monkeypatch.setattr(ending, "_MOST_S", 0.05)
    monkeypatch.setattr(ending, "diagnose_folder", lambda _: may_end.wait(RANKS_S))
    assert ending.lines_about(tmp_path) == []
    may_end.set()
