"""The event graph of one iteration as one document: plain JSON values, all that the page shows.

Its fields are described in `dashboards/player/graph/types.d.ts`. Nodes and edges are columns, so
that a hundred thousand of them are numbers only. Times count from the iteration's first start.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from zerosim.analysis import (
    GraphReport,
    TimeCause,
    binding_edges,
    exposed,
    name_piece,
    report,
    slack,
)
from zerosim.analysis.frames import steps
from zerosim.analysis.graph import EventGraph, NodeKind, build_graph
from zerosim.analysis.graph.kinds import EDGE_KINDS, NODE_KINDS, PHASES, REASONS
from zerosim.analysis.graph.table import NONE, Ints, Mask, copy_link
from zerosim.base.errors import TraceError
from zerosim.base.language import fill
from zerosim.base.quantities import format_exact
from zerosim.record import Trace, require_times
from zerosim.record.text import as_text
from zerosim.schema.events import WHOLE
from zerosim.view.replay.document import MOST_RANKS, shown_iterations
from zerosim.view.replay.plain import Texts
from zerosim.view.replay.step_sentences import find
from zerosim.view.replay.whereabouts import Whereabouts

SCHEMA = 1
MOST_NODES = 120_000
"""An iteration with more nodes is shown without messages; the collectives remain."""


MOST_VIOLATIONS = 12
"""Maximum number of violations per check; zerosim graph prints their total."""


def graph_document(trace: Trace, iteration: int | None = None, name: str = "") -> dict[str, Any]:
    """Everything that the Graph page shows of one iteration.

    Args:
        trace: complete or not, of up to 64 ranks.
        iteration: the last complete one by default; for a run that ended in its first, that one.
        name: the displayed name of the trace; by default that of its folder.

    Returns:
        JSON values only; no number is infinite or NaN.

    Raises:
        TraceError: there is nothing to show, or too much of it.
        ConfigError: there is no such iteration.
    """
    require_times(trace, "the page shows")
    if not trace.ranks or max(len(trace.ranks), trace.manifest.num_ranks) > MOST_RANKS:
        raise TraceError(
            f"{trace.folder} has {trace.manifest.num_ranks:,} ranks, {len(trace.ranks):,} of them "
            f"recorded: the page shows 1 to {MOST_RANKS}; zerosim graph reads more"
        )
    if not shown_iterations(trace):
        raise TraceError(f"{trace.folder} contains no events: there is no graph to show")
    whole = build_graph(trace)
    answer = report(whole, None if iteration == WHOLE else iteration, top=0)
    return _GraphMaker(whole, answer, name or as_text(trace.folder.name)).document()


class _GraphMaker:
    """Puts one document together.

    Attributes:
        part: the graph of the iteration.
        kept: by node of `part`, whether it is shown; `number`: its place among those shown.
        has_path: critical path and slack are known.
    """

    def __init__(self, whole: EventGraph, answer: GraphReport, name: str) -> None:
        self.whole, self.answer, self.name = whole, answer, name
        self.part = whole.within(answer.iteration)
        self.texts, self.notes = Texts(), list(answer.notes)
        self.has_path = answer.path is not None and answer.budgets.waits_recorded
        self.zero = int(self.part.start.min()) if self.part.num_nodes else 0
        self.places = {rank.rank: place for place, rank in enumerate(whole.trace.ranks)}
        self.kept = self._choose()
        self.number: Ints = np.cumsum(self.kept) - 1

    def document(self) -> dict[str, Any]:
        """The whole document."""
        answer, part = self.answer, self.part
        nodes = self._nodes()
        return {
            "schema": SCHEMA,
            "name": self.name,
            "iteration": answer.iteration,
            "iterations": list(answer.iterations),
            "clauses": list(answer.clauses),
            "holds": answer.holds,
            "is_predicted": answer.is_predicted,
            "ranks": list(self.places),
            "duration_ns": int(part.end.max(initial=self.zero)) - self.zero,
            "kinds": [kind.value for kind in NODE_KINDS],
            "phases": [phase.value for phase in PHASES],
            "causes": [cause.value for cause in self._causes()],
            "reasons": [{"kind": EDGE_KINDS[one].value, "words": one.words} for one in REASONS],
            "nodes": nodes,
            "edges": self._edges(),
            "path": self._path(),
            "time": self._time(),
            "violations": [
                violation.message
                for check in answer.checks
                for violation in check.violations[:MOST_VIOLATIONS]
            ],
            "notes": self.notes,
            "texts": self.texts.all(),
        }

    # --------------------------------------------------------------------- the displayed part

    def _choose(self) -> Mask:
        """All nodes, or all but the messages if they are too many; the path stays complete."""
        part = self.part
        kept = np.ones(part.num_nodes, np.bool_)
        if part.num_nodes <= MOST_NODES:
            return kept
        messages = part.is_kind(NodeKind.SEND, NodeKind.RECEIVE)
        kept = ~messages
        if self.has_path and self.answer.path is not None:
            kept[list(self.answer.path.nodes)] = True
        counts = {
            "left": format_exact(int((~kept).sum())),
            "all": format_exact(part.num_nodes),
            "most": format_exact(MOST_NODES),
        }
        self.notes.append(fill(find("note", "left_out"), counts))
        if int(kept.sum()) > MOST_NODES:
            raise TraceError(
                f"{part.trace.folder}: iteration {self.answer.iteration} has "
                f"{int(kept.sum()):,} events besides messages: the page shows {MOST_NODES:,}; "
                "zerosim graph reads longer ones"
            )
        return kept

    def _nodes(self) -> dict[str, list[int]]:
        part, kept = self.part, self.kept
        shown = np.flatnonzero(kept).tolist()
        events = [part.event_of(node) for node in shown]
        matched = sorted({int(one) for one in part.collective[kept].tolist()} - {NONE})
        collective = {index: place for place, index in enumerate(matched)} | {NONE: NONE}
        spare = slack(part)[kept].tolist() if self.has_path else [-1] * len(shown)
        number = self.texts.number
        return {
            "kind": part.kind[kept].tolist(),
            "rank": [self.places[rank] for rank in part.rank[kept].tolist()],
            "phase": part.phase[kept].tolist(),
            "start": (part.start[kept] - self.zero).tolist(),
            "end": (part.end[kept] - self.zero).tolist(),
            "slack": spare,
            "collective": [collective[one] for one in part.collective[kept].tolist()],
            "step": self._steps(),
            "label": [number(part.label(node)) for node in shown],
            "unit": [number(self._unit(node)) for node in shown],
            "shard": [-1 if one is None or one.shard is None else one.shard for one in events],
            "link": [NONE if one is None else copy_link(one) for one in events],
            "bytes": [0 if one is None else one.payload_bytes for one in events],
            "source": [number("" if one is None else one.source) for one in events],
        }

    def _unit(self, node: int) -> str:
        """The unit of a node; for a wait, that of its cause."""
        event = self.part.event_of(node)
        if self.part.kind_of(node) is NodeKind.WAIT:
            event = self.part.awaited_of(node)
        return "" if event is None else event.unit

    def _steps(self) -> list[int]:
        """By displayed node, its step in a replay of this iteration; -1 if it cannot be
        replayed.
        """
        try:
            found = Whereabouts(self.part, steps(self.whole, self.answer.iteration)).all()
        except TraceError as error:
            self.notes.append(str(error).removeprefix(f"{self.whole.trace.folder}: "))
            return [-1] * int(self.kept.sum())
        return [step for step, kept in zip(found, self.kept.tolist(), strict=True) if kept]

    def _edges(self) -> dict[str, list[int]]:
        """Columns; `binding` is by node."""
        part, kept = self.part, self.kept
        shown = kept[part.source] & kept[part.target]
        number = np.cumsum(shown) - 1
        binding = binding_edges(part)[kept]
        known = (binding != NONE) & shown[binding] if part.num_edges else binding != NONE
        return {
            "source": self.number[part.source[shown]].tolist(),
            "target": self.number[part.target[shown]].tolist(),
            "reason": part.reason[shown].tolist(),
            "ready": (part.ready[shown] - self.zero).tolist(),
            "binding": np.where(known, number[binding] if part.num_edges else NONE, NONE).tolist(),
        }

    # --------------------------------------------------------------------- the texts

    def _path(self) -> dict[str, Any] | None:
        path = self.answer.path
        if not self.has_path or path is None:
            return None
        causes = self._causes()
        pieces: list[int] = []
        for piece in path.pieces:
            pieces += [
                int(self.number[piece.node]),
                causes.index(piece.cause),
                piece.start_ns - self.zero,
                piece.end_ns - self.zero,
                self.texts.number(name_piece(self.part, path, piece)),
            ]
        return {
            "duration_ns": path.duration_ns,
            "nodes": [int(self.number[node]) for node in path.nodes],
            "pieces": pieces,
            "by_cause_ns": list(path.by_cause().values()),
        }

    def _causes(self) -> tuple[TimeCause, ...]:
        """The causes with time, and the usual ones."""
        path = self.answer.path
        return tuple(TimeCause) if path is None else tuple(path.by_cause())

    def _time(self) -> dict[str, Any]:
        """Each rank's time; None if waits were not recorded."""
        spent = self.answer.budgets
        known = spent.waits_recorded
        waited = sorted(spent.waited_ns.items(), key=lambda item: -item[1])
        return {
            "waits_recorded": known,
            "ranks": [
                asdict(budget)
                | {"overlap": budget.overlap, "copying_overlap": budget.copying_overlap}
                for budget in (spent.of(rank=rank) for rank in self.places)
            ]
            if known
            else [],
            "waited": [
                number
                for (rank, straggler), ns in waited
                for number in (self.places[rank], self.places[straggler], ns)
            ],
            "exposed": [
                {
                    "rank": self.places[one.rank],
                    "phase": one.phase.value,
                    "purpose": one.purpose,
                    "num_waits": one.num_waits,
                    "exposed_ns": one.exposed_ns,
                    "is_copying": one.is_copying,
                }
                for one in exposed(self.part)
            ]
            if known
            else [],
        }
