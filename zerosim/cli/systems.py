"""`zerosim systems`: the same training with every system of the family, in one table."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from zerosim.base.config import SYSTEMS, EngineConfig, Preset, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import format_decimal
from zerosim.base.tiers import Link, Tier
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
    Seed,
    Steps,
    Timeout,
    TracesFolder,
    integer,
    some_of,
)
from zerosim.cli.verdicts import mark_of, print_judged
from zerosim.train.launch.job import Job
from zerosim.verify.outcome import exit_code
from zerosim.view.reading import load
from zerosim.view.reading.system import SystemRow, system_row

RANKS_PER_NODE = 2
_NAMES = tuple(system.name for system in SYSTEMS)
HEADINGS = (
    "",
    "device, MB",
    "host, MB",
    "disk, MB",
    "in a node, MB",
    "between nodes, MB",
    "bus, MB",
    "to and from disk, MB",
    "step, ms",
    "loss",
    "",
)


def systems(  # noqa: PLR0913 - an option is an argument
    *,
    ranks: Annotated[int, integer("Processes, in nodes of 2.")] = 4,
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
    """Train one model in bf16 with every system of the ZeRO family, and compare them."""
    run = RunConfig(
        model=model,  # type: ignore[arg-type]
        ranks=ranks,
        steps=steps,
        batch=batch,
        seed=seed,
        timeout_s=timeout,
    )
    say_what_is_taken(run)
    if ranks % RANKS_PER_NODE:
        raise ConfigError(f"ranks is {ranks}: expected an even number, for nodes of 2")
    names = some_of(only, _NAMES)
    chosen = [system for system in SYSTEMS if system.name in names]
    folder = out or Path("traces") / f"systems-{moment()}"
    for system in chosen:
        require_free(folder / system.name, overwrite=overwrite)
    with (
        tempfile.TemporaryDirectory(prefix="zerosim-systems-", dir=_disk_of(folder)) as disk,
        ExitStack() as held,
    ):
        for job in _jobs(run, chosen, folder, disk):
            launch_job(job, held, overwrite=overwrite)
        rows = [system_row(load(folder / one.name, strict=True), one.title) for one in chosen]
    if as_json:
        print_json([row.to_plain() for row in rows])
    elif markdown:
        _print_markdown(run, rows)
    else:
        _print(run, rows)
        typer.echo(f"\nnext: zerosim verify {folder / chosen[-1].name}")
    return exit_code(row.outcome for row in rows)


def _disk_of(folder: Path) -> Path:
    """A folder on the disk that the traces are written to."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _jobs(run: RunConfig, chosen: Sequence[Preset], folder: Path, disk: str) -> Iterator[Job]:
    """The systems that the same ranks can run one after another."""
    base = EngineConfig(ranks_per_node=RANKS_PER_NODE)
    for wanted, those in groupby(chosen, key=lambda system: system.run_of(run)):
        engines = [(one.configure(base, disk), folder / one.name) for one in those]
        yield Job(wanted, tuple(engines))


def _what(run: RunConfig) -> str:
    return (
        f"{run.model}, bf16, {run.ranks} ranks in nodes of {RANKS_PER_NODE}, {run.batch} sequences "
        f"per rank, {run.steps} steps. Memory is the largest of any rank. Bytes are those of one "
        "step: the largest of any rank, and between nodes the largest of any node"
    )


def _cells(row: SystemRow) -> tuple[str, ...]:
    links = (Link.NODE, Link.NETWORK, Link.BUS, Link.STORAGE)
    return (
        row.name,
        *(_mega(row.held_bytes[tier]) for tier in Tier),
        *(_mega(row.moved_bytes[link]) for link in links),
        "" if row.step_ns is None else format_decimal(Fraction(row.step_ns, 10**6), 0),
        f"{row.losses[-1]:.4f}" if row.losses else "",
        mark_of(row.outcome).plain,
    )


def _mega(value: int) -> str:
    return format_decimal(Fraction(value, 10**6), 2) if value else "-"


def _print(run: RunConfig, rows: Sequence[SystemRow]) -> None:
    table = make_table(*HEADINGS, left=1)
    for row in rows:
        table.add_row(*_cells(row))
    print_judged(make_console(), _what(run), table, rows)


def _print_markdown(run: RunConfig, rows: Sequence[SystemRow]) -> None:
    command = f"zerosim systems --model {run.model} --ranks {run.ranks} --steps {run.steps}"
    words = (
        f"The model is {run.model} in bf16 on {run.ranks} ranks, in nodes of {RANKS_PER_NODE}, "
        f"with {run.batch} sequences per rank and {run.steps} steps. The memory is the maximum "
        "over the ranks. The bytes are those of one step: the maximum over the ranks, and between "
        "nodes the maximum over the nodes. A dash means zero. Step times are medians on one "
        "machine and do not apply to others: a model this small communicates for longer than it "
        "computes, and all ranks share the cores. With tensor parallelism, two ranks read the same "
        "sequences, so the loss covers half as many. In every row, theory, trace, sockets and disk "
        "agree to the byte."
    )
    lines = [
        "# The ZeRO family on one model",
        "",
        *paragraph(words),
        "",
        f"    {command} --batch {run.batch} --markdown",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "| --- " + "| ---: " * (len(HEADINGS) - 1) + "|",
        *("| " + " | ".join(_cells(row)) + " |" for row in rows),
        "",
        "## What each system sends and copies",
        "",
        *(f"- **{row.name}**: {row.headline}" for row in rows),
    ]
    typer.echo("\n".join(lines))
