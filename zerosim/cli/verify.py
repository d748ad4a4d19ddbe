"""`zerosim verify`: the three ledgers of a trace, and the verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.console import make_console, print_json
from zerosim.cli.ledgers import print_report
from zerosim.record import load
from zerosim.verify import verify as verify_trace


def verify(
    folder: Annotated[Path, typer.Argument(help="A trace's folder.")],
    *,
    iteration: Annotated[
        int | None, typer.Option(help="Whose ledgers to show; the last complete one by default.")
    ] = None,
    received: Annotated[
        bool, typer.Option("--received", help="Show bytes received instead of sent.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Hold theory, trace and wire against each other; exit 1 if a claim is false."""
    report = verify_trace(load(folder, strict=True), iteration)
    if as_json:
        print_json(report.to_plain())
    else:
        print_report(make_console(), report, received=received)
    return 1 if report.holds is False else 0
