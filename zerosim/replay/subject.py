"""What a document is made of: the trace, its steps and ledgers, what its ranks hold.

Imports the standard library, zerosim's L0, record, graph, analysis, theory, verify.
"""

from __future__ import annotations

from collections import Counter

from zerosim.analysis.frames import Frames, Layout, Step, Steps, play, steps
from zerosim.config import EngineConfig
from zerosim.events import Event, Kind, Phase
from zerosim.graph import EventGraph, build_graph
from zerosim.memory import MODEL_STATES, Role
from zerosim.record import MatchedCollective, Trace
from zerosim.replay.ledger import Ledgers
from zerosim.theory import Workload, bytes_a_parameter
from zerosim.theory.placement import Optimizer
from zerosim.verify.ledgers import config_of, is_engine_trace, workload_of

MOST_CELLS = 2_000_000
"""Beyond, the model-state map is left out."""


class Subject:
    """One iteration of a trace, read once.

    Attributes:
        config, workload: of the engine; None for a program that it did not run.
        notes: what a reader should know.
        units, places, collectives: positions in the document, by name, by global rank, and by
            position in the matching.
        local_times: by rank, how far it was at each step.
        ledgers: by position in the matching.
    """

    def __init__(self, trace: Trace, iteration: int) -> None:
        """Read it.

        Raises:
            TraceError: there is nothing to replay, or too much.
        """
        self.trace, self.iteration = trace, iteration
        self.notes = list(trace.warnings)
        self.notes += [
            f"rank {rank.rank} failed: {rank.failure.message}"
            for rank in trace.ranks
            if rank.failure is not None
        ]
        self.config: EngineConfig | None = None
        self.workload: Workload | None = None
        if is_engine_trace(trace):
            self.config = config_of(trace)
            self.workload = workload_of(trace, iteration)
        self.graph: EventGraph = build_graph(trace)
        self.steps: Steps = steps(self.graph, iteration)
        self.notes += self.steps.notes
        self.units = {unit.name: place for place, unit in enumerate(trace.manifest.units)}
        self.places = {rank.rank: place for place, rank in enumerate(trace.ranks)}
        self.local_times = {rank: self.steps.local_times(rank) for rank in self.places}
        used = {step.collective for step in self.steps.steps if step.collective is not None}
        self.collectives = {index: place for place, index in enumerate(sorted(used))}
        ledgers = Ledgers(trace, self.workload)
        self.ledgers = {index: ledgers.of(self.matched(index)) for index in self.collectives}

    @property
    def num_shards(self) -> int:
        """Of every unit: the number of ranks of the run."""
        return self.trace.manifest.num_ranks

    def matched(self, index: int) -> MatchedCollective:
        """A collective by its position in the matching."""
        return self.graph.matching.collectives[index]

    def num_hops(self, index: int) -> int:
        """Steps that the hops of a collective are; 0 if it is not shown by hop."""
        return self.steps.num_hops.get(index, 0)

    def awaited(self, step: Step) -> Event | None:
        """The collective that a wait waits for."""
        if step.kind is not Kind.WAIT or step.collective is None:
            return None
        return next(iter(self.matched(step.collective).events.values()))

    def state_bytes(self) -> dict[Role, int]:
        """Bytes that each model state takes for one parameter; nothing without an engine."""
        if self.config is None:
            return {}
        return {r.role: r.bytes for r in bytes_a_parameter(self.config.dtype, Optimizer.ADAM)}

    def frames(self) -> Frames | None:
        """What the ranks hold at each step; None where it is not known, or more than fits."""
        manifest, config = self.trace.manifest, self.config
        if config is None or not manifest.units:
            return None
        num_cells = len(self.places) * len(MODEL_STATES) * len(manifest.units) * self.num_shards
        if num_cells > MOST_CELLS:
            self.notes.append(
                f"{len(manifest.units):,} units on {len(self.places)} ranks are more than the "
                "model-state map can show"
            )
            return None
        num_pieces = Counter(
            segment.unit for bucket in manifest.buckets for segment in bucket.segments
        )
        roles = tuple(self.state_bytes())
        layout = Layout(
            stage=config.stage,
            ranks=tuple(self.places),
            num_ranks=self.num_shards,
            trainable={unit.name: unit.trainable for unit in manifest.units},
            num_pieces=dict(num_pieces),
            states=roles,
            first_update=not self._has_updated(),
            keeps_gradients=config.stage < 2 and self.iteration > 0,
        )
        return play(layout, manifest.buckets, self.steps.steps)

    def _has_updated(self) -> bool:
        """Whether an earlier iteration made momentum and variance; an overflow makes none."""
        return any(
            event.kind is Kind.COMPUTE
            and event.phase is Phase.UPDATE
            and event.iteration < self.iteration
            for event in self.trace.ranks[0].events
        )
