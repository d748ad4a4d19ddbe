"""A PyTorch profiler trace (Kineto's JSON) as spans related to communication.

Name and category decide whether an event is kept, before its arguments are parsed, because only
hundreds of a trace's hundreds of thousands of events are needed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from zerosim.base.errors import TraceError
from zerosim.record.bounds import MOST_RANKS
from zerosim.record.importing.spans import ProfileSpan, in_order, nest
from zerosim.record.importing.values import counted, ranks_in

OPERATOR = "c10d::"
RECORD = "record_param_comms"
NATIVE = ("gloo:", "nccl:", "hccl:", "xccl:", "ucc:", "mpi:")
"""The backends' names of the spans of their operations."""
ENGINE = "autograd::engine::evaluate_function: "
ACCUMULATES = "torch::autograd::AccumulateGrad"
STEP, ZERO = "Optimizer.step#", "Optimizer.zero_grad#"
WINDOW = "ProfilerStep#"
WRAPPED = "DistributedDataParallel.forward"
SHARD, SHARDED = "FSDP::", "FullyShardedDataParallel."
DTENSOR = ("Redistribute", "_ToTorchTensor", "_FromTorchTensor")
HIDDEN = "symm_mem::"
"""Operators that move bytes between ranks and leave no record of it."""
_HIDDEN_KERNEL = re.compile(r"cross_device_reduce\w*|multimem\w*")
"""Kernels of communication, if no operator is recorded."""
KEPT = (
    *(OPERATOR, RECORD, *NATIVE, ENGINE, ACCUMULATES, STEP, ZERO, WINDOW),
    *(WRAPPED, SHARD, SHARDED, *DTENSOR, HIDDEN),
)
"""Prefixes of the names of spans related to communication."""
SHAPES = "Input Dims"
_NO_SHAPES = "profile with record_shapes=True"
_OF_LISTS = (
    "a profile has neither shapes of lists of lists nor types of tensors in lists; execution "
    "traces beside the profiles have both"
)
_MOST_OBJECTS = 2**24
"""Limit of JSON objects in a file: an event takes two, and no acceptable file has more."""
_ON_CPU = ("cpu_op", "user_annotation")
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime")


class _Event(msgspec.Struct, gc=False):
    """One event as in the file."""

    ph: str = ""
    name: str = ""
    cat: str | None = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = 0
    dur: float = 0
    args: msgspec.Raw = msgspec.Raw(b"{}")


_NAMES = {
    "events": "traceEvents",
    "distributed": "distributedInfo",
    "base_time_ns": "baseTimeNanoseconds",
}


class _KinetoFile(msgspec.Struct, rename=_NAMES):
    """A value to look up in a file, at any position."""

    events: list[_Event]
    distributed: dict[str, Any] | None = None
    base_time_ns: int = 0
    host_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KinetoProfile:
    """The contents of one rank's file.

    Attributes:
        groups: the ranks of each process group, by name; empty if not recorded.
        begin_ns, end_ns: start and end of the profile.
        spans: the spans kept, in order of their start.
        differentiated_ns: times of operators that a backward refers to, ascending.
        kernels: kernels of NCCL on the device.
        launches: thread and time of each kernel's launch, by correlation id.
        hidden: data movement without a recorded size, in order: operators, or kernels without an
            operator.
        computing: the device's other kernels, in order.
        is_timed: False if times only give an order.
        counts_iterations: whether annotations distinguish iterations.
        unsized, apart: advice if sizes or groups are not recorded.
        notes: further notes, one sentence each.
    """

    path: Path
    rank: int
    num_ranks: int
    backend: str
    host: str
    pid: int
    groups: dict[str, tuple[int, ...]]
    backends: dict[str, str]
    begin_ns: int
    end_ns: int
    spans: tuple[ProfileSpan, ...]
    differentiated_ns: tuple[int, ...]
    kernels: tuple[ProfileSpan, ...]
    launches: dict[int, ProfileSpan]
    hidden: tuple[ProfileSpan, ...]
    computing: tuple[ProfileSpan, ...] = ()
    is_timed: bool = True
    counts_iterations: bool = True
    unsized: str = _NO_SHAPES
    apart: str = "NCCL records it from PyTorch 2.3 on; execution traces of the run may, too"
    notes: tuple[str, ...] = ()

    @property
    def is_on_gpu(self) -> bool:
        """Whether NCCL moved the bytes."""
        return bool(self.kernels) or self.backend.startswith("nccl")


def read_profile(path: Path, content: bytes) -> KinetoProfile:
    """Read one rank's trace.

    Args:
        path: its name in messages.
        content: the contents of the file.

    Raises:
        TraceError: the file is damaged or not a profile, or its rank is unknown.
    """
    file = _decoded(path, content)
    rank, num_ranks, info = _identity(path, file.distributed)
    try:
        kept = _KeptEvents(file)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise _damaged(path, error) from None
    groups, backends = group_config(info.get("pg_config"), num_ranks)
    has_shapes = any(one.args.get(SHAPES) for one in kept.spans)
    return KinetoProfile(
        path=path,
        rank=rank,
        num_ranks=num_ranks,
        backend=str(info.get("backend") or "not recorded"),
        host=file.host_name,
        pid=next((counted({"": s.thread[0]}, "") or 0 for s in kept.spans), 0),
        groups=groups,
        backends=backends,
        begin_ns=kept.begin_ns,
        end_ns=kept.end_ns,
        spans=tuple(kept.spans),
        differentiated_ns=tuple(sorted(kept.differentiated_ns)),
        kernels=tuple(kept.kernels),
        launches=kept.launches,
        hidden=tuple(kept.hidden),
        computing=tuple(kept.computing),
        unsized=_OF_LISTS if has_shapes else _NO_SHAPES,
    )


