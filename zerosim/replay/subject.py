"""What a document is made of: the trace, its steps and ledgers, what its ranks hold.

Imports the standard library, zerosim's L0, record, graph, analysis, theory, verify.
"""

from __future__ import annotations

from collections import Counter

from zerosim.analysis.frames import Band, Frames, Layout, Steps, play, steps
from zerosim.analysis.frames.joined import together
from zerosim.config import EngineConfig
from zerosim.events import Kind, Phase
from zerosim.graph import EventGraph, build_graph
from zerosim.graph.phases import late_updates
from zerosim.record import MatchedCollective, Trace
from zerosim.replay.bands import bands_of
from zerosim.replay.ledger import Ledgers
from zerosim.theory import Workload
from zerosim.tiers import Tier
from zerosim.verify.configured import config_of, workload_of

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
        copies: ledgers of copies, by step.
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
        self.config: EngineConfig | None = config_of(trace)
        self.workload: Workload | None = workload_of(trace, iteration)
        self.graph: EventGraph = build_graph(trace)
        self.steps: Steps = steps(self.graph, iteration)
        self.notes += self.steps.notes
        self.units = {unit.name: place for place, unit in enumerate(trace.manifest.units)}
        self.places = {rank.rank: place for place, rank in enumerate(trace.ranks)}
        self.local_times = {rank: self.steps.local_times(rank) for rank in self.places}
        used = {step.collective for step in self.steps.steps if step.collective is not None}
        self.collectives = {index: place for place, index in enumerate(sorted(used))}
        ledgers = Ledgers(trace, self.workload)
        self.ledgers = {index: ledgers.of(self.parts(index)) for index in self.collectives}
        self.copies = {
            number: ledgers.of_copies(step.events)
            for number, step in enumerate(self.steps.steps)
            if step.kind is Kind.COPY
        }

    @property
    def num_shards(self) -> int:
        """Of every unit: the number of ranks of the run."""
        return self.trace.manifest.num_ranks

    def parts(self, index: int) -> tuple[MatchedCollective, ...]:
        """The collectives that are one step with this one, itself among them."""
        members = self.steps.joined.get(index, (index,))
        return tuple(self.graph.matching.collectives[member] for member in members)

    def matched(self, index: int) -> MatchedCollective:
        """A collective by its position in the matching; several that are one step as one."""
        members = self.steps.joined.get(index, (index,))
        return together(self.graph.matching, members)

    def num_hops(self, index: int) -> int:
        """Steps that the hops of a collective are; 0 if it is not shown by hop."""
        return self.steps.num_hops.get(index, 0)

    def bands(self) -> dict[Band, int]:
        """The states that a rank can have, tier by tier: bytes of each for one parameter.

        What a tier keeps, and what only passes through it. Nothing without an engine.
        """
        return {} if self.config is None else bands_of(self.config)

    @property
    def ranks_together(self) -> int:
        """Ranks that compute each layer together (tensor parallel)."""
        together = self.trace.manifest.run.get("tensor_parallel", 1)
        return together if isinstance(together, int) and together > 0 else 1

    @property
    def is_skipped(self) -> bool:
        """Whether the update was left out because of an overflow."""
        return any(
            metric.name == "overflow" and metric.iteration == self.iteration
            for metric in self.trace.ranks[0].metrics
        )

    @property
    def has_update(self) -> bool:
        """Whether some update was computed during this iteration, its own or a delayed one."""
        return any(
            step.kind is Kind.COMPUTE and step.phase is Phase.UPDATE for step in self.steps.steps
        )

    def frames(self) -> Frames | None:
        """What the ranks hold at each step; None where it is not known, or more than fits."""
        manifest, config = self.trace.manifest, self.config
        if config is None or not manifest.units:
            return None
        if self.ranks_together > 1:
            self.notes.append(
                f"{self.ranks_together} ranks compute each layer together: what each of them holds "
                "of a unit is not shown"
            )
            return None
        bands = self.bands()
        num_cells = len(self.places) * len(bands) * len(manifest.units) * self.num_shards
        if num_cells > MOST_CELLS:
            self.notes.append(
                f"{len(manifest.units):,} units on {len(self.places)} ranks are more than the "
                "model-state map can show"
            )
            return None
        num_pieces = Counter(
            segment.unit for bucket in manifest.buckets for segment in bucket.segments
        )
        layout = Layout(
            stage=config.stage,
            ranks=tuple(self.places),
            num_ranks=self.num_shards,
            trainable={unit.name: unit.trainable for unit in manifest.units},
            num_pieces=dict(num_pieces),
            states=tuple(bands),
            first_update=not self._has_updated(),
            keeps_gradients=self.iteration > 0
            and (config.stage < 2 or config.offload_optimizer.tier is not Tier.DEVICE),
            states_tier=config.offload_optimizer.tier,
            parameters_tier=config.offload_param.tier,
            owners=config.owner_broadcast,
            delayed=config.delayed_update,
            secondary=config.secondary_partition,
        )
        return play(layout, manifest.buckets, self.steps.steps)

    def _has_updated(self) -> bool:
        """Whether an earlier iteration made momentum and variance; an overflow makes none."""
        late = late_updates(self.trace, self.trace.ranks[0])
        return any(
            event.kind is Kind.COMPUTE
            and event.phase is Phase.UPDATE
            and late.get(event.id, event.iteration) < self.iteration
            for event in self.trace.ranks[0].events
        )
