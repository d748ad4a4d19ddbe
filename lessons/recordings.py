"""The runs that lessons look at: recorded once and committed, or recorded anew.

The name of a run is "SETTING/stage-N", or "SETTING/ddp" for an implementation other than zerosim's
engine; `runs.toml` has the options of `zerosim run` or `zerosim profiles` in each setting. The
committed traces replace recordings if there is no PyTorch, as on a student's tablet.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zerosim.base.config import STAGES, Implementation
from zerosim.base.errors import ClaimFailed, ConfigError, RunError
from zerosim.base.language import in_each_language, overlaid
from zerosim.schema.rows import encode_manifest
from zerosim.view.reading import Run, load

HERE = Path(__file__).resolve().parent
"""In a checkout `lessons/` itself, not the link to it."""
COMMITTED = HERE / "traces"
DEADLINE_S = 120
_STAGE = "stage-"
_IMPLEMENTATIONS = "implementations"
"""In a setting with runs of `zerosim profiles`."""
_SAYS = "says"
"""In a setting with paused ranks: the commands for `zerosim debug`."""
SESSION = "session.txt"
"""Beside the trace of such a run: the commands and the replies."""
_SIGN = "(zerosim) "
_LET_GO = "detached: the ranks run on"
_DISK = "disk"
"""The folder of `--nvme-path` in `runs.toml` and in a manifest; a new one for each recording."""
_OUT = "traces"
"""A trace's own folder, in the command that its manifest names."""
_RESUME = "--resume"


@in_each_language
def settings() -> Mapping[str, Mapping[str, Any]]:
    """The contents of `runs.toml` for each setting.

    `options` of the command, without the run's name and folder. For `zerosim run`, the `stages`
    with committed traces, and `program`, if there is one, which `torchrun` starts instead; for
    `zerosim profiles`, the `implementations` with committed traces. `before` is a program that
    torchrun starts first and that is killed, with the same disk; a run that `fails` runs out of
    device memory, or has a culprit. `says` are the debugger's commands, by the part of the session.
    A `dry` setting is one of `zerosim simulate`. A `given` one was recorded once on a machine with
    a GPU: it cannot be recorded again.
    Figures name a run by its `title`, with its stage in place of the brace.
    """
    return overlaid(HERE / "runs.toml")


def committed() -> tuple[str, ...]:
    """The runs with committed traces, by name."""
    return tuple(
        f"{name}/{trace}"
        for name, entry in settings().items()
        for trace in entry.get(_IMPLEMENTATIONS) or (f"{_STAGE}{each}" for each in entry["stages"])
    )


def can_record() -> bool:
    """True if PyTorch is here."""
    return importlib.util.find_spec("torch") is not None


def is_given(run: str) -> bool:
    """True if it was recorded once, on a machine that is not at hand."""
    return bool(settings()[_split(run)[0]].get("given"))


