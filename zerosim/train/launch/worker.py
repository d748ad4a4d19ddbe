"""The work of one rank: join the others, train, and leave a trace in any case.

Called in a process that `forking` forked, or by the command line in a process that `torchrun`
started. A rank that fails writes the reason at the end of its own trace and in a file beside it,
and reports it to its parent.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from zerosim.base.config import DeviceKind, EngineConfig, Implementation, RunConfig
from zerosim.base.errors import RunError, ZerosimError, first_line
from zerosim.schema.events import Phase
from zerosim.systems.catalogue import make_step
from zerosim.systems.step import Step
from zerosim.trace import labels, trace
from zerosim.trace.faulty import installed
from zerosim.trace.sink import Description
from zerosim.train.device import device_memory
from zerosim.train.engine import Engine
from zerosim.train.launch.forking import tell
from zerosim.train.launch.job import Job
from zerosim.train.launch.parallel import data_group
from zerosim.train.launch.reachable import beyond_loopback
from zerosim.train.launch.rendezvous import JoinedRanks, join
from zerosim.train.launch.training import batches_of, make_engine, told, train_engine, train_other

ERROR_FILE = "rank-{rank}.error.txt"


def run_job(job: Job, prepare: Callable[[], None], begun: list[Path]) -> None:
    """Join the other ranks, do each run of the job, leave.

    Args:
        prepare: called when all ranks have joined, before any of them writes.
        begun: called with each folder when all ranks are about to write into it.

    Raises:
        RunError: this rank failed; its trace has the reason.
    """
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    device = _device(job.run)
    ranks = _join(job.run, device)
    _say_what_is_open()
    ranks.meet("the job begins")
    prepare()
    total = job.run.steps * len(job.engines)
    with _progress(total) as advance:
        for who, folder in job.engines:
            # a folder may have another path on another node
            name = f"run {len(begun)}"
            ranks.meet(f"{name} begins")
            begun.append(folder)
            _train(job, who, folder, name, device, ranks=ranks, advance=advance)
    ranks.meet("the job ends")
    dist.destroy_process_group()


def _train(
    job: Job,
    who: EngineConfig | Implementation,
    folder: Path,
    name: str,
    device: torch.device,
    *,
    ranks: JoinedRanks,
    advance: Callable[[str], None],
) -> None:
    data = data_group(job.run)
    run = told(job.run, job.faults, dist.get_rank())
    batches = batches_of(run, data)
    ours = isinstance(who, EngineConfig)
    # until the trace has ended, it may inspect tensors and query a framework
    trained: Engine | Step | None = None
    # outermost, so that a trace of an out-of-memory error still has the address map
    with (
        device_memory(run.device_bytes, device),
        trace(
            folder,
            # the options are in `run` and the configuration
            program="zerosim run" if ours else f"zerosim profiles: {who}",
            run=job.run.to_plain(),
            memory=run.memory,
            allocations=run.memory,
            faults=job.faults,
            check_replicas=job.check_replicas,
        ),
    ):
        ranks.meet(f"{name} has begun")
        if (faults := installed()) is not None:
            faults.told()
        if isinstance(who, EngineConfig):
            labels.setting("seed", run.seed)
            trained = engine = make_engine(replace(job, run=run), who, device, data)
            train_engine(engine, run.steps, batches.at, advance)
            del engine
        else:
            trained = step = make_step(who, run, batches)
            train_other(step, run.steps, who, advance)
            del step
        ranks.meet(f"{name} ends")
    del trained
    ranks.meet(f"{name} has ended")
    labels.describe(Description())
    labels.enter(-1, Phase.OUTSIDE)
    gc.collect()  # a model and its hooks refer to each other; the next run begins with neither


def _device(run: RunConfig) -> torch.device:
    if run.device is DeviceKind.CPU:
        return torch.device("cpu")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _join(run: RunConfig, device: torch.device) -> JoinedRanks:
    backend = "gloo"
    if device.type == "cuda":
        backend = "nccl"
        if int(os.environ["LOCAL_WORLD_SIZE"]) > torch.cuda.device_count():
            _share_a_device()
    return join(backend, run.timeout_s)


def _say_what_is_open() -> None:
    """List once per host the sockets that other hosts can reach."""
    if int(os.environ.get("LOCAL_RANK", "0")) != 0:
        return
    port = os.environ.get("MASTER_PORT", "")
    found = beyond_loopback([os.getpid()], int(port) if port.isdigit() else 0)
    if found:
        sys.stderr.write(
            f"note: other machines can reach this run at {', '.join(map(str, found))}, without "
            "authentication: use a network that you trust (docs/security.md)\n"
        )
        sys.stderr.flush()


def _share_a_device() -> None:
    """Let several ranks share a GPU: NCCL treats each as a host, so their bytes cross sockets."""
    os.environ["NCCL_HOSTID"] = f"zerosim-{os.environ['RANK']}"
    os.environ.setdefault("NCCL_P2P_DISABLE", "1")
    os.environ.setdefault("NCCL_SHM_DISABLE", "1")
    os.environ.setdefault("NCCL_NET", "Socket")
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on the first rank's standard error, if a person is watching it."""
    # a notebook requests colours where the cursor cannot move
    if dist.get_rank() != 0 or not sys.stderr.isatty():
        yield lambda _: None
        return
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda text: bar.update(task, advance=1, description=text)


def run_guarded(job: Job, prepare: Callable[[], None] = lambda: None) -> Exception | None:
    """Run a job; an error is returned, with its traceback beside the trace.

    Args:
        prepare: as `run_job`'s.
    """
    begun: list[Path] = []
    try:
        run_job(job, prepare, begun)
    except Exception as error:  # noqa: BLE001 - a rank leaves with a status, whatever happened
        if begun:  # before that, the folder may belong to another run
            _leave_traceback(begun[-1], error)
        return error
    return None


def _leave_traceback(folder: Path, error: Exception) -> None:
    """Save the traceback for a developer: users see one line of it, which needs no disk."""
    file = folder / ERROR_FILE.format(rank=os.environ.get("RANK", "0"))
    with suppress(OSError):  # a full disk may be the cause
        file.write_text("".join(traceback.format_exception(error)))


def status_of(error: Exception) -> tuple[int, str]:
    """The exit code of a failed rank, and the reason in one line."""
    if isinstance(error, ZerosimError):
        return error.exit_code, str(error)
    return RunError.exit_code, f"{type(error).__name__}: {first_line(error)}"


def work(job: str) -> int:
    """Run as a rank; returns the exit code."""
    error = run_guarded(Job.decode(job))
    if error is None:
        return 0
    tell(error)
    return status_of(error)[0]
