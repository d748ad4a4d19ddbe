"""Single events as a table."""

from __future__ import annotations

from zerosim.base.tables import Cell, Column, Evidence, Table
from zerosim.schema.events import Event, Kind
from zerosim.view.reading.selection import Selection, names_of

_NAMES = ("rank", "event", "iteration", "micro_step", "phase", "kind", "op", "purpose", "unit")
_TRACED = (
    "group",
    "dtype",
    "elements",
    "payload_bytes",
    "sent_bytes",
    "received_bytes",
    "start_ns",
    "duration_ns",
    "source",
)
_NOT_SHOWN = (Kind.TRANSFER,)
"""The messages of collectives, only on request: there are many."""


def events(chosen: Selection, kind: object, title: str) -> Table:
    """The events, in the order of each rank's program.

    Args:
        kind: the kind of the events; by default, all but the messages of collectives.
    """
    kinds = (
        tuple(one for one in Kind if one not in _NOT_SHOWN)
        if kind is None
        else names_of(Kind, kind, "kind")
    )
    rows: list[tuple[Cell, ...]] = []
    for rank in chosen.ranks:
        for event in rank.events:
            if event.kind not in kinds or not chosen.has(event):
                continue
            rows.append(
                (
                    rank.rank,
                    event.id,
                    event.iteration,
                    event.micro_step,
                    event.phase.value,
                    event.kind.value,
                    "" if event.op is None else event.op.value,
                    "" if event.purpose is None else event.purpose.value,
                    event.unit,
                    event.group,
                    event.dtype,
                    None if event.operator else event.elements,
                    None if event.operator else event.payload_bytes,
                    event.sent_bytes,
                    event.received_bytes,
                    event.start_ns,
                    _duration(event),
                    event.source,
                )
            )
    columns = (*map(Column, _NAMES), *(Column(name, Evidence.TRACED) for name in _TRACED))
    return Table(title, columns, tuple(rows))


def _duration(event: Event) -> int | None:
    if event.start_ns is None or event.end_ns is None:
        return None
    return event.end_ns - event.start_ns
