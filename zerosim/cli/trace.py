"""`zerosim trace -- COMMAND`: trace an unchanged program."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.base.config import Light
from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.cli.configured import with_options
from zerosim.cli.ending import lines_about
from zerosim.cli.folders import NOTES, RANK_FILES, moment, reserve
from zerosim.cli.options import CheckReplicas, Debuggable, Faults, faults_of, integer
from zerosim.schema.attach import new_token
from zerosim.schema.faults import Fault, FaultKind
from zerosim.schema.rows import last_row
from zerosim.train.launch.command import Recording, require_startable, run_traced
from zerosim.train.launch.loopback import require_loopback

_LIGHT = {one.name: one for one in Light.options()}
_MOST_NOTES = 8
_LONGEST_LAST_ROW = 4096
_LONGEST_HEADER = 65536


def _of_light(name: str) -> Any:
    """An option of a light trace, as it is declared."""
    one = _LIGHT[name]
    return integer(
        f"With --light: {one.option.help[0].lower()}{one.option.help[1:]} [default: {one.default}]"
    )


@with_options(
    "command out overwrite memory light fault check_replicas debuggable every keep",
    fault=(Faults, None),
    debuggable=(Debuggable, False),
    check_replicas=(CheckReplicas, None),
)
def trace(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="The command to run, after --: torchrun ... train.py, or python train.py."
        ),
    ] = None,
    *,
    out: Annotated[Path | None, typer.Option(help="Folder for the trace.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the trace that is already in the folder.")
    ] = False,
    memory: Annotated[bool, typer.Option(help="Record the live tensors, by role.")] = True,
    light: Annotated[
        bool,
        typer.Option(
            "--light",
            help=(
                "For long jobs: record only collectives and bytes of some iterations, in "
                "files of limited size."
            ),
        ),
    ] = False,
    every: Annotated[int | None, _of_light("every")] = None,
    keep: Annotated[int | None, _of_light("keep")] = None,
    **options: Any,
) -> int:
    """Run a program unchanged and record its ranks' traffic; exit with its exit code."""
    if not command:
        raise ConfigError(
            "no command: expected one after --, as in "
            "zerosim trace -- torchrun --nproc-per-node 2 train.py"
        )
    sampled = _light(is_light=light, every=every, keep=keep)
    require_startable(command)
    faults, check_replicas = faults_of(options["fault"]), options["check_replicas"] or 0
    _require_able(faults, memory=memory, is_light=light)
    folder = out or _default_folder(command)
    is_new = not folder.exists()
    with ExitStack() as held:
        reserve(folder, held, overwrite=overwrite)
        held.callback(_remove_empty, folder, is_new=is_new)
        _tell(_foreseen())
        code = run_traced(
            command,
            folder,
            Recording(
                memory=memory,
                light=sampled,
                faults=faults,
                check_replicas=check_replicas,
                token=new_token() if options["debuggable"] else "",
            ),
        )
        ending = [f"zerosim: {line}" for line in (lines_about(folder) if code else ())]
        _tell(_report(folder, ending))
    return code


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{line}\n")


def _foreseen() -> list[str]:
    """Report problems that ranks of this host will have; the program is started anyway, as it may
    have no ranks.
    """
    try:
        require_loopback()
    except EnvironmentFault as error:
        return [f"zerosim: {error}; the program starts without it"]
    return []


def _require_able(faults: Sequence[Fault], *, memory: bool, is_light: bool) -> None:
    """Check that these faults can be injected, as far as that is known before the program runs.

    Raises:
        ConfigError: one cannot.
    """
    for one in faults:
        if one.kind is FaultKind.SLOW_LINK:
            raise ConfigError(
                f"fault {one}: the backend sends a program's messages, which zerosim "
                "cannot change; try zerosim run, which sends its own"
            )
        if one.kind is FaultKind.FLIP_PARAMETER and (is_light or not memory):
            raise ConfigError(f"fault {one}: it needs the live tensors: expected --memory")
        if one.kind in (FaultKind.SLOW, FaultKind.DIE_WRITING) and is_light:
            raise ConfigError(
                f"fault {one}: a light trace does not record such tensors: leave --light out"
            )


