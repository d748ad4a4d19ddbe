"""`zerosim run`: train on several ranks, trace the run and verify it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from zerosim.base.config import STAGES, CollectivesKind, EngineConfig, RunConfig
from zerosim.base.config.model import called
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import format_bytes
from zerosim.cli.configured import (
    PANELS,
    engine_values,
    run_values,
    say_what_is_taken,
    with_options,
)
from zerosim.cli.console import make_console, print_json
from zerosim.cli.deepspeed import DeepSpeedFile, explain_file, note_of, read_file
from zerosim.cli.folders import make_free, moment, require_free, reserve
from zerosim.cli.jobs import launch_job, require_state_free
from zerosim.cli.ledgers import print_report, print_summary
from zerosim.cli.options import (
    AsJson,
    CheckReplicas,
    Debuggable,
    Faults,
    Overwrite,
    Timeout,
    Verbose,
    faults_of,
    integer,
)
from zerosim.cli.serve import serve_until_stopped
from zerosim.cli.verdicts import print_answer, print_failed
from zerosim.cli.wording import said
from zerosim.schema.attach import ATTACH_VARIABLE, new_token
from zerosim.schema.faults import Fault, FaultKind
from zerosim.theory.zero_states import zero_states
from zerosim.train.launch.job import Job, joined_ranks
from zerosim.verify.configured import workload_of
from zerosim.verify.outcome import exit_code
from zerosim.view.reading import Run, load

_NO_RUN_ID = ("", "none")
"""torchrun's names for a run without a name."""


