"""`zerosim profiles`: the same training with every installed implementation, in one table."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from zerosim.base.config import STAGES, EngineConfig, Implementation, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import PSI, format_decimal
from zerosim.cli.configured import say_what_is_taken
from zerosim.cli.console import make_console, make_table, paragraph, print_json
from zerosim.cli.folders import moment, require_free
from zerosim.cli.jobs import launch_job
from zerosim.cli.options import (
    AsJson,
    AsPage,
    Batch,
    Model,
    Overwrite,
    Ranks,
    Seed,
    Steps,
    Timeout,
    TracesFolder,
    some_of,
)
from zerosim.cli.verdicts import print_judged
from zerosim.train.launch.job import Job
from zerosim.verify.outcome import exit_code
from zerosim.view.reading import load
from zerosim.view.reading.profile import Profile, profile

OURS = "zerosim-{stage}"
_NAMES = (*(OURS.format(stage=stage) for stage in STAGES), *Implementation)


def profiles(  # noqa: PLR0913 - an option is an argument
    *,
    ranks: Ranks = 4,
    model: Model = "gpt-tiny",
    steps: Steps = 5,
    batch: Batch = 4,
    seed: Seed = 0,
    only: Annotated[
        str | None, typer.Option(help=f"Only these, separated by commas: {', '.join(_NAMES)}.")
    ] = None,
    timeout: Timeout = 60,
    out: TracesFolder = None,
    overwrite: Overwrite = False,
    markdown: AsPage = False,
    as_json: AsJson = False,
) -> int:
    """Train one model in fp32 with every installed framework, and compare their traffic."""
    run = RunConfig(
        model=model,  # type: ignore[arg-type]
        ranks=ranks,
        steps=steps,
        batch=batch,
        seed=seed,
        timeout_s=timeout,
    )
    say_what_is_taken(run)
    names = some_of(only, list(map(str, _NAMES)))
    absent = {name: why for name in names if (why := _unavailable(name, run))}
    if only is not None and absent:
        name, why = next(iter(absent.items()))
        raise ConfigError(f"{name} cannot be run here: {why}")
    present = [name for name in names if name not in absent]
    folder = out or Path("traces") / f"profiles-{moment()}"
    folders = {name: folder / name for name in present}
    for each in folders.values():
        require_free(each, overwrite=overwrite)
    psi = _num_parameters(run)
    job = Job(run, tuple((_who(name), folders[name]) for name in present))
    with ExitStack() as held:
        launch_job(job, held, overwrite=overwrite)
        rows = {
            name: profile(load(folders[name], strict=True), _title(name), psi) for name in present
        }
    if as_json:
        print_json(
            {"psi": psi, "rows": [row.to_plain() for row in rows.values()], "absent": absent}
        )
    elif markdown:
        _print_markdown(run, psi, rows, absent)
    else:
        _print(make_console(), run, psi, list(rows.values()), absent)
        typer.echo(f"\nnext: zerosim verify {folder / present[-1]}")
    return exit_code(row.outcome for row in rows.values())


def _who(name: str) -> EngineConfig | Implementation:
    ours = {OURS.format(stage=stage): stage for stage in STAGES}
    if name in ours:
        return EngineConfig(stage=ours[name], dtype="fp32")  # type: ignore[arg-type]
    return Implementation(name)


def _title(name: str) -> str:
    return (
        name.replace("-", " stage ") if name.startswith("zerosim") else Implementation(name).shown
    )


def _unavailable(name: str, run: RunConfig) -> str:
    from zerosim.systems.catalogue import unavailable

    who = _who(name)
    return "" if isinstance(who, EngineConfig) else unavailable(who, run)


def _num_parameters(run: RunConfig) -> int:
    from zerosim.train.models import build

    return sum(parameter.numel() for parameter in build(run.model, run.seed).parameters())


HEADINGS = (
    "",
    "calls",
    f"payload, {PSI}",
    "ring, MB",
    "wire, MB",
    "peak, MB",
    "exposed, ms",
    "step, ms",
    "loss",
)


def _cells(row: Profile) -> tuple[str, ...]:
    return (
        row.name,
        ", ".join(f"{count} {op}" for op, count in row.num_collectives.items()),
        format_decimal(row.payloads, 3),
        _mega(row.ring_bytes),
        _mega(row.wire_bytes),
        _mega(row.peak_bytes),
        _milli(row.exposed_ns),
        _milli(row.step_ns),
        "" if row.loss is None else f"{row.loss:.4f}",
    )


def _mega(value: int | None) -> str:
    return "not measured" if value is None else format_decimal(Fraction(value, 10**6), 2)


def _milli(value: int | None) -> str:
    return "not measured" if value is None else format_decimal(Fraction(value, 10**6), 1)


def _what(run: RunConfig, psi: int) -> str:
    return (
        f"{run.model}, {PSI} = {psi:,} parameters, fp32, {run.ranks} ranks, {run.batch} "
        f"sequences per rank, {run.steps} steps; bytes of one step, averaged over the ranks"
    )


def _print(
    console: Console,
    run: RunConfig,
    psi: int,
    rows: Sequence[Profile],
    absent: dict[str, str],
) -> None:
    table = make_table(*HEADINGS, left=2)
    for row in rows:
        table.add_row(*_cells(row))
    print_judged(console, _what(run, psi), table, rows)
    for name, why in absent.items():
        console.print(Text(f"- {_title(name)}: {why}", style="dim"))


def _print_markdown(
    run: RunConfig, psi: int, rows: Mapping[str, Profile], absent: Mapping[str, str]
) -> None:
    """The same as a page, with an explanation of each framework's row."""
    reasons = tomllib.loads(files("zerosim.cli").joinpath("profiles.toml").read_text())
    command = f"zerosim profiles --model {run.model} --ranks {run.ranks} --steps {run.steps}"
    words = (
        f"The model is {run.model} with {PSI} = {psi:,} parameters, trained in fp32 on "
        f"{run.ranks} ranks with {run.batch} sequences per rank for {run.steps} steps. Bytes are "
        'those of one step, averaged over the ranks. "Payload" counts an all-reduce twice, as the '
        'laws do. "Ring" is the number of bytes that each rank of a ring sends for this payload. '
        '"Wire" is the kernel\'s count, with the backend\'s algorithm and framing. "Peak" is the '
        "largest memory of any rank. Times are medians on one machine and do not apply to others."
    )
    lines = [
        "# What each implementation sends",
        "",
        *paragraph(words),
        "",
        f"    {command} --batch {run.batch} --markdown",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "| --- | --- " + "| ---: " * (len(HEADINGS) - 2) + "|",
        *("| " + " | ".join(_cells(row)) + " |" for row in rows.values()),
        "",
        "## Why",
        "",
    ]
    for name, row in rows.items():
        why = reasons.get(name, "").strip()
        sign = "" if row.outcome is None else f" ({row.outcome})"
        lines.append(f"- **{row.name}**{sign}. {row.headline}{' ' if why else ''}{why}")
    lines += [f"- {_title(name)}: {why}" for name, why in absent.items()]
    typer.echo("\n".join(lines))
