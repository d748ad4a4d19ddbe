"""A rank's process: its header, the manifest of its trace, and the reason for its failure."""

from __future__ import annotations

import os
import platform
import shlex
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch
import torch.distributed as dist

from zerosim.base.config import Light
from zerosim.base.errors import CollectiveError, EnvironmentFault
from zerosim.base.version import VERSION
from zerosim.schema.events import SCHEMA_VERSION, Header
from zerosim.schema.manifest import Manifest, Source
from zerosim.schema.rows import MANIFEST_NAME, encode_manifest
from zerosim.trace import dry
from zerosim.trace.clock import Clock
from zerosim.trace.sink import Description
from zerosim.trace.writer import backend_name


def header(clock: Clock) -> Header:
    """The first row of this rank's file."""
    rank, num_ranks = _identity()
    return Header(
        schema=SCHEMA_VERSION,
        rank=rank,
        num_ranks=num_ranks,
        local_rank=int(os.environ.get("LOCAL_RANK", rank)),
        host=socket.gethostname(),
        pid=os.getpid(),
        device="cuda" if _backend() == "nccl" else "cpu",
        clock_ns=clock.now_ns(),
        wall_ns=clock.wall_ns(),
        # torchrun's name for the position of a node
        node=int(os.environ.get("GROUP_RANK", "0")),
    )


def write_manifest(
    folder: Path,
    header: Header,
    description: Description,
    program: str | None,
    run: dict[str, object],
    light: Light | None,
) -> None:
    """Write a trace's manifest.

    Args:
        program: the traced command; None for that of this process.
        light: the recorded iterations; None for a full trace.

    Raises:
        EnvironmentFault: it cannot be written.
    """
    dry_run = dry.installed()
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        program=program or shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        num_ranks=header.num_ranks,
        backend=_backend(),
        device=header.device,
        versions={
            "zerosim": VERSION,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
        config=description.config,
        run=run,
        units=description.units,
        buckets=description.buckets,
        light=light,
        source=None if dry_run is None else Source.SIMULATED,
        machine="" if dry_run is None else dry_run.machine,
        alike=() if dry_run is None else dry_run.alike,
    )
    target = folder / MANIFEST_NAME
    temporary = target.with_name(f".{MANIFEST_NAME}.{os.getpid()}")
    try:
        temporary.write_bytes(encode_manifest(manifest))
        if header.local_rank == 0:
            temporary.replace(target)
        else:  # another rank's manifest is not replaced, even if it just appeared
            _place(temporary, target)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {target}: {error.strerror}; give a writable folder"
        ) from None


def _place(temporary: Path, target: Path) -> None:
    """Rename a file unless the name exists."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        if not target.exists():
            temporary.replace(target)
            return
    temporary.unlink()


def _identity() -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _backend() -> str:
    """The backend of collectives; for a group with one per device type, that of the GPU."""
    if not dist.is_available() or not dist.is_initialized():
        return "none"
    group = dist.distributed_c10d._get_default_group()
    # the group's name is unreliable: it may be "undefined", or "cpu:gloo,cuda:nccl"
    names = [backend_name(group, device) for device in group._device_types]
    return "nccl" if "nccl" in names else next(filter(None, names), dist.get_backend())


def store_ports() -> frozenset[int]:
    """The port of the rendezvous store, whose traffic is not between ranks."""
    port = os.environ.get("MASTER_PORT", "")
    found = {int(port)} if port.isdigit() else set()
    if dist.is_available() and dist.is_initialized():
        from torch._C._distributed_c10d import PrefixStore, TCPStore

        store = dist.distributed_c10d._get_default_store()
        while isinstance(store, PrefixStore):
            store = store.underlying_store
        if isinstance(store, TCPStore):
            found.add(store.port)
    return frozenset(found)


def is_lost_peer(error: BaseException) -> bool:
    """Whether another rank caused this failure, according to the backend's error."""
    # Gloo raises a plain RuntimeError that begins with a location in its own code
    is_from_gloo = isinstance(error, RuntimeError) and "/gloo/transport/" in describe_failure(error)
    return isinstance(error, CollectiveError | dist.DistError) or is_from_gloo


def describe_failure(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
