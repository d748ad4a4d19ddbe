"""A pipeline's schedule, read from a trace: the order of micro-batches on each rank.

The order of a rank's actions is traced. Durations are not used: every forward and backward of a
micro-batch is one slot, as in the law of the bubble, so the result is about the schedule and not
about this machine. Stages are on the ranks in order, one on each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.traffic import Traffic
from zerosim.lessons.recordings import LessonRecordings
from zerosim.record import Trace
from zerosim.schema.events import Kind, Phase
from zerosim.theory.programs import Bubble


@dataclass(frozen=True, slots=True)
class PipelineAction:
    """A stage's forward or backward of one micro-batch, counted from 0."""

    phase: Phase
    micro_batch: int

    @property
    def label(self) -> str:
        """F1 is the forward of the first micro-batch, B1 its backward."""
        return f"{'F' if self.phase is Phase.FORWARD else 'B'}{self.micro_batch + 1}"


Slots = tuple[Mapping[int, PipelineAction], ...]
"""For each rank, the computation in each slot."""


class Pipeline(Traffic):
    """Facts of pipelines; of the last complete iteration."""

    def __init__(self, recordings: LessonRecordings) -> None:
        super().__init__(recordings)
        self._slots: Callable[[str], Slots] = lru_cache(None)(
            lambda run: _in_slots(self._pipeline(run), self._report(run).iteration)
        )

    def last_stage(self, run: str) -> str:
        """The rank that sends no activations on."""
        ranks = range(self.num_ranks(run))
        return str(next(rank for rank in ranks if not self.sent_to(run, rank, rank + 1)))

    def slots(self, run: str) -> Slots:
        """The computation of each rank in each slot, as early as its inputs permit."""
        return self._slots(run)

    def num_slots(self, run: str) -> int:
        """From the first task to the last."""
        return 1 + max(slot for tasks in self._slots(run) for slot in tasks)

    def micro_batches(self, run: str) -> int:
        """m: parts of a batch that pass through the pipeline one after another."""
        return sum(task.phase is Phase.FORWARD for task in self._slots(run)[0].values())

    def idle(self, run: str, rank: int = 0) -> int:
        """Slots in which a rank computes nothing."""
        return self.num_slots(run) - len(self._slots(run)[rank])

    def idle_of_total(self, run: str) -> float:
        """Idle slots of all ranks as a fraction of all their slots."""
        ranks = range(self.num_ranks(run))
        return sum(self.idle(run, rank) for rank in ranks) / (self.num_slots(run) * len(ranks))

    def bubble_of_total(self, run: str) -> float:
        """The same by theory."""
        return float(self._bubble(run).of_total)

    def bubble_of_ideal(self, run: str) -> float:
        """By theory, idle time over the computing time."""
        return float(self._bubble(run).of_ideal)

    def under_way(self, run: str, rank: int = 0) -> int:
        """Maximum number of micro-batches with a forward and without a backward on a stage."""
        most = now = 0
        for _, task in sorted(self._slots(run)[rank].items()):
            now += 1 if task.phase is Phase.FORWARD else -1
            most = max(most, now)
        return most

    def _pipeline(self, run: str) -> Trace:
        """A trace with ranks that pass data from one to the next."""
        for rank in range(self.num_ranks(run) - 1):
            if not self.sent_to(run, rank, rank + 1):
                raise ConfigError(f"{run}: its ranks are not the stages of a pipeline")
        return self._run(run).trace

    def _bubble(self, run: str) -> Bubble:
        return Bubble(
            num_ranks=self.num_ranks(run),
            num_microbatches=self.micro_batches(run),
            stages_a_rank=1,
        )


def _in_slots(trace: Trace, iteration: int) -> Slots:
    """Each task in the first slot in which its rank is free and its input present."""
    todo = [list(_tasks(trace, rank, iteration)) for rank in range(len(trace.ranks))]
    if not all(todo):
        raise ConfigError(f"{trace.folder}: what its ranks compute is not known")
    done: dict[tuple[int, PipelineAction], int] = {}
    slots: list[dict[int, PipelineAction]] = [{} for _ in todo]
    at = [0] * len(todo)
    slot = 0
    while any(place < len(tasks) for place, tasks in zip(at, todo, strict=True)):
        ready = [
            (rank, tasks[place])
            for rank, (place, tasks) in enumerate(zip(at, todo, strict=True))
            if place < len(tasks) and _has_input(rank, tasks[place], done, slot, len(todo))
        ]
        if not ready and slot > sum(map(len, todo)):
            raise ConfigError(f"{trace.folder}: its ranks wait for each other in a cycle")
        for rank, task in ready:
            slots[rank][slot] = task
            done[rank, task] = slot
            at[rank] += 1
        slot += 1
    return tuple(slots)


def _has_input(
    rank: int,
    task: PipelineAction,
    done: Mapping[tuple[int, PipelineAction], int],
    slot: int,
    num_ranks: int,
) -> bool:
    """Forward needs the stage before, backward the stage behind; of the same micro-batch."""
    other = rank - 1 if task.phase is Phase.FORWARD else rank + 1
    if not 0 <= other < num_ranks:
        return True
    return done.get((other, task), slot) < slot


def _tasks(trace: Trace, rank: int, iteration: int) -> Iterator[PipelineAction]:
    """In the order of a rank's computations: the first unit of a stage represents all."""
    events = sorted(trace.ranks[rank].events, key=lambda event: event.id)
    units: dict[Phase, str] = {}
    counts: dict[Phase, int] = {}
    for event in events:
        if event.kind is not Kind.COMPUTE or event.iteration != iteration:
            continue
        if event.phase not in (Phase.FORWARD, Phase.BACKWARD) or not event.unit:
            continue
        if units.setdefault(event.phase, event.unit) == event.unit:
            yield PipelineAction(event.phase, counts.get(event.phase, 0))
            counts[event.phase] = counts.get(event.phase, 0) + 1