def record(runs: Sequence[str], folder: Path, changes: Sequence[str] = ()) -> dict[str, Path]:
    """Train and trace all runs of a setting with one command; a program trains one.

    Args:
        runs: names of the runs.
        folder: folder of the traces: `folder/SETTING/stage-N`, or `folder/SETTING/ddp`.
        changes: an option and its value, in place of the setting's own, as ("--ranks", "2").

    Returns:
        The folder of each trace.

    Raises:
        ConfigError: there is no such run, or it cannot be recorded again.
        RunError: the command failed; with its output.
    """
    for run in filter(is_given, runs):
        raise ConfigError(
            f"run is {run!r}: it was recorded on a GPU, once; expected one that a command records"
        )
    for setting, chosen in _at_once(runs):
        out = folder / setting
        if not _is_profiled(setting) and len(chosen) == 1:
            out /= chosen[0]  # for one stage `zerosim run` writes into the folder itself
        if "program" in settings()[setting]:
            shutil.rmtree(out, ignore_errors=True)  # a program overwrites no trace
        with tempfile.TemporaryDirectory(prefix="zerosim-disk-") as disk:
            options = [disk if word == _DISK else word for word in _options(setting, changes)]
            ways = _chosen(setting, chosen)
            if before := settings()[setting].get("before"):
                own = [word for word in options if word != _RESUME]
                _run_until_killed(before, [*own, *ways], Path(disk))
            command = [*_command(setting), *options, *ways]
            into = ["--out", str(out), "--overwrite"]
            said = "".join(f"{one}\n" for one in _said(setting))
            done = _start([*_starts(setting, options), *command, *into], said)
            if said and done.returncode == 0:
                session = done.stdout.partition(_LET_GO)[0] + f"{_LET_GO}\n"
                (out / SESSION).write_text(session, encoding="utf-8")
            _forget_places(out, {disk: _DISK, str(out): _OUT})
        expected: tuple[int, ...] = (0, ClaimFailed.exit_code)  # a claim that fails is a lesson too
        if settings()[setting].get("fails"):
            expected = (RunError.exit_code,)
            for said_to_a_programmer in out.rglob("*.error.txt"):  # the trace has it too
                said_to_a_programmer.unlink()
        if done.returncode not in expected:
            answer = (done.stderr or done.stdout).strip()
            raise RunError(f"zerosim {' '.join(command)} ended with {done.returncode}: {answer}")
    return {run: folder / run for run in runs}


