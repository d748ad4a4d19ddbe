"""Runs that are recorded once for all tests, in whichever process they run; never written."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.cli.command import Answer, command
from tests.ranks import run_ranks
from zerosim.base.config import Implementation, RunConfig
from zerosim.cli.jobs import launch_job
from zerosim.train.launch.job import Job


def recorded(steps: int, **options: object) -> tuple[Path, Answer]:
    """Run all stages of the MLP, or find the run that was like it.

    Args:
        options: of the command, by name; True for a flag.

    Returns:
        The folder with one trace a stage, and what the command said.
    """
    chosen = sorted({"model": "mlp", "dtype": "bf16", "steps": steps, **options}.items())
    flags = [
        part
        for name, value in chosen
        for part in ([f"--{name}"] if value is True else [f"--{name}", value])
    ]

    def make(folder: Path) -> dict[str, Any]:
        return asdict(command("run", "--stage", "all", "--out", folder, *flags))

    folder, said = _once(" ".join(map(str, flags)), make)
    return folder, Answer(**said)


def recorded_family(
    num_ranks: int,
    train: Callable[[str, dict[str, Any]], None],
    cases: dict[str, Any],
    name: str = "family",
) -> Path:
    """The folder with one trace a case, by its name.

    Args:
        train: what each rank runs, with the folder and the cases.
        name: of the cases; others on as many ranks have another.
    """
    folder, _ = _once(
        f"{name} of {num_ranks}", lambda folder: run_ranks(train, num_ranks, str(folder), cases)
    )
    return folder


def recorded_run(*options: object) -> Path:
    """The folder of what `zerosim OPTIONS` recorded: a run, or several of them."""

    def make(folder: Path) -> int:
        answer = command(*options, "--out", folder, "--overwrite")
        assert answer.code in (0, 1), answer.err
        return answer.code

    return _once(" ".join(map(str, options)), make)[0]


def recorded_systems(run: RunConfig, names: Sequence[Implementation]) -> Path:
    """The folder with one trace a system that trained this, by its name."""

    def make(folder: Path) -> None:
        with ExitStack() as held:
            launch_job(Job(run, tuple((name, folder / name) for name in names)), held)

    return _once(f"{' '.join(names)} {_digest(run)}", make)[0]


def _digest(run: RunConfig) -> str:
    return hashlib.sha256(json.dumps(run.to_plain()).encode()).hexdigest()[:12]


def _once(name: str, make: Callable[[Path], Any]) -> tuple[Path, Any]:
    """A folder and the result of making it; other processes that need it wait until it exists."""
    home = Path(os.environ["ZEROSIM_TESTS_RECORDED"])
    folder, answer = home / name, home / f"{name}.json"
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            folder.mkdir()
            answer.write_text(json.dumps(make(folder)))
    return folder, json.loads(answer.read_text())
