"""`zerosim fit`: the largest model that trains on a device of a given size, found by search.

A small-scale version of the ZeRO paper's Table 2 (Rajbhandari et al. 2020, arXiv 1910.02054).
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from zerosim.base.config import STAGE_NAMES, SYSTEMS, EngineConfig, Offload, RunConfig
from zerosim.base.config.model import trained_model
from zerosim.base.errors import ConfigError, OutOfMemory, RunError, TraceError
from zerosim.base.quantities import format_bytes, format_decimal
from zerosim.cli.configured import (
    engine_values,
    run_values,
    say_what_is_taken,
    with_options,
)
from zerosim.cli.console import make_console, make_table, paragraph, print_json, print_table
from zerosim.cli.jobs import launch_job
from zerosim.cli.options import AsJson, AsPage, Model, Timeout, integer
from zerosim.cli.verdicts import mark_of
from zerosim.record import load
from zerosim.theory.footprint import peak
from zerosim.theory.layout import Layout
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.train.launch.fitting import Fit, Try, find_largest
from zerosim.train.launch.forkserver import keep
from zerosim.train.launch.job import Job
from zerosim.verify.outcome import outcome_of

_ONLY = {"offload_optimizer": "none", "offload_param": "none"}
_COMPARED = (
    *("data-parallel", "zero-1", "zero-2", "zero-3"),
    *("offload-2", "offload-3", "infinity-cpu", "infinity-nvme"),
)
COMPARED = {
    system.title: {**_ONLY, **system.engine} for system in SYSTEMS if system.name in _COMPARED
}
"""The systems of `--all`: the options that each one sets."""


@with_options(
    """
    device_bytes every stage ranks model width dtype steps batch accumulate bucket_elements prefetch
    most_layers offload_optimizer offload_param nvme_path checkpoint_activations cpu_checkpointing
    constant_buffers contiguous_memory tiles timeout markdown as_json
    """
)
def fit(  # noqa: PLR0913 - an option is an argument
    context: typer.Context,
    *,
    every: Annotated[
        bool, typer.Option("--all", help=f"Try each of these: {'; '.join(COMPARED)}.")
    ] = False,
    stage: Annotated[int, integer("0 for data parallelism; 1, 2 or 3 for ZeRO.")] = 3,
    ranks: Annotated[int, integer("Processes.")] = 4,
    model: Model = "gpt-tiny",
    steps: Annotated[
        int, integer("Optimizer steps per try; the second needs more memory than the first.")
    ] = 2,
    most_layers: Annotated[int, integer("Try no model with more layers.")] = 128,
    timeout: Timeout = 60,
    markdown: AsPage = False,
    as_json: AsJson = False,
    **options: Any,
) -> int:
    """Find the largest number of layers that fits in --device-bytes on each rank."""
    if options["device_bytes"] is None:
        raise ConfigError("device-bytes is not given: expected the device's size, such as 16MB")
    if most_layers < 1:
        raise ConfigError(f"most-layers is {most_layers}: expected a whole number of 1 or more")
    of_run = {"model": model, "ranks": ranks, "steps": steps, "timeout_s": timeout}
    run = RunConfig(**run_values(options) | of_run)
    trained_model(run.model, replace(run.shape, layers=1))
    say_what_is_taken(run)
    of_engine = engine_values(options) | {"stage": stage}
    keep()  # else each try would import PyTorch again
    chosen = COMPARED if every else {_name(of_engine): {}}
    found = {}
    with tempfile.TemporaryDirectory(dir=options["nvme_path"], prefix="zerosim-fit-") as folder:
        configs = {
            name: EngineConfig(**of_engine | values | {"nvme_path": folder})
            for name, values in chosen.items()
        }
        foreseen = {name: _foreseen(run, one, most_layers) for name, one in configs.items()}
        for name, config in configs.items():
            if not as_json:
                typer.echo(f"{name}, {run.ranks} ranks", err=markdown)
            trials = _Trials(run, config, folder, says=not as_json, aside=markdown)
            limit, first = run.device_bytes or 0, foreseen[name]
            found[name] = find_largest(trials.attempt, limit, most_layers, first)
    if as_json:
        print_json(_to_plain(run, found, foreseen))
    elif markdown:
        _print_markdown(context, run, found, foreseen)
    else:
        _print(run, found, foreseen)
    return 0


def _name(options: Mapping[str, Any]) -> str:
    """The table's name of a system given by its options."""
    places = {Offload.CPU: "the host", Offload.NVME: "a disk"}
    kept = [
        f"{what} on {places[options[key]]}"
        for what, key in (("optimizer", "offload_optimizer"), ("parameters", "offload_param"))
        if options[key] in places
    ]
    return ", ".join([STAGE_NAMES.get(options["stage"], "?"), *kept])


def _foreseen(run: RunConfig, config: EngineConfig, most_layers: int) -> int:
    """The most layers with a predicted peak that fits the device, without a margin; 0 if none."""
    recompute = Recompute.FULL if config.checkpoint_activations else Recompute.NONE

    def fits(layers: int) -> bool:
        shape = trained_model(run.model, replace(run.shape, layers=layers))
        layout = Layout(
            shape=shape,
            config=config,
            data=run.ranks,
            batch=run.batch,
            sequence=shape.context,
            keeping=KeptActivations(recompute),
        )
        return peak(layout).bytes <= (run.device_bytes or 0)

    return bisect_left(range(1, most_layers + 1), x=True, key=lambda layers: not fits(layers))


