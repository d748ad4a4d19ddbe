"""Traces with memory, made without processes: what a small engine would record, byte by byte.

Nothing here is computed by `zerosim.theory`: sizes follow from rows of a matrix and their dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.strategies import Row, Written, header, manifest, trace_files, write_files
from zerosim.base.config import DType, EngineConfig, Offload
from zerosim.base.tiers import Tier
from zerosim.schema.events import Close, Event, Group, Kind, Metric, Phase
from zerosim.schema.manifest import BucketLayout, Segment, UnitLayout
from zerosim.schema.memory import Allocations, Holding, MemorySample, Moment, Role

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

UNITS = {"embedding": 31, "blocks.0": 64, "blocks.1": 64, "head": 40}
FROZEN = {"blocks.0.frozen": 10}
MOMENTS = ("momentum", "variance")
PREFIXES = {Offload.NONE: "", Offload.CPU: "host_", Offload.NVME: "disk_"}
"""Of the names of changes, by where something is kept."""
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
    state: dict[tuple[Role, str, Tier], int] = field(default_factory=dict)
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
        """Take a sample: changes by the role's name, after "host_" or "disk_", then by unit."""
        self.time_ns += 10
        found = {
            (*_role_and_tier(name), unit): size
            for name, of_units in changes.items()
            for unit, size in of_units.items()
        }
        found = {(role, unit, tier): size for (role, tier, unit), size in found.items()}
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
            changes=tuple(
                Holding(role, unit, size, tier) for (role, unit, tier), size in found.items()
            ),
        )
        self.rows.append(("memory", sample))
        self.numbers.append(self.num_samples)
        in_memory = sum(size for place, size in self.state.items() if place[2] is not Tier.DISK)
        self.allocated.append(in_memory + OTHER_BYTES)
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


def _role_and_tier(name: str) -> tuple[Role, Tier]:
    for tier in (Tier.HOST, Tier.DISK):
        if name.startswith(f"{tier}_"):
            return Role[name.removeprefix(f"{tier}_").upper()], tier
    return Role[name.upper()], Tier.DEVICE


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
    **options: object,
) -> Written:
    """What an engine with one unit ahead and one bucket a unit records.

    Args:
        options: of the engine: what is offloaded, and hpZ.
    """
    config = EngineConfig(stage=stage, dtype=dtype, prefetch=1, nvme_path="disk", **options)
    elements = UNITS | (FROZEN if frozen else {})
    rows = {}
    for rank in range(num_ranks):
        recording = Recording(rank, num_ranks, counts_allocations)
        training = Training(recording, config, elements)
        training.set_up()
        for iteration in range(steps):
            training.step(iteration, overflows=iteration in overflows)
        rows[rank] = recording.rows
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


