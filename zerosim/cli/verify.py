"""`zerosim verify`: the three ledgers of a trace, and the verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.console import make_console, print_json
from zerosim.cli.ledgers import print_report
from zerosim.cli.options import integer, open_trace
from zerosim.verify import verify as verify_trace
from zerosim.verify.outcome import exit_code


def verify(
    folder: Annotated[Path, typer.Argument(help="A trace's folder.")],
    *,
    iteration: Annotated[
        int | None, integer("Iteration whose ledgers to show; the last complete one by default.")
    ] = None,
    received: Annotated[
        bool, typer.Option("--received", help="Show bytes received instead of sent.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Hold theory, trace and wire against each other; exit 1 if bytes are unexplained."""
    trace = open_trace(folder)
    report = verify_trace(trace, iteration)
    if as_json:
        print_json(report.to_plain())
    else:
        print_report(make_console(), report, received=received)
    return exit_code([report.outcome])
