"""One iteration as Chakra execution traces, the input of ASTRA-sim, SimAI and other simulators.

One file per rank, PREFIX.RANK.et, and the groups in PREFIX.groups.json. A ring of zerosim is
exported as the collective that it implements: the simulator chooses its messages. Source:
mlcommons/chakra, schema/protobuf/et_def.proto, version 0.0.4; the parts that ASTRA-sim reads:
astra-sim/workload/Workload.cc.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from zerosim.analysis.graph import EventGraph
from zerosim.analysis.graph.kinds import NodeKind
from zerosim.analysis.graph.table import Mask
from zerosim.base.errors import TraceError
from zerosim.base.tiers import Tier
from zerosim.schema.events import Event, Group, Kind, Op
from zerosim.view.export.protobuf import counted, integer, packed, varint

VERSION = "0.0.4"
LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = range(2, 8)
"""`NodeType`."""
COLLECTIVES = {
    Op.ALL_REDUCE: 0,
    Op.REDUCE: 1,
    Op.ALL_GATHER: 2,
    Op.GATHER: 3,
    Op.SCATTER: 4,
    Op.BROADCAST: 5,
    Op.ALL_TO_ALL: 6,
    Op.REDUCE_SCATTER: 7,
    Op.BARRIER: 9,
}
"""`CollectiveCommType`."""
_STEPS = (NodeKind.COMPUTE, NodeKind.CALL, NodeKind.COPY)
_OF_SHARD = (Op.ALL_GATHER, Op.GATHER)
"""Operations for which ASTRA-sim reads the size of one rank's part."""
NOBODY = -1
"""The peer of a message with an unknown sender."""


@dataclass(frozen=True, slots=True)
class ChakraNode:
    """A node of one rank's file.

    Attributes:
        after: ids of the nodes that it follows.
        settings: attributes by name, as encoded values.
    """

    id: int
    name: str
    type: int
    after: tuple[int, ...]
    start_us: int
    duration_us: int
    settings: dict[str, bytes] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """The node, encoded as a `Node`."""
        attributes = (counted(1, name) + value for name, value in self.settings.items())
        return b"".join(
            (
                *(integer(1, self.id), counted(2, self.name), integer(3, self.type)),
                *(packed(5, self.after), integer(6, self.start_us), integer(7, self.duration_us)),
                *(counted(10, attribute) for attribute in attributes),
            )
        )


def chakra_files(graph: EventGraph, iteration: int, prefix: Path) -> dict[Path, bytes]:
    """One iteration as files.

    Args:
        graph: the graph of a whole trace.
        iteration: the iteration to export.
        prefix: prefix of the files' names.

    Returns:
        The contents of each file: each rank's, and that of the groups.

    Raises:
        TraceError: the size or the group of some call is not recorded.
    """
    part = graph.within(iteration)
    _require_whole(part)
    names = {ranks: str(number) for number, ranks in enumerate(_groups(part), 1)}
    files = {}
    for place, rank in enumerate(part.trace.ranks):
        head = counted(1, VERSION) + counted(2, counted(1, "iteration") + integer(9, iteration))
        if part.trace.manifest.is_predicted:
            head += counted(2, counted(1, "times") + counted(29, "predicted"))
        messages = [head, *(step.encoded() for step in steps(part, place, names))]
        content = b"".join(varint(len(message)) + message for message in messages)
        files[prefix.with_name(f"{prefix.name}.{rank.rank}.et")] = content
    groups = {name: list(ranks) for ranks, name in names.items()}
    files[prefix.with_name(f"{prefix.name}.groups.json")] = (json.dumps(groups) + "\n").encode()
    return files


def _require_whole(part: EventGraph) -> None:
    """Refuse an export in which a simulator would treat unrecorded data as zero."""
    calls = np.flatnonzero(part.is_kind(NodeKind.CALL)).tolist()
    events = [event for call in calls if (event := part.event_of(call)) is not None]
    if unknown := [event for event in events if event.operator or not event.group]:
        raise TraceError(
            f"{part.trace.folder}: the size or the group of {len(unknown):,} of "
            f"{len(events):,} calls is not recorded, and a simulator needs both: import execution "
            "traces as well, or profile with record_shapes=True"
        )


