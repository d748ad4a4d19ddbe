"""`initialize`, called with zerosim's arguments or with DeepSpeed's.

engine, optimizer, dataloader, scheduler = zerosim.initialize(
model=model, model_parameters=model.parameters(), config="ds_config.json"
)
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from zerosim.base.config import EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.train.collectives import RankGroup, world
from zerosim.train.deepspeed.config import Settings, read_settings
from zerosim.train.deepspeed.dataloader import make_dataloader
from zerosim.train.deepspeed.distributed import PORT, init_distributed, rank_device, was_launched
from zerosim.train.deepspeed.engine import DeepSpeedEngine
from zerosim.train.deepspeed.optimizer import EngineOptimizer, make_optimizer
from zerosim.train.deepspeed.scheduler import Scheduler, make_scheduler
from zerosim.train.engine import engine as own
from zerosim.train.engine.engine import Engine, require_trainable
from zerosim.train.engine.units import partition

Configuration = Mapping[str, Any] | str | Path
Optimizer = torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer]
FourThings = tuple[DeepSpeedEngine, EngineOptimizer, DataLoader[Any] | None, Any]

_log = logging.getLogger("zerosim")


@overload
def initialize(
    model: nn.Module,
    config: EngineConfig | None = None,
    group: RankGroup | None = None,
    *,
    resume: bool = False,
) -> Engine: ...


@overload
def initialize(
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: Optimizer | None = None,
    model_parameters: Iterable[Any] | None = None,
    training_data: Dataset[Any] | None = None,
    lr_scheduler: Any = None,
    distributed_port: int = PORT,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Callable[..., Any] | None = None,
    config: Configuration | None = None,
    mesh_param: Any = None,
    config_params: Configuration | None = None,
) -> FourThings: ...


def initialize(*positional: Any, **named: Any) -> Any:
    """Create an engine that trains a model, from zerosim's arguments or DeepSpeed's.

    `initialize(model, EngineConfig(...))` returns an `Engine`. With DeepSpeed's arguments it
    returns DeepSpeed's four: engine, optimizer, dataloader, scheduler.

    Args:
        positional: the model, a configuration and a group; or DeepSpeed's arguments.
        named: the same, by keyword.

    Returns:
        An `Engine`; or a `DeepSpeedEngine`, the optimizer whose parameter groups it reads, a
        dataloader if `training_data` was given, and a scheduler if there is one.

    Raises:
        ConfigError: zerosim does not accept an argument or a key of the configuration.
    """
    model_first = bool(positional) and isinstance(positional[0], nn.Module)
    config = positional[1] if model_first and len(positional) > 1 else named.get("config")
    is_own = isinstance(config, EngineConfig)
    if model_first or is_own or (not positional and set(named) <= {"model", "group", "resume"}):
        if not set(named) <= {"model", "config", "group", "resume"} or not (
            is_own or config is None
        ):
            raise ConfigError(
                "this mixes two forms of calling initialize: give (model, EngineConfig(...)), or "
                "DeepSpeed's arguments by name: (model=..., model_parameters=..., config=...)"
            )
        return own.initialize(*positional, **named)
    return _initialize_as_deepspeed(*positional, **named)


def _initialize_as_deepspeed(  # noqa: PLR0913, PLR0917 - DeepSpeed's arguments
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: Optimizer | None = None,
    model_parameters: Iterable[Any] | None = None,
    training_data: Dataset[Any] | None = None,
    lr_scheduler: Any = None,
    distributed_port: int = PORT,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Callable[..., Any] | None = None,
    config: Configuration | None = None,
    mesh_param: Any = None,
    config_params: Configuration | None = None,
) -> FourThings:
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model is a {type(model).__name__}: expected a torch.nn.Module")
    for name, value in (("mpu", mpu), ("mesh_param", mesh_param)):
        if value is not None:
            raise ConfigError(f"{name} is given, but all ranks are data parallel in zerosim")
    source = _configuration(args, config, config_params)
    if was_launched():
        init_distributed(distributed_port=distributed_port, dist_init_required=dist_init_required)
    if hasattr(args, "local_rank"):
        args.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    group = world()
    settings = read_settings(source, group.size)
    if optimizer is None and not settings.has_optimizer:
        raise ConfigError(
            "there is no optimizer: add an optimizer section to the configuration, "
            "or give optimizer="
        )
    engine = open_engine(
        model.to(rank_device()),
        settings,
        group,
        optimizer=optimizer,
        model_parameters=model_parameters,
        lr_scheduler=lr_scheduler,
    )
    if training_data is not None:
        engine.training_dataloader = make_dataloader(
            training_data, group, settings.sizes.micro, collate_fn, drop_last=settings.drop_last
        )
    ignored = settings.ignored()
    if ignored and group.rank == 0:
        _log.warning("zerosim ignores %s: engine.config_report has the reasons", ", ".join(ignored))
    return engine, engine.optimizer, engine.training_dataloader, engine.lr_scheduler


def open_engine(
    model: nn.Module,
    settings: Settings,
    group: RankGroup | None = None,
    *,
    optimizer: Optimizer | None = None,
    model_parameters: Iterable[Any] | None = None,
    lr_scheduler: Any = None,
    resume: bool = False,
) -> DeepSpeedEngine:
    """Create the engine that a DeepSpeed configuration describes.

    Args:
        model: the model, already on its device.
        settings: the configuration, read for as many ranks as the group has.
        optimizer: the program's own, in place of the configuration's.
        model_parameters: tensors, or groups as `torch.optim` takes them; all by default.
        lr_scheduler: the program's own, in place of the configuration's; or a function from the
            optimizer to a scheduler.
        resume: continue from the last state on the disk, as `engine.initialize` does; the
            configuration's scheduler resumes at the same step.

    Raises:
        ConfigError: the model, the optimizer or the scheduler is not supported, or there is no
            state to resume.
        DiskError: the state on the disk is damaged, or cannot be written.
        EnvironmentFault: the folder for the disk is not usable.
    """
    require_trainable(model)
    group = group or world()
    face, config = make_optimizer(model, settings.engine, model_parameters, optimizer)
    if config.stage == 3:
        config = replace(config, prefetch=_units_ahead(model, group, settings.prefetch_elements))
    scheduler = make_scheduler(face, settings.schedule, lr_scheduler)
    engine = DeepSpeedEngine(model, config, group, face, settings, resumes=resume)
    engine.lr_scheduler = scheduler
    if resume and isinstance(scheduler, Scheduler):
        scheduler.step(engine.iteration - engine.skipped_steps - 1)
    return engine


def _units_ahead(model: nn.Module, group: RankGroup, elements: int) -> int:
    """The largest k such that any k consecutive units have at most `elements` together."""
    sizes = [unit.columns * group.size for unit in partition(model, group.size)]
    ahead = 0
    while ahead < len(sizes) - 1:
        windows = range(len(sizes) - ahead)
        if max(sum(sizes[first : first + ahead + 1]) for first in windows) > elements:
            break
        ahead += 1
    return ahead


def _configuration(args: Any, config: Any, config_params: Any) -> Any:
    source = config if config is not None else config_params
    named = getattr(args, "deepspeed_config", None) or getattr(args, "deepscale_config", None)
    if source is not None and named is not None:
        raise ConfigError("config= and args.deepspeed_config are both given: expected one of them")
    found = source if source is not None else named
    if found is None:
        raise ConfigError("there is no configuration: give config= or args.deepspeed_config")
    return found


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add `--deepspeed` and `--deepspeed_config` to a program's parser, as DeepSpeed does."""
    group = parser.add_argument_group("DeepSpeed", "DeepSpeed configurations")
    group.add_argument("--deepspeed", action="store_true", help="for the program's own use")
    group.add_argument("--deepspeed_config", help="configuration in JSON")
    return parser
