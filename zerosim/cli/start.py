"""`zerosim.run`: the command `zerosim run`, called from Python."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from zerosim.base.config import EngineConfig, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.cli.folders import require_free
from zerosim.cli.jobs import launch_job, require_state_free
from zerosim.train.launch.job import Job, joined_ranks
from zerosim.view.reading import Run, load


def run(out: str | Path | None = None, *, overwrite: bool = False, **options: Any) -> Run:
    """Train on text on several ranks of this host, trace the run, and load the trace.

        run = zerosim.run(stage=3, ranks=4)

    Progress is printed to stderr, as by the command.

    Args:
        out: folder for the trace; by default a new temporary one, whose name is printed.
        overwrite: replace a trace in the folder.
        options: fields of `EngineConfig` and of `RunConfig`, by name.

    Raises:
        ConfigError: an unknown option, or a value that it does not accept.
        EnvironmentFault: the folder is not free, or this machine lacks a requirement.
        RunError: a rank failed; the message names the rank, where it failed, and the state of the
            other ranks.
    """
    if joined_ranks() is not None:
        raise ConfigError(
            "a launcher started this process as a rank: expected none; try zerosim run under "
            "the launcher, or zerosim.run without it"
        )
    of_engine, of_run = ({field.name for field in fields(one)} for one in (EngineConfig, RunConfig))
    for name in options:
        if name not in of_engine | of_run:
            known = ", ".join(sorted(of_engine | of_run))
            raise ConfigError(f"option is {name!r}: expected one of {known}")
    config = EngineConfig(**{name: options[name] for name in options if name in of_engine})
    job_run = RunConfig(**{name: options[name] for name in options if name in of_run})
    require_state_free(config, resumes=job_run.resume, overwrite=overwrite)
    folder = Path(tempfile.mkdtemp(prefix="zerosim-") if out is None else out)
    if out is None:
        typer.echo(f"recording in {folder}", err=True)
    require_free(folder, overwrite=overwrite)
    with ExitStack() as held:
        launch_job(Job(job_run, ((config, folder),)), held, overwrite=overwrite)
        return load(folder, strict=True)
