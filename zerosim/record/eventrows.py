"""The events of one rank: rows as read, each converted to an `Event` on access.

A long trace has a million events, most of them messages that are never inspected one by one: the
graph reads their columns. A row takes a third of the time and memory of an event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, replace
from operator import attrgetter
from typing import Any, ClassVar, Literal, overload

import msgspec

from zerosim.record.bounds import bounded_types
from zerosim.schema.events import Close, Event, Kind, Occurrence, Op, Transfer


def _struct(kind: type, *bases: type) -> Any:
    """A type with the fields of a record that msgspec decodes five times as fast."""
    types = bounded_types(kind)
    return msgspec.defstruct(
        f"{kind.__name__}Row",
        [
            (field.name, types[field.name], *(() if field.default is MISSING else (field.default,)))
            for field in fields(kind)
        ],
        bases=bases,
        kw_only=True,
        gc=False,  # it only refers to older objects, so there are no cycles
    )


class _OfTemplate(msgspec.Struct, kw_only=True, gc=False):
    """The fields that an event shares with others of its template, and those known at its end.

    The fields are those of `Event`. They are not in the file, as their types show: the reader fills
    them.
    """

    said: None = None
    """The `Template`."""
    rank: Literal[0] = 0
    peers: tuple[()] = ()
    sent_bytes: None = None
    received_bytes: None = None
    wire: tuple[()] = ()
    counted_bytes: None = None
    work: tuple[()] = ()
    error: Literal[""] = ""
    device_begin_ns: None = None
    device_end_ns: None = None

    hop: ClassVar[None] = None
    shard: ClassVar[None] = None

    kind = property(attrgetter("said.kind"))
    phase = property(attrgetter("said.phase"))
    unit = property(attrgetter("said.unit"))
    purpose = property(attrgetter("said.purpose"))
    op = property(attrgetter("said.op"))
    operator = property(attrgetter("said.operator"))
    algorithm = property(attrgetter("said.algorithm"))
    group = property(attrgetter("said.group"))
    dtype = property(attrgetter("said.dtype"))
    elements = property(attrgetter("said.elements"))
    payload_bytes = property(attrgetter("said.payload_bytes"))
    parts = property(attrgetter("said.parts"))
    received_parts = property(attrgetter("said.received_parts"))
    source = property(attrgetter("said.source"))
    functions = property(attrgetter("said.functions"))
    tensors = property(attrgetter("said.tensors"))
    origin = property(attrgetter("said.origin"))
    target = property(attrgetter("said.target"))


_SEND = Op.SEND


class _OfCall(msgspec.Struct, kw_only=True, gc=False):
    """The fields that a message shares with its call, and those that no message has."""

    call: None = None
    """The row of its call, known when this one is added; not in the file."""

    kind: ClassVar[Kind] = Kind.TRANSFER
    operator: ClassVar[str] = ""
    sequence: ClassVar[None] = None
    parts: ClassVar[tuple[int, ...]] = ()
    received_parts: ClassVar[tuple[int, ...]] = ()
    wire: ClassVar[tuple[()]] = ()
    source: ClassVar[str] = ""
    functions: ClassVar[tuple[str, ...]] = ()
    tensors: ClassVar[tuple[str, ...]] = ()
    origin: ClassVar[None] = None
    target: ClassVar[None] = None
    counted_bytes: ClassVar[None] = None
    work: ClassVar[tuple[()]] = ()
    error: ClassVar[str] = ""
    device_begin_ns: ClassVar[None] = None
    device_end_ns: ClassVar[None] = None

    rank = property(attrgetter("call.rank"))
    iteration = property(attrgetter("call.iteration"))
    micro_step = property(attrgetter("call.micro_step"))
    phase = property(attrgetter("call.phase"))
    unit = property(attrgetter("call.unit"))
    purpose = property(attrgetter("call.purpose"))
    algorithm = property(attrgetter("call.algorithm"))
    group = property(attrgetter("call.group"))
    dtype = property(attrgetter("call.dtype"))
    issue_ns = property(attrgetter("start_ns"))
    peers = property(lambda row: (row.peer,))
    sent_bytes = property(lambda row: row.payload_bytes if row.op is _SEND else 0)
    received_bytes = property(lambda row: 0 if row.op is _SEND else row.payload_bytes)


EventRow = _struct(Event)
OccurrenceRow = _struct(Occurrence, _OfTemplate)
TransferRow = _struct(Transfer, _OfCall)
CloseRow = _struct(Close)

READERS: dict[str, Callable[[bytes], Any]] = {
    name: msgspec.json.Decoder(row).decode
    for name, row in (
        ("event", EventRow),
        ("open", EventRow),
        ("begin", OccurrenceRow),
        ("happened", OccurrenceRow),
        ("close", CloseRow),
        ("transfer", TransferRow),
    )
}
"""The decoders of event rows, by row name."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Some of the events of a rank, for reading field by field.

    Attributes:
        places: positions of these events.
        rows: rows that have every field of `Event`.
    """

    places: list[int]
    rows: list[Any]

    def read(self, name: str) -> Iterator[Any]:
        """One field of all events."""
        return map(attrgetter(name), self.rows)


class Events(Sequence[Event]):
    """Events in the order of their ids."""

    __slots__ = ("_made", "_rows")

    def __init__(self, rows: Iterable[Any] = ()) -> None:
        """Create the collection from rows or events with ascending ids."""
        self._rows = list(rows)
        self._made: dict[int, Event] = {}

    def __len__(self) -> int:
        """The number of events."""
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, place: int | slice) -> Event | tuple[Event, ...]:
        """The same as for a tuple."""
        places = range(len(self._rows))[place]
        return tuple(map(self._at, places)) if isinstance(places, range) else self._at(places)

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the events."""
        return map(self._at, range(len(self._rows)))

    def __eq__(self, other: object) -> bool:
        """Whether the other has equal events."""
        return tuple(self) == tuple(other) if isinstance(other, Events | tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """The same as for a tuple."""
        return f"Events({tuple(self)!r})"

    def _at(self, place: int) -> Event:
        made = self._made.get(place)
        if made is None:
            # concurrent readers all get the same object
            event = msgspec.convert(self._rows[place], Event, from_attributes=True)
            made = self._made.setdefault(place, event)
        return made

    def of_kind(self, *kinds: Kind) -> Iterator[tuple[int, Event]]:
        """Events of these kinds, each with its position; others are not constructed."""
        for place, row in enumerate(self._rows):
            if row.kind in kinds:
                yield place, self._at(place)

    def find(self, number: int) -> Event | None:
        """The event with this id; None if there is none."""
        place = bisect_left(self._rows, number, key=attrgetter("id"))
        found = place < len(self._rows) and self._rows[place].id == number
        return self._at(place) if found else None

    def column(self, name: str) -> list[Any]:
        """One field of all events, without constructing them."""
        return list(map(attrgetter(name), self._rows))

    def pick(self, places: list[int]) -> Columns:
        """The events at some positions."""
        return Columns(places, [self._rows[place] for place in places])

    def retimed(
        self, issue_ns: Sequence[int], start_ns: Sequence[int], end_ns: Sequence[int]
    ) -> Events:
        """The same events at other times, in ns by position; missing times stay missing."""
        rows = list(map(copy, self._rows))
        calls = {row.id: row for row in rows if row.__class__ is not TransferRow}
        for row, issue, start, end in zip(rows, issue_ns, start_ns, end_ns, strict=True):
            if row.start_ns is not None:
                row.start_ns = start
            if row.end_ns is not None:
                row.end_ns = end
            if row.device_end_ns is not None:
                row.device_begin_ns, row.device_end_ns = start, end
            if row.__class__ is TransferRow:
                row.call = calls[row.parent]
            else:
                row.issue_ns = issue
        return Events(rows)

    def on_device(self) -> Events:
        """The same events at the times of the device, where known.

        A computation is issued when its stream reaches it; a collective when the host issues it, if
        that is earlier.
        """
        if all(row.device_end_ns is None for row in self._rows):
            return self
        rows = list(map(_on_device, self._rows))
        calls = {row.id: row for row in rows if row.__class__ is not TransferRow}
        for row in rows:
            if row.__class__ is TransferRow:
                row.call = calls[row.parent]
        return Events(rows)

    def columns(self) -> tuple[Columns, Columns]:
        """The messages with fields in the rows of their calls, and all other events."""
        messages, others = Columns([], []), Columns([], [])
        for place, row in enumerate(self._rows):
            one = messages if row.__class__ is TransferRow else others
            one.places.append(place)
            one.rows.append(row)
        return messages, others


def _on_device(row: Any) -> Any:
    """A row or an event at the times of its device; a copy of the row if it has one."""
    if row.device_end_ns is None:
        return copy(row)
    is_call = row.kind is Kind.COLLECTIVE
    begin_ns = row.device_begin_ns
    times = {
        "issue_ns": min(row.issue_ns, begin_ns) if is_call else begin_ns,
        "start_ns": begin_ns,
        "end_ns": row.device_end_ns,
    }
    if isinstance(row, Event):
        return replace(row, **times)
    changed = copy(row)
    for name, time_ns in times.items():
        setattr(changed, name, time_ns)
    return changed
