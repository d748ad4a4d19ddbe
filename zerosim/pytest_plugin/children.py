"""Tracing the programs that a test starts, as `zerosim trace` does: through the environment."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from zerosim.base.errors import EnvironmentFault, RunError
from zerosim.pytest_plugin.options import Options
from zerosim.record.postmortem import end_words
from zerosim.train.launch.command import Recording, injection

_END_S = 40.0
"""Timeout for torchrun to end its ranks; after 30 s it kills them."""


@contextmanager
def injected(folder: Path, name: str, options: Options) -> Iterator[None]:
    """Trace the processes that are started inside."""
    added = injection(folder, f"pytest {name}", os.environ, Recording(memory=options.memory))
    before = {variable: os.environ.get(variable) for variable in added}
    os.environ.update(added)
    try:
        yield
    finally:
        _restore(before)


def run(
    argv: Sequence[str], folder: Path, options: Options, kwargs: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its processes traced, and print its output.

    Args:
        kwargs: passed to `subprocess.Popen`; and `timeout`, in seconds.

    Raises:
        EnvironmentFault: it cannot be started.
        RunError: it ended with a nonzero exit code, or not in time.
    """
    given = kwargs.pop("env", None)
    env = dict(os.environ if given is None else given)
    env |= injection(folder, shlex.join(argv), env, Recording(memory=options.memory))
    timeout_s = kwargs.pop("timeout", options.timeout_s)
    kwargs |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    try:
        process = subprocess.Popen(argv, env=env, start_new_session=True, **kwargs)  # noqa: S603
    except OSError as error:
        raise EnvironmentFault(f"cannot start {argv[0]}: {error.strerror}") from None
    problem = ""
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        problem = f"did not end within {timeout_s:g} s"
        output = _end(process)
    finally:
        _kill(process)
    if process.returncode != 0 and not problem:
        problem = end_words(process.returncode)
    print(output, end="")  # noqa: T201 - pytest captures and shows it
    if problem:
        raise RunError(f"{argv[0]} {problem}: its output is below")
    return subprocess.CompletedProcess(argv, process.returncode, output)


def _end(process: subprocess.Popen[str]) -> str:
    """End a late program: torchrun ends its ranks when it is terminated, not when it is killed."""
    process.terminate()
    try:
        output, _ = process.communicate(timeout=_END_S)
    except subprocess.TimeoutExpired:
        _kill(process)
        output, _ = process.communicate()
    return output


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def notes(folder: Path) -> list[str]:
    """The tracer's messages from the processes."""
    found = []
    for path in sorted(folder.glob("note-*.txt")):
        found += path.read_text().splitlines()
    return found


def require_trace(folder: Path) -> None:
    """Check that a process was traced.

    Raises:
        EnvironmentFault: none was.
    """
    if any(folder.glob("rank-*.jsonl")):
        return
    said = "".join(f"; {note}" for note in notes(folder))
    raise EnvironmentFault(
        f"no process that was started joined a process group, so nothing was traced{said}: "
        f"expected Python processes with a new interpreter (torchrun, subprocess, "
        f"torch.multiprocessing's spawn, not fork) that call torch.distributed.init_process_group"
    )


def _restore(before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