@with_options(
    f"""
    stage ranks model dtype steps batch accumulate bucket_elements overlap prefetch clip collectives
    learning_rate seed device timeout port memory deepspeed_config explain {PANELS} layers width
    heads context_length vocabulary fault check_replicas debuggable out overwrite verbose
    open_browser as_json
    """,
    fault=(Faults, None),
    check_replicas=(CheckReplicas, None),
    debuggable=(Debuggable, False),
)
def run(  # noqa: PLR0913 - an option is an argument
    context: typer.Context,
    *,
    stage: Annotated[
        str, typer.Option(help="0 for data parallelism; 1, 2, 3 for ZeRO; several as 0,3; or all.")
    ] = "all",
    ranks: Annotated[
        int | None, integer("Number of processes; 4 by default, or torchrun's.")
    ] = None,
    timeout: Timeout = 60,
    port: Annotated[int, integer("Port of the ranks' rendezvous; a free one by default.")] = 0,
    deepspeed_config: Annotated[
        Path | None, typer.Option(help="A DeepSpeed configuration in JSON.", metavar="FILE")
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help=(
                "Explain each key of the DeepSpeed configuration and the traffic, without training."
            ),
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the trace.")] = None,
    overwrite: Overwrite = False,
    verbose: Verbose = False,
    open_browser: Annotated[
        bool,
        typer.Option(
            "--open", help="After the run, open the replay in a browser and serve it until Ctrl-C."
        ),
    ] = False,
    as_json: AsJson = False,
    **options: Any,
) -> int:
    """Train on several ranks, and record and check every collective; exit 1 if a claim fails."""
    joined = joined_ranks()
    if joined is not None and ranks not in (None, joined):
        raise ConfigError(f"ranks is {ranks}: this launcher started {joined}; leave --ranks out")
    num_ranks = joined or (4 if ranks is None else ranks)
    num_data_parallel = max(1, num_ranks // max(1, options["tensor_parallel"]))
    file = read_file(deepspeed_config, num_data_parallel, context) if deepspeed_config else None
    of_run = run_values(options) | {"ranks": num_ranks, "timeout_s": timeout}
    if file:
        of_run |= {"batch": file.settings.sizes.micro}
    job_run = RunConfig(**of_run)
    if explain:
        return explain_file(file, job_run, num_data_parallel, as_json=as_json)
    stages = (file.settings.engine.stage,) if file else parse_stages(stage)
    of_engine = engine_values(options)
    configs = [
        file.settings.engine if file else EngineConfig(**of_engine | {"stage": number})
        for number in stages
    ]
    require_state_free(configs[-1], resumes=job_run.resume, overwrite=overwrite)
    folder = out or _default_folder(job_run, str(stages[0]) if file else stage)
    folders = [folder / f"stage-{number}" for number in stages] if len(stages) > 1 else [folder]
    faults = faults_of(options["fault"])
    _require_able(faults, num_ranks, configs[-1])
    job = Job(
        job_run,
        tuple(zip(configs, folders, strict=True)),
        file.text if file else "",
        faults,
        options["check_replicas"] or 0,
    )
    if os.environ.get("RANK", "0") == "0":
        _say_first(file, job_run)
    if joined is not None:
        if options["debuggable"]:
            _require_secret()
        return _join(job, overwrite=overwrite)
    for each in folders:
        require_free(each, overwrite=overwrite)
    with ExitStack() as held:
        if options["debuggable"] and not os.environ.get(ATTACH_VARIABLE):
            os.environ[ATTACH_VARIABLE] = new_token()
            held.callback(os.environ.pop, ATTACH_VARIABLE)
        launch_job(job, held, port, overwrite=overwrite)
        code = _report(folders, is_whole=verbose, as_json=as_json)
        if open_browser:
            serve_until_stopped(folders, opens=True)
        return code


def _require_secret() -> None:
    """Check that ranks started by another command can get the same token.

    Raises:
        ConfigError: they cannot.
    """
    if not os.environ.get(ATTACH_VARIABLE):
        raise ConfigError(
            f"debuggable under a launcher: expected {ATTACH_VARIABLE}=SECRET in the environment of "
            "all ranks and of the debugger"
        )


def _say_first(file: DeepSpeedFile | None, run: RunConfig) -> None:
    """Print on standard error what is used of files."""
    if file:
        typer.echo(note_of(file), err=True)
    say_what_is_taken(run)


def _require_able(faults: Sequence[Fault], num_ranks: int, config: EngineConfig) -> None:
    """Check that these faults can be injected into a run of the engine.

    Raises:
        ConfigError: one cannot.
    """
    for one in faults:
        one.require_ranks(num_ranks)
        if one.kind is FaultKind.GROUP:
            raise ConfigError(
                f"fault {one}: zerosim's engine makes all calls in one group: try it with "
                "zerosim trace and a program that has several"
            )
        if one.kind is FaultKind.PEER:
            raise ConfigError(
                f"fault {one}: zerosim's engine sends no message outside of its collectives: try "
                "it with zerosim trace and a pipeline"
            )
        if one.kind is FaultKind.SLOW_LINK and config.collectives is not CollectivesKind.RING:
            raise ConfigError(
                f"fault {one}: the messages of {config.collectives} calls are the backend's own: "
                "expected --collectives ring"
            )


def parse_stages(text: str) -> tuple[int, ...]:
    """Read `--stage`: a number, several with commas, or "all".

    Raises:
        ConfigError: any other value.
    """
    if text == "all":
        return STAGES
    try:
        stages = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        stages = (-1,)
    if not set(stages) <= set(STAGES):
        raise ConfigError(f"stage is {text!r}: expected 0, 1, 2, 3, several as 0,3, or all")
    return stages


def _join(job: Job, *, overwrite: bool) -> int:
    # before torch is imported: its allocator warns about each profile that begins late
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from zerosim.train.launch.launcher import require_able
    from zerosim.train.launch.worker import run_guarded, status_of

    require_able(job)
    rank = int(os.environ["RANK"])
    folders = [folder for _, folder in job.engines]
    is_first = int(os.environ.get("LOCAL_RANK", rank)) == 0

    def prepare() -> None:
        for folder in folders if is_first and rank != 0 else ():
            make_free(folder)

    with ExitStack() as held:
        # Nodes may share a folder. Rank 0 locks it before it joins; the others write nothing before
        # the rendezvous with rank 0.
        for folder in folders if is_first else ():
            if rank == 0:
                reserve(folder, held, overwrite=overwrite)
            else:
                require_free(folder, overwrite=overwrite)
        error = run_guarded(job, prepare)
        if error is not None:
            code, problem = status_of(error)
            typer.echo(f"zerosim: rank {rank}: {problem}", err=True)
            return code
        if rank == 0:
            for folder in folders:
                typer.echo(f"rank 0 wrote its trace to {folder}")
            typer.echo("with the files of all ranks in one folder: zerosim verify FOLDER")
    return 0


def _report(folders: list[Path], *, is_whole: bool, as_json: bool) -> int:
    runs = [load(folder, strict=True) for folder in folders]
    if as_json:
        plain = [run.verify().to_dict() | {"losses": run.losses} for run in runs]
        print_json(plain if len(plain) > 1 else plain[0])
    else:
        console = make_console()
        _print(console, runs, is_whole=is_whole)
        console.print(said("run.next", command=_next_command(runs, folders)))
    return exit_code(run.verify().outcome for run in runs)


def _next_command(runs: Sequence[Run], folders: Sequence[Path]) -> str:
    """The most useful next command after these runs: why one fails, else its replay."""
    for run, folder in zip(runs, folders, strict=True):
        if exit_code([run.verify().outcome]):
            return f"zerosim verify -v {folder}"
    return f"zerosim serve {folders[0].parent}" if folders[1:] else f"zerosim replay {folders[0]}"


def _print(console: Console, runs: Sequence[Run], *, is_whole: bool) -> None:
    """For one run its report, for several the outcome of each, with full reports if `is_whole`."""
    summary = [(run.verify().report, _loss_words(run.losses), _states_words(run)) for run in runs]
    reports = [report for report, *_ in summary]
    if is_whole and len(reports) > 1:
        print_summary(console, summary)
        console.print()
    for report in reports:
        if is_whole or len(reports) == 1:
            print_report(console, report, is_whole=is_whole)
            console.print()
        else:
            print_answer(console, report.outcome, report.headline)
            print_failed(console, report.verdicts)
    if len(reports) > 1:
        console.print()
        print_summary(console, summary)
        console.print()
    elif summary[0][1]:
        console.print(said("run.loss", losses=summary[0][1]))


def _states_words(run: Run) -> str:
    """The law of a rank's model states, with its value: "16Ψ/N = 13.2 MB"."""
    workload = workload_of(run.trace, run.verify().report.iteration)
    if workload is None:
        return ""
    states = zero_states(workload)
    return f"{states.law()} = {format_bytes(states.law_bytes())}"


def _loss_words(losses: Sequence[float]) -> str:
    return f"{losses[0]:.4f} → {losses[-1]:.4f}" if losses else ""


def _default_folder(run_config: RunConfig, stage: str) -> Path:
    """A new folder for each run; under a launcher, one that all ranks derive independently."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if joined_ranks() is None:
        name = moment()
    elif name in _NO_RUN_ID:
        name = "joined"
    stage_name = stage.replace(",", "-")
    model = called(run_config.model)
    return Path("traces") / f"{model}-stage-{stage_name}-n{run_config.ranks}-{name}"
