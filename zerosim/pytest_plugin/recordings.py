"""Recordings of a test, and access to the last one."""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from zerosim.base.errors import EnvironmentFault, ZerosimError
from zerosim.pytest_plugin import children
from zerosim.pytest_plugin.options import Options
from zerosim.pytest_plugin.own import OwnTrace
from zerosim.pytest_plugin.ranks import run_ranks
from zerosim.view.reading import Run, load

_P = ParamSpec("_P")
_R = TypeVar("_R")
_NO_NAME = re.compile(r"[^\w.-]+")


def plain(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let errors show the test's line and one message, without our own frames."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except ZerosimError as error:
            raise type(error)(*error.args) from None

    return call


class Recordings:
    """The recordings of a test.

    Its own process is recorded from the beginning; `run`, `command` and `recording` record others.
    `folder` and `recorded` refer to the last recording: of those, or of this process if none was
    called.
    """

    def __init__(self, home: Path, name: str, options: Options) -> None:
        """Begin to record this process.

        Args:
            home: a folder of this test alone.
            name: of the test, the same on all ranks.
        """
        self._home = home
        self._name = name
        self._options = options
        self._last: Path | None = None
        self._own = OwnTrace(home, name, options)

    # ways to record

    @plain
    def run(
        self,
        function: Callable[..., Any],
        *,
        ranks: int,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        backend: str = "gloo",
    ) -> list[Any]:
        """Call `function(*args, **kwargs)` on several ranks, each a process that is traced.

        The ranks have joined a process group when they call it, and compute with one thread each.

        Args:
            function: a top-level function of a module.
            ranks: number of ranks.
            backend: backend of the process group.

        Returns:
            Each rank's result, by rank.

        Raises:
            RunError: a rank raised, died, or did not end in time; with its traceback.
        """
        __tracebackhide__ = True
        home = new_folder(self._home, "run")
        self._last = home / "trace"
        return run_ranks(
            function,
            ranks,
            (tuple(args), dict(kwargs or {})),
            home=home,
            backend=backend,
            name=self._name,
            options=self._options,
        )

    @plain
    def command(self, argv: Sequence[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """Run a program that starts ranks itself, and trace them, as `zerosim trace` does.

        Args:
            argv: the program and its arguments: "torchrun", "--nproc-per-node=2", "train.py".
            kwargs: passed to `subprocess.Popen`; and `timeout`, in seconds.

        Returns:
            Its exit code and its output, which is also printed, so that pytest shows it.

        Raises:
            RunError: it ended with a nonzero exit code, or not in time.
            EnvironmentFault: it cannot be started, or no process of it could be traced.
        """
        __tracebackhide__ = True
        folder = new_folder(self._home, "command")
        self._last = folder
        words = [str(word) for word in argv]
        ended = children.run(words, folder, self._options, kwargs)
        children.require_trace(folder)
        return ended

    @contextmanager
    def recording(self) -> Iterator[Path]:
        """Trace the ranks that are started inside, each a new Python process.

        For a test that starts them itself, with torch.multiprocessing's spawn or with subprocess.

        Yields:
            The folder of the trace.
        """
        __tracebackhide__ = True
        folder = new_folder(self._home, "recording")
        with children.injected(folder, self._name, self._options):
            yield folder
        self._last = folder

    # the last recording

    @property
    @plain
    def folder(self) -> Path:
        """The folder of the last recording."""
        __tracebackhide__ = True
        if self._last is None:
            return self._own.look()
        children.require_trace(self._last)
        return self._last

    @property
    @plain
    def recorded(self) -> Run:
        """The last recording, as read by `zerosim.load`."""
        __tracebackhide__ = True
        return load(self.folder)

    def close(self) -> None:
        """Stop recording."""
        self._own.close()


def new_folder(parent: str | Path, name: str) -> Path:
    """A new folder, below a folder that is created if missing."""
    stem = _NO_NAME.sub("-", name).strip("-.") or "test"
    for number in itertools.count(1):
        folder = Path(parent).absolute() / f"{stem}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise EnvironmentFault(
                f"cannot create {folder}: {error.strerror}; give a writable folder"
            ) from None
        return folder
    raise AssertionError("itertools.count never ends")
