"""Traces with memory, made without processes: what a small engine would record, byte by byte.

Nothing here is computed by `zerosim.theory`: sizes follow from rows of a matrix and their dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.strategies import Row, Written, header, manifest, trace_files, write_files
from zerosim.config import EngineConfig
from zerosim.events import Close, Event, Group, Kind, Metric, Phase
from zerosim.manifest import BucketLayout, Segment, UnitLayout
from zerosim.memory import Allocations, Holding, MemorySample, Moment, Role

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

UNITS = {"embedding": 31, "blocks.0": 64, "blocks.1": 64, "head": 40}
FROZEN = {"blocks.0.frozen": 10}
OTHER_BYTES = 24
"""What the allocator counts beside the roles, at every sample."""


def columns(elements: int, num_ranks: int) -> int:
    return -(-elements // num_ranks)


@dataclass
class Recording:
    """One rank's rows, and what is alive."""

    rank: int
    num_ranks: int
    counts_allocations: bool = True
    rows: list[Row] = field(default_factory=list)
    state: dict[tuple[Role, str], int] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    allocated: list[int] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    time_ns: int = 0
    num_events: int = 0
    num_samples: int = 0
    iteration: int = -1
    phase: Phase = Phase.OUTSIDE
    between: int = 100
    """What is allocated and freed again between two samples."""

    def __post_init__(self) -> None:
        ranks = tuple(range(self.num_ranks))
        self.rows = [
            ("header", header(self.rank, self.num_ranks)),
            ("group", Group(name="world", backend="gloo", ranks=ranks)),
        ]

    def enter(self, iteration: int, phase: Phase, **changes: Mapping[str, int]) -> None:
        self.iteration, self.phase = iteration, phase
        self.look(None, Moment.PHASE, changes)

    def look(self, event: int | None, moment: Moment, changes: Mapping) -> None:
        """Take a sample: changes by the role's name in upper case, then by unit."""
        self.time_ns += 10
        found = {
            (Role[name.upper()], unit): size
            for name, of_units in changes.items()
            for unit, size in of_units.items()
        }
        if not found:
            return
        self.state |= found
        sample = MemorySample(
            number=self.num_samples,
            event=event,
            moment=moment,
            iteration=self.iteration,
            micro_step=0,
            phase=self.phase,
            time_ns=self.time_ns,
            changes=tuple(Holding(role, unit, size) for (role, unit), size in found.items()),
        )
        self.rows.append(("memory", sample))
        self.numbers.append(self.num_samples)
        self.allocated.append(sum(self.state.values()) + OTHER_BYTES)
        self.peaks.append(self.allocated[-1] + self.between)
        self.num_samples += 1

    def begin(self, unit: str, **changes: Mapping[str, int]) -> int:
        number, self.num_events = self.num_events, self.num_events + 1
        self.time_ns += 10
        event = Event(
            id=number,
            rank=self.rank,
            kind=Kind.COMPUTE,
            iteration=self.iteration,
            phase=self.phase,
            unit=unit,
            issue_ns=self.time_ns,
        )
        self.rows.append(("open", event))
        self.look(number, Moment.BEGIN, changes)
        return number

    def end(self, number: int, **changes: Mapping[str, int]) -> None:
        self.time_ns += 10
        close = Close(id=number, start_ns=self.rows_of(number).issue_ns, end_ns=self.time_ns)
        self.rows.append(("close", close))
        self.look(number, Moment.END, changes)

    def rows_of(self, number: int) -> Event:
        return next(row for name, row in self.rows if name == "open" and row.id == number)

    def finish_iteration(self) -> None:
        if self.counts_allocations:
            lists = (tuple(self.numbers), tuple(self.allocated), tuple(self.peaks))
            self.rows.append(("allocations", Allocations(**dict(zip(_LISTS, lists, strict=True)))))
        self.numbers, self.allocated, self.peaks = [], [], []


_LISTS = ("numbers", "allocated_bytes", "peak_bytes")


def memory_trace(
    stage: int,
    num_ranks: int = 2,
    *,
    steps: int = 3,
    dtype: str = "bf16",
    frozen: bool = False,
    overflows: tuple[int, ...] = (),
    counts_allocations: bool = True,
) -> Written:
    """What an engine with one unit ahead and one bucket a unit records."""
    size = 4 if dtype == "fp32" else 2
    elements = UNITS | (FROZEN if frozen else {})
    rows = {}
    for rank in range(num_ranks):
        recording = Recording(rank, num_ranks, counts_allocations)
        _record(recording, stage, elements, size, steps, overflows)
        rows[rank] = recording.rows
    config = EngineConfig(stage=stage, dtype=dtype, prefetch=1)
    layouts = tuple(
        UnitLayout(
            name=name,
            elements=number,
            padded_elements=columns(number, num_ranks) * num_ranks,
            trainable=name not in FROZEN,
        )
        for name, number in elements.items()
    )
    buckets = tuple(
        BucketLayout(
            name=name, segments=(Segment(unit=name, start=0, stop=columns(number, num_ranks)),)
        )
        for name, number in reversed(UNITS.items())
    )
    described = replace(
        manifest(num_ranks), config=config.to_plain(), units=layouts, buckets=buckets
    )
    return Written(described, rows)


