"""Running somebody's command so that the ranks in it are traced, and nothing else is different.

The command keeps its standard streams, its place in the terminal and its exit code. What finds the
ranks travels in two variables of its environment.
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
"""Ranks that are silent in a call for so long hang."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What the processes of a command record, and what goes wrong in them on purpose.

    Attributes:
        memory: whether they look at what is alive, by role.
        light: what a light trace keeps; None for a trace of everything.
        faults: what goes wrong, on whichever rank.
        check_replicas: at each so manyth iteration checksums are written down; 0 for none.
        token: of who may hold the ranks later; "" if nobody may.
    """

    memory: bool = True
    light: Light | None = None
    faults: Sequence[Fault] = ()
    check_replicas: int = 0
    token: str = ""

    def to_plain(self) -> dict[str, object]:
        """As the processes read it."""
        return {
            "memory": self.memory,
            "light": None if self.light is None else self.light.to_plain(),
            "faults": [str(one) for one in self.faults],
            "check_replicas": self.check_replicas,
        }


def run_traced(command: Sequence[str], folder: Path, recording: Recording) -> int:
    """Run a command; each process in it that joins torch.distributed writes its trace.

    Args:
        folder: where the ranks write; the command may change its own working directory.

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
    """Say, once, that ranks hang; what becomes of them is for the program, or a person, to say."""
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
    """That the ranks of a trace have been silent in a call for long; "" if they have not.

    Args:
        silences: what was seen before, by number of ranks; filled in here.
    """
    count = sum(1 for _ in folder.glob("rank-*.jsonl"))
    if not count:
        return ""
    silence = silences.setdefault(count, Silence([folder], count, _PATIENCE_S))
    if not silence.is_over(now_s):
        return ""
    return (
        f"zerosim: no rank has written a row for {_PATIENCE_S:g} s while a call was under way: "
        f"zerosim diagnose {folder} says who is at fault; the program is left alone\n"
    )


def start_command(
    command: Sequence[str], environment: Mapping[str, str], **how: Any
) -> subprocess.Popen[bytes]:
    """Start a command.

    Args:
        how: as `subprocess.Popen` takes it.

    Raises:
        EnvironmentFault: it cannot be started.
    """
    try:
        return subprocess.Popen(list(command), env=environment, **how)  # noqa: S603
    except OSError as error:
        raise EnvironmentFault(
            f"cannot start {command[0]}: {error.strerror}; name what runs it, as in -- bash "
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
    """What makes each Python process that joins a process group record itself.

    Args:
        folder: of the trace.
        program: what the manifest shall call it.
        before: the environment that this is added to.
        mark: by which the processes can be found again.
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
    """Have signals written to a pipe, whichever thread gets them; yields where to read them."""
    # one that is ignored (nohup) stays ignored, for the command too
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
    """Wait for a process; hand on what signals it has not got itself."""
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
    """Whether a terminal's Ctrl-C comes to this process: then it came to the command as well."""
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
