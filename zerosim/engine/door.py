"""DeepSpeed's door: `initialize` called as DeepSpeed's, and what stands beside it.

    engine, optimizer, dataloader, scheduler = zerosim.initialize(
        model=model, model_parameters=model.parameters(), config="ds_config.json"
    )

Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, overload

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

from zerosim.collectives import Group, world
from zerosim.config import EngineConfig
from zerosim.dsconfig import Settings, read_settings
from zerosim.engine import engine as own
from zerosim.engine.engine import Engine, require_trainable
from zerosim.engine.facade import EngineOptimizer, Scheduler, make_dataloader, make_optimizer
from zerosim.engine.familiar import DeepSpeedEngine
from zerosim.engine.units import partition
from zerosim.errors import ConfigError

Configuration = Mapping[str, Any] | str | Path
Optimizer = torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer]
FourThings = tuple[DeepSpeedEngine, EngineOptimizer, DataLoader[Any] | None, Any]

_PORT = 29500
_LAUNCHED = ("RANK", "WORLD_SIZE")
_log = logging.getLogger("zerosim")


@overload
def initialize(
    model: nn.Module,
    config: EngineConfig | None = None,
    group: Group | None = None,
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
    distributed_port: int = _PORT,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Callable[..., Any] | None = None,
    config: Configuration | None = None,
    mesh_param: Any = None,
    config_params: Configuration | None = None,
) -> FourThings: ...


def initialize(*positional: Any, **named: Any) -> Any:
    """Make an engine that trains a model: zerosim's way, or DeepSpeed's.

    `initialize(model, EngineConfig(...))` returns an `Engine`. With DeepSpeed's arguments it
    returns DeepSpeed's four: engine, optimizer, dataloader, scheduler.

    Args:
        positional: the model, a configuration and a group; or DeepSpeed's arguments.
        named: likewise.

    Returns:
        An `Engine`; or a `DeepSpeedEngine`, the optimizer whose parameter groups it reads, a
        dataloader if `training_data` was given, and a scheduler if there is one.

    Raises:
        ConfigError: an argument or a key of the configuration that zerosim refuses.
    """
    model_first = bool(positional) and isinstance(positional[0], nn.Module)
    config = positional[1] if model_first and len(positional) > 1 else named.get("config")
    is_own = isinstance(config, EngineConfig)
    if model_first or is_own or (not positional and set(named) <= {"model", "group", "resume"}):
        if not set(named) <= {"model", "config", "group", "resume"} or not (
            is_own or config is None
        ):
            raise ConfigError(
                "this mixes two ways to call initialize: give (model, EngineConfig(...)), or "
                "DeepSpeed's arguments by name: (model=..., model_parameters=..., config=...)"
            )
        return own.initialize(*positional, **named)
    return _open_door(*positional, **named)


def _open_door(  # noqa: PLR0913, PLR0917 - DeepSpeed's arguments
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: Optimizer | None = None,
    model_parameters: Iterable[Any] | None = None,
    training_data: Dataset[Any] | None = None,
    lr_scheduler: Any = None,
    distributed_port: int = _PORT,
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
            raise ConfigError(f"{name} is given: refused: all ranks are data parallel in zerosim")
    source = _configuration(args, config, config_params)
    if all(name in os.environ for name in _LAUNCHED):
        init_distributed(distributed_port=distributed_port, dist_init_required=dist_init_required)
    if hasattr(args, "local_rank"):
        args.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    group = world()
    settings = read_settings(source, group.size)
    if optimizer is None and not settings.has_optimizer:
        raise ConfigError(
            "there is no optimizer: give the configuration an optimizer section, or optimizer="
        )
    engine = open_engine(
        model.to(_device()),
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
        _log.warning("zerosim ignores %s: engine.config_report says why", ", ".join(ignored))
    return engine, engine.optimizer, engine.training_dataloader, engine.lr_scheduler


def open_engine(
    model: nn.Module,
    settings: Settings,
    group: Group | None = None,
    *,
    optimizer: Optimizer | None = None,
    model_parameters: Iterable[Any] | None = None,
    lr_scheduler: Any = None,
    resume: bool = False,
) -> DeepSpeedEngine:
    """Make the engine that a DeepSpeed configuration describes.

    Args:
        model: on its device.
        settings: the configuration, read for as many ranks as the group has.
        optimizer: of the program's own, in place of the configuration's.
        model_parameters: tensors, or groups as `torch.optim` takes them; all by default.
        lr_scheduler: of the program's own, in place of the configuration's; or what makes one of
            the optimizer.
        resume: go on from the last state on the disk, as `engine.initialize` does; the
            configuration's scheduler then stands where it stood.

    Raises:
        ConfigError: the model, the optimizer or the scheduler cannot be trained with, or there is
            nothing to resume.
        DiskError: the state on the disk is damaged, or cannot be written.
        EnvironmentFault: the folder for the disk is of no use.
    """
    require_trainable(model)
    group = group or world()
    facade, config = make_optimizer(model, settings.engine, model_parameters, optimizer)
    if config.stage == 3:
        config = replace(config, prefetch=_units_ahead(model, group, settings.prefetch_elements))
    scheduler = _scheduler(facade, settings, lr_scheduler)
    engine = DeepSpeedEngine(model, config, group, facade, settings, resumes=resume)
    engine.lr_scheduler = scheduler
    if resume and isinstance(scheduler, Scheduler):
        scheduler.step(engine.iteration - engine.skipped_steps - 1)
    return engine


def _scheduler(optimizer: EngineOptimizer, settings: Settings, given: Any) -> Any:
    if given is None:
        return settings.schedule and Scheduler(optimizer, settings.schedule)
    if isinstance(given, torch.optim.lr_scheduler.LRScheduler):
        if given.optimizer is not optimizer.client:
            raise ConfigError(
                "lr_scheduler works on another optimizer: give its optimizer as optimizer=, or a "
                "function that makes a scheduler of the optimizer it gets"
            )
        return given
    made = given(optimizer) if callable(given) else given
    if not hasattr(made, "step"):
        raise ConfigError(f"lr_scheduler is a {type(made).__name__}: expected one with step()")
    return made


def _units_ahead(model: nn.Module, group: Group, elements: int) -> int:
    """The most units of which any that follow each other fit into so many elements together."""
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
        raise ConfigError("there is config= and args.deepspeed_config: expected one of them")
    found = source if source is not None else named
    if found is None:
        raise ConfigError("there is no configuration: give config= or args.deepspeed_config")
    return found


def _device() -> torch.device | None:
    """This rank's GPU if the ranks talk over NCCL; else the model stays where it is."""
    if not dist.is_initialized() or dist.get_backend() != "nccl":
        return None
    local_rank, num_devices = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local_rank >= num_devices:
        raise ConfigError(
            f"local rank {local_rank} has no GPU of its own: this host has {num_devices}; start "
            'fewer ranks, or call init_distributed("gloo") before'
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def init_distributed(  # noqa: PLR0913, PLR0917 - DeepSpeed's arguments
    dist_backend: str | None = None,
    auto_mpi_discovery: bool = True,  # noqa: ARG001, FBT002
    distributed_port: int = _PORT,
    verbose: bool = True,  # noqa: ARG001, FBT002
    timeout: timedelta | None = None,
    init_method: str | None = None,
    dist_init_required: bool | None = None,
    config: Any = None,  # noqa: ARG001
    rank: int = -1,
    world_size: int = -1,
) -> None:
    """Join the other ranks, if that has not been done.

    Args:
        dist_backend: "gloo" or "nccl"; by default nccl where there is a GPU.
        auto_mpi_discovery, verbose, config: DeepSpeed's, without a use here.
        distributed_port: where the ranks meet, unless the launcher said.
        timeout, init_method, rank, world_size: for `torch.distributed.init_process_group`.
        dist_init_required: False to do nothing.

    Raises:
        ConfigError: nobody said how many ranks there are.
    """
    if dist.is_initialized() or dist_init_required is False:
        return
    is_said = rank >= 0 and world_size >= 1
    if not is_said and not all(name in os.environ for name in _LAUNCHED):
        raise ConfigError("no launcher said how many ranks there are: start this with torchrun")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(distributed_port))
    backend = dist_backend or ("nccl" if torch.cuda.is_available() else "gloo")
    dist.init_process_group(backend, init_method, timeout, rank=rank, world_size=world_size)


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add `--deepspeed` and `--deepspeed_config` to a program's parser, as DeepSpeed does."""
    group = parser.add_argument_group("DeepSpeed", "DeepSpeed configurations")
    group.add_argument("--deepspeed", action="store_true", help="for the program's own use")
    group.add_argument("--deepspeed_config", help="configuration in JSON")
    return parser
