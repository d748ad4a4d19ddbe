"""What becomes of a run whose rank is killed, stopped or broken, or whose person has enough."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Self

import pytest

from tests.cli.command import Answer, apart, command, start
from tests.deadlines import RANKS_S
from tests.growing import num_rows
from zerosim.base.errors import TraceError
from zerosim.cli import jobs
from zerosim.record import Trace, load
from zerosim.schema.rows import rank_file_name
from zerosim.train.launch import forkserver, launcher, worker
from zerosim.train.launch.forkserver import Work

pytestmark = pytest.mark.ranks

_ENDLESS = 1_000_000
TWO_STEPS = ("run", "--model", "mlp", "--ranks", 2, "--steps", 2, "--stage", 2)


@dataclass(frozen=True)
class Ended:
    """How a run ended after something happened to it."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        # Gloo prints by itself, in brackets, what befell a connection that was being made
        own = [line for line in self.err.splitlines() if not line.startswith("[")]
        return "\n".join(own).removeprefix("zerosim: ").splitlines()


class Run:
    """A run that would never end, in this process: the ranks are forked by the server it keeps."""

    def __init__(self, folder: Path, ranks: int, *args: object) -> None:
        self.folder = folder
        self.ranks = ranks
        self.seen: dict[int, int] = {}
        options = ("--model", "mlp", "--ranks", ranks, "--steps", _ENDLESS, "--out", folder)
        self.begin("run", *options, *args)

    def begin(self, *words: object) -> None:
        aside = ThreadPoolExecutor(1)
        self.answer: Future[Answer] = aside.submit(command, *words)
        aside.shutdown(wait=False)

    def is_over(self) -> bool:
        return self.answer.done()

    def server(self) -> int:
        """The process that forks the ranks; 0 if there is none yet."""
        return 0 if (kept := forkserver._KeptServer.server) is None else kept.pid

    def workers(self) -> dict[int, int]:
        """Process ids by rank, also of ranks that have not begun their trace."""
        found = {}
        for child in _children(self.server()):
            with contextlib.suppress(OSError):
                name = _read(f"/proc/{child}/comm").decode().strip()
                if name.startswith("zerosim rank "):
                    found[int(name.split()[-1])] = child
        self.seen |= found
        return found

    def wait_for_workers(self) -> dict[int, int]:
        while len(workers := self.workers()) < self.ranks:
            assert not self.is_over(), self.end()
            time.sleep(0.02)
        return workers

    def wait_for_rows(self, rank: int, least: int) -> int:
        """Wait until a rank wrote so many rows; its process id by its header."""
        file = self.folder / rank_file_name(rank)
        for _ in count():
            assert not self.is_over(), self.end()
            if num_rows(file) >= least:
                break
            time.sleep(0.02)
        with file.open("rb") as rows:
            pid: int = json.loads(rows.readline())["pid"]
        return pid

    def end(self) -> Ended:
        began = time.monotonic()
        answer = self.answer.result(RANKS_S)
        return Ended(answer.code, answer.out, answer.err, time.monotonic() - began)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_over() and (server := self.server()):  # a test has failed
            os.kill(server, signal.SIGKILL)
        self.end()

    def strike(self, number: signal.Signals) -> tuple[int, Ended]:
        """Send a signal to what forks the ranks, which train; its process id, and how all ended."""
        self.wait_for_rows(0, 60)
        workers = self.workers()
        struck = self.server()
        os.kill(struck, number)
        ended = self.end()
        wait_until_gone(workers)
        assert ended.code == 3, ended
        assert_readable(self.folder, self.ranks)
        return struck, ended


class Process(Run):
    """The same as a process of its own, where that is what something happens to."""

    def __init__(self, folder: Path, ranks: int, *args: object, before: Sequence[str] = ()) -> None:
        self.before = before
        super().__init__(folder, ranks, *args)

    def begin(self, *words: object) -> None:
        self.process = start(*words, before=self.before)

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def server(self) -> int:
        return next(iter(_children(self.process.pid)), 0)

    def end(self) -> Ended:
        began = time.monotonic()
        out, err = self.process.communicate(timeout=RANKS_S)
        return Ended(self.process.returncode, out, err, time.monotonic() - began)

    def __exit__(self, *_: object) -> None:
        self.workers()
        for pid in filter(_is_running, self.seen.values()):
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate()


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:  # it has ended
        return []


def _state(pid: int) -> str:
    """Of a process that is there, as proc(5) calls it."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0].decode()


def _is_running(pid: int) -> bool:
    try:
        return _state(pid) != "Z"
    except OSError:
        return False


def wait_until_gone(workers: dict[int, int]) -> None:
    while any(map(_is_running, workers.values())):  # the test's own timeout is the limit
        time.sleep(0.05)


def assert_readable(folder, ranks: int) -> Trace:
    """Every rank's trace can be loaded up to its last whole row."""
    trace = load(folder)
    assert [rank.rank for rank in trace.ranks] == list(range(ranks))
    for rank in trace.ranks:
        assert rank.events
    return trace


