"""Flight Recorder dumps as calls of ranks, for the diagnosis of mismatches.

Gloo's dumps lack groups, states and messages; notes explain the consequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zerosim.base.version import VERSION
from zerosim.record import Events, RankTrace, Trace
from zerosim.record.importing.dumps import Dump, DumpedCall, read_files
from zerosim.record.text import as_text
from zerosim.schema.events import SCHEMA_VERSION, Algorithm, Event, Group, Header, Kind, Op, Phase
from zerosim.schema.manifest import Manifest, Source


@dataclass(frozen=True, slots=True)
class Dumps:
    """The result of reading dumps.

    Attributes:
        trace: calls without iterations, in the order in which each rank enqueued them.
        notes: the information that the dumps lack, one sentence each.
    """

    trace: Trace
    notes: tuple[str, ...]


def read_dumps(paths: Sequence[Path]) -> Dumps:
    """Read dumps, one per rank; the rank is the number at the end of the file's name.

    Raises:
        TraceError: a file is not a dump, is hostile or damaged, or its rank has one already.
    """
    return _as_trace(read_files(paths))


def _as_trace(dumps: Sequence[Dump]) -> Dumps:
    everybody = tuple(dump.rank for dump in dumps)
    known = {rank for dump in dumps for ranks in dump.groups.values() for rank in ranks}
    num_ranks = max((*everybody, *known)) + 1
    unsaid = not any(dump.groups for dump in dumps)
    ranks = tuple(_rank(dump, num_ranks, tuple(range(num_ranks))) for dump in dumps)
    backend = next((dump.backend for dump in dumps if dump.backend), "")
    notes = list(_notes(dumps, backend, unsaid=unsaid))
    absent = sorted(set(range(num_ranks)) - set(everybody))
    if absent:
        notes.append(f"there is no dump of rank {', '.join(map(str, absent[:8]))}")
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        created="",
        program=f"imported from {as_text(dumps[0].path.name)}",
        num_ranks=num_ranks,
        backend=backend,
        device="cpu" if backend == "gloo" else "cuda",
        versions={"zerosim": VERSION, "flight recorder": dumps[0].version},
        source=Source.IMPORTED,
        notes=tuple(notes),
    )
    return Dumps(
        Trace(folder=dumps[0].path.parent, manifest=manifest, ranks=ranks, warnings=()),
        tuple(notes),
    )


def _notes(dumps: Sequence[Dump], backend: str, *, unsaid: bool) -> Iterator[str]:
    if unsaid:
        yield (
            "the dumps do not describe groups (Gloo's never do): each group is assumed to have all "
            "ranks with a dump"
        )
    if backend == "gloo":
        yield (
            "Gloo's recorder keeps only the order of enqueued calls: neither whether a call began "
            "or ended (at most that it was retired), nor messages between two ranks"
        )
    if not any(entry.frames for dump in dumps for entry in dump.entries):
        yield "the dumps have no lines of code: JSON never does; the pickle does"


def _rank(dump: Dump, num_ranks: int, everybody: tuple[int, ...]) -> RankTrace:
    groups: dict[str, Group] = {}
    events: list[Event] = []
    counts: dict[str, int] = {}
    for entry in dump.entries:
        event = _event(entry, dump, len(events), counts)
        if event is None:
            continue
        events.append(event)
        if event.group not in groups:
            members = dump.groups.get(event.group, everybody)
            groups[event.group] = Group(
                name=event.group, backend=dump.backend or "unknown", ranks=members
            )
    first = min((event.issue_ns for event in events), default=0)
    return RankTrace(
        rank=dump.rank,
        header=Header(
            schema=SCHEMA_VERSION,
            rank=dump.rank,
            num_ranks=num_ranks,
            local_rank=dump.rank,
            host="",
            pid=0,
            device="",
            clock_ns=first,
            wall_ns=first,
        ),
        events=Events(events),
        groups=groups,
        sockets={},
        wire_samples=(),
        metrics=(),
        failure=None,
        unfinished=tuple(event.id for event in events if event.end_ns is None),
        num_rows=len(events),
        complete=False,
    )


def _event(entry: DumpedCall, dump: Dump, number: int, counts: dict[str, int]) -> Event | None:
    if entry.is_message:
        return None
    is_known = dump.backend != "gloo"
    sequence = entry.sequence
    if not is_known or sequence is None:
        sequence = counts.get(entry.group, 0)  # Gloo's own numbers skip the group's messages
    counts[entry.group] = sequence + 1
    sizes = entry.gotten if entry.op is Op.ALL_GATHER else entry.given
    is_over = entry.state == "completed" if is_known else entry.is_retired
    return Event(
        id=number,
        rank=dump.rank,
        kind=Kind.COLLECTIVE,
        iteration=-1,
        phase=Phase.OUTSIDE,
        op=entry.op,
        operator=entry.name if entry.op is Op.UNKNOWN else "",
        algorithm={"gloo": Algorithm.GLOO, "nccl": Algorithm.NCCL}.get(
            dump.backend, Algorithm.OTHER
        ),
        group=entry.group,
        sequence=sequence,
        dtype=entry.dtype.lower(),
        elements=min(sum(sizes or ()), 2**62),
        issue_ns=entry.created_ns,
        start_ns=entry.created_ns,
        end_ns=max(entry.created_ns, entry.completed_ns or 0) if is_over else None,
        source=entry.source,
    )
