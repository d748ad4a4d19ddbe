"""`zerosim import`: recordings of real clusters become a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.record.importing import import_run
from zerosim.record.text import name_ranks


def import_(
    paths: Annotated[
        list[Path], typer.Argument(help="Recordings of other tools: files, folders, archives.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the trace.")],
) -> int:
    """Convert PyTorch profiles, execution traces and the output of NCCL's tools to a trace."""
    found = import_run(paths, out)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    of_all = "" if len(found.ranks) == found.num_ranks else f" of {found.num_ranks}"
    typer.echo(f"wrote {out}: {found.num_calls:,} calls of {name_ranks(found.ranks)}{of_all}")
    typer.echo(f"next: zerosim verify {out}")
    typer.echo(f"next: zerosim {'replay' if found.is_timed else 'show'} {out}")
    return 0