@pytest.mark.parametrize("kill", [pytest.param(0, marks=pytest.mark.long), 1, 2])
def test_a_killed_rank_ends_the_run_and_is_named(tmp_path, kill, record_property):
    chance = random.Random(kill)  # noqa: S311 - any seed will do, but always the same
    ranks = chance.choice((3, 4))
    victim = chance.randrange(ranks)
    stage = chance.randrange(4)
    at_start = kill % 3 == 2
    # Ctrl-C is for the launcher: a rank that gets it all the same dies of it like of any signal
    number = signal.SIGINT if kill % 2 else signal.SIGKILL
    with Run(tmp_path / "t", ranks, "--stage", stage) as run:
        if at_start:
            workers = run.wait_for_workers()
            time.sleep(chance.uniform(0, 0.5))  # in which they join and set up
            pid = workers[victim]
        else:
            pid = run.wait_for_rows(victim, 60)
            time.sleep(chance.uniform(0, 1.5))
        workers = run.workers()
        assert workers[victim] == pid
        os.kill(pid, number)
        ended = run.end()
    record_property("seconds from kill to exit", round(ended.seconds, 2))
    print(f"kill {kill}: {ended.seconds:.2f} s\n{ended.err}")
    assert ended.code == 3, ended
    assert "Traceback" not in ended.err
    assert ended.lines[0].startswith(f"rank {victim} was killed ({number.name}), "), ended.err
    for rank in range(ranks):
        assert sum(line.startswith(f"rank {rank} ") for line in ended.lines) == 1, ended.err
    assert not any(map(_is_running, workers.values()))
    if at_start:
        with contextlib.suppress(TraceError):  # perhaps no rank came so far
            load(tmp_path / "t")
        return
    trace = assert_readable(tmp_path / "t", ranks)
    assert all(not rank.complete or rank.failure is not None for rank in trace.ranks)
    waiting = [line for line in ended.lines if " was waiting in the " in line]
    assert len(waiting) == ranks - 1, ended.err
    for line in waiting:
        assert " for rank" in line
        assert " of iteration " in line
    shown = command("show", tmp_path / "t", "--rank", victim)
    assert shown.code == 0
    assert f"rank {victim}" in shown.err  # the note that its trace stops


def test_a_rank_that_hangs_is_given_up_and_named(tmp_path):
    with Run(tmp_path / "t", 3, "--stage", 3, "--timeout", 5) as run:
        pid = run.wait_for_rows(1, 60)
        os.kill(pid, signal.SIGSTOP)
        run.workers()
        ended = run.end()
        assert not any(map(_is_running, run.seen.values()))
    assert ended.code == 3, ended
    assert ended.lines[0].startswith("rank 1 did not respond for 5 s, "), ended.err
    assert [line.split(" was ")[0] for line in ended.lines[1:3]] == ["rank 0", "rank 2"]
    assert all("waiting in the" in line for line in ended.lines[1:3])
    assert_readable(tmp_path / "t", 3)


def have_ranks_do(function: Callable[[str], int], monkeypatch) -> None:
    """In place of their part of a run, which they are told as ever."""
    work = Work(f"{__name__}:{function.__name__}", "")
    monkeypatch.setattr(launcher, "Work", lambda _, job, **__: replace(work, argument=job))


def stands_still(job: str) -> int:
    """Run as a rank; the second rank stops itself at once."""
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    return worker.work(job)


def test_a_rank_that_hangs_before_it_joins_is_named(tmp_path, monkeypatch):
    have_ranks_do(stands_still, monkeypatch)
    with Run(tmp_path / "t", 2, "--timeout", 6) as run:
        ended = run.end()
    assert ended.code == 3, ended
    assert ended.lines == [
        "rank 1 did not respond for 6 s, before its first event",
        "rank 0 was starting, or waiting for the others to join",
    ]


