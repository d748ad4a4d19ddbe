"""Running somebody's command so that the ranks in it are traced, and nothing else is different.

The command keeps its standard streams, its place in the terminal and its exit code. What finds the
ranks travels in two variables of its environment. Imports the standard library and zerosim's L0.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from zerosim.errors import EnvironmentFault

VARIABLE = "ZEROSIM_TRACE"
_PACKAGE = Path(__file__).parents[1]
_INJECTED = Path(__file__).parent / "injected"
_PASSED_ON = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
_IMPATIENT_S = 3.0
"""Who presses Ctrl-C twice within this time has had enough."""


def require_startable(command: Sequence[str]) -> None:
    """See that a command's first word names a program.

    Raises:
        EnvironmentFault: it does not.
    """
    name = command[0]
    if shutil.which(name) is not None:
        return
    path = Path(name)
    why = "it is not found"
    hint = "check its name and the PATH"
    if path.is_dir():
        why = "it is a folder"
    elif path.is_file():
        is_python = path.suffix == ".py"
        why = "it is not a program" if "/" not in name else "it may not be executed"
        hint = f"try -- {'python' if is_python else 'bash'} {shlex.join(command)}"
    raise EnvironmentFault(f"cannot start {name}: {why}; {hint}")


def run_traced(command: Sequence[str], folder: Path, *, memory: bool) -> int:
    """Run a command; each process in it that joins torch.distributed writes its trace.

    Args:
        folder: where the ranks write; the command may change its own working directory.
        memory: whether they look at what is alive, by role.

    Returns:
        The command's exit code; 128 + n if signal n killed it.

    Raises:
        EnvironmentFault: it cannot be started.
    """
    mark = uuid.uuid4().hex
    settings = {
        "folder": str(folder.absolute()),
        "program": shlex.join(command),
        "memory": memory,
        "package": str(_PACKAGE),
        "run": mark,
    }
    paths = [str(_INJECTED), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        VARIABLE: json.dumps(settings),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    # blocked before it starts, so that none is lost; the command begins with the mask we were given
    waited_for = _PASSED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    try:
        process = subprocess.Popen(  # noqa: S603 - a person asked for it
            list(command),
            env=environment,
            close_fds=False,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509
        )
        code = _wait(process, waited_for, mark)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot start {command[0]}: {error.strerror}; name what runs it, as in -- bash "
            f"{command[0]}"
        ) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return code if code >= 0 else 128 - code


def _wait(process: subprocess.Popen[bytes], waited_for: frozenset[int], mark: str) -> int:
    """Wait for a process; hand on what signals it has not got itself."""
    interrupted_s = float("-inf")
    while (code := process.poll()) is None:
        info = signal.sigwaitinfo(waited_for)
        if info.si_signo == signal.SIGCHLD:
            continue
        if info.si_signo == signal.SIGINT:
            now_s = time.monotonic()
            if now_s - interrupted_s < _IMPATIENT_S:
                _kill(mark)
            interrupted_s = now_s
        # what the kernel sends, a terminal's Ctrl-C, goes to all processes there
        is_from_a_process = info.si_code <= 0
        if is_from_a_process:
            process.send_signal(info.si_signo)
    return code


def _kill(mark: str) -> None:
    """End every process of this run at once, wherever it was started."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
