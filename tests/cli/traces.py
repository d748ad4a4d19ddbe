"""Small traces of the engine, whole and exact, made without processes: what a ring would record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.strategies import Row, Written, header, manifest, trace_files, write_files
from zerosim.config import EngineConfig
from zerosim.events import Algorithm, Event, Group, Kind, Op
from zerosim.manifest import Manifest, UnitLayout
from zerosim.theory import UnitSize, Workload, padded_elements, planned_calls

if TYPE_CHECKING:
    from pathlib import Path

UNITS = (UnitSize("embedding", 30), UnitSize("block", 64))
STEPS = 2


def rows_of(stage: int, rank: int, num_ranks: int, **config: object) -> list[Row]:
    """What one rank of an engine records when it does as theory says; the wire is not measured."""
    settings = EngineConfig(stage=stage, **config)
    workload = Workload(
        stage=stage,
        num_ranks=num_ranks,
        units=UNITS,
        element_bytes=settings.dtype.element_bytes,
        accumulate=settings.accumulate,
        clips=settings.clip is not None,
    )
    rows: list[Row] = [
        ("header", header(rank, num_ranks)),
        ("group", Group(name="world", backend="gloo", ranks=tuple(range(num_ranks)))),
    ]
    number = sequence = 0
    for iteration in range(STEPS):
        for call in planned_calls(workload):
            for _ in range(call.times):
                cost = replace(call, times=1).cost(workload, rank, Algorithm.RING)
                event = Event(
                    id=number,
                    rank=rank,
                    kind=Kind.COLLECTIVE,
                    iteration=iteration,
                    phase=call.phase,
                    unit="block",
                    purpose=call.purpose,
                    op=call.op,
                    algorithm=Algorithm.RING,
                    group="world",
                    sequence=sequence,
                    peers=tuple(sorted({(rank - 1) % num_ranks, (rank + 1) % num_ranks})),
                    dtype="bfloat16",
                    elements=call.num_elements,
                    payload_bytes=call.num_elements * call.element_bytes,
                    sent_bytes=cost.sent_bytes,
                    received_bytes=cost.received_bytes,
                    issue_ns=number * 1000,
                    start_ns=number * 1000,
                    end_ns=number * 1000 + 500,
                )
                rows.append(("event", event))
                number += 1
                sequence += 1
                rows += _messages(event, cost, number, num_ranks)
                number += 2
    return rows


def _messages(event: Event, cost, number: int, num_ranks: int) -> list[Row]:
    peers = {Op.SEND: (event.rank + 1) % num_ranks, Op.RECEIVE: (event.rank - 1) % num_ranks}
    sizes = {Op.SEND: cost.sent_bytes, Op.RECEIVE: cost.received_bytes}
    return [
        (
            "event",
            replace(
                event,
                id=number + place,
                parent=event.id,
                kind=Kind.TRANSFER,
                op=op,
                peers=(peers[op],),
                payload_bytes=sizes[op],
                sent_bytes=sizes[op] if op is Op.SEND else 0,
                received_bytes=sizes[op] if op is Op.RECEIVE else 0,
                sequence=None,
                hop=0,
                shard=0,
            ),
        )
        for place, op in enumerate((Op.SEND, Op.RECEIVE))
    ]


def manifest_of(stage: int, num_ranks: int, **config: object) -> Manifest:
    """The manifest of such a trace."""
    return replace(
        manifest(num_ranks),
        config=EngineConfig(stage=stage, **config).to_plain(),
        units=tuple(
            UnitLayout(
                name=unit.name,
                elements=unit.elements,
                padded_elements=padded_elements(unit.elements, num_ranks),
                trainable=True,
            )
            for unit in UNITS
        ),
    )


def engine_trace(stage: int, num_ranks: int = 2, **config: object) -> Written:
    """A whole trace that agrees with theory."""
    rows = {rank: rows_of(stage, rank, num_ranks, **config) for rank in range(num_ranks)}
    return Written(manifest_of(stage, num_ranks, **config), rows)


def write(folder: Path, written: Written) -> Path:
    """Write a trace, each rank closed in order."""
    return write_files(folder, trace_files(written))
