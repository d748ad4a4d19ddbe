"""How a program written for DeepSpeed joins the other ranks and chooses its device."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from zerosim.base.errors import ConfigError

PORT = 29500
"""The rendezvous port if none is given."""
_LAUNCHED = ("RANK", "WORLD_SIZE")


def was_launched() -> bool:
    """Whether a launcher set this process's rank."""
    return all(name in os.environ for name in _LAUNCHED)


def init_distributed(  # noqa: PLR0913, PLR0917 - DeepSpeed's arguments
    dist_backend: str | None = None,
    auto_mpi_discovery: bool = True,  # noqa: ARG001, FBT002
    distributed_port: int = PORT,
    verbose: bool = True,  # noqa: ARG001, FBT002
    timeout: timedelta | None = None,
    init_method: str | None = None,
    dist_init_required: bool | None = None,
    config: Any = None,  # noqa: ARG001
    rank: int = -1,
    world_size: int = -1,
) -> None:
    """Initialize `torch.distributed`, unless that has been done.

    Args:
        dist_backend: "gloo" or "nccl"; by default nccl if there is a GPU.
        auto_mpi_discovery, verbose, config: accepted for DeepSpeed's signature, ignored.
        distributed_port: the rendezvous port, unless the launcher sets it.
        timeout, init_method, rank, world_size: for `torch.distributed.init_process_group`.
        dist_init_required: False to do nothing.

    Raises:
        ConfigError: the number of ranks is unknown.
    """
    if dist.is_initialized() or dist_init_required is False:
        return
    is_said = rank >= 0 and world_size >= 1
    if not is_said and not was_launched():
        raise ConfigError("no launcher set the number of ranks: start this with torchrun")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(distributed_port))
    backend = dist_backend or ("nccl" if torch.cuda.is_available() else "gloo")
    dist.init_process_group(backend, init_method, timeout, rank=rank, world_size=world_size)


def rank_device() -> torch.device | None:
    """This rank's GPU if the backend is NCCL; else None: the model stays on its device."""
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
