"""What starts ranks, in one process: no room for them, what they say last, what it listens to."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from multiprocessing.connection import Pipe

import pytest

from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.train.launch import forking, forkserver, launcher, worker


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.EAGAIN, "Resource temporarily unavailable")


@pytest.fixture
def ignored():
    """Signals that this process ignores, as if its parent had set them so."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in launcher._ENOUGH}
    yield list(before)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_that_is_ignored_stays_ignored(ignored):
    with launcher._interruptible():
        assert {signal.getsignal(number) for number in ignored} == {signal.SIG_IGN}
    forking.die_of_interrupts()
    assert {signal.getsignal(number) for number in ignored} == {signal.SIG_IGN}


def test_no_room_for_a_process(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", no_room)
    with pytest.raises(EnvironmentFault, match=r"unavailable.*fewer --ranks"):
        forkserver.ForkServer()


def test_no_room_for_a_rank(monkeypatch):
    monkeypatch.setattr(os, "fork", no_room)
    ours, theirs = Pipe()
    with ours, theirs:
        ours.send(forkserver.Start(forkserver.Work("", ""), "", (), ({},)))
        forking.serve(theirs)
        told = ours.recv()
    assert told.startswith("rank 0 cannot be started (Resource temporarily unavailable)")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("steps is 1"), "zerosim.base.errors.ConfigError: steps is 1"),
        (OSError(errno.ENOSPC, "No space left"), "OSError: [Errno 28] No space left"),
        (RuntimeError("in\ntwo lines"), "RuntimeError: in"),
        (KeyError(), "KeyError"),
        (RuntimeError("x" * 10**6), "RuntimeError: xxx"),
    ],
)
def test_a_rank_says_in_a_line_why_it_ends(tmp_path, monkeypatch, error, line):
    """Without a disk, and though something that it started has the pipe open."""
    worker._leave_traceback(tmp_path / "gone", error)
    hearing, telling = os.pipe()
    monkeypatch.setenv(forking._TELLING, str(telling))
    forking.tell(error)
    said = forking._heard(hearing)
    assert said.startswith(line)
    assert said == line or len(said) == forking._LONGEST
    hearing, still_open = os.pipe()
    assert forking._heard(hearing) == ""
    os.close(telling)
    os.close(still_open)
