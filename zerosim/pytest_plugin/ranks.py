"""Starting ranks for a function of a test, and telling how it went.

The test's process gives a request to a process of its own (`rank`), and reads the answers.
Imports zerosim's L0, record and launch's doors.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from zerosim.errors import ConfigError, RunError
from zerosim.launch.doors import own_interface, require_loopback
from zerosim.pytest_plugin.options import Options
from zerosim.pytest_plugin.rank import ANSWER, Answer, Request
from zerosim.record.postmortem import end_words

_START_S = 60.0
"""How long it may take until there are ranks, and until they are gone."""
_DEFAULTS = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from zerosim.pytest_plugin.rank import main; main(sys.argv[2])"
)


def run_ranks(
    function: Callable[..., Any],
    num_ranks: int,
    call: tuple[tuple[Any, ...], dict[str, Any]],
    *,
    home: Path,
    backend: str,
    name: str,
    options: Options,
) -> list[Any]:
    """Call a function on several ranks, each traced.

    Args:
        call: arguments and named arguments.
        home: a new folder; the trace is in `trace` below it.
        name: of the test.

    Returns:
        What each rank returned, by rank.

    Raises:
        ConfigError: the function or an argument cannot be handed to another process.
        EnvironmentFault: there is no loopback.
        RunError: a rank raised, died, or did not end in time; with its traceback.
    """
    if isinstance(num_ranks, bool) or not isinstance(num_ranks, int) or num_ranks < 1:
        raise ConfigError(f"ranks is {num_ranks!r}: expected a whole number of 1 or more")
    require_loopback()
    request = Request(
        call=_pickle(function, call),
        files=_files(function),
        num_ranks=num_ranks,
        backend=backend,
        traces=str(home / "trace"),
        program=f"pytest {name}",
        options=options,
    )
    (home / "request").write_bytes(pickle.dumps(request))
    process = subprocess.Popen(  # noqa: S603 - this interpreter
        (sys.executable, "-c", _BEGIN, json.dumps(sys.path), str(home)),
        stdin=subprocess.DEVNULL,
        env=_DEFAULTS | os.environ | own_interface(),
        start_new_session=True,
    )
    try:
        process.wait(options.timeout_s + _START_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    answers = [_read(home / ANSWER.format(rank=rank)) for rank in range(num_ranks)]
    (home / "request").unlink()
    if any(answer is None or answer.value is None for answer in answers):
        raise RunError(_words(function, answers, options.timeout_s))
    return [pickle.loads(answer.value) for answer in answers if answer and answer.value]  # noqa: S301


def _pickle(function: Callable[..., Any], call: tuple[tuple[Any, ...], dict[str, Any]]) -> bytes:
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise ConfigError(f"run was given {function!r}: expected a function")
    try:
        pickle.dumps(function)
    except Exception as error:  # noqa: BLE001 - pickle raises what an object likes
        raise ConfigError(
            f"{name} cannot be handed to ranks, which are processes of their own ({error}): "
            f"expected a function at the top of its module"
        ) from None
    try:
        return pickle.dumps((function, *call))
    except Exception as error:  # noqa: BLE001 - likewise
        raise ConfigError(
            f"an argument of {name} cannot be handed to ranks, which are processes of their own "
            f"({error}): expected numbers, texts, tensors and the like; make the rest in {name}"
        ) from None


def _files(function: Callable[..., Any]) -> dict[str, str]:
    """Where this process has the project's modules from: ranks may not find them by name."""
    own = getattr(function, "__module__", "")
    paths = sysconfig.get_paths()
    installed = tuple(f"{paths[name]}{os.sep}" for name in ("stdlib", "purelib", "platlib"))
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name == "__main__":
            continue
        if name == own or not file.startswith(installed):
            found[name] = file
    return found


def _read(path: Path) -> Answer | None:
    if not path.exists():
        return None
    answer: Answer = pickle.loads(path.read_bytes())  # noqa: S301 - a rank wrote it
    path.unlink()
    return answer


def _words(function: Callable[..., Any], answers: list[Answer | None], timeout_s: float) -> str:
    """What went wrong: the first failure in full, those that followed from it in a line."""
    name = getattr(function, "__qualname__", repr(function))
    failed = sorted(
        ((rank, answer) for rank, answer in enumerate(answers) if answer and answer.problem),
        key=lambda found: found[1].time_s,
    )
    of = f"of {len(answers)}"
    # a rank that was killed is why others failed, whoever was first to say so
    codes = {rank: answer.code for rank, answer in enumerate(answers) if answer}
    killed = {rank: code for rank, code in codes.items() if code is not None}
    lines = [f"rank {rank} {of} {end_words(code)} in {name}" for rank, code in killed.items()]
    for rank, answer in failed[:1]:
        lines += [f"rank {rank} {of} failed in {name}:", "", answer.problem.rstrip()]
    for rank, answer in failed[1:]:
        lines += ["", f"rank {rank}, later: {answer.problem.rstrip().splitlines()[-1]}"]
    for rank, each in enumerate(answers):
        if rank in killed or (each and (each.value or each.problem)):
            continue
        if lines:
            lines += ["", f"rank {rank} was still running, and was ended"]
        else:
            lines.append(f"rank {rank} {of} did not end {name} within {timeout_s:g} s")
    return "\n".join(lines)
