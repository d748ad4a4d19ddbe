"""Small traces of the engine, whole and exact, made without processes: what it would record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.strategies import Row, Written, header, manifest, trace_files, write_files
from zerosim.base.config import EngineConfig
from zerosim.base.tiers import Link
from zerosim.schema.events import Algorithm, Event, Group, Kind, Op
from zerosim.schema.manifest import Manifest, UnitLayout
from zerosim.theory import Movement, UnitSize, Workload, padded_elements, planned
from zerosim.theory.disk import bytes_on_disk
from zerosim.theory.nodes import Span, members

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

UNITS = (UnitSize("embedding", 30), UnitSize("block", 64))
STEPS = 2
_ALONE = (Op.SEND, Op.RECEIVE)


def workload_of(stage: int, num_ranks: int, iteration: int, **config: object) -> Workload:
    """What an engine that is so configured does in an iteration without an overflow."""
    settings = EngineConfig(stage=stage, **config)
    return Workload(
        config=settings,
        num_ranks=num_ranks,
        units=UNITS,
        has_pending_update=iteration > 0,
        ranks_per_node=settings.ranks_per_node,
    )


def rows_of(stage: int, rank: int, num_ranks: int, **config: object) -> list[Row]:
    """What one rank of an engine records when it does as theory says; the wire is not measured."""
    writer = _Writer(rank)
    rows: list[Row] = [("header", header(rank, num_ranks))]
    for iteration in range(STEPS):
        workload = workload_of(stage, num_ranks, iteration, **config)
        if not iteration:
            rows += [
                ("group", Group(name=span.name.lower(), backend="gloo", ranks=ranks))
                for span in Span
                if len(ranks := members(workload, span, rank)) > 1
            ]
        for one in planned(workload, rank):
            for _ in range(one.times):
                if one.op is None:
                    rows.append(writer.copy(one, iteration))
                else:
                    rows += writer.call(workload, replace(one, times=1), iteration)
    return rows


class _Writer:
    """Makes the rows of one rank, one after another."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.number = 0
        self.sequences: dict[Span, int] = {}

    def call(self, workload: Workload, call: Movement, iteration: int) -> Iterable[Row]:
        """A collective and its messages, or a message on its own."""
        cost = call.cost(self.rank, Algorithm.RING)
        group = members(workload, call.span, self.rank)
        place = group.index(self.rank)
        neighbours = (group[place - 1], group[(place + 1) % len(group)])
        event = Event(
            **self._common(iteration),
            kind=Kind.COLLECTIVE,
            phase=call.phase,
            unit="block",
            purpose=call.purpose,
            op=call.op,
            algorithm=Algorithm.PAIRWISE if call.op is Op.ALL_TO_ALL else Algorithm.RING,
            group=call.span.name.lower(),
            peers=tuple(sorted(set(neighbours))),
            dtype="bfloat16",
            elements=call.elements,
            payload_bytes=call.buffer_bytes,
            sent_bytes=cost.sent_bytes,
            received_bytes=cost.received_bytes,
        )
        if call.op in _ALONE:
            assert call.root is not None
            yield "event", replace(event, peers=(call.root,))
            return
        sequence = self.sequences.get(call.span, 0)
        self.sequences[call.span] = sequence + 1
        yield "event", replace(event, sequence=sequence)
        others = [peer for peer in group if peer != self.rank]
        targets = others if call.op is Op.ALL_TO_ALL else [neighbours[1]]
        sources = others if call.op is Op.ALL_TO_ALL else [neighbours[0]]
        for op, peers, size in (
            (Op.SEND, targets, cost.sent_bytes),
            (Op.RECEIVE, sources, cost.received_bytes),
        ):
            for peer in peers if size else ():
                yield "event", self._message(event, op, peer, size // len(peers))

    def _message(self, event: Event, op: Op, peer: int, size: int) -> Event:
        return replace(
            event,
            **self._common(event.iteration),
            parent=event.id,
            kind=Kind.TRANSFER,
            op=op,
            peers=(peer,),
            payload_bytes=size,
            sent_bytes=size if op is Op.SEND else 0,
            received_bytes=size if op is Op.RECEIVE else 0,
            hop=0,
            shard=0,
        )

    def copy(self, copy: Movement, iteration: int) -> Row:
        """A copy between two tiers; the kernel counted whole files of those to a disk."""
        size = copy.buffer_bytes
        event = Event(
            **self._common(iteration),
            kind=Kind.COPY,
            phase=copy.phase,
            unit=copy.unit,
            purpose=copy.purpose,
            dtype="bfloat16",
            elements=copy.elements,
            payload_bytes=size,
            origin=copy.origin,
            target=copy.target,
            counted_bytes=bytes_on_disk(size) if copy.link is Link.STORAGE else None,
        )
        return "event", event

    def _common(self, iteration: int) -> dict:
        number, self.number = self.number, self.number + 1
        return {
            "id": number,
            "rank": self.rank,
            "iteration": iteration,
            "issue_ns": number * 1000,
            "start_ns": number * 1000,
            "end_ns": number * 1000 + 500,
        }


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
