"""Parsers of options and arguments, with error messages that show the given value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.base.config import ModelName
from zerosim.base.config.model import OR_A_FILE
from zerosim.base.errors import ConfigError, EnvironmentFault, TraceError
from zerosim.schema.faults import Fault, FaultKind, read_faults
from zerosim.schema.rows import MANIFEST_NAME
from zerosim.view.reading import Run, load


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected a whole number") from None


def _decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected a number") from None


def integer(words: str, panel: str | None = None) -> Any:
    """An option that takes a whole number."""
    return typer.Option(help=words, parser=_integer, metavar="INTEGER", rich_help_panel=panel)


TraceFolder = Annotated[Path, typer.Argument(help="A trace's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print every claim with its evidence.")
]


def some_of(only: str | None, known: Sequence[str]) -> list[str]:
    """Parse `--only`: names separated by commas, each once; all of them by default.

    Raises:
        ConfigError: a name is not known.
    """
    names = list(known) if only is None else [part.strip() for part in only.split(",")]
    for name in names:
        if name not in known:
            raise ConfigError(f"only is {name!r}: expected some of {', '.join(known)}")
    return list(dict.fromkeys(names))


def option_of(name: str) -> str:
    """The name of an option in a message, from that of its field."""
    return name.replace("_", "-")


def decimal(words: str, panel: str | None = None) -> Any:
    """An option that takes a number."""
    return typer.Option(help=words, parser=_decimal, metavar="NUMBER", rich_help_panel=panel)


Ranks = Annotated[int, integer("Processes.")]
_MODEL: Any = typer.Option(help=f"{', '.join(ModelName)}, {OR_A_FILE}.")
Model = Annotated[str, _MODEL]
OptionalModel = Annotated[str | None, _MODEL]
Steps = Annotated[int, integer("Optimizer steps.")]
Batch = Annotated[int, integer("Sequences in a rank's micro-batch.")]
Seed = Annotated[int, integer("Random seed of weights and data.")]
TracesFolder = Annotated[Path | None, typer.Option(help="Folder for the traces.")]
AsPage = Annotated[bool, typer.Option("--markdown", help="Print Markdown, as in docs/.")]
OpenBrowser = Annotated[bool, typer.Option("--open", help="Open a browser, if there is one.")]
Timeout = Annotated[float, decimal("Seconds to wait for a rank that does not respond.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace traces that are already in the folder.")
]
ReplaceFile = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]


Faults = Annotated[
    list[str] | None,
    typer.Option(
        help="Inject a fault into a rank, such as skip,rank=1,iteration=2 "
        f"({', '.join(FaultKind)}); may be repeated.",
        metavar="KIND,rank=N,...",
    ),
]
CheckReplicas = Annotated[
    int | None,
    integer(
        "Write checksums every N iterations; diagnose finds the first iteration in "
        "which replicas differ."
    ),
]

Debuggable = Annotated[
    bool,
    typer.Option(
        "--debuggable", help="Let zerosim debug --attach FOLDER stop the ranks while they run."
    ),
]


def faults_of(texts: Sequence[str] | None) -> tuple[Fault, ...]:
    """Read every `--fault`.

    Raises:
        ConfigError: one of them is not a fault.
    """
    return read_faults(texts or ())


def require_no_file(files: Iterable[tuple[str, Path]], *, overwrite: bool) -> None:
    """Refuse to replace existing files, unless requested.

    Args:
        files: the files, with their options.

    Raises:
        EnvironmentFault: one of the files exists.
    """
    for option, file in () if overwrite else files:
        if os.path.lexists(file):
            raise EnvironmentFault(
                f"{file} already exists: give another --{option}, or --overwrite"
            )


def open_run(folder: Path) -> Run:
    """Load a run whose trace may be incomplete.

    Raises:
        TraceError: there is no trace here; the message names those in subfolders, if any.
    """
    try:
        return load(folder)
    except TraceError as error:
        below = sorted(path.parent for path in folder.glob(f"*/{MANIFEST_NAME}"))
        if below and not (folder / MANIFEST_NAME).exists():
            names = ", ".join(path.name for path in below)
            raise TraceError(
                f"{folder} is not a trace, but contains some ({names}): try {below[-1]}"
            ) from None
        raise error from None
