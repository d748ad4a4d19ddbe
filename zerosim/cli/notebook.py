"""`zerosim notebook`: a lesson or a puzzle as a notebook, written on demand."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.options import ReplaceFile, require_no_file
from zerosim.cli.wording import said
from zerosim.view.export.files import write

FOLDER = Path("notebooks")
"""The folder of all notebooks."""


def notebook(
    name: Annotated[
        str, typer.Argument(help="A lesson's number, a puzzle's name, first-steps, or all.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; with all, a folder. By default the notebook's own name."),
    ] = None,
    overwrite: ReplaceFile = False,
) -> int:
    """Write a lesson or a puzzle as a notebook, for Jupyter or an editor."""
    # a higher layer, as for serve (listed in pyproject.toml)
    from zerosim.lessons.notebooks.making import ALL, find_notebook, notebooks

    if name == ALL:
        folder = out or FOLDER
        made = {folder / one.file_name: one for one in notebooks()}
    else:
        one = find_notebook(name)
        made = {out or Path(one.file_name): one}
    require_no_file((("out", file) for file in made), overwrite=overwrite)
    if name == ALL:
        with contextlib.suppress(OSError):  # the first file has the error
            folder.mkdir(parents=True, exist_ok=True)
    for file, one in made.items():
        write(file, one.text().encode())
        typer.echo(said("notebook.wrote", file=file))
    typer.echo(said("notebook.next"))
    return 0