class _KeptEvents:
    """The events of a file that are kept."""

    def __init__(self, file: _KinetoFile) -> None:
        self.spans: list[ProfileSpan] = []
        self.kernels: list[ProfileSpan] = []
        self.differentiated_ns: list[int] = []
        self.hidden: list[ProfileSpan] = []
        self.computing: list[ProfileSpan] = []
        on_cpu = []
        for event in file.events:
            if event.ph == "s" and event.cat == "fwdbwd":
                self.differentiated_ns.append(_ns(file, event.ts))
            elif event.ph == "X" and event.cat in _ON_CPU:
                on_cpu.append(event)
                if event.name.startswith(KEPT):
                    self.spans.append(_span(file, event))
            elif event.ph == "X" and event.cat == "kernel":
                self._keep_kernel(file, event)
        self.begin_ns = min((_ns(file, one.ts) for one in on_cpu), default=0)
        self.end_ns = max((_ns(file, one.ts + max(one.dur, 0)) for one in on_cpu), default=0)
        self.spans.sort(key=in_order)
        self.kernels.sort(key=in_order)
        self.computing.sort(key=in_order)
        nest(self.spans)
        if asked := [one for one in self.spans if one.name.startswith(HIDDEN)]:
            self.hidden = asked  # the other kernels belong to these
        self.hidden.sort(key=in_order)
        self.launches = self._launches(file)

    def _keep_kernel(self, file: _KinetoFile, event: _Event) -> None:
        if "nccl" in event.name.lower():
            self.kernels.append(_span(file, event))
        elif found := _HIDDEN_KERNEL.search(event.name):
            kernel = _span(file, event)
            kernel.name = found[0]
            self.hidden.append(kernel)
        else:
            self.computing.append(_span(file, event))

    def _launches(self, file: _KinetoFile) -> dict[int, ProfileSpan]:
        """The launches of kernels; newer versions link kernels to calls themselves."""
        kernels = (*self.kernels, *self.computing)
        wanted = {counted(one.args, "correlation") for one in kernels} - {None}
        found: dict[int, ProfileSpan] = {}
        for event in file.events if wanted else ():
            if event.ph == "X" and event.cat in _LAUNCHES and "Launch" in event.name:
                launch = _span(file, event)
                number = counted(launch.args, "correlation")
                if number is not None and number in wanted:
                    found[number] = launch
        return found


def _decoded(path: Path, content: bytes) -> _KinetoFile:
    if (count := content.count(b"{")) > _MOST_OBJECTS:
        raise TraceError(
            f"{path}: {count:,} objects, expected {_MOST_OBJECTS:,} at most: profile fewer steps"
        )
    try:
        return msgspec.json.decode(content, type=_KinetoFile)
    except msgspec.ValidationError as error:
        raise _damaged(path, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # PyTorch wrote control characters and invalid text into names, and still may
        try:
            plain = json.loads(content.decode("utf-8", "replace"), strict=False)
            return msgspec.json.decode(
                json.dumps(plain).encode("utf-8", "replace"), type=_KinetoFile
            )
        except (ValueError, RecursionError, OverflowError) as error:
            raise _damaged(path, error) from None


def _damaged(path: Path, error: BaseException) -> TraceError:
    why = "nested too deep" if isinstance(error, RecursionError) else str(error)
    return TraceError(
        f"{path}: not a trace of PyTorch's profiler, or a damaged one ({why}): expected JSON with "
        "traceEvents, as export_chrome_trace writes it"
    )


def _identity(path: Path, info: dict[str, Any] | None) -> tuple[int, int, dict[str, Any]]:
    info = info or {}
    rank, num_ranks = counted(info, "rank"), counted(info, "world_size")
    if rank is None or num_ranks is None or not rank < num_ranks <= MOST_RANKS:
        raise TraceError(
            f"{path}: it does not name its rank: expected distributedInfo with rank and "
            f"world_size, found {str(info)[:80]}: profile after init_process_group"
        )
    return rank, num_ranks, info


def group_config(
    config: object, num_ranks: int
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """The ranks and the backends of the process groups in PyTorch's list."""
    groups: dict[str, tuple[int, ...]] = {}
    backends: dict[str, str] = {}
    for one in config if isinstance(config, list) else ():
        if not isinstance(one, dict) or "pg_name" not in one:
            continue
        ranks = ranks_in(one.get("ranks"), num_ranks)
        if not ranks and counted(one, "group_size") == num_ranks:  # "[]" means all ranks
            ranks = tuple(range(num_ranks))
        if ranks:
            groups[str(one["pg_name"])] = ranks
            backends[str(one["pg_name"])] = str(one.get("backend_config") or "")
    return groups, backends


def _span(file: _KinetoFile, event: _Event) -> ProfileSpan:
    args = msgspec.json.decode(event.args)
    return ProfileSpan(
        event.name,
        (event.pid, event.tid),
        _ns(file, event.ts),
        _ns(file, event.ts + max(event.dur, 0)),
        args if isinstance(args, dict) else {},
    )


def _ns(file: _KinetoFile, microseconds: float) -> int:
    """A time since 1970; older traces have no base and count from 1970 themselves."""
    time = file.base_time_ns + round(microseconds * 1000)
    if not 0 <= time < 2**62:
        raise ValueError(f"the time {microseconds} µs is out of range")
    return time
