"""`zerosim run`: train for real on several ranks, trace it, and prove it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.cli.configured import PANELS, engine_values, run_values, with_options
from zerosim.cli.console import make_console, print_json
from zerosim.cli.deepspeed import explain_file, note_of, read_file
from zerosim.cli.folders import make_free, moment, require_free, reserve
from zerosim.cli.jobs import launch_job, require_state_free
from zerosim.cli.ledgers import print_report, print_summary
from zerosim.cli.options import decimal, integer
from zerosim.config import STAGES, EngineConfig, RunConfig
from zerosim.errors import ConfigError
from zerosim.launch.job import Job, joined_ranks
from zerosim.record import Trace, load
from zerosim.verify import verify
from zerosim.verify.outcome import exit_code

_NO_RUN_ID = ("", "none")
"""What torchrun calls a run that nobody named."""


@with_options(
    f"""
    stage ranks model dtype steps batch accumulate bucket_elements overlap prefetch clip collectives
    learning_rate seed device timeout port memory deepspeed_config explain {PANELS} layers width out
    overwrite as_json
    """
)
def run(  # noqa: PLR0913 - an option is an argument
    context: typer.Context,
    *,
    stage: Annotated[
        str, typer.Option(help="0 data parallel, 1, 2, 3 ZeRO; several as 0,3; or all.")
    ] = "all",
    ranks: Annotated[
        int | None, integer("Processes; 4 by default, under torchrun as many as it started.")
    ] = None,
    timeout: Annotated[float, decimal("Seconds to wait for a silent rank before giving up.")] = 60,
    port: Annotated[int, integer("Port of the ranks' rendezvous; a free one by default.")] = 0,
    deepspeed_config: Annotated[
        Path | None, typer.Option(help="A DeepSpeed configuration in JSON.", metavar="FILE")
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Explain what becomes of each of its keys, without training."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the trace.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace traces that are already in the folder.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    **options: Any,
) -> int:
    """Train on real text, trace every collective, hold it against theory; exit 1 if it is false."""
    joined = joined_ranks()
    if joined is not None and ranks not in (None, joined):
        raise ConfigError(f"ranks is {ranks}: this launcher started {joined}; leave --ranks out")
    num_ranks = joined or (4 if ranks is None else ranks)
    num_data_parallel = max(1, num_ranks // max(1, options["tensor_parallel"]))
    file = read_file(deepspeed_config, num_data_parallel, context) if deepspeed_config else None
    if explain:
        return explain_file(file, as_json=as_json)
    of_run = run_values(options) | {"ranks": num_ranks, "timeout_s": timeout}
    if file:
        of_run |= {"batch": file.settings.sizes.micro}
    job_run = RunConfig(**of_run)
    stages = (file.settings.engine.stage,) if file else parse_stages(stage)
    of_engine = engine_values(options)
    configs = [
        file.settings.engine if file else EngineConfig(**of_engine | {"stage": number})
        for number in stages
    ]
    require_state_free(configs[-1], resumes=job_run.resume, overwrite=overwrite)
    folder = out or _default_folder(job_run, str(stages[0]) if file else stage)
    folders = [folder / f"stage-{number}" for number in stages] if len(stages) > 1 else [folder]
    job = Job(job_run, tuple(zip(configs, folders, strict=True)), file.text if file else "")
    if file and os.environ.get("RANK", "0") == "0":
        typer.echo(note_of(file), err=True)
    if joined is not None:
        return _join(job, overwrite=overwrite)
    for each in folders:
        require_free(each, overwrite=overwrite)
    with ExitStack() as held:
        launch_job(job, held, port, overwrite=overwrite)
        return _report(folders, as_json=as_json)


def parse_stages(text: str) -> tuple[int, ...]:
    """Read `--stage`: a number, several with commas, or "all".

    Raises:
        ConfigError: something else.
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
    # before torch is imported: its allocator has a remark on each profile that begins late
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from zerosim.launch.launcher import require_able
    from zerosim.launch.worker import run_guarded, status_of

    require_able(job)
    rank = int(os.environ["RANK"])
    folders = [folder for _, folder in job.engines]
    is_first = int(os.environ.get("LOCAL_RANK", rank)) == 0

    def prepare() -> None:
        for folder in folders if is_first and rank != 0 else ():
            make_free(folder)

    with ExitStack() as held:
        # Nodes may share a folder. Rank 0 has it before it joins, and the others touch nothing
        # before they have met rank 0.
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


def _report(folders: list[Path], *, as_json: bool) -> int:
    traces = [load(folder, strict=True) for folder in folders]
    reports = [verify(trace) for trace in traces]
    if as_json:
        plain = [
            report.to_plain() | {"losses": _losses(trace)}
            for report, trace in zip(reports, traces, strict=True)
        ]
        print_json(plain if len(plain) > 1 else plain[0])
    else:
        console = make_console()
        for report in reports:
            print_report(console, report)
            console.print()
        lines = [
            (report, _loss_words(trace)) for report, trace in zip(reports, traces, strict=True)
        ]
        print_summary(console, lines)
        console.print()
        if len(folders) > 1:
            console.print(f"next: zerosim compare {' '.join(map(str, folders))}")
        watched = "memory " if traces[-1].ranks[0].memory_samples else ""
        for name in (*watched.split(), "graph", "show"):
            console.print(f"next: zerosim {name} {folders[-1]}")
        console.print(f"next: zerosim serve {folders[-1].parent if folders[1:] else folders[0]}")
    return exit_code(report.outcome for report in reports)


def _losses(trace: Trace) -> list[float]:
    return [metric.value for metric in trace.ranks[0].metrics if metric.name == "loss"]


def _loss_words(trace: Trace) -> str:
    losses = _losses(trace)
    return f"{losses[0]:.4f} → {losses[-1]:.4f}" if losses else ""


def _default_folder(run_config: RunConfig, stage: str) -> Path:
    """A new folder for each run; under a launcher, one that all ranks know without talking."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if joined_ranks() is None:
        name = moment()
    elif name in _NO_RUN_ID:
        name = "joined"
    stage_name = stage.replace(",", "-")
    return Path("traces") / f"{run_config.model}-stage-{stage_name}-n{run_config.ranks}-{name}"
