"""The input of a document: the trace, its steps and ledgers, the contents of its ranks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property

from zerosim.analysis.frames import (
    Band,
    Frames,
    NotShown,
    ProgramUnits,
    ShardLayout,
    Steps,
    one_program,
    play,
    program_of,
    steps,
)
from zerosim.analysis.frames.joined import together
from zerosim.analysis.frames.stages import stages_of
from zerosim.analysis.graph import EventGraph, build_graph
from zerosim.analysis.graph.phases import late_updates
from zerosim.base.config import EngineConfig
from zerosim.base.errors import ConfigError, TraceError
from zerosim.base.language import fill
from zerosim.record import MatchedCollective, Trace, left_out
from zerosim.record.judged import read_judged
from zerosim.schema.events import Kind, Phase
from zerosim.schema.manifest import BucketLayout, UnitLayout
from zerosim.schema.memory import OPTIMIZER_STATES, Role
from zerosim.theory import Workload
from zerosim.theory.programs import in_force
from zerosim.verify.configured import config_of, tensor_parallel_of, workload_of
from zerosim.verify.strategies import strategies_of
from zerosim.view.replay.bands import bands_of, bands_of_program
from zerosim.view.replay.carried import carried_of
from zerosim.view.replay.ledger import Ledgers
from zerosim.view.replay.step_sentences import find

MOST_CELLS = 2_000_000
"""Above this number of cells, the model-state map is omitted."""


class Subject:
    """One iteration of a trace, read once.

    Attributes:
        config, workload: those of the engine; None for a program without it.
        judged: a judge's verdict on the run; None if there is none.
        carried: its messages, if the verdict has the contents of each.
        program: the known units of a program without the engine; None for the engine, or if
            unknown.
        notes: information for the reader.
        units, places, collectives: indices in the document, by name, by global rank, and by index
            in the matching.
        local_times: by rank, its progress at each step.
        ledgers: by index in the matching.
        copies: ledgers of copies, by step.
    """

    def __init__(self, trace: Trace, iteration: int) -> None:
        """Read the iteration.

        Raises:
            TraceError: there is nothing to replay, or too much.
        """
        self.judged = read_judged(trace.folder)
        self.carried = carried_of(trace, self.judged)
        trace = trace if self.carried is None else self.carried.trace
        self.trace, self.iteration = trace, iteration
        self.notes = [*trace.warnings, *left_out(trace)]
        self.notes += [
            fill(find("note", "failed"), {"rank": rank.rank, "message": rank.failure.message})
            for rank in trace.ranks
            if rank.failure is not None
        ]
        self.config: EngineConfig | None = config_of(trace)
        self.workload: Workload | None = workload_of(trace, iteration)
        self.graph: EventGraph = build_graph(trace)
        self.steps: Steps = steps(self.graph, iteration)
        self.notes += self.steps.notes
        self.places = {rank.rank: place for place, rank in enumerate(trace.ranks)}
        self.program: ProgramUnits | None = self._program()
        self.units = {unit.name: place for place, unit in enumerate(self.unit_layouts)}
        self.local_times = {rank: self.steps.local_times(rank) for rank in self.places}
        used = {step.collective for step in self.steps.steps if step.collective is not None}
        self.collectives = {index: place for place, index in enumerate(sorted(used))}
        ledgers = Ledgers(trace, self.workload, iteration)
        self.ledgers = {index: ledgers.of(self.parts(index)) for index in self.collectives}
        self.copies = {
            number: ledgers.of_copies(step.events)
            for number, step in enumerate(self.steps.steps)
            if step.kind is Kind.COPY
        }

    @property
    def num_shards(self) -> int:
        """Number of shards of every unit: the number of ranks, unless a program divides
        differently.
        """
        program = self.program
        return (program and program.division.num_shards) or self.trace.manifest.num_ranks

    def parts(self, index: int) -> tuple[MatchedCollective, ...]:
        """The collectives that form one step with this one, itself included."""
        members = self.steps.joined.get(index, (index,))
        return tuple(self.graph.matching.collectives[member] for member in members)

    def matched(self, index: int) -> MatchedCollective:
        """A collective by its position in the matching; several that form one step are one."""
        members = self.steps.joined.get(index, (index,))
        return together(self.graph.matching, members)

    def step_with(self, rank: int, event: int) -> int | None:
        """The index of the first step of an event; None if there is none."""
        hop = None if self.carried is None else self.carried.hop_of(rank, event)
        for place, step in enumerate(self.steps.steps):
            own = step.events.get(rank)
            if own is not None and (own.id == event if hop is None else step.hop == hop):
                return place
        return None

    def num_hops(self, index: int) -> int:
        """Number of steps for the hops of a collective; 0 if it is not shown by hop."""
        return self.steps.num_hops.get(index, 0)

    def bands(self) -> dict[Band, int]:
        """The possible states of a rank, tier by tier: bytes of each per parameter.

        Persistent states of a tier, and those in transit. Empty if units are unknown.
        """
        if self.carried is not None:
            return self.carried.bands
        if self.config is not None:
            return bands_of(self.config)
        if self.program is None:
            return {}
        return bands_of_program(self.program.element_bytes, self._optimizer_states)

    @property
    def unit_layouts(self) -> tuple[UnitLayout, ...]:
        """The units, in the order of forward; empty if unknown."""
        return self.trace.manifest.units if self.program is None else self.program.units

    @property
    def buckets(self) -> tuple[BucketLayout, ...]:
        """The buckets of reductions."""
        return self.trace.manifest.buckets if self.program is None else self.program.buckets

    def stage_of(self, unit: str) -> str:
        """The pipeline stage of a unit; "" if there is none."""
        stage = unit.partition(".")[0]
        known = {one for rank in self.trace.ranks for one in stages_of(rank.strategies).values()}
        return stage if stage in known else ""

    def hue_of(self, unit: str) -> int:
        """The hue of a unit's first shard: that of its owner.

        It is not 0 in a pipeline, where the ranks before it have no part of the unit.
        """
        parts = {} if self.program is None else self.program.division.parts
        keeping = ((rank, parts[rank, unit].keeps) for rank in self.places if (rank, unit) in parts)
        return next((rank - min(keeps) for rank, keeps in keeping if keeps), 0)

    def about(self, name: str) -> tuple[int, ...]:
        """Indices of the units of an event's name: for a program possibly several."""
        if name in self.units or self.program is None:
            return (self.units[name],) if name in self.units else ()
        program = self.program
        buckets = {one.name: [part.unit for part in one.segments] for one in program.buckets}
        calls = program.gathered.get(name, (tuple(buckets.get(name, ())),))
        units = program.computed.get(name) or [unit for call in calls for unit in call]
        return tuple(dict.fromkeys(self.units[unit] for unit in units))

    def _program(self) -> ProgramUnits | None:
        """The units according to a program's strategies, or to its judge."""
        if self.carried is not None:
            return self.carried.program
        num_micro_steps = 1 + max(step.micro_step for step in self.steps.steps)
        held = {
            rank: in_force(rows, self.iteration, num_micro_steps)
            for rank, rows in strategies_of(self.trace).items()
        }
        is_told = held and all(held.values())
        if self.config is not None or self.trace.manifest.units or not is_told:
            return None
        computations = dict.fromkeys(
            step.event.unit
            for step in self.steps.steps
            if step.kind is Kind.COMPUTE and step.phase is Phase.FORWARD and step.event is not None
        )
        try:
            return one_program(
                program_of(
                    {rank: [one[number] for one in of_rank] for rank, of_rank in held.items()},
                    self.trace.manifest.num_ranks,
                    tuple(computations),
                )
                for number in range(num_micro_steps)
            )
        except (NotShown, ConfigError, TraceError) as error:
            self.notes.append(str(error))
            return None

    @cached_property
    def _optimizer_states(self) -> tuple[Role, ...]:
        """The states of a program's optimizer, according to its memory."""
        seen = {
            holding.role
            for rank in self.trace.ranks
            for sample in rank.memory_samples
            for holding in sample.changes
        }
        return tuple(role for role in OPTIMIZER_STATES if role in seen)

    @property
    def ranks_together(self) -> int:
        """Ranks that compute each layer together (tensor parallel)."""
        return tensor_parallel_of(self.trace)

    @property
    def is_interleaved(self) -> bool:
        """Whether ranks have several stages of a pipeline."""
        return any(len(stages_of(rank.strategies)) > 1 for rank in self.trace.ranks)

    @property
    def is_skipped(self) -> bool:
        """Whether the update was skipped because of an overflow."""
        return any(
            metric.name == "overflow" and metric.iteration == self.iteration
            for metric in self.trace.ranks[0].metrics
        )

    @property
    def has_update(self) -> bool:
        """Whether an update was computed during this iteration, its own or a delayed one."""
        return any(
            step.kind is Kind.COMPUTE and step.phase is Phase.UPDATE for step in self.steps.steps
        )

    def frames(self) -> Frames | None:
        """The contents of the ranks at each step; None if unknown, or too large."""
        config, units, program = self.config, self.unit_layouts, self.program
        if (config is None and program is None) or not units:
            return None
        if self.trace.manifest.light is not None:
            self.notes.append(find("note", "no_computations"))
            return None
        if config is not None and self.ranks_together > 1:
            self.notes.append(fill(find("note", "together"), {"ranks": self.ranks_together}))
            return None
        bands = self.bands()
        num_cells = len(self.places) * len(bands) * len(units) * self.num_shards
        if num_cells > MOST_CELLS:
            counts = {"units": f"{len(units):,}", "ranks": len(self.places)}
            self.notes.append(fill(find("note", "too_many"), counts))
            return None
        num_pieces = Counter(segment.unit for bucket in self.buckets for segment in bucket.segments)
        layout = ShardLayout(
            ranks=tuple(self.places),
            num_ranks=self.trace.manifest.num_ranks,
            trainable={unit.name: unit.trainable for unit in units},
            num_pieces=dict(num_pieces),
            states=tuple(bands),
            first_update=not self._has_updated(),
            keeps_gradients=False,
        )
        if program is not None:
            layout = replace(
                layout,
                first_update=layout.first_update and not program.begins_with_states,
                division=program.division,
                computed=program.computed,
                gathered=program.gathered,
            )
        elif config is not None:
            keeps = self.iteration > 0 and (config.stage < 2 or config.offloads_optimizer)
            layout = replace(layout, config=config, keeps_gradients=keeps)
        return play(layout, self.buckets, self.steps.steps)

    def _has_updated(self) -> bool:
        """Whether an earlier iteration created momentum and variance; one with an overflow does
        not.
        """
        late = late_updates(self.trace, self.trace.ranks[0])
        return any(
            event.kind is Kind.COMPUTE
            and event.phase is Phase.UPDATE
            and late.get(event.id, event.iteration) < self.iteration
            for event in self.trace.ranks[0].events
        )
