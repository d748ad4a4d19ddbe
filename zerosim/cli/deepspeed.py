"""`zerosim run --deepspeed-config`: the file's settings, and the treatment of each of its keys."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import typer

from zerosim.base.config import CollectivesKind, EngineConfig, RunConfig, choice
from zerosim.base.errors import ConfigError
from zerosim.cli.configured import DECLARED, engine_values
from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.options import option_of
from zerosim.systems.deepspeed.explanation import Explanation, explain
from zerosim.train.deepspeed.config import KEYS, Settings, read_document, read_settings


@dataclass(frozen=True, slots=True)
class DeepSpeedFile:
    """A DeepSpeed configuration for a run.

    Attributes:
        text: the file's content in one line.
    """

    path: Path
    text: str
    settings: Settings


_DECIDES = {
    one.name: one.option.deepspeed
    for one in DECLARED.values()
    if one.option.deepspeed and not one.option.panel
}
"""Options that the file decides, and the key that it does so by."""

_NOT_ITS_OWN = {"collectives", "learning_rate", "stage"}
"""Options with a separate comparison with the file."""


def _decided(settings: Settings, name: str) -> object:
    """The file's setting of an option, as on a command line."""
    if name == "batch":
        return settings.sizes.micro
    if name == "prefetch":
        return f"as many units as fit into {settings.prefetch_elements} elements"
    value = getattr(settings.engine, name)
    return str(value) if name == "stage" else value


def read_file(path: Path, num_ranks: int, context: typer.Context) -> DeepSpeedFile:
    """Read the file; the options supply settings that it lacks.

    Raises:
        ConfigError: the file is not supported, or contradicts an option.
    """
    document = read_document(path)
    settings = read_settings(document, num_ranks)
    given = {
        name: value
        for name, value in context.params.items()
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    }
    options = context.params
    config = replace(
        settings.engine,
        collectives=choice(CollectivesKind, options["collectives"], "collectives"),
        learning_rate=(
            settings.engine.learning_rate if settings.has_optimizer else options["learning_rate"]
        ),
    )
    for name in given.keys() & engine_values(given).keys() - _DECIDES.keys() - _NOT_ITS_OWN:
        said, wanted = getattr(config, name), engine_values(given)[name]
        if said not in (getattr(EngineConfig(), name), wanted):
            option = f"--{option_of(name)}"
            raise ConfigError(f"{option} is {wanted} and {path} says {said}: leave {option} out")
        config = replace(config, **{name: wanted})
    settings = replace(settings, engine=config)
    for name, key in _DECIDES.items():
        if name in given and given[name] != (decided := _decided(settings, name)):
            option = f"--{option_of(name)}"
            raise ConfigError(
                f"{option} is {given[name]} and {path} says {decided} ({key}): leave "
                f"{option} out, or change the file"
            )
    return DeepSpeedFile(path, json.dumps(document), settings)


def explain_file(
    file: DeepSpeedFile | None, run: RunConfig, num_ranks: int, *, as_json: bool
) -> int:
    """Print the treatment of each key, and the traffic and memory of DeepSpeed itself.

    Args:
        run: the run with the model.
        num_ranks: number of data-parallel ranks.

    Raises:
        ConfigError: there is no file.
    """
    if file is None:
        raise ConfigError("--explain needs a file: give --deepspeed-config FILE as well")
    settings = file.settings
    own = _explained(file, run, num_ranks)
    if as_json:
        print_json(
            {
                "engine": settings.engine.to_plain(),
                "batch": asdict(settings.sizes),
                "keys": [asdict(line) for line in settings.lines],
                "defaults": dict(settings.defaults),
                "deepspeed": own if isinstance(own, str) else own.to_plain(),
            }
        )
        return 0
    console = make_console()
    table = make_table("key", "value", "zerosim", "", left=4)
    table.columns[3].no_wrap = False
    for line in settings.lines:
        table.add_row(line.path, line.value, line.treatment, line.sentence)
    for path, value in settings.defaults:
        table.add_row(path, value, "DeepSpeed's default", KEYS[path].sentence)
    print_table(console, table)
    console.print()
    console.print(str(own), highlight=False, markup=False)
    return 0


def _explained(file: DeepSpeedFile, run: RunConfig, num_ranks: int) -> Explanation | str:
    """The behavior of DeepSpeed itself with the file, or why that is unknown."""
    import torch

    from zerosim.train.models import build

    with torch.device("meta"):
        model = build(run.model, run.seed, shape=run.shape)
    try:
        return explain(json.loads(file.text), model, ranks=num_ranks)
    except ConfigError as error:
        return f"DeepSpeed's own traffic with it is unknown: {error}"


def note_of(file: DeepSpeedFile) -> str:
    """A note for the user before the run, in one line."""
    ignored = file.settings.ignored()
    words = f"zerosim ignores {', '.join(ignored)}" if ignored else "no key is ignored"
    return f"note: {file.path}: {words}; --explain lists every key"