class Training:
    """What an engine does to one rank's memory."""

    def __init__(self, to: Recording, config: EngineConfig, elements: Mapping[str, int]) -> None:
        self.to, self.config = to, config
        size, num_ranks = config.dtype.element_bytes, to.num_ranks
        self.states = PREFIXES[config.offload_optimizer]
        in_row = {name: columns(number, num_ranks) for name, number in elements.items()}
        self.row = {name: number * size for name, number in in_row.items()}
        self.whole = {name: number * num_ranks for name, number in self.row.items()}
        of_optimizer = 4 * (num_ranks if config.stage == 0 else 1)
        self.updated = {name: in_row[name] * of_optimizer for name in UNITS}
        group = config.secondary_partition
        self.copies = {
            name: -(-number * num_ranks // group) * size for name, number in in_row.items()
        }
        if group == 1:
            self.copies = {}
        self.order = list(UNITS)
        self.flat = [n for unit in UNITS for n in (unit, f"{unit}.frozen") if n in elements]
        self.has_moments = False

    def set_up(self) -> None:
        config, kept_in = self.config, PREFIXES[self.config.offload_param]
        kept = self.row if config.stage == 3 else self.whole
        if config.has_owners:
            names = [*self.whole][self.to.rank :: self.to.num_ranks]
            kept = {name: self.whole[name] for name in names}
        self.to.enter(-1, Phase.SETUP, parameters=self.whole)
        begin = {}
        shares_rows = self.states == kept_in != "disk_" and not config.has_owners
        if not (shares_rows and config.dtype is DType.FP32):
            begin[f"{self.states}master"] = self.updated
        if self.states == "disk_":
            begin |= {f"disk_{name}": self.updated for name in MOMENTS}
        if kept_in:
            begin["parameters"] = dict.fromkeys(self.whole, 0)
        self.to.enter(-1, Phase.OUTSIDE, **{f"{kept_in}parameters": kept}, **begin)

    def step(self, iteration: int, *, overflows: bool) -> None:
        self.forward(iteration)
        self.backward(iteration)
        self.update(iteration, overflows=overflows)
        self.to.finish_iteration()

    def forward(self, iteration: int) -> None:
        self.to.enter(iteration, Phase.FORWARD, activations={"": 8})
        for place, unit in enumerate(self.order):
            number = self.to.begin(unit, **self.gather(unit, 1))
            copies = {n: self.copies[n] for n in (unit, f"{unit}.frozen") if n in self.copies}
            self.to.end(number, activations={unit: 1000 + 10 * place}, secondary=copies)

    def backward(self, iteration: int) -> None:
        self.to.enter(iteration, Phase.BACKWARD, activations={"": 16}, **self.gather())
        for place in reversed(range(len(self.order))):
            unit = self.order[place]
            keeps_row = self.config.stage >= 2 and not self.states
            mine = self.whole[unit] + (self.row[unit] if keeps_row else 0)
            reduced = self.reduced(self.order[place + 2 : place + 3])
            number = self.to.begin(unit, **self.gather(unit, -1), **reduced)
            self.to.end(number, gradients={unit: mine}, activations={unit: 0})

    def update(self, iteration: int, *, overflows: bool) -> None:
        reduced = self.reduced(self.order)
        self.to.enter(iteration, Phase.UPDATE, activations={"": 0}, **reduced, **self.gather())
        if overflows:
            time_ns = self.to.time_ns
            metric = Metric(iteration=iteration, name="overflow", value=1.0, time_ns=time_ns)
            self.to.rows.append(("metric", metric))
        elif not self.has_moments:
            for unit in self.order:
                number = self.to.begin(unit)
                moments = {f"{self.states}{name}": {unit: self.updated[unit]} for name in MOMENTS}
                self.to.end(number, **({} if self.states == "disk_" else moments))
            self.has_moments = True
        frees = self.config.stage >= 2 and not self.states
        gone = dict.fromkeys(self.order, 0) if frees else {}
        self.to.enter(
            iteration, Phase.OUTSIDE, gradients=gone, secondary=dict.fromkeys(self.copies, 0)
        )

    def gather(self, unit: str = "", step: int = 0) -> dict[str, dict[str, int]]:
        """A unit with its frozen parameters, and the next one in that direction."""
        if self.config.stage < 3:
            return {}
        flat = self.flat
        places = [at for at, name in enumerate(flat) if name.removesuffix(".frozen") == unit]
        ahead = max(places, default=0) + 1 if step > 0 else min(places, default=0) - 1
        if step and 0 <= ahead < len(flat):
            places.append(ahead)
        present = {name for role, name, _ in self.to.state if role is Role.GATHERED}
        now = {flat[at]: self.whole[flat[at]] for at in places}
        return {"gathered": dict.fromkeys(present, 0) | now}

    def reduced(self, units: list[str]) -> dict[str, dict[str, int]]:
        """Units whose gradients are reduced: rows are left on the device, or are on the host."""
        rows = {name: self.row[name] for name in units}
        if not self.states:
            return {"gradients": rows} if self.config.stage >= 2 else {}
        if self.config.stage == 1:
            return {"host_gradients": rows}
        return {"host_gradients": rows, "gradients": dict.fromkeys(units, 0)}


def samples(written: Written, rank: int) -> list[int]:
    """Where a rank's memory samples are in its rows."""
    return [place for place, (name, _) in enumerate(written.rows[rank]) if name == "memory"]


def change(
    written: Written,
    rank: int,
    position: int,
    role: Role,
    unit: str,
    size: int,
    tier: Tier = Tier.DEVICE,
) -> None:
    """From a sample on, a unit has another size for a role; until its next change."""
    place = samples(written, rank)[position]
    name, sample = written.rows[rank][place]
    key = (role, unit, tier)
    others = tuple(one for one in sample.changes if (one.role, one.unit, one.tier) != key)
    holding = Holding(role, unit, size, tier)
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
