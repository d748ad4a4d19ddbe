"""Starts the ranks of a run on this host, and ends them.

This process owns the rendezvous, so that it survives the death of any rank.
"""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from zerosim.base.config import DeviceKind, DType, EngineConfig, RunConfig
from zerosim.base.errors import ConfigError, EnvironmentFault, RunError, ZerosimError, first_line
from zerosim.train.engine.prepare import TORCH_DTYPES
from zerosim.train.launch.forkserver import ForkServer, Work
from zerosim.train.launch.job import Job, RanksFailedError
from zerosim.train.launch.parallel import require_divisible
from zerosim.train.launch.ranks import RankTimeouts, run_ranks
from zerosim.train.launch.rendezvous import open_rendezvous
from zerosim.train.launch.silence import Silence
from zerosim.train.models.catalogue import num_parameters_of

_OWN_FILES = 32
_FILES_OF_A_PEER = 2
"""Open files of a rank during connection, with a margin: one of 8 ranks has 17 and more."""
_GRACE_S = 4.0
"""Time for the other ranks to notice that one is gone, and to record their positions."""
_WORK = "zerosim.train.launch.worker:work"
_ENOUGH = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def launch(
    job: Job, server: ForkServer, port: int = 0, prepare: Callable[[], None] = lambda: None
) -> None:
    """Start `job.run.ranks` processes here and wait for them.

    Args:
        server: the server that forks the ranks.
        port: the rendezvous port on loopback; 0 for a rendezvous in memory, without a port.
        prepare: called when only the ranks' folders remain to be checked.

    Raises:
        ConfigError: no port has that number.
        EnvironmentFault: the port is in use, or the device does not support the run.
        RanksFailedError: a rank failed, was killed or hung; the others were ended.
        RunError: the ranks could no longer be monitored, and were killed.
        KeyboardInterrupt: interrupted by the user or a signal.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"port is {port}: expected 1 to 65535, or 0 for a free one")
    require_able(job)
    with open_rendezvous(port or None) as rendezvous:
        prepare()
        codes = _run(job, server, rendezvous)
    if any(codes.values()) or len(codes) < job.run.ranks:
        raise RanksFailedError(codes, server.errors())


def _run(job: Job, server: ForkServer, rendezvous: dict[str, str]) -> dict[int, int]:
    on_gpu = job.run.device is DeviceKind.CUDA
    work = Work(_WORK, job.encode(), begins_anew=on_gpu)
    timeouts = RankTimeouts(stopped_s=job.run.timeout_s, grace_s=_GRACE_S)
    # a backend that times out by itself has a better message
    folders = [folder for _, folder in job.engines]
    silence = Silence(folders, job.run.ranks, job.run.timeout_s + _GRACE_S)
    try:
        with _interruptible():
            return run_ranks(server, work, job.run.ranks, rendezvous, timeouts, silence)
    except ZerosimError:
        raise
    except Exception as error:
        raise RunError(
            f"the ranks could no longer be monitored, and were killed: {type(error).__name__}: "
            f"{first_line(error)}; their traces are kept"
        ) from error


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let termination signals act like Ctrl-C: the ranks are ended first.

    An ignored signal, as under nohup, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    heard = [number for number in _ENOUGH if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def require_able(job: Job) -> None:
    """Check that this machine can run the job.

    Raises:
        EnvironmentFault: there is no such device, it does not support the dtype, or a rank cannot
            open as many files as it needs.
        ConfigError: the ranks cannot compute the model together, or it is for dry runs only.
    """
    if job.run.model.is_large:
        raise ConfigError(
            f"model is {job.run.model}, of {num_parameters_of(job.run.model):,} parameters: "
            "expected one that this machine can train; try zerosim simulate"
        )
    for who, _ in job.engines:
        if isinstance(who, EngineConfig):
            require_divisible(job.run, who)
            require_device(job.run, who)
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OWN_FILES + _FILES_OF_A_PEER * job.run.ranks
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        raise EnvironmentFault(
            f"a process can open {allowed} files here: expected {needed} or more for "
            f"{job.run.ranks} ranks; try ulimit -n {needed}"
        )


def require_device(run: RunConfig, config: EngineConfig) -> None:
    """Check that this machine supports the dtype on the requested device.

    Raises:
        EnvironmentFault: there is no such device, or it does not support the dtype.
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
    kind = TORCH_DTYPES[dtype]
    try:
        layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
        layer = layer.to(device=device, dtype=kind)
        output = layer(torch.ones(2, 8, device=device, dtype=kind))
        torch.softmax(output, dim=-1).sum().backward()
    except (RuntimeError, NotImplementedError) as error:
        return first_line(error)
    return ""
