"""Runs a user's command with its ranks traced and nothing else changed.

The command keeps its standard streams, its terminal and its exit code. Two environment variables
carry the information for the ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerosim.base.config import Light
from zerosim.base.errors import EnvironmentFault
from zerosim.schema.attach import ATTACH_VARIABLE
from zerosim.schema.faults import Fault
from zerosim.train.launch.silence import Silence

VARIABLE = "ZEROSIM_TRACE"
_PACKAGE = Path(__file__).parents[2]
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
_FROM_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT})
_LOOK_S = 0.5
_PATIENCE_S = 60.0
"""Ranks that write nothing during a call for this long are considered to hang."""
_IMPATIENT_S = 3.0
"""Pressing Ctrl-C twice within this time kills the command."""


def require_startable(command: Sequence[str]) -> None:
    """Check that a command's first word names a program.

    Raises:
        EnvironmentFault: it does not.
    """
    name = command[0]
    if shutil.which(name) is not None:
        return
    path = Path(name)
    why = "not found"
    hint = "check its name and the PATH"
    if path.is_dir():
        why = "it is a folder"
    elif path.is_file():
        is_python = path.suffix == ".py"
        why = "it is not a program" if "/" not in name else "it is not executable"
        hint = f"try -- {'python' if is_python else 'bash'} {shlex.join(command)}"
    raise EnvironmentFault(f"cannot start {name}: {why}; {hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What the processes of a command record, and the faults to inject.

    Attributes:
        memory: whether to record live tensors, by role.
        light: the extent of a light trace; None for a full trace.
        faults: faults to inject, each on its rank.
        check_replicas: interval of iterations with checksums; 0 for none.
        token: the token with which a debugger may attach later; "" if none may attach.
    """

    memory: bool = True
    light: Light | None = None
    faults: Sequence[Fault] = ()
    check_replicas: int = 0
    token: str = ""

    def to_plain(self) -> dict[str, object]:
        """The settings as the text that the processes read."""
        return {
            "memory": self.memory,
            "light": None if self.light is None else self.light.to_plain(),
            "faults": [str(one) for one in self.faults],
            "check_replicas": self.check_replicas,
        }


def run_traced(command: Sequence[str], folder: Path, recording: Recording) -> int:
    """Run a command; each process in it that joins torch.distributed writes its trace.

    Args:
        folder: the folder of the ranks' files; the command may change its working directory.

    Returns:
        The command's exit code; 128 + n if signal n killed it.

    Raises:
        EnvironmentFault: it cannot be started.
    """
    mark = uuid.uuid4().hex
    added = injection(folder, shlex.join(command), os.environ, recording, mark=mark)
    if recording.token:
        added[ATTACH_VARIABLE] = recording.token
    environment = os.environ | added
    with _signals() as arriving, _looking(folder):
        process = start_command(command, environment, close_fds=False)
        code = _wait(process, arriving, mark)
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _looking(folder: Path) -> Iterator[None]:
    """Report once that ranks hang; the program or the user decides what to do."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            if said := hanging(folder, silences, time.monotonic()):
                sys.stderr.write(said)
                sys.stderr.flush()
                return

    silences: dict[int, Silence] = {}
    thread = threading.Thread(target=look, name="zerosim-hangs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=_LOOK_S)


def hanging(folder: Path, silences: dict[int, Silence], now_s: float) -> str:
    """A message that ranks have written nothing during a call for long; "" if they have.

    Args:
        silences: earlier observations, by number of ranks; updated here.
    """
    count = sum(1 for _ in folder.glob("rank-*.jsonl"))
    if not count:
        return ""
    silence = silences.setdefault(count, Silence([folder], count, _PATIENCE_S))
    if not silence.is_over(now_s):
        return ""
    return (
        f"zerosim: no rank has written a row for {_PATIENCE_S:g} s during a call: "
        f"zerosim diagnose {folder} names the faulty rank; the program continues\n"
    )


def start_command(
    command: Sequence[str], environment: Mapping[str, str], **how: Any
) -> subprocess.Popen[bytes]:
    """Start a command.

    Args:
        how: arguments of `subprocess.Popen`.

    Raises:
        EnvironmentFault: it cannot be started.
    """
    try:
        return subprocess.Popen(list(command), env=environment, **how)  # noqa: S603
    except OSError as error:
        raise EnvironmentFault(
            f"cannot start {command[0]}: {error.strerror}; name its interpreter, as in -- bash "
            f"{command[0]}"
        ) from None


def injection(
    folder: Path,
    program: str,
    before: Mapping[str, str],
    recording: Recording,
    *,
    mark: str = "",
) -> dict[str, str]:
    """The environment that makes each Python process trace itself once it joins a process group.

    Args:
        folder: folder of the trace.
        program: its name in the manifest.
        before: the environment to extend.
        mark: a text that identifies the processes later.
    """
    settings = {
        "folder": str(folder.absolute()),
        "program": program,
        **recording.to_plain(),
        "package": str(_PACKAGE),
        "run": mark,
    }
    paths = [str(_INJECTED), *filter(None, [before.get("PYTHONPATH")])]
    return {VARIABLE: json.dumps(settings), "PYTHONPATH": os.pathsep.join(paths)}


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Write signals to a pipe, whichever thread gets them; yields its reading end."""
    # an ignored signal (nohup) stays ignored, also for the command
    numbers = [n for n in _PASSED_ON if signal.getsignal(n) is not signal.SIG_IGN]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = {n: signal.signal(n, lambda *_: None) for n in (*numbers, signal.SIGCHLD)}
    waking = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(waking)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _wait(process: subprocess.Popen[bytes], arriving: int, mark: str) -> int:
    """Wait for a process; forward signals that it did not receive itself."""
    interrupted_s = float("-inf")
    while (code := process.poll()) is None:
        for number in os.read(arriving, 64):
            if number not in _PASSED_ON:
                continue
            if number == signal.SIGINT:
                now_s = time.monotonic()
                if now_s - interrupted_s < _IMPATIENT_S:
                    _kill(mark)
                interrupted_s = now_s
            if number not in _FROM_TERMINAL or not _is_in_foreground():
                process.send_signal(number)
    return code


def _is_in_foreground() -> bool:
    """Whether a terminal's Ctrl-C reaches this process: then the command received it as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _kill(mark: str) -> None:
    """End every process of this run at once, wherever it was started."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
