"""Runs of all stages, recorded once and read by all tests that ask for the same; never written."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from tests.cli.command import Answer, command


@cache
def _home() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="zerosim-recorded-")  # removed as the process ends


def recorded(steps: int, **options: object) -> tuple[Path, Answer]:
    """Run all stages of the MLP, or find the run that was like it.

    Args:
        options: of the command, by name; True for a flag.

    Returns:
        The folder with one trace a stage, and what the command said.
    """
    chosen = {"model": "mlp", "dtype": "bf16", "steps": steps, **options}
    return _run(tuple(sorted(chosen.items())))


@cache
def _run(options: tuple[tuple[str, object], ...]) -> tuple[Path, Answer]:
    folder = Path(tempfile.mkdtemp(dir=_home().name))
    flags = [
        part
        for name, value in options
        for part in ([f"--{name}"] if value is True else [f"--{name}", value])
    ]
    return folder, command("run", "--stage", "all", "--out", folder, *flags)
