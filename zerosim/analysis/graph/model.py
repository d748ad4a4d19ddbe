"""The event graph: arrays inside, a `networkx` interface outside.

Times are nanoseconds on the clock of the first rank's host. An edge between two nodes has the time
(`ready`) at which its source's result was available; no edge is ready after its target's time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zerosim.analysis.graph.clocks import Clocks
from zerosim.analysis.graph.hops import Hops
from zerosim.analysis.graph.kinds import (
    EDGE_KINDS,
    NODE_CODES,
    NODE_KINDS,
    PHASES,
    REASONS,
    EdgeKind,
    NodeKind,
    Reason,
)
from zerosim.analysis.graph.table import NONE, Codes, Ints, Mask
from zerosim.analysis.graph.wording import said
from zerosim.base.language import term
from zerosim.record import MatchedCollective, Matching, Trace
from zerosim.schema.events import Event, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGraph:
    """All events of all ranks, and the causes of their times.

    Attributes:
        kind: by node, codes of `NodeKind` (index in `NODE_KINDS`).
        rank: by node, global rank; for a matched collective, the one that arrived last.
        place: by node, the rank's index in `trace.ranks`.
        event: by node, index among the rank's events; `NONE` for a phase. For a matched collective,
            the call of the first named rank.
        collective: by node, index in `matching.collectives`, for a matched collective, its calls
            and the waits for it; else `NONE`.
        iteration, phase: by node; phases as indices in `PHASES`.
        start, end: by node, ns; a matched collective starts when the last rank has arrived.
        at: by node, ns: the time that its predecessors must not exceed: its start, or the end
            of a wait or a receive.
        source, target: by edge, nodes.
        reason: by edge, codes of `Reason`.
        ready: by edge, ns, at most the target's `at`.
        hops: messages of the whole trace.
    """

    trace: Trace
    matching: Matching
    clocks: Clocks
    hops: Hops
    kind: Codes
    rank: Ints
    place: Ints
    event: Ints
    collective: Ints
    iteration: Ints
    phase: Codes
    start: Ints
    end: Ints
    at: Ints
    source: Ints
    target: Ints
    reason: Codes
    ready: Ints

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return len(self.kind)

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return len(self.source)

    def is_kind(self, *kinds: NodeKind) -> Mask:
        """By node, whether it has one of these kinds."""
        return np.isin(self.kind, [NODE_CODES[kind] for kind in kinds])

    def select(self, nodes: Mask) -> EventGraph:
        """The subgraph of these nodes and the edges between them."""
        number = np.cumsum(nodes) - 1
        edges = nodes[self.source] & nodes[self.target]
        by_node = {name: getattr(self, name)[nodes] for name in _BY_NODE}
        return replace(
            self,
            **by_node,
            source=number[self.source[edges]],
            target=number[self.target[edges]],
            reason=self.reason[edges],
            ready=self.ready[edges],
        )

    def within(self, iteration: int) -> EventGraph:
        """The part of one iteration."""
        return self.select(self.iteration == iteration)

    def kind_of(self, node: int) -> NodeKind:
        """The kind of a node."""
        return NODE_KINDS[int(self.kind[node])]

    def event_of(self, node: int) -> Event | None:
        """The event of a node; None for a phase."""
        if self.event[node] == NONE:
            return None
        return self.trace.ranks[int(self.place[node])].events[int(self.event[node])]

    def collective_of(self, node: int) -> MatchedCollective | None:
        """The matched collective that a node is, or belongs to."""
        if self.collective[node] == NONE:
            return None
        return self.matching.collectives[int(self.collective[node])]

    def event_on(self, node: int, rank: int) -> Event | None:
        """A node on one rank: for a matched collective, that rank's call."""
        if self.kind_of(node) is NodeKind.MATCH:
            matched = self.collective_of(node)
            return None if matched is None else matched.events.get(rank)
        return self.event_of(node)

    def awaited_of(self, node: int) -> Event | None:
        """The cause of a wait: a collective's first call, or a copy; None if unknown."""
        matched = self.collective_of(node)
        if matched is not None:
            return next(iter(matched.events.values()))
        event = self.event_of(node)
        if event is None or event.kind is not Kind.WAIT or event.parent is None:
            return None
        return self.trace.ranks[int(self.place[node])].events.find(event.parent)

    def reason_of(self, edge: int) -> Reason:
        """Why an edge's target follows its source."""
        return REASONS[int(self.reason[edge])]

    def kind_of_edge(self, edge: int) -> EdgeKind:
        """The kind of that reason."""
        return EDGE_KINDS[self.reason_of(edge)]

    def label(self, node: int) -> str:
        """A node, in words."""
        kind, event = self.kind_of(node), self.event_of(node)
        phase = PHASES[self.phase[node]].value
        if event is None:
            return said("nodes.end" if phase == "outside" else "nodes.begins", phase=term(phase))
        if kind in (NodeKind.SEND, NodeKind.RECEIVE):
            key = f"nodes.{kind}{'' if event.shard is None else '_shard'}"
            return said(key, shard=event.shard, rank=event.peers[0] if event.peers else "?")
        if kind is NodeKind.WAIT:
            awaited = self.awaited_of(node)
            what = "" if awaited is None else _named(awaited)
            return said("nodes.wait_for" if what else "nodes.wait", what=what)
        if kind is NodeKind.COMPUTE:
            return said("nodes.compute", phase=term(phase), unit=event.unit)
        if kind is NodeKind.CALL:
            return said("nodes.arrival", what=_named(event))
        return _named(event) if kind in (NodeKind.MATCH, NodeKind.COPY) else str(kind)

    def words(self, edge: int) -> str:
        """Why an edge's target follows its source, in words."""
        source, target = int(self.source[edge]), int(self.target[edge])
        before, after = self.event_of(source), self.event_of(target)
        return said(
            f"reasons.{self.reason_of(edge)}",
            source_rank=int(self.rank[source]),
            target_rank=int(self.rank[target]),
            source_unit="" if before is None else before.unit or said("nodes.unit"),
            target_unit="" if after is None else after.unit or said("nodes.unit"),
            shard="" if after is None else after.shard,
        )

    def to_networkx(self) -> Any:
        """The graph with all attributes, as a `networkx.DiGraph`: the input of the exports.

        Nodes carry kind, rank, ranks, iteration, phase, unit, op, purpose, payload_bytes,
        start_ns, end_ns, source and label; edges carry kind, reason and ready_ns.
        """
        from networkx import DiGraph  # a tenth of a second, for rare use

        manifest = self.trace.manifest
        times = "predicted" if manifest.is_predicted else "recorded"
        graph = DiGraph(program=manifest.program, times=times)
        graph.add_nodes_from((node, self._plain_node(node)) for node in range(self.num_nodes))
        for edge in range(self.num_edges):
            source, target = int(self.source[edge]), int(self.target[edge])
            plain = self._plain_edge(edge)
            other = graph.get_edge_data(source, target)
            if other is not None:  # one edge in a DiGraph, with all its reasons
                plain = {
                    "kind": f"{other['kind']}; {plain['kind']}",
                    "reason": f"{other['reason']}; {plain['reason']}",
                    "ready_ns": max(other["ready_ns"], plain["ready_ns"]),
                }
            graph.add_edge(source, target, **plain)
        return graph

    def _plain_node(self, node: int) -> dict[str, Any]:
        event = self.event_of(node)
        matched = self.collective_of(node) if self.kind_of(node) is NodeKind.MATCH else None
        ranks = [int(self.rank[node])] if matched is None else sorted(matched.events)
        plain = {
            "kind": self.kind_of(node).value,
            "rank": int(self.rank[node]),
            "ranks": ",".join(map(str, ranks)),
            "iteration": int(self.iteration[node]),
            "phase": PHASES[self.phase[node]].value,
            "unit": "" if event is None else event.unit,
            "op": "" if event is None or event.op is None else event.op.value,
            "purpose": "" if event is None or event.purpose is None else event.purpose.value,
            "payload_bytes": 0 if event is None else event.payload_bytes,
            "start_ns": int(self.start[node]),
            "end_ns": int(self.end[node]),
            "source": "" if event is None else event.source,
            "label": self.label(node),
        }
        if event is not None and matched is None:
            plain["event"] = event.id
        return plain

    def _plain_edge(self, edge: int) -> dict[str, Any]:
        return {
            "kind": self.kind_of_edge(edge).value,
            "reason": self.words(edge),
            "ready_ns": int(self.ready[edge]),
        }


_BY_NODE = (
    "kind", "rank", "place", "event", "collective", "iteration", "phase", "start", "end", "at",
)  # fmt: skip


def _named(event: Event) -> str:
    """A call or copy in words: operation and purpose; contents and direction."""
    if event.kind is Kind.COPY:
        return said(
            "nodes.copy_of" if event.unit else "nodes.copy",
            purpose=term(event.purpose or ""),
            unit=event.unit,
            origin=term(event.origin or ""),
            target=term(event.target or ""),
        )
    key = "nodes.op_of" if event.unit else "nodes.op"
    what = said(key, op=term(event.op or ""), unit=event.unit)
    if event.purpose is None:
        return what
    return said("nodes.named", what=what, purpose=term(event.purpose))
