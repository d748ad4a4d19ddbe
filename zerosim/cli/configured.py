"""The options of a command that are declared in `EngineConfig` and `RunConfig`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from zerosim.base.config import EngineConfig, ModelFile, RunConfig
from zerosim.base.config.model import taken_words
from zerosim.base.errors import ConfigError
from zerosim.cli.options import decimal, integer, option_of

PANELS = "*"
"""All options in panels of their own."""

DECLARED = {one.name: one for one in (*EngineConfig.options(), *RunConfig.options())}

_TYPED: dict[str, Any] = {"FOLDER": Path | None, "BYTES": str | None}
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}

C = TypeVar("C", bound=Callable[..., int])


def with_options(names: str, **others: tuple[Any, Any]) -> Callable[[C], C]:
    """Give a command options in this order.

    Args:
        names: the command's own parameters, fields of the configurations, and `PANELS`.
        others: further parameters of the command, listed among its options: annotation and default
            of each.
    """

    def decorate(command: C) -> C:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        for name, (annotation, default) in others.items():
            own[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
        expanded = names.replace(PANELS, " ".join(in_panels())).split()
        parameters = [own[name] if name in own else _parameter(name) for name in expanded]
        context = [own["context"]] if "context" in own else []
        signature = inspect.Signature([*context, *parameters])
        vars(command)["__signature__"] = signature
        return command

    return decorate


def in_panels() -> list[str]:
    """The options with a panel, in the order of a command's help."""
    found: list[str] = []
    waiting = [one for one in DECLARED.values() if one.option.panel]
    while waiting:
        one = waiting.pop(0)
        if not one.option.after:
            found.append(one.name)
        elif one.option.after in found:
            found.insert(found.index(one.option.after) + 1, one.name)
        else:
            waiting.append(one)
    return found


def engine_values(options: dict[str, Any]) -> dict[str, Any]:
    """The command's options for the engine's configuration."""
    found = {one.name: options[one.name] for one in EngineConfig.options() if one.name in options}
    path = found.get("nvme_path")
    return found | {"nvme_path": "" if path is None else str(Path(path).absolute())}


def run_values(options: dict[str, Any]) -> dict[str, Any]:
    """The command's options for a run's configuration."""
    found = {one.name: options[one.name] for one in RunConfig.options() if one.name in options}
    if isinstance(limit := found.get("device_bytes"), str):
        found["device_bytes"] = _read_bytes(limit, option_of("device_bytes"))
    return found


def say_what_is_taken(run: RunConfig) -> None:
    """Print on standard error, in one line, which parts of a model's file are trained.

    Raises:
        ConfigError: it cannot be read, or describes a model that cannot be trained here.
    """
    if isinstance(run.model, ModelFile):
        typer.echo(f"zerosim: {taken_words(run.model, run.shape)}", err=True)


def _parameter(name: str) -> inspect.Parameter:
    """A declared option as one of a command: its value is the typed text."""
    one = DECLARED[name]
    words, panel = one.option.help, one.option.panel or None
    kind: Any = one.kind
    default = one.default
    option = typer.Option(help=words, rich_help_panel=panel)
    if one.option.metavar:
        kind, default = _TYPED[one.option.metavar], None
        option = typer.Option(help=words, rich_help_panel=panel, metavar=one.option.metavar)
    elif kind is bool and not default:
        option = typer.Option(f"--{option_of(name)}", help=words, rich_help_panel=panel)
    elif issubclass(kind, StrEnum):
        kind, default = str, str(default)
    elif kind is int:
        option = integer(words, panel)
    elif kind is float:
        option = decimal(words)
    if one.is_optional:
        kind |= None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


def _read_bytes(text: str, what: str) -> int:
    """Read a size: "48MB" is 48,000,000 and "1GiB" 1,073,741,824.

    Raises:
        ConfigError: it is none.
    """
    plain = text.strip().upper().removesuffix("B")
    digits = plain.rstrip("KMGI")
    suffix = plain[len(digits) :]
    factor = _UNITS.get(f"{suffix}B" if suffix else "")
    try:
        number = float(digits)
    except ValueError:
        number = 0.0
    if factor is None or not 0 < number < float("inf"):
        raise ConfigError(f"{what} is {text!r}: expected a size such as 48MB or 1GiB")
    return round(number * factor)