def _record(
    to: Recording,
    stage: int,
    elements: Mapping[str, int],
    size: int,
    steps: int,
    overflows: tuple[int, ...],
) -> None:
    row = {name: columns(number, to.num_ranks) for name, number in elements.items()}
    whole = {name: number * to.num_ranks for name, number in row.items()}
    kept = {name: (row if stage == 3 else whole)[name] * size for name in elements}
    updated = {name: (whole if stage == 0 else row)[name] * 4 for name in UNITS}
    whole = {name: number * size for name, number in whole.items()}
    row = {name: number * size for name, number in row.items()}
    to.enter(-1, Phase.SETUP, parameters=whole)
    to.enter(-1, Phase.OUTSIDE, parameters=kept, **({"master": updated} if size == 2 else {}))
    order = list(UNITS)
    flat = [name for unit in order for name in (unit, f"{unit}.frozen") if name in elements]
    has_moments = False

    def gather(unit: str = "", step: int = 0) -> dict[str, dict[str, int]]:
        """A unit with its frozen parameters, and the next one in that direction."""
        if stage < 3:
            return {}
        places = [at for at, name in enumerate(flat) if name.removesuffix(".frozen") == unit]
        ahead = max(places, default=0) + 1 if step > 0 else min(places, default=0) - 1
        if step and 0 <= ahead < len(flat):
            places.append(ahead)
        present = {name for role, name in to.state if role is Role.GATHERED}
        return {
            "gathered": dict.fromkeys(present, 0) | {flat[at]: whole[flat[at]] for at in places}
        }

    for iteration in range(steps):
        to.enter(iteration, Phase.FORWARD, activations={"": 8})
        for place, unit in enumerate(order):
            number = to.begin(unit, **gather(unit, 1))
            to.end(number, activations={unit: 1000 + 10 * place})
        to.enter(iteration, Phase.BACKWARD, activations={"": 16}, **gather())
        for place in reversed(range(len(order))):
            unit = order[place]
            mine = whole[unit] + (row[unit] if stage >= 2 else 0)
            reduced = {name: row[name] for name in order[place + 2 : place + 3]}
            number = to.begin(
                unit, **gather(unit, -1), **({"gradients": reduced} if stage >= 2 else {})
            )
            to.end(number, gradients={unit: mine}, activations={unit: 0})
        rest = {name: row[name] for name in order} if stage >= 2 else {}
        to.enter(iteration, Phase.UPDATE, activations={"": 0}, gradients=rest, **gather())
        if iteration in overflows:
            metric = Metric(iteration=iteration, name="overflow", value=1.0, time_ns=to.time_ns)
            to.rows.append(("metric", metric))
        elif not has_moments:
            for unit in order:
                number = to.begin(unit)
                to.end(number, momentum={unit: updated[unit]}, variance={unit: updated[unit]})
            has_moments = True
        gone = dict.fromkeys(order, 0) if stage >= 2 else {}
        to.enter(iteration, Phase.OUTSIDE, gradients=gone)
        to.finish_iteration()


def samples(written: Written, rank: int) -> list[int]:
    """Where a rank's memory samples are in its rows."""
    return [place for place, (name, _) in enumerate(written.rows[rank]) if name == "memory"]


def change(written: Written, rank: int, position: int, role: Role, unit: str, size: int) -> None:
    """From a sample on, a unit has another size for a role; until its next change."""
    place = samples(written, rank)[position]
    name, sample = written.rows[rank][place]
    others = tuple(one for one in sample.changes if (one.role, one.unit) != (role, unit))
    holding = Holding(role, unit, size)
    written.rows[rank][place] = (name, replace(sample, changes=(*others, holding)))


def position_of(
    written: Written, rank: int, iteration: int, phase: Phase, moment: Moment, unit: str = ""
) -> int:
    """The number of a sample."""
    rows = written.rows[rank]
    events = {row.id: row for name, row in rows if name == "open"}
    for place in samples(written, rank):
        sample = rows[place][1]
        of_unit = events[sample.event].unit if sample.event is not None else ""
        if (sample.iteration, sample.phase, sample.moment, of_unit) == (
            iteration, phase, moment, unit,
        ):  # fmt: skip
            return sample.number
    raise AssertionError("there is no such sample")


def write(folder: Path, written: Written) -> Path:
    """Write a trace, each rank closed in order."""
    return write_files(folder, trace_files(written))
