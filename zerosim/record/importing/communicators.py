"""Recorders of NCCL itself: calls of communicators, without the ranks of the program.

A communicator has a hash, a size, and a rank for each process in it. The largest communicator of a
process gives its rank, if all processes agree; the ranks of other communicators follow from their
members. Sizes are in bytes, without an element type.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zerosim.base.errors import TraceError
from zerosim.record.bounds import MOST_RANKS
from zerosim.record.importing.calls import MESSAGE_BYTES
from zerosim.record.importing.kineto import RECORD, KinetoProfile
from zerosim.record.importing.spans import ProfileSpan, in_order, nest

COLLECTIVES = {
    "AllReduce": "allreduce",
    "AllGather": "_allgather_base",
    "ReduceScatter": "_reduce_scatter_base",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AllToAll": "all_to_all",
    "AlltoAll": "all_to_all",
    "Gather": "gather",
    "Scatter": "scatter",
    "Send": "send",
    "Recv": "recv",
}
"""NCCL's name of an operation, and the one in PyTorch's records."""


@dataclass(slots=True, kw_only=True)
class Process:
    """The account of one process.

    Attributes:
        member: its rank in each communicator, and the communicator's size.
        spans: its calls as records of a profile, and annotations of the program.
        kernels, launches: as in a profile.
    """

    path: Path
    host: str
    pid: int
    member: dict[str, tuple[int, int]] = field(default_factory=dict)
    spans: list[ProfileSpan] = field(default_factory=list)
    kernels: list[ProfileSpan] = field(default_factory=list)
    launches: dict[int, ProfileSpan] = field(default_factory=dict)

    def call(
        self, name: str, communicator: str, size: int | None, begin_ns: int, end_ns: int
    ) -> ProfileSpan:
        """Record a call in the form of a profile."""
        args = {"Collective name": COLLECTIVES.get(name), MESSAGE_BYTES: size}
        span = ProfileSpan(
            RECORD, (self.pid, 0), begin_ns, end_ns, {**args, "Process Group Name": communicator}
        )
        self.spans.append(span)
        return span


def profiles_of(processes: Sequence[Process], *, is_timed: bool, note: str) -> list[KinetoProfile]:
    """The accounts of ranks.

    Args:
        note: an additional note on such a recording.

    Raises:
        TraceError: the ranks of the processes are unknown.
    """
    sizes = Counter(
        {name: size for one in processes for name, (_, size) in one.member.items()}
    ).most_common(1)
    path = processes[0].path
    world, num_ranks = sizes[0] if sizes else ("", 0)
    ranks = {id(one): one.member[world][0] for one in processes if world in one.member}
    fits = all(0 <= rank < num_ranks <= MOST_RANKS for rank in ranks.values())
    if not fits or len(ranks) < len(processes) or not ranks:
        raise TraceError(
            f"{path}: the ranks of its processes are unknown, because no communicator "
            "contains all of them; start recording before the communicators are created"
        )
    seen: dict[str, dict[int, int]] = defaultdict(dict)
    for one in processes:
        for name, (place, size) in one.member.items():
            if 0 <= place < size <= num_ranks:
                seen[name][place] = ranks[id(one)]
    counts = {name: size for one in processes for name, (_, size) in one.member.items()}
    groups = {
        name: tuple(places[place] for place in range(counts[name]))
        for name, places in seen.items()
        if len(places) == counts[name] and len(set(places.values())) == counts[name]
    }
    groups[world] = tuple(range(num_ranks))
    return [
        _profile(one, ranks[id(one)], num_ranks, groups, is_timed=is_timed, note=note)
        for one in processes
    ]


def _profile(
    process: Process,
    rank: int,
    num_ranks: int,
    groups: dict[str, tuple[int, ...]],
    *,
    is_timed: bool,
    note: str,
) -> KinetoProfile:
    spans = sorted(process.spans, key=in_order)
    nest(spans)
    return KinetoProfile(
        path=process.path,
        rank=rank,
        num_ranks=num_ranks,
        backend="nccl",
        host=process.host,
        pid=process.pid,
        groups=groups,
        backends=dict.fromkeys(groups, "nccl"),
        begin_ns=min((one.start_ns for one in spans), default=0),
        end_ns=max((one.end_ns for one in (*spans, *process.kernels)), default=0),
        spans=tuple(spans),
        differentiated_ns=(),
        kernels=tuple(sorted(process.kernels, key=in_order)),
        launches=process.launches,
        hidden=(),
        is_timed=is_timed,
        notes=(note,),
    )
