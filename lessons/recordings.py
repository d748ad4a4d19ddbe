"""The runs that lessons look at: recorded once and committed, or recorded anew.

A run is named "SETTING/stage-N": `runs.toml` says what `zerosim run` is told in each setting. The
committed traces stand in for runs where there is no PyTorch, as on a student's tablet.
Imports the standard library and zerosim's L0 and record; PyTorch only in the process it starts.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from zerosim.errors import ClaimFailed, ConfigError, RunError
from zerosim.record import Trace, load

HERE = Path(__file__).parent
COMMITTED = HERE / "traces"
DEADLINE_S = 120


@cache
def settings() -> Mapping[str, Mapping[str, Any]]:
    """What `runs.toml` says of each setting.

    `options` of `zerosim run`, without stage and folder; `stages` whose traces are committed;
    `program`, if there is one, which `torchrun` starts in place of `zerosim run`.
    """
    with (HERE / "runs.toml").open("rb") as file:
        return tomllib.load(file)


def committed() -> tuple[str, ...]:
    """The runs whose traces are committed, by name."""
    return tuple(
        f"{name}/stage-{stage}" for name, entry in settings().items() for stage in entry["stages"]
    )


def can_record() -> bool:
    """True if PyTorch is here."""
    return importlib.util.find_spec("torch") is not None


def record(runs: Sequence[str], folder: Path, changes: Sequence[str] = ()) -> dict[str, Path]:
    """Train and trace for real, all stages of a setting with one command.

    Args:
        runs: by name.
        folder: where the traces go: `folder/SETTING/stage-N`.
        changes: an option and its value, in place of the setting's own, as ("--ranks", "2").

    Returns:
        Where each trace is.

    Raises:
        ConfigError: there is no such run.
        RunError: `zerosim run` failed; with what it said.
    """
    stages: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        setting, stage = _split(run)
        stages[setting].append(stage)
    for setting, chosen in stages.items():
        # a command for one stage writes into the folder itself
        out = folder / setting / f"stage-{chosen[0]}" if len(chosen) == 1 else folder / setting
        options = [*_options(setting, changes), "--stage", ",".join(chosen)]
        start = [sys.executable, "-m", *_starts(setting, options)]
        done = subprocess.run(  # noqa: S603 - our own program
            [*start, "run", *options, "--out", str(out), "--overwrite"],
            capture_output=True,
            check=False,
            text=True,
            timeout=DEADLINE_S,
            env=os.environ | {"OMP_NUM_THREADS": "1"},  # torchrun has a remark where it is not set
        )
        if done.returncode not in (0, ClaimFailed.exit_code):  # a law refuted is a lesson too
            said = (done.stderr or done.stdout).strip()
            raise RunError(f"zerosim run {' '.join(options)} failed: {said}")
    return {run: folder / run for run in runs}


def command_of(run: str, changes: Sequence[str] = ()) -> str:
    """The command that records a run, as a person types it."""
    setting, stage = _split(run)
    options = _options(setting, changes)
    program = settings()[setting].get("program")
    if program is None:
        return " ".join(["zerosim run --stage", stage, *options])
    shown = ["torchrun --nproc-per-node", _num_ranks(options), f"lessons/{program}"]
    return " ".join([*shown, "run --stage", stage, *options])


def _options(setting: str, changes: Sequence[str]) -> list[str]:
    """What `zerosim run` is told; a change stands where the option stood that it replaces."""
    options: list[str] = settings()[setting]["options"].split()
    if changes and changes[0] in options:
        place = options.index(changes[0])
        options[place : place + len(changes)] = changes
        return options
    return [*options, *changes]


def _starts(setting: str, options: Sequence[str]) -> list[str]:
    """The module that starts the ranks of a setting, and what it is told."""
    program = settings()[setting].get("program")
    if program is None:
        return ["zerosim.cli"]
    ranks = ["--nproc-per-node", _num_ranks(options)]
    return ["torch.distributed.run", "--standalone", *ranks, str(HERE / program)]


def _num_ranks(options: Sequence[str]) -> str:
    """The last word on the number of ranks."""
    places = [place for place, option in enumerate(options) if option == "--ranks"]
    return options[places[-1] + 1]


def _split(run: str) -> tuple[str, str]:
    setting, _, stage = run.partition("/stage-")
    if setting not in settings() or stage not in {"0", "1", "2", "3"}:
        raise ConfigError(
            f"run is {run!r}: expected SETTING/stage-N with a setting of {', '.join(settings())}"
        )
    return setting, stage


class Recordings:
    """Traces by the names of their runs; each is read once.

    Attributes:
        fresh: runs recorded anew, and where.
    """

    def __init__(self, fresh: Mapping[str, Path] | None = None) -> None:
        self.fresh = dict(fresh or {})
        self._traces: dict[Path, Trace] = {}

    def folder(self, run: str) -> Path:
        """Where a run's trace is.

        Raises:
            ConfigError: there is no such run.
        """
        _split(run)
        return self.fresh.get(run, COMMITTED / run)

    def trace(self, run: str) -> Trace:
        """A run's trace.

        Raises:
            ConfigError: there is no such run.
            TraceError: it cannot be read.
        """
        folder = self.folder(run)
        if folder not in self._traces:
            self._traces[folder] = load(folder)
        return self._traces[folder]