def steps(
    part: EventGraph, place: int, names: Mapping[tuple[int, ...], str]
) -> Iterator[ChakraNode]:
    """The events of one rank, each after its predecessors, in order of start.

    Args:
        part: the graph of one iteration.
        place: index of the rank in `trace.ranks`.
        names: of the groups, by their ranks.
    """
    rank = part.trace.ranks[place]
    own = (part.place == place) & ~part.is_kind(NodeKind.MATCH)
    follows = _follows(part, own)
    order = np.flatnonzero(own)[np.lexsort((part.end[own], part.at[own]))].tolist()
    began = int(part.start[order[0]]) if order else 0
    found: dict[int, set[int]] = {}
    for node in order:
        after = {step for before in follows[node] for step in found.get(before, ())}
        event = part.event_of(node)
        if event is None or part.kind_of(node) not in _STEPS:
            found[node] = after
            continue
        found[node] = {node}
        type_, settings = _described(event, rank.groups, names)
        if type_ in (SEND, RECEIVE):  # the same on both ranks
            settings["comm_tag"] = integer(7, int(part.collective[node]))
        start, end = int(part.start[node]), int(part.end[node])
        yield ChakraNode(
            id=node,
            name=part.label(node).removeprefix("arrival at "),
            type=type_,
            after=tuple(sorted(after)),
            start_us=(start - began) // 1000,
            duration_us=(end - start) // 1000,
            settings=settings,
        )


def _follows(part: EventGraph, own: Mask) -> dict[int, list[int]]:
    """The predecessors of a rank's nodes on that rank: a collective of all is the rank's own
    call.
    """
    calls = np.flatnonzero(own & part.is_kind(NodeKind.CALL)).tolist()
    call_of = {int(part.collective[call]): call for call in calls}
    matches = part.is_kind(NodeKind.MATCH)
    follows: dict[int, list[int]] = defaultdict(list)
    for source, target in zip(part.source.tolist(), part.target.tolist(), strict=True):
        before = call_of.get(int(part.collective[source])) if matches[source] else source
        if before is not None and before != target and own[before] and own[target]:
            follows[target].append(before)
    return follows


def _described(
    event: Event, groups: Mapping[str, Group], names: Mapping[tuple[int, ...], str]
) -> tuple[int, dict[str, bytes]]:
    """The node type of an event, and its attributes."""
    settings = {"is_cpu_op": integer(27, 0)}  # ASTRA-sim refuses any other value here
    if event.kind is Kind.COMPUTE:
        return COMPUTE, settings
    size = event.payload_bytes
    if event.kind is Kind.COPY:
        settings["tensor_size"] = integer(13, size)
        tiers = list(Tier)  # from the device down
        is_up = (
            event.origin and event.target and tiers.index(event.target) < tiers.index(event.origin)
        )
        return (LOAD if is_up else STORE), settings
    if event.op in (Op.SEND, Op.RECEIVE):
        peer = event.peers[0] if event.peers else NOBODY
        source, target = (event.rank, peer) if event.op is Op.SEND else (peer, event.rank)
        settings |= {"comm_src": integer(7, source), "comm_dst": integer(7, target)}
        settings["comm_size"] = integer(9, size)
        return (SEND if event.op is Op.SEND else RECEIVE), settings
    if not event.group:
        raise TraceError(
            f"the group of event {event.id} of rank {event.rank} is not recorded, and Chakra has "
            "no such collective: give another --iteration, or record the run again"
        )
    ranks = groups[event.group].ranks
    if event.op in COLLECTIVES:
        settings["comm_type"] = integer(9, COLLECTIVES[event.op])
    part = size // len(ranks) if event.op in _OF_SHARD else size
    return COLLECTIVE, settings | {
        "comm_size": integer(9, part),
        "pg_name": counted(29, names[ranks]),
    }


def _groups(part: EventGraph) -> list[tuple[int, ...]]:
    """The groups of a trace by their ranks, the largest first."""
    found = {group.ranks for rank in part.trace.ranks for group in rank.groups.values()}
    return sorted(found, key=lambda ranks: (-len(ranks), ranks))
