"""The event graph: arrays inside, `networkx` as the face.

Times are nanoseconds on the clock of the first rank's host. A node follows another by an edge that
says when (`ready`) what it brings was there; no edge is ready after its target is.
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
    """All events of all ranks, and what made each of them happen when it did.

    Attributes:
        kind: by node, codes of `NodeKind` (position in `NODE_KINDS`).
        rank: by node, global rank; of a matched collective, the one that arrived last.
        place: by node, the rank's position in `trace.ranks`.
        event: by node, position among the rank's events; `NONE` for a phase. Of a matched
            collective, the call of the rank that is named first.
        collective: by node, position in `matching.collectives` of a matched collective, of its
            calls and of the waits for it; else `NONE`.
        iteration, phase: by node; phases as positions in `PHASES`.
        start, end: by node, ns; a matched collective starts when the last rank has arrived.
        at: by node, ns: when it can follow what brings it there: the start, but the end of a
            wait and of a receive.
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
        """How many nodes there are."""
        return len(self.kind)

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return len(self.source)

    def is_kind(self, *kinds: NodeKind) -> Mask:
        """By node, whether it is one of these kinds."""
        return np.isin(self.kind, [NODE_CODES[kind] for kind in kinds])

    def select(self, nodes: Mask) -> EventGraph:
        """The part that has these nodes, and the edges between them."""
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
        """What a node stands for."""
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
        """What a node is on one rank: of a matched collective, that rank's call."""
        if self.kind_of(node) is NodeKind.MATCH:
            matched = self.collective_of(node)
            return None if matched is None else matched.events.get(rank)
        return self.event_of(node)

    def awaited_of(self, node: int) -> Event | None:
        """What a wait waits for: a collective's first call, or a copy; None if it is not known."""
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
        """Which sort of reason that is."""
        return EDGE_KINDS[self.reason_of(edge)]

    def label(self, node: int) -> str:
        """What a node is, in words."""
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
        """The graph with everything written out, a `networkx.DiGraph`: what the exports write.

        Nodes carry kind, rank, ranks, iteration, phase, unit, op, purpose, payload_bytes,
        start_ns, end_ns, source and label; edges carry kind, reason and ready_ns.
        """
        from networkx import DiGraph  # a tenth of a second, for the few who ask for this

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
    """A call or a copy in words: what was asked for, and why; what was copied, and where."""
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
