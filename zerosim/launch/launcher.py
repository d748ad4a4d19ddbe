"""Starting the ranks of a run on this host, with PyTorch's elastic launcher.

Imports torch, zerosim's L0 and launch.job.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import uuid
from dataclasses import fields
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from zerosim.config import DeviceKind, DType, EngineConfig, RunConfig
from zerosim.errors import EnvironmentFault, RunError
from zerosim.launch.job import Job

_LOOPBACK = "127.0.0.1"
_SHUTDOWN_TIMEOUT_S = 5
"""How long a rank that does not answer to SIGTERM is waited for."""


class RanksFailedError(RunError):
    """Ranks of a run ended before their time.

    Attributes:
        exit_codes: of the ranks that ended by themselves, by rank; negative for a signal.
    """

    def __init__(self, exit_codes: dict[int, int]) -> None:
        super().__init__(f"exit codes by rank: {exit_codes}")
        self.exit_codes = exit_codes


def joined_ranks() -> int | None:
    """Number of ranks if a launcher such as torchrun started this process, else None."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    return None


def launch(job: Job, port: int = 0) -> None:
    """Start `job.run.ranks` processes here and wait for them.

    Args:
        port: where the ranks meet; 0 for a free one.

    Raises:
        EnvironmentFault: the port is in use, or the device cannot do what was asked.
        RanksFailedError: a rank failed, was killed or fell silent; the others were ended.
    """
    if port:
        _require_free(port)
    for config, _ in job.engines:
        require_device(job.run, config)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    command = (sys.executable, "-m", "zerosim.launch.worker", job.encode())
    try:
        elastic_launch(_launch_config(job.run.ranks, port), command[0])(*command[1:])
    except ChildFailedError as failed:
        codes = {rank: failure.exitcode for rank, failure in failed.failures.items()}
        raise RanksFailedError(codes) from None


def require_device(run: RunConfig, config: EngineConfig) -> None:
    """See that this machine can compute what is asked for.

    Raises:
        EnvironmentFault: there is no such device, or it cannot compute in that dtype.
    """
    if run.device is DeviceKind.CUDA and not torch.cuda.is_available():
        raise EnvironmentFault("device is cuda: expected a CUDA GPU, found none; try --device cpu")
    problem = dtype_problem(config.dtype, torch.device(run.device.value))
    if problem:
        raise EnvironmentFault(
            f"dtype is {config.dtype}: this {run.device} cannot compute in it ({problem}); "
            "try --dtype bf16 or fp32"
        )


def dtype_problem(dtype: DType, device: torch.device) -> str:
    """Why a small forward and backward fails in this dtype; "" if it works."""
    kinds = {DType.FP32: torch.float32, DType.BF16: torch.bfloat16, DType.FP16: torch.float16}
    try:
        layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
        layer = layer.to(device=device, dtype=kinds[dtype])
        output = layer(torch.ones(2, 8, device=device, dtype=kinds[dtype]))
        torch.softmax(output, dim=-1).sum().backward()
    except (RuntimeError, NotImplementedError) as error:
        return str(error).splitlines()[0]
    return ""


def _launch_config(num_ranks: int, port: int) -> LaunchConfig:
    optional: dict[str, Any] = {"shutdown_timeout": _SHUTDOWN_TIMEOUT_S}
    known = {field.name for field in fields(LaunchConfig)}
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_ranks,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint=f"{_LOOPBACK}:{port}",
        local_addr=_LOOPBACK,
        max_restarts=0,
        monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(),
        **{name: value for name, value in optional.items() if name in known},
    )


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        try:
            probe.bind((_LOOPBACK, port))
        except OSError as error:
            what = "is in use" if error.errno == errno.EADDRINUSE else f"fails: {error.strerror}"
            raise EnvironmentFault(
                f"port {port} {what}: expected a free one; leave --port out to have one chosen"
            ) from None
        except OverflowError:
            raise EnvironmentFault(f"port is {port}: expected 1 to 65535") from None
