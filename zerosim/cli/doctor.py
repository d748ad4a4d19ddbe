"""`zerosim doctor`: whether this machine can run zerosim, and what it can measure."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from rich.text import Text

from zerosim.base.errors import first_line
from zerosim.cli.console import make_console, print_json
from zerosim.cli.options import AsJson
from zerosim.cli.pages import require_pages

_NEEDED_DISK_BYTES = 10**9


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One check of the machine.

    Attributes:
        is_needed: False if zerosim runs without it and only measures less.
    """

    what: str
    works: bool
    found: str
    is_needed: bool = True


def doctor(*, as_json: AsJson = False) -> int:
    """Check whether this machine can run zerosim and what it can measure; exit 2 if it cannot."""
    findings = list(_examine())
    able = all(finding.works for finding in findings if finding.is_needed)
    if as_json:
        print_json({"able": able, "findings": [asdict(finding) for finding in findings]})
        return 0 if able else 2
    console = make_console()
    for finding in findings:
        mark, colour = ("✓", "green") if finding.works else ("✗", "red")
        if not finding.works and not finding.is_needed:
            mark, colour = "-", "yellow"
        console.print(Text.assemble((mark, colour), f" {finding.what}: {finding.found}"))
    console.print()
    if able:
        console.print("this machine can run zerosim; next: zerosim run --stage 3 --ranks 2")
    else:
        console.print("this machine cannot run zerosim yet: see the lines marked ✗")
    return 0 if able else 2


def _examine() -> Iterator[HealthCheck]:
    yield HealthCheck(
        "python", sys.version_info >= (3, 11), f"{platform.python_version()}, 3.11 needed"
    )
    yield _torch()
    yield _try("gloo", _gloo)
    yield _try("interception", _interception)
    yield _doors()
    yield _wire()
    yield _try("memory", _memory, is_needed=False)
    yield _try("bf16", lambda: _dtype("bf16"), is_needed=False)
    yield _try("fp16", lambda: _dtype("fp16"), is_needed=False)
    yield _gpu()
    yield _try("pages", require_pages, is_needed=False)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield HealthCheck("cores", works=True, found=f"{cores}; more ranks than cores can share them")
    free = shutil.disk_usage(".").free
    enough = free > _NEEDED_DISK_BYTES
    yield HealthCheck("disk", enough, f"{free / 1e9:.0f} GB free here, 1 GB needed")
    yield HealthCheck("this folder", os.access(".", os.W_OK), "writable, for traces/")


def _try(what: str, probe: Callable[[], str], *, is_needed: bool = True) -> HealthCheck:
    try:
        return HealthCheck(what, works=True, found=probe(), is_needed=is_needed)
    except Exception as error:  # noqa: BLE001 - any error is the finding
        return HealthCheck(what, works=False, found=first_line(error), is_needed=is_needed)


def _torch() -> HealthCheck:
    try:
        import torch
    except ImportError as error:
        return HealthCheck("torch", works=False, found=f"{error}; make setup installs it")
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    return HealthCheck("torch", version >= (2, 11), f"{torch.__version__}, 2.11 needed")


def _gloo() -> str:
    import torch.distributed as dist

    if not dist.is_gloo_available():
        raise RuntimeError("this PyTorch was built without it")
    return "available"


def _interception() -> str:
    import torch
    import torch.distributed as dist

    from zerosim.record import load
    from zerosim.schema.events import Kind
    from zerosim.trace import trace

    with tempfile.TemporaryDirectory() as folder:
        with _joined(), trace(folder):
            dist.all_reduce(torch.ones(1))
        events = [event for rank in load(folder).ranks for event in rank.events]
    seen = [event for event in events if event.kind is Kind.COLLECTIVE]
    if len(seen) != 1:
        raise RuntimeError(f"one all-reduce was called, but {len(seen)} were recorded")
    return "collectives are recorded"


@contextmanager
def _joined() -> Iterator[None]:
    """A context in which this process is the only rank of a run."""
    import torch.distributed as dist

    from zerosim.train.launch.loopback import own_interface
    from zerosim.train.launch.rendezvous import open_memory

    before = dict(os.environ)
    os.environ.update(own_interface())
    try:
        with open_memory() as address:
            dist.init_process_group("gloo", init_method=address, rank=0, world_size=1)
            try:
                yield
            finally:
                dist.destroy_process_group()
    finally:
        os.environ.clear()
        os.environ.update(before)


def _doors() -> HealthCheck:
    """Whether other hosts can reach a run of this host; a multi-node run needs that."""
    from zerosim.train.launch.reachable import beyond_loopback

    what = "open ports"
    try:
        with _joined():
            found = beyond_loopback([os.getpid()])
    except Exception as error:  # noqa: BLE001 - any error is the finding
        return HealthCheck(what, works=False, found=first_line(error), is_needed=False)
    if found:
        reached = ", ".join(map(str, found))
        words = f"other machines can reach a rank at {reached}: see docs/security.md"
        return HealthCheck(what, works=False, found=words, is_needed=False)
    return HealthCheck(
        what, works=True, found="ranks on this host can be reached from this host only"
    )


def _memory() -> str:
    import torch

    from zerosim.trace.allocations import AllocationRecord

    record = AllocationRecord()
    kept = torch.empty(1000, dtype=torch.uint8)
    record.mark(0)
    (counted,) = record.close().allocated_bytes
    if counted != len(kept):
        raise RuntimeError(f"{len(kept)} B were allocated and PyTorch's record counts {counted} B")
    return "PyTorch's record of allocations can be read"


def _wire() -> HealthCheck:
    from zerosim.trace.wire import supported

    able = supported()
    words = "the kernel counts bytes per connection" if able else "not on this kernel: not measured"
    return HealthCheck("wire", able, words, is_needed=False)


def _dtype(name: str) -> str:
    import torch

    from zerosim.base.config import DType
    from zerosim.train.launch.launcher import dtype_problem

    problem = dtype_problem(DType(name), torch.device("cpu"))
    if problem:
        raise RuntimeError(problem)
    return "this CPU supports it"


def _gpu() -> HealthCheck:
    import torch

    count = torch.cuda.device_count()
    words = f"{count} found" if count else "none found: ranks compute on the CPU"
    return HealthCheck("CUDA", count > 0, words, is_needed=False)
