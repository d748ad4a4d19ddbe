"""`zerosim run --deepspeed-config`: what the file decides, and what becomes of each of its keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import typer

from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.family import engine_values
from zerosim.cli.options import option_of
from zerosim.config import CollectivesKind, EngineConfig, choice
from zerosim.deepspeed.config import KEYS, Settings, read_document, read_settings
from zerosim.errors import ConfigError

_ZERO = "zero_optimization"


def _prefetches(settings: Settings) -> str:
    return f"as many units as fit into {settings.prefetch_elements} elements"


@dataclass(frozen=True, slots=True)
class DeepSpeedFile:
    """A DeepSpeed configuration for a run.

    Attributes:
        text: the file's content in one line.
    """

    path: Path
    text: str
    settings: Settings


_DECIDES: dict[str, tuple[str, Callable[[Settings], object]]] = {
    "stage": (f"{_ZERO}.stage", lambda found: str(found.engine.stage)),
    "dtype": ("fp16.enabled and bf16.enabled", lambda found: found.engine.dtype.value),
    "batch": ("train_micro_batch_size_per_gpu", lambda found: found.sizes.micro),
    "accumulate": ("gradient_accumulation_steps", lambda found: found.engine.accumulate),
    "bucket_elements": (
        f"{_ZERO}.reduce_bucket_size",
        lambda found: found.engine.bucket_elements,
    ),
    "overlap": (f"{_ZERO}.overlap_comm", lambda found: found.engine.overlap),
    "prefetch": (f"{_ZERO}.stage3_prefetch_bucket_size", _prefetches),
    "clip": ("gradient_clipping", lambda found: found.engine.clip),
    "learning_rate": ("optimizer.params.lr", lambda found: found.engine.learning_rate),
}
"""Options that the file decides: its key, and what it decides."""

_NOT_ITS_OWN = {"collectives", "learning_rate", "stage"}
"""Options that are held against the file in a way of their own."""


def read_file(path: Path, num_ranks: int, context: typer.Context) -> DeepSpeedFile:
    """Read the file; take over what options say that it does not.

    Raises:
        ConfigError: the file is refused, or contradicts an option that was given.
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
    for name, (key, decided) in _DECIDES.items():
        if name in given and given[name] != decided(settings):
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{option} is {given[name]} and {path} says {decided(settings)} ({key}): leave "
                f"{option} out, or change the file"
            )
    return DeepSpeedFile(path, json.dumps(document), settings)


def explain_file(file: DeepSpeedFile | None, *, as_json: bool) -> int:
    """Print what becomes of each key.

    Raises:
        ConfigError: there is no file.
    """
    if file is None:
        raise ConfigError("--explain is about a file: give --deepspeed-config FILE with it")
    settings = file.settings
    if as_json:
        print_json(
            {
                "engine": settings.engine.to_plain(),
                "batch": asdict(settings.sizes),
                "keys": [asdict(line) for line in settings.lines],
                "defaults": dict(settings.defaults),
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
    return 0


def note_of(file: DeepSpeedFile) -> str:
    """What a person should know before the run, in one line."""
    ignored = file.settings.ignored()
    words = f"zerosim ignores {', '.join(ignored)}" if ignored else "no key is ignored"
    return f"note: {file.path}: {words}; --explain says it key by key"
