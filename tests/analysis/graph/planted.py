"""Traces planted event by event, with times that a person can add up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.strategies import Row, Written, header, manifest, trace_files, write_files
from zerosim.base.tiers import Tier
from zerosim.record import Trace, load
from zerosim.schema.events import (
    Algorithm,
    Event,
    Group,
    Kind,
    Op,
    Phase,
    Purpose,
    WireSample,
)

if TYPE_CHECKING:
    from pathlib import Path


class Planted:
    """The rows of one rank; ids are given in the order of planting."""

    def __init__(self, rank: int, num_ranks: int = 2, host: str = "box") -> None:
        self.rank = rank
        self.num_ranks = num_ranks
        self.host = host
        self.events: list[Event] = []
        self.samples: list[WireSample] = []
        self.sequences: dict[str, int] = {}
        self.groups = {"world": tuple(range(num_ranks))}

    def border(self, time: int, phase: Phase, iteration: int = 0) -> None:
        self.samples.append(
            WireSample(iteration=iteration, micro_step=0, phase=phase, time_ns=time, counters=())
        )

    def _add(self, kind: Kind, **fields) -> Event:
        fields = {"iteration": 0, "phase": Phase.FORWARD} | fields
        event = Event(id=len(self.events), rank=self.rank, kind=kind, **fields)
        self.events.append(event)
        return event

    def compute(self, unit: str, start: int, end: int, **fields) -> Event:
        times = {"issue_ns": start, "start_ns": start, "end_ns": end}
        return self._add(Kind.COMPUTE, unit=unit, **times, **fields)

    def call(self, issue: int, start: int | None, end: int | None, **fields) -> Event:
        group = fields.get("group", "world")
        sequence = self.sequences.get(group, 0)
        self.sequences[group] = sequence + 1
        usual = {
            "op": Op.ALL_REDUCE,
            "unit": "a",
            "purpose": Purpose.REDUCE_GRADIENTS,
            "algorithm": Algorithm.RING,
            "group": "world",
            "sequence": sequence,
            "dtype": "float32",
            "elements": 25,
            "payload_bytes": 100,
            "source": "train.py:7 in step",
        }
        times = {"issue_ns": issue, "start_ns": start, "end_ns": end}
        return self._add(Kind.COLLECTIVE, **usual | fields | times)

    def wait(self, start: int, end: int, call: Event, **fields) -> Event:
        times = {"issue_ns": start, "start_ns": start, "end_ns": end}
        return self._add(Kind.WAIT, parent=call.id, **times, **fields)

    def copy(
        self, purpose: Purpose, ways: tuple[Tier, Tier], start: int, end: int | None, **fields
    ) -> Event:
        times = {"issue_ns": start, "start_ns": start, "end_ns": end}
        usual = {"unit": "a", "dtype": "bfloat16", "elements": 25, "payload_bytes": 50}
        tiers = {"origin": ways[0], "target": ways[1]}
        return self._add(Kind.COPY, purpose=purpose, **tiers, **usual | times | fields)

    def message(self, call: Event, op: Op, peer: int, start: int, end: int, **fields) -> Event:
        times = {"issue_ns": start, "start_ns": start, "end_ns": end}
        usual = {"payload_bytes": 50, "hop": 0, "shard": 0, "op": op, "peers": (peer,)}
        above = {"unit": call.unit, "group": call.group, "phase": call.phase}
        return self._add(Kind.TRANSFER, parent=call.id, **above | usual | fields | times)

    def rows(self) -> list[Row]:
        groups: list[Row] = [
            ("group", Group(name=name, backend="gloo", ranks=ranks))
            for name, ranks in self.groups.items()
        ]
        samples: list[Row] = [("wire", sample) for sample in self.samples]
        first = header(self.rank, self.num_ranks, self.host)
        return [("header", first), *groups, *samples, *(("event", e) for e in self.events)]


def plant(folder: Path, *ranks: Planted, **changes) -> Trace:
    """Write the ranks' rows and load them.

    Args:
        changes: of the manifest.
    """
    rows = {rank.rank: rank.rows() for rank in ranks}
    made = replace(manifest(ranks[0].num_ranks), **changes)
    return load(write_files(folder, trace_files(Written(made, rows))))


TO_HOST, FROM_HOST = (Tier.DEVICE, Tier.HOST), (Tier.HOST, Tier.DEVICE)
FROM_DISK, TO_DISK = (Tier.DISK, Tier.HOST), (Tier.HOST, Tier.DISK)


def kept_on_disk(folder: Path, **changes) -> Trace:
    """One rank whose parameters and optimizer states lie on a disk; unit a, one iteration.

    program   |.[.waits 12-41...]aaa|aaaaaa..|[waits 115-131]aaaa[waits 155-182]|
    disk       fetch 10-30                    fetch 110-130      store 150-180
    bus             fetch 30-40        offload 101-109
    """
    rank = Planted(0, num_ranks=1)
    rank.border(0, Phase.FORWARD)
    rank.border(70, Phase.BACKWARD)
    rank.border(110, Phase.UPDATE)
    rank.border(190, Phase.OUTSIDE)
    rank.copy(Purpose.FETCH_PARAMETERS, FROM_DISK, 10, 30, issue_ns=8)
    up = rank.copy(Purpose.FETCH_PARAMETERS, FROM_HOST, 30, 40, issue_ns=8)
    rank.wait(12, 41, up)
    rank.compute("a", 45, 65)
    rank.compute("a", 70, 100, phase=Phase.BACKWARD)
    rank.copy(Purpose.OFFLOAD_GRADIENTS, TO_HOST, 101, 109, phase=Phase.BACKWARD)
    states = rank.copy(Purpose.FETCH_STATES, FROM_DISK, 110, 130, phase=Phase.UPDATE)
    rank.wait(115, 131, states, phase=Phase.UPDATE)
    rank.compute("a", 131, 150, phase=Phase.UPDATE)
    rank.copy(Purpose.STORE_STATES, TO_DISK, 150, 170, phase=Phase.UPDATE)
    last = rank.copy(Purpose.STORE_PARAMETERS, TO_DISK, 170, 180, phase=Phase.UPDATE, issue_ns=151)
    rank.wait(155, 182, last, phase=Phase.UPDATE)
    return plant(folder, rank, **changes)


def straggling(folder: Path) -> Trace:
    """Rank 1 computes a for 80 ns, rank 0 for 40 ns; then both reduce and compute b.

    rank 0   |..aaaa.[.. waits 58-135 ...........]..bbbbb...|200
    rank 1   |..aaaaaaaa.[. waits 97-131 ........]..bbbbbb..|205
    reduce   rank 0 arrives at 60, rank 1 at 100; over at 130 and 128
    """
    first, second = Planted(0), Planted(1)
    for rank, slow, issue, start, end, wait, last in (
        (first, 50, 55, 60, 130, (58, 135), (190, 200)),
        (second, 90, 95, 100, 128, (97, 131), (200, 205)),
    ):
        rank.border(0, Phase.FORWARD)
        rank.border(last[1], Phase.OUTSIDE)
        rank.compute("a", 10, slow)
        call = rank.call(issue, start, end)
        rank.wait(*wait, call)
        rank.compute("b", 140, last[0])
    return plant(folder, first, second)
