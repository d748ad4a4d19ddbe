"""`zerosim simulate`: a dry training of any size, with predicted times for a machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.base.config import EngineConfig, Implementation, RunConfig
from zerosim.base.config.model import called
from zerosim.base.errors import ConfigError
from zerosim.cli.configured import (
    PANELS,
    engine_values,
    run_values,
    say_what_is_taken,
    with_options,
)
from zerosim.cli.console import make_console, print_json
from zerosim.cli.folders import moment, require_free, reserve
from zerosim.cli.ledgers import print_report
from zerosim.cli.options import AsJson, Overwrite, Verbose, integer, option_of
from zerosim.cli.run import parse_stages
from zerosim.train.launch.job import Job
from zerosim.verify.outcome import exit_code
from zerosim.view.reading import Run, load

DRY = tuple(one.value for one in Implementation if not one.name.startswith("DEEPSPEED"))
"""The systems to choose from: DeepSpeed needs real devices and addresses."""


_SYSTEM = Annotated[
    str | None,
    typer.Option(
        help=(
            f"Frameworks to simulate instead of the engine, separated by commas: {', '.join(DRY)}."
        )
    ),
]
_MACHINE = Annotated[str, typer.Option(help="Machine of the ranks: a name, or a file (.toml).")]

_ENOUGH = 3
"""Number of steps: DDP rebuilds its buckets in the second one."""
_STEPS = Annotated[int, integer("Optimizer steps; all equal from the third on.")]


@with_options(
    f"""
    command stage system ranks machine model dtype steps batch accumulate bucket_elements overlap
    prefetch clip collectives learning_rate seed memory {PANELS} layers width heads
    context_length vocabulary out overwrite verbose
    as_json
    """,
    system=(_SYSTEM, None),
    machine=(_MACHINE, "dgx-h100"),
    steps=(_STEPS, _ENOUGH),
)
def simulate(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Your own program, after --: python train.py."),
    ] = None,
    *,
    stage: Annotated[
        str, typer.Option(help="0 for data parallelism; 1, 2, 3 for ZeRO; several as 0,3; or all.")
    ] = "all",
    ranks: Annotated[int, integer("Number of simulated ranks.")] = 4,
    out: Annotated[Path | None, typer.Option(help="Folder for the trace.")] = None,
    overwrite: Overwrite = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    **options: Any,
) -> int:
    """Simulate a training run: the same calls and bytes without tensors; times are predicted."""
    run = RunConfig(**run_values(options) | {"ranks": ranks})
    machine = Path(options["machine"])
    name = Path(script_name(command)).stem if command else called(run.model)
    folder = out or Path("traces") / f"{name}-on-{machine.stem}-n{ranks}-{moment()}"
    trained = {} if command else _trained(stage, options)
    folders = [folder / name for name in trained] if len(trained) > 1 else [folder]
    for each in folders:
        require_free(each, overwrite=overwrite)
    with ExitStack() as held:

        def hold() -> None:
            for each in folders:
                reserve(each, held, overwrite=overwrite)

        if command:
            _require_no_others(stage, options)
            _simulate_program(command, run, str(machine), folder, hold)
        else:
            say_what_is_taken(run)
            job = Job(run, tuple(zip(trained.values(), folders, strict=True)))
            _simulate_job(job, str(machine), hold)
        return _report(folders, is_whole=verbose, as_json=as_json)


def _simulate_job(job: Job, machine: str, hold: Callable[[], None]) -> None:
    from zerosim.predict.simulate import require_simulated, simulate_job  # imports PyTorch

    require_simulated(job, machine)
    hold()
    simulate_job(job, machine)


def _simulate_program(
    command: list[str], run: RunConfig, machine: str, folder: Path, hold: Callable[[], None]
) -> None:
    from zerosim.predict.placement.machine import load_machine
    from zerosim.predict.simulate import DryProgram, require_nodes, script_of, simulate_program

    costs = load_machine(machine)
    require_nodes(costs, run.ranks)
    program = DryProgram(script=script_of(command), num_ranks=run.ranks, memory=run.memory)
    hold()
    asked = simulate_program(program, folder, costs)
    for line, told in asked.items():
        typer.echo(
            f"zerosim: {line} needs a value, which a dry run does not have: it gets {told}",
            err=True,
        )


def script_name(command: list[str]) -> str:
    """The name of a command: the Python program that it runs, if known."""
    return next((word for word in command if word.endswith(".py")), command[0])


def _trained(stage: str, options: dict[str, Any]) -> dict[str, EngineConfig | Implementation]:
    system = options["system"]
    return _by_stages(stage, options) if system is None else _by_systems(system, stage, options)


def _require_no_others(stage: str, options: dict[str, Any]) -> None:
    """Check that no option is set that the program itself determines.

    Raises:
        ConfigError: something is.
    """
    declared = {one.name: one.default for one in (*EngineConfig.options(), *RunConfig.options())}
    declared |= {name: options[name] for name in ("machine", "memory")}
    declared |= {"system": None, "steps": _ENOUGH}
    given = [name for name, value in options.items() if (value or None) != _plain(declared[name])]
    if stage != "all":
        given.insert(0, "stage")
    if given:
        raise ConfigError(
            f"{option_of(given[0])} is given with a program, which decides that itself: leave it "
            "out; ranks, machine, memory and out are for programs as well"
        )


def _plain(default: Any) -> Any:
    """The default of an option."""
    return str(default) if isinstance(default, StrEnum) else default or None


def _by_stages(stage: str, options: dict[str, Any]) -> dict[str, EngineConfig | Implementation]:
    """Zerosim's engine in each stage, by the name of its folder."""
    values = engine_values(options)
    return {
        f"stage-{number}": EngineConfig(**values | {"stage": number})
        for number in parse_stages(stage)
    }