def _at_once(runs: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """By setting, the names that one command records."""
    names: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        setting, name = _split(run)
        names[setting].append(name)
    for setting, chosen in names.items():
        if "program" in settings()[setting]:
            yield from ((setting, [name]) for name in chosen)
        else:
            yield setting, chosen


def _said(setting: str) -> list[str]:
    """The debugger's commands for the ranks of a setting; empty without a debugger."""
    parts: Mapping[str, list[str]] = settings()[setting].get(_SAYS, {})
    return [one for part in parts.values() for one in part]


def session_of(run: str, folder: Path) -> Mapping[str, list[tuple[str, list[str]]]]:
    """By the part of a session, each command and its reply, in order.

    Args:
        folder: the folder of the run's trace.
    """
    lines = (folder / SESSION).read_text(encoding="utf-8").splitlines()
    answers: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(_SIGN):
            answers.append((line.removeprefix(_SIGN), []))
        elif answers:
            answers[-1][1].append(line)
    following = iter(answers)
    parts: Mapping[str, list[str]] = settings()[_split(run)[0]][_SAYS]
    return {name: [next(following) for _ in part] for name, part in parts.items()}


def _start(words: Sequence[str], said: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", *words],
        capture_output=True,
        check=False,
        text=True,
        input=said,
        timeout=DEADLINE_S,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # torchrun prints a remark if it is not set
    )


def _run_until_killed(program: str, options: Sequence[str], disk: Path) -> None:
    """Leave on a disk the state of a killed run.

    Raises:
        RunError: it was not.
    """
    into = ["--out", str(disk / "killed"), "--overwrite"]
    done = _start([*_torchrun(program, options), "run", *options, *into])
    if done.returncode == 0:
        raise RunError(f"lessons/{program} ended by itself: expected that it is killed")


def _forget_places(folder: Path, names: Mapping[str, str]) -> None:
    """Manifests name no folder of the machine: the trace's own may be moved, the disk is gone."""
    for path in folder.rglob("manifest.json"):
        manifest = load(path.parent).trace.manifest
        config = {
            name: names.get(value, value) if isinstance(value, str) else value
            for name, value in manifest.config.items()
        }
        program = " ".join(names.get(word, word) for word in manifest.program.split(" "))
        path.write_bytes(encode_manifest(replace(manifest, config=config, program=program)))


def command_of(run: str, changes: Sequence[str] = ()) -> str:
    """The command that records a run, as a person types it."""
    setting, name = _split(run)
    options = _options(setting, changes)
    command = [*_command(setting), *_chosen(setting, [name]), *options]
    program = settings()[setting].get("program")
    if program is None:
        return " ".join(["zerosim", *command])
    shown = ["torchrun --nproc-per-node", _num_ranks(options), f"lessons/{program}"]
    return " ".join([*shown, *command])


def is_profiled(run: str) -> bool:
    """True for an implementation other than zerosim's engine."""
    return _is_profiled(_split(run)[0])


def name_in(run: str) -> str:
    """The name of a run in its setting: "stage-2", "ddp"."""
    return _split(run)[1]


def title_of(run: str) -> str:
    """The run's name in `runs.toml`; "" if its stage identifies it."""
    setting, name = _split(run)
    title = str(settings()[setting].get("title", ""))
    return title.format(stage=name.removeprefix(_STAGE))


def _is_profiled(setting: str) -> bool:
    return _IMPLEMENTATIONS in settings()[setting]


def _command(setting: str) -> list[str]:
    if settings()[setting].get("dry"):
        return ["simulate"]
    if _SAYS in settings()[setting]:
        return ["debug", "--no-browser"]
    return ["profiles"] if _is_profiled(setting) else ["run"]


def _chosen(setting: str, names: Sequence[str]) -> list[str]:
    """The option that selects runs of a setting."""
    if _is_profiled(setting):
        return ["--only", ",".join(names)]
    return ["--stage", ",".join(name.removeprefix(_STAGE) for name in names)]


def _options(setting: str, changes: Sequence[str]) -> list[str]:
    """The command's arguments; a change is in the position of the option that it replaces."""
    options: list[str] = settings()[setting]["options"].split()
    if changes and changes[0] in options:
        place = options.index(changes[0])
        options[place : place + len(changes)] = changes
        return options
    return [*options, *changes]


def _starts(setting: str, options: Sequence[str]) -> list[str]:
    """The module that starts the ranks of a setting, and its arguments."""
    program = settings()[setting].get("program")
    if program is None:
        return ["zerosim"]
    return _torchrun(program, options)


def _torchrun(program: str, options: Sequence[str]) -> list[str]:
    ranks = ["--nproc-per-node", _num_ranks(options)]
    return ["torch.distributed.run", "--standalone", *ranks, str(HERE / program)]


def _num_ranks(options: Sequence[str]) -> str:
    """The last word on the number of ranks."""
    places = [place for place, option in enumerate(options) if option == "--ranks"]
    return options[places[-1] + 1]


def _split(run: str) -> tuple[str, str]:
    """A run's setting, and its name in it."""
    setting, _, name = run.partition("/")
    if setting not in settings():
        raise ConfigError(
            f"run is {run!r}: expected SETTING/NAME with a setting of {', '.join(settings())}"
        )
    known = list(Implementation) if _is_profiled(setting) else [f"{_STAGE}{n}" for n in STAGES]
    if name not in known:
        raise ConfigError(f"run is {run!r}: expected {setting}/NAME with one of {', '.join(known)}")
    return setting, name


class LessonRecordings:
    """Runs by their names; each is read once.

    Attributes:
        fresh: runs recorded again, with their folders.
    """

    def __init__(self, fresh: Mapping[str, Path] | None = None) -> None:
        self.fresh = dict(fresh or {})
        self._runs: dict[Path, Run] = {}

    def folder(self, run: str) -> Path:
        """The folder of a run's trace.

        Raises:
            ConfigError: there is no such run.
        """
        _split(run)
        return self.fresh.get(run, COMMITTED / run)

    def run(self, run: str) -> Run:
        """A run by its name.

        Raises:
            ConfigError: there is no such run.
            TraceError: it cannot be read.
        """
        folder = self.folder(run)
        if folder not in self._runs:
            self._runs[folder] = load(folder)
        return self._runs[folder]