def _light(*, is_light: bool, **given: int | None) -> Light | None:
    """The extent of a light trace; None for a full one.

    Raises:
        ConfigError: an option of it is set without a light trace, or is invalid.
    """
    said = {name: value for name, value in given.items() if value is not None}
    if is_light:
        return Light(**said)
    for name, value in said.items():
        raise ConfigError(f"{name} is {value} without light: expected --light with it")
    return None


def _default_folder(command: list[str]) -> Path:
    scripts = [Path(word).stem for word in command if word.endswith(".py")]
    name = scripts[0] if scripts else Path(command[0]).name
    return Path("traces") / f"{name}-{moment()}"


def _remove_empty(folder: Path, *, is_new: bool) -> None:
    if is_new:
        with contextlib.suppress(OSError):
            folder.rmdir()


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The first and last rows of a rank's file, without reading those in between."""

    rank: int
    num_ranks: int
    has_end: bool


def _look(path: Path) -> _Recorded | None:
    """The ends of a rank's file; None if not even the header is complete."""
    with path.open("rb") as file:
        try:
            header = json.loads(file.readline(_LONGEST_HEADER))
            rank, num_ranks = int(header["rank"]), int(header["num_ranks"])
        except (ValueError, KeyError, TypeError):
            return None
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _LONGEST_LAST_ROW))
        last = last_row(file.read())
    return _Recorded(rank, num_ranks, last.startswith(b'{"row":"end"'))


def _report(folder: Path, ending: Sequence[str] = ()) -> list[str]:
    """The recorded ranks, the missing ones, and the next command.

    Args:
        ending: why it ended badly, if it did.
    """
    seen = sorted(
        filter(None, map(_look, folder.glob(RANK_FILES))), key=lambda recorded: recorded.rank
    )
    notes = _notes(folder)
    if not seen:
        nothing = (
            "zerosim: nothing was recorded: no traceable process joined "
            "torch.distributed (python -I, -E, -S or another PYTHONPATH prevents tracing)"
        )
        return notes or [nothing]
    num_ranks = max(recorded.num_ranks for recorded in seen)
    here = f"{len(seen)} ranks" if len(seen) > 1 else "1 rank"
    of_all = f" of {num_ranks}" if len(seen) < num_ranks else ""
    lines = [f"zerosim: {here}{of_all} recorded in {folder}"]
    cut = [recorded.rank for recorded in seen if not recorded.has_end]
    if cut:
        lines.append(
            f"zerosim: {_name(cut)} ended before the trace could be closed (killed, or os._exit): "
            "the trace is complete up to that point"
        )
    missing = sorted(set(range(num_ranks)) - {recorded.rank for recorded in seen})
    if missing:
        lines.append(
            f"zerosim: {_name(missing)} recorded nothing here; files from another host belong in "
            "the same folder"
        )
    lines += notes
    lines += ending
    # for an incomplete trace, verify judges the iterations that all ranks finished
    names = ("show", "graph") if missing else ("verify", "show", "graph", "replay")
    names = ("diagnose", *names) if ending else names
    lines += [f"next: zerosim {name} {folder}" for name in names]
    return lines


def _notes(folder: Path) -> list[str]:
    """The tracer's messages of the ranks, each once."""
    texts = [path.read_text(errors="replace") for path in sorted(folder.glob(NOTES))]
    notes = list(dict.fromkeys(line for text in texts for line in text.splitlines()))
    lines = [f"zerosim: {note}" for note in notes[:_MOST_NOTES]]
    if len(notes) > _MOST_NOTES:
        lines.append(f"zerosim: {len(notes) - _MOST_NOTES} more notes in {folder}/{NOTES}")
    return lines


def _name(ranks: list[int]) -> str:
    """Ranks in words; three or more consecutive ones as a range."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    names = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(names)}"
