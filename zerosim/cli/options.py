"""What options and arguments are read with, so that a complaint shows what was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from zerosim.errors import ConfigError, TraceError
from zerosim.record import Trace, load
from zerosim.rows import MANIFEST_NAME


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


def some_of(only: str | None, known: Sequence[str]) -> list[str]:
    """Read `--only`: some names with commas, each once; all of them if it is not given.

    Raises:
        ConfigError: a name that is not known.
    """
    names = list(known) if only is None else [part.strip() for part in only.split(",")]
    for name in names:
        if name not in known:
            raise ConfigError(f"only is {name!r}: expected some of {', '.join(known)}")
    return list(dict.fromkeys(names))


def option_of(name: str) -> str:
    """What an option is called in a message, of the field that it fills in."""
    return name.replace("_", "-")


def decimal(words: str) -> Any:
    """An option that takes a number."""
    return typer.Option(help=words, parser=_decimal, metavar="NUMBER")


def open_trace(folder: Path) -> Trace:
    """Load a trace that may be incomplete.

    Raises:
        TraceError: there is none here; if there are some in folders below, it names them.
    """
    try:
        return load(folder)
    except TraceError as error:
        below = sorted(path.parent for path in folder.glob(f"*/{MANIFEST_NAME}"))
        if below and not (folder / MANIFEST_NAME).exists():
            names = ", ".join(path.name for path in below)
            raise TraceError(
                f"{folder} is not a trace but holds some ({names}): try {below[-1]}"
            ) from None
        raise error from None
