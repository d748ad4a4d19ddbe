"""A test that hangs names itself: at its timeout, the stacks of all processes that it started.

pytest-timeout prints those of the test's own process. py-spy reads the others from outside, so that
ranks, servers and launchers need not take part. Where the test's process does not come back to
Python, faulthandler prints its stacks and ends it.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deadlines import STACKS_S

_STDERR = pytest.StashKey[int]()
_LATE_S = 30.0
"""How long after its timeout a test's process may still not be in Python."""


def descendants(pid: int) -> Iterator[int]:
    """All processes that one has started, and those that they have."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except OSError:  # the thread is gone
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


def stacks(pids: list[int]) -> str:
    """Where each process is, as far as the system lets us see it."""
    return "\n".join(f"process {pid}: {_command(pid)}\n{_stack(pid)}" for pid in pids)


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone"
    return b" ".join(words).decode(errors="replace")[:300]


def _stack(pid: int) -> str:
    try:
        done = subprocess.run(
            (Path(sys.executable).with_name("py-spy"), "dump", "--pid", str(pid)),
            capture_output=True,
            text=True,
            timeout=STACKS_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"  no stack: {error}"
    return done.stdout if done.returncode == 0 else f"  no stack: {done.stderr.strip()}"


def pytest_configure(config):
    """Keep the standard error that tests do not capture: now is nothing captured."""
    config.stash[_STDERR] = os.dup(2)


def pytest_unconfigure(config):
    os.close(config.stash[_STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item, settings):
    """Look at all processes before pytest-timeout fails the test."""
    result = yield
    fails = signal.getsignal(signal.SIGALRM)
    if settings.timeout and callable(fails):

        def look(number, frame):
            text = stacks([*descendants(os.getpid())])
            item.add_report_section("call", "the processes that it started", text)
            fails(number, frame)

        signal.signal(signal.SIGALRM, look)
        faulthandler.dump_traceback_later(
            settings.timeout + _LATE_S, exit=True, file=item.config.stash[_STDERR]
        )
    return result


@pytest.hookimpl(wrapper=True)
def pytest_timeout_cancel_timer(item):
    """The test is over."""
    faulthandler.cancel_dump_traceback_later()
    return (yield)