class _Trials:
    """Trains models of one system, and reports each try."""

    def __init__(
        self, run: RunConfig, config: EngineConfig, folder: str, *, says: bool, aside: bool
    ) -> None:
        """Prepare to train.

        Args:
            folder: folder for traces and disk states, until a try ends.
            aside: whether to print on standard error.
        """
        self._run = run
        self._config = config
        self._folder = folder
        self._says = says
        self._aside = aside

    def attempt(self, layers: int) -> Try:
        """Train a model with this number of layers for a few steps.

        Raises:
            RunError: it failed for a reason other than an allocation.
        """
        shape = replace(self._run.shape, layers=layers)
        parameters = trained_model(self._run.model, shape).num_parameters
        with tempfile.TemporaryDirectory(dir=self._folder) as own, ExitStack() as held:
            trace, disk = Path(own, "trace"), Path(own, "disk")
            disk.mkdir()
            config = replace(self._config, nvme_path=str(disk))
            try:
                launch_job(Job(replace(self._run, layers=layers), ((config, trace),)), held)
            except RunError:
                problem = _no_room(trace)
                if not problem:
                    raise
                one = Try(layers, parameters, None, problem)
            else:
                maps = [drawn for rank in load(trace).ranks for drawn in rank.address_maps]
                one = Try(layers, parameters, max(drawn.used_bytes for drawn in maps))
        if self._says:
            typer.echo(f"  {_told(one)}", err=self._aside)
        return one


def _no_room(folder: Path) -> str:
    """The allocation that failed in a run; "" if it failed for another reason."""
    kind = f"{OutOfMemory.__name__}: "
    try:
        ranks = load(folder).ranks
    except TraceError:  # it failed before there was a trace
        return ""
    for rank in ranks:
        if rank.failure is not None and rank.failure.message.startswith(kind):
            # this command itself does what the message advises
            return rank.failure.message.removeprefix(kind).partition("; try ")[0]
    return ""


def _told(one: Try) -> str:
    mark = mark_of(outcome_of(holds=one.fits)).plain
    size = f"{one.layers:>4} layers  {one.parameters:>12,} parameters"
    how = one.problem if one.peak_bytes is None else f"peak {format_bytes(one.peak_bytes)}"
    return f"{mark} {size}  {how}"


_HEADINGS = (
    *("system", "predicted layers", "layers", "parameters", "times", "peak"),
    "allocation that fails at the next size",
)


def _rows(found: Mapping[str, Fit], foreseen: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    first = next(iter(found.values())).largest
    for name, fit in found.items():
        if fit.largest is None:
            yield (name, f"{foreseen[name]}", "0", "none", "", "", _why(fit))
            continue
        times = Fraction(fit.largest.parameters, first.parameters) if first else None
        yield (
            name,
            f"{foreseen[name]}",
            f"{'' if fit.is_bounded else 'at least '}{fit.largest.layers}",
            f"{fit.largest.parameters:,}",
            "" if times is None else f"{format_decimal(times, 1)}x",
            format_bytes(fit.largest.peak_bytes or 0),
            _why(fit),
        )


def _why(fit: Fit) -> str:
    """The allocation that failed for the smallest model that did not fit."""
    failed = [one for one in fit.tries if not one.fits]
    if not failed:
        return "nothing larger was tried"
    problem = min(failed, key=lambda one: one.layers).problem
    return problem.partition("; ")[0].removeprefix("out of device memory: ")


def _what(run: RunConfig) -> str:
    width = "" if run.width is None else f" of width {run.width}"
    return (
        f"the largest {run.model}{width} that trains for {run.steps} steps on {run.ranks} ranks "
        f"with {format_bytes(run.device_bytes or 0)} of device memory each"
    )


def _print(run: RunConfig, found: Mapping[str, Fit], foreseen: Mapping[str, int]) -> None:
    console = make_console()
    console.print()
    console.print(Text(_what(run), style="dim"))
    table = make_table(*_HEADINGS[:-1])
    for row in _rows(found, foreseen):
        table.add_row(*row[:-1])
    print_table(console, table)


def _print_markdown(
    context: typer.Context, run: RunConfig, found: Mapping[str, Fit], foreseen: Mapping[str, int]
) -> None:
    words = (
        f"This table shows {_what(run)}. `zerosim fit` trains models with different numbers of "
        "layers until one fits and the next larger one does not. The device memory of a rank is "
        'host memory behind an allocator with that limit. "Peak" is the largest memory in use on '
        'any rank, and "times" is the number of parameters relative to the first row. "Predicted '
        'layers" is the largest number of layers that the laws of memory allow '
        "([plan.md](plan.md#memory)), without a margin for memory that they do not cover."
    )
    lines = [
        "# The largest model that fits",
        "",
        *paragraph(words),
        "",
        f"    zerosim fit {_command(context)}",
        "",
        f"| {' | '.join(_HEADINGS)} |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        *(f"| {' | '.join(row)} |" for row in _rows(found, foreseen)),
    ]
    typer.echo("\n".join(lines))


def _command(context: typer.Context) -> str:
    """The options as they were given."""
    given = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if value not in (None, parameter.default):
            given.append(parameter.opts[0] if value is True else f"{parameter.opts[0]} {value}")
    return " ".join(given)


def _to_plain(
    run: RunConfig, found: Mapping[str, Fit], foreseen: Mapping[str, int]
) -> dict[str, object]:
    return {
        "run": run.to_plain(),
        "systems": [
            {
                "system": name,
                "predicted_layers": foreseen[name],
                "largest": None if fit.largest is None else asdict(fit.largest),
                "is_bounded": fit.is_bounded,
                "tries": [asdict(one) for one in fit.tries],
            }
            for name, fit in found.items()
        ],
    }