def test_one_server_serves_many_runs(tmp_path, monkeypatch):
    """Each run has the folder and the environment of its own moment, and fails for itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert command(*TWO_STEPS, "--out", "first").code == 0
    kept = forkserver._KeptServer.server
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    failed = command(*TWO_STEPS, "--out", "second")
    assert failed.code == 3, failed
    assert "invalid literal for int()" in failed.err
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert command(*TWO_STEPS, "--out", "third").code == 0
    assert forkserver._KeptServer.server is kept
    for folder in ("first", "inner/third"):
        assert_readable(tmp_path / folder, 2)


def test_a_rank_that_raises_is_named_with_its_reason(tmp_path, monkeypatch):
    """Rank 2 finds a folder where its file should be; the others wait for it."""
    reserve = jobs.reserve

    def and_put_in_the_way(folder, held, **how):
        reserve(folder, held, **how)
        (folder / rank_file_name(2)).mkdir()

    monkeypatch.setattr(jobs, "reserve", and_put_in_the_way)
    with Run(tmp_path / "t", 3, "--stage", 1, "--timeout", 30) as run:
        ended = run.end()
    assert ended.code == 3, ended
    assert ended.lines[0].startswith("rank 2 failed: "), ended.err
    assert "already contains a trace" in ended.lines[0]
    assert len([line for line in ended.lines if line.startswith("rank ")]) == 3
    assert "Traceback" not in ended.err
    assert "Traceback" in (tmp_path / "t" / "rank-2.error.txt").read_text()


def test_a_full_disk_is_named(tmp_path):
    """The file system refuses a rank's rows in the middle of the run."""
    with Run(tmp_path / "t", 2, "--stage", 0) as run:
        for pid in run.wait_for_workers().values():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (150_000, 150_000))
        ended = run.end()
    assert ended.code == 3, ended
    assert "cannot write to" in ended.err
    assert "File too large" in ended.err or "disk is full" in ended.err
    assert ended.err.startswith("zerosim: rank ")
    assert "Traceback" not in ended.err
    load(tmp_path / "t")


@pytest.mark.root
def test_a_disk_without_room_for_a_reason_is_named(tmp_path):
    """A disk of its own, in a namespace that is gone with the run."""
    if not (own := apart("--mount")):
        pytest.skip("needs root, for a small disk (unshare --mount)")
    mounts = f'mount -t tmpfs -o size=64k tmpfs "{tmp_path}" && exec "$0" "$@"'
    with Process(tmp_path / "t", 2, before=(*own, "sh", "-c", mounts)) as run:
        ended = run.end()
    assert ended.code == 3, ended
    assert re.match(
        r"rank \d failed: .*cannot write .*(disk is full|No space left)", ended.lines[0]
    )
    assert "Traceback" not in ended.err
    assert len(ended.lines) <= 3, ended.err


def test_ctrl_c_ends_all_ranks_in_one_line(tmp_path):
    """And a signal that is ignored, as by nohup, changes nothing."""
    with Process(tmp_path / "t", 3, before=("nohup",)) as run:
        workers = run.wait_for_workers()
        file = tmp_path / "t" / "stage-0" / rank_file_name(0)
        for least in (60, 120):
            while num_rows(file) < least:
                assert not run.is_over()
                time.sleep(0.02)
            run.process.send_signal(signal.SIGHUP)
        run.process.send_signal(signal.SIGINT)
        ended = run.end()
    assert ended.code == 130, ended
    assert len(ended.lines) == 1, ended.err
    assert ended.lines[0].startswith("interrupted: the ranks were stopped")
    assert not any(map(_is_running, workers.values()))
    assert ended.lines[0].endswith(f"zerosim show {tmp_path / 't' / 'stage-0'}")
    assert_readable(tmp_path / "t" / "stage-0", 3)


def interrupts(job: str) -> int:
    """Be a rank, of which the first presses Ctrl-C before it joins."""
    if os.environ["RANK"] == "0":
        os.kill(int(os.environ["PRESSED"]), signal.SIGINT)
        time.sleep(RANKS_S)
    return worker.work(job)


def test_ctrl_c_before_anything_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("PRESSED", str(os.getpid()))
    have_ranks_do(interrupts, monkeypatch)
    ended = command(*TWO_STEPS, "--out", tmp_path / "t")
    assert (ended.code, ended.err) == (130, "zerosim: interrupted: the ranks were stopped\n")


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL]
)
def test_no_rank_outlives_its_launcher(tmp_path, number):
    with Process(tmp_path / "t", 2, "--stage", 2) as run:
        workers = run.wait_for_workers()
        run.wait_for_rows(0, 60)
        run.process.send_signal(number)
        run.end()
        wait_until_gone(workers)


def test_ranks_end_with_the_process_that_forked_them(tmp_path):
    """The next run is given another."""
    with Run(tmp_path / "t", 2, "--stage", 1) as run:
        killed, ended = run.strike(signal.SIGKILL)
    for rank, line in enumerate(ended.lines[:2]):
        assert line.strip().startswith(f"rank {rank} was killed (SIGKILL), "), ended.err
    assert command(*TWO_STEPS, "--out", tmp_path / "next").code == 0
    assert run.server() != killed
    assert_readable(tmp_path / "next", 2)


def test_a_process_that_forks_ranks_and_stands_still_is_given_up(tmp_path):
    with Run(tmp_path / "t", 2, "--stage", 1, "--timeout", 3) as run:
        forking, ended = run.strike(signal.SIGSTOP)
    assert len(ended.lines) == 1, ended.err
    assert ended.lines[0].startswith(f"process {forking}, which starts and supervises the ranks"), (
        ended.err
    )
    assert "was stopped for 3 s" in ended.lines[0]
