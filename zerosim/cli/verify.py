"""`zerosim verify`: the three ledgers of a trace, and the verdicts."""

from __future__ import annotations

from typing import Annotated

import typer

from zerosim.cli.console import make_console, print_json
from zerosim.cli.ledgers import print_report
from zerosim.cli.options import AsJson, TraceFolder, Verbose, integer, open_run
from zerosim.verify.outcome import exit_code


def verify(
    folder: TraceFolder,
    *,
    iteration: Annotated[
        int | None, integer("Iteration to show; the last complete one by default.")
    ] = None,
    received: Annotated[
        bool, typer.Option("--received", help="Show bytes received instead of sent.")
    ] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Compare theory, trace and wire byte by byte; exit 1 if bytes are unexplained."""
    found = open_run(folder).verify(iteration=iteration)
    if as_json:
        print_json(found.to_dict())
    else:
        print_report(make_console(), found.report, received=received, is_whole=verbose)
    return exit_code([found.outcome])
