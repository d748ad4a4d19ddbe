"""A rank is killed (SIGKILL) at a chosen moment of a step: the old state or the new one is whole.

What was handed to the kernel survives a process, so this shows the order of writes and renames;
that they survive a power failure rests on the calls that flush, which are counted here too.
"""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from tests.train.offload.stores import commit_step, holds_step, last_step, resumed_holds, store
from zerosim.train.offload import DiskFiles


def _dies():
    os.kill(os.getpid(), signal.SIGKILL)


def _in_a_write():
    """Half of a file was written."""
    real = os.pwritev

    def half(file, views, offset):
        real(file, [views[0][: len(views[0]) // 2]], offset)
        _dies()

    os.pwritev = half


def _between_two_writes():
    real, calls = os.pwritev, []

    def second(*arguments):
        calls.append(arguments)
        return real(*arguments) if len(calls) < 2 else _dies()

    os.pwritev = second


def _while_flushing():
    os.fdatasync = lambda _: _dies()


def _in_a_commit():
    """Its file was begun."""
    real = os.write

    def half(file, content):
        real(file, content[: len(content) // 2])
        _dies()

    os.write = half


def _before_the_rename():
    Path.rename = lambda *_: _dies()


def _after_the_rename():
    real = Path.rename

    def rename(path, target):
        real(path, target)
        _dies()

    Path.rename = rename


MOMENTS = {
    _in_a_write: 1,
    _between_two_writes: 1,
    _while_flushing: 1,
    _in_a_commit: 1,
    _before_the_rename: 1,
    _after_the_rename: 2,
}


def _trains(folder, moment):
    with store(folder, state=DiskFiles.last_good(folder, 1)) as disk:
        assert holds_step(disk, 1, 9_000)
        moment()
        commit_step(disk, 2, num_bytes=9_000)


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_killed(tmp_path, moment):
    step = MOMENTS[moment]
    with store(tmp_path) as disk:
        commit_step(disk, 0, num_bytes=9_000)
        commit_step(disk, 1, num_bytes=9_000)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", "zerosim.train.offload"])
    rank = context.Process(target=_trains, args=(tmp_path, moment))
    rank.start()
    rank.join(60)
    assert rank.exitcode == -signal.SIGKILL
    assert last_step(tmp_path) == step
    with store(tmp_path, state=DiskFiles.last_good(tmp_path, 1)) as disk:
        assert holds_step(disk, step, 9_000)
        commit_step(disk, 3)
    assert resumed_holds(tmp_path, 3)


def test_all_that_a_commit_refers_to_is_flushed_before_it(tmp_path, monkeypatch):
    calls = []

    def noted(name):
        real = getattr(os, name)

        def call(file):
            calls.append((name, Path(f"/proc/self/fd/{file}").readlink().name))
            return real(file)

        return call

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, noted(name))
    real = Path.rename

    def rename(path, target):
        calls.append(("rename", target.name))
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with store(tmp_path) as disk:
        calls.clear()
        commit_step(disk, 0, names=["a", "b"])
        assert sorted(calls[:2]) == [("fdatasync", "a.slot-0"), ("fdatasync", "b.slot-0")]
        assert calls[2:] == [
            ("fsync", "commit-1.json.new"),
            ("fsync", "rank-0"),
            ("rename", "commit-1.json"),
            ("fsync", "rank-0"),
        ]