def _by_systems(
    system: str, stage: str, options: dict[str, Any]
) -> dict[str, EngineConfig | Implementation]:
    """Other systems, by name.

    Raises:
        ConfigError: there is none of this name, or an option of the engine is set.
    """
    names = [part.strip() for part in system.split(",")]
    for name in names:
        if name not in DRY:
            raise ConfigError(
                f"system is {name!r}: expected some of {', '.join(DRY)}, or none for "
                "zerosim's engine"
            )
    given = engine_values(options)
    ours = [
        one.name
        for one in EngineConfig.options()
        if given.get(one.name, one.default) != one.default
    ]
    if stage != "all":
        ours.insert(0, "stage")
    if ours:
        raise ConfigError(
            f"{option_of(ours[0])} is given with system {system}: it is an option of zerosim's "
            "engine; leave out one of the two"
        )
    return {name: Implementation(name) for name in dict.fromkeys(names)}


def _report(folders: list[Path], *, is_whole: bool, as_json: bool) -> int:
    runs = [load(folder, strict=True) for folder in folders]
    if as_json:
        plain = [run.verify().to_dict() | {"predicted_step_ns": _step_ns(run)} for run in runs]
        print_json(plain if len(plain) > 1 else plain[0])
        return exit_code(run.verify().outcome for run in runs)
    console = make_console()
    for run in runs:
        print_report(console, run.verify().report, is_whole=is_whole)
        manifest = run.trace.manifest
        console.print()
        step_ns = _step_ns(run)
        if step_ns is not None:
            console.print(
                f"predicted for {manifest.machine}: {step_ns / 1e6:,.3f} ms a step; order, bytes "
                "and memory are the program's own"
            )
    for name in ("memory", "graph", "replay"):
        console.print(f"next: zerosim {name} {folders[-1]}")
    return exit_code(run.verify().outcome for run in runs)


def _step_ns(run: Run) -> int | None:
    """The predicted duration of the last step; None if there is none."""
    iterations = run.iterations
    path = run.graph_report(iteration=iterations[-1]).path if iterations else None
    return None if path is None else path.duration_ns
