"""`zerosim export`: a trace as a file for someone who has no zerosim."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.options import integer, open_trace
from zerosim.errors import ConfigError, EnvironmentFault
from zerosim.export.files import write
from zerosim.export.offline import offline_page
from zerosim.quantities import format_bytes
from zerosim.record.text import as_text
from zerosim.replay import replay_document


def export(
    folder: Annotated[Path, typer.Argument(help="A trace's folder.")],
    *,
    html: Annotated[
        Path | None, typer.Option(help="Write a replay to this file, which needs no server.")
    ] = None,
    iteration: Annotated[
        int | None, integer("Which iteration to replay; the last complete one by default.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.")
    ] = False,
) -> int:
    """Write a replay as one page that opens in any browser, offline."""
    if html is None:
        raise ConfigError("nothing to write: give --html FILE")
    _require_free(html, overwrite=overwrite)
    trace = open_trace(folder)
    document = replay_document(trace, iteration, as_text(folder.resolve().name))
    page = offline_page(document).encode()
    write(html, page)
    for warning in trace.warnings:
        typer.echo(f"note: {warning}", err=True)
    number = document["run"]["iteration"]
    typer.echo(f"wrote {html}: iteration {number} of {folder}, {format_bytes(len(page))}")
    typer.echo(f"next: open {html} in a browser, or zerosim serve {folder} for all iterations")
    return 0


def _require_free(file: Path, *, overwrite: bool) -> None:
    if os.path.lexists(file) and not overwrite:
        raise EnvironmentFault(f"{file} is already there: give another --html, or --overwrite")
