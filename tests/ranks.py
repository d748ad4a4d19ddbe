"""Run a function on several ranks: real processes, Gloo over loopback, a free port, a deadline.

The ranks are forked by a process that has imported PyTorch once and computed nothing
(multiprocessing's forkserver): a rank that imports it for itself takes two seconds for that.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest import mock

DEADLINE_S = 600.0
"""Enough beside other programs that want the processor."""
_IMPORTED_ONCE = [
    "torch.distributed",
    "torch._dynamo",  # an optimizer imports it when it is made
    "zerosim.engine",
    "zerosim.models",
]


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run_ranks(
    function: Callable[..., Any],
    num_ranks: int,
    *args: Any,
    deadline_s: float = DEADLINE_S,
    backend: str | None = "gloo",
) -> list[Any]:
    """Call `function(*args)` in `num_ranks` processes joined by Gloo.

    Args:
        function: importable by name; asks torch.distributed for its rank.
        backend: as the ranks name it; None leaves it to PyTorch.

    Returns:
        What each rank returned, by rank.

    Raises:
        AssertionError: a rank raised, died or did not end in time; with its traceback.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED_ONCE)
    # what is imported there must start no thread: a fork takes none along
    with mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as folder:
        # handed over, as the server may have been started long ago
        environment = os.environ | {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "WORLD_SIZE": str(num_ranks),
            "OMP_NUM_THREADS": "1",
        }
        processes = [
            context.Process(
                target=_main, args=(rank, folder, environment, backend, function, args), daemon=True
            )
            for rank in range(num_ranks)
        ]
        for process in processes:
            process.start()
        end = time.monotonic() + deadline_s
        for process in processes:
            process.join(max(0.0, end - time.monotonic()))
        late = [rank for rank, process in enumerate(processes) if process.is_alive()]
        for process in processes:
            process.kill()
            process.join()
        results = []
        problems = [f"rank {rank} did not end within {deadline_s} s" for rank in late]
        for rank in range(num_ranks):
            path = Path(folder, str(rank))
            succeeded, value = _read(path)
            results.append(value)
            if not succeeded:
                problems.append(f"rank {rank}: {value}")
        assert not problems, "\n".join(problems)
        return results


def _read(path: Path) -> tuple[bool, Any]:
    if not path.exists():
        return False, "died"
    answer: tuple[bool, Any] = pickle.loads(path.read_bytes())  # noqa: S301 - a child wrote it
    return answer


def _main(
    rank: int,
    folder: str,
    environment: dict[str, str],
    backend: str | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    import torch
    import torch.distributed as dist

    os.environ.clear()
    os.environ.update(environment, RANK=str(rank))
    torch.set_num_threads(1)
    try:
        dist.init_process_group(backend)
        result = (True, function(*args))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:  # noqa: BLE001 - whatever it was is reported
        result = (False, traceback.format_exc())
    Path(folder, str(rank)).write_bytes(pickle.dumps(result))
