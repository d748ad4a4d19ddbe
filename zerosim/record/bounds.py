"""The range of each number in a trace, by its meaning.

A checksum shows that a row was not altered, but not that it makes sense, because the writer of a
trace can forge it. Each number is therefore checked against its bounds here, once, before anything
is computed from it, and all readers of a trace may rely on that. Reasons are `ValueError`s without
a location; the caller adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, get_args, get_type_hints

from msgspec import Meta

from zerosim.base.config import EngineConfig
from zerosim.schema.events import (
    Close,
    DeviceTime,
    Event,
    Failure,
    Group,
    Header,
    InterfaceSample,
    Occurrence,
    Repeated,
    Template,
    Transfer,
    WireDelta,
)
from zerosim.schema.manifest import Manifest
from zerosim.schema.memory import Allocations, MemorySample
from zerosim.schema.rows import ROW_TYPES
from zerosim.schema.strategies import Parameter, Strategy

MOST = 2**53
"""Limit of counts, ids and sizes, far above any real memory. Sums of a thousand fit into 64 bits,
and each is exact in JavaScript."""
MOST_OF_A_COUNTER = 2**62 - 1
"""Limit of times, at most ns since 1970, and of counters since a host's boot: the sum of two fits
into 64 bits."""
LONGEST_NS = 2**56
"""Limit from a run's first event to its last, two years: some sums run over all events."""
MOST_DIGITS = 30
"""Limit of a number that a user chose freely, such as a bucket size."""
MOST_RANKS = 2**20
"""Limit of ranks, more than any machine has."""
MOST_ITERATIONS = 2**40
"""Limit of iterations: a thousand a second for thirty years."""

_RUNNING = frozenset({"flops", "touched_bytes"})
"""Further fields that may be as large as times and the kernel's counters."""
_OF_A_RING = frozenset({"hop", "shard"})
"""Fields with at most as many entries as there are ranks."""
_KERNEL = (WireDelta, Repeated, InterfaceSample)
_NOT_COUNTED = frozenset(
    {
        *("rank", "num_ranks", "node", "peer"),  # of the world
        *("schema", "iteration"),
        *("unrecorded_bytes", "allocated_bytes"),  # they may be negative
    }
)


def _counted(kind: type) -> tuple[str, ...]:
    """The fields of a record that are at least 0, or None if unknown."""
    hints = get_type_hints(kind).items()
    return tuple(
        name for name, hint in hints if hint in (int, int | None) and name not in _NOT_COUNTED
    )


def _parts(kind: type) -> Iterator[tuple[str, type]]:
    """The fields of a record that contain records, and their types."""
    for name, hint in get_type_hints(kind).items():
        for inner in get_args(hint)[:1]:
            if is_dataclass(inner) and isinstance(inner, type):
                yield name, inner


def _limits(kind: type) -> dict[str, int]:
    """The maximum of each bounded field of a record."""
    found = {}
    for name in _counted(kind):
        runs = kind in _KERNEL or name.endswith("_ns") or name in _RUNNING
        found[name] = MOST_OF_A_COUNTER if runs else MOST_RANKS if name in _OF_A_RING else MOST
    return found


_RECORDS = frozenset(ROW_TYPES.values())
_PARTS = {kind: tuple(name for name, _ in _parts(kind)) for kind in _RECORDS}
_COUNTED = {
    kind: limits
    for kind in _RECORDS | {inner for record in _RECORDS for _, inner in _parts(record)}
    if (limits := _limits(kind))
}
_IN_WORLD: dict[type, tuple[str, ...]] = {
    Header: ("rank", "node"),
}
_ALL_IN_WORLD: dict[type, tuple[str, ...]] = {
    Group: ("ranks",),
    Event: ("peers",),
    Template: ("peers",),
    Close: ("peers",),
    Failure: ("waiting_for",),
    Strategy: ("ranks",),
}


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda record: (one(record),)
    return attrgetter(*names)


_READ = {kind: _reader(tuple(limits)) for kind, limits in _COUNTED.items()}
_LEAST_LIMIT = {kind: min(limits.values()) for kind, limits in _COUNTED.items()}
_HAS_ITERATION = frozenset(kind for kind in _RECORDS if "iteration" in get_type_hints(kind))


_ITERATION = Annotated[int, Meta(ge=-1, le=MOST_ITERATIONS)]


def bounded_types(kind: type) -> dict[str, Any]:
    """The types of a record's fields with the bounds of its own numbers.

    `check_record` rejects the same values, and gives the reason.
    """
    types = get_type_hints(kind)
    for name, most in _COUNTED[kind].items():
        count = Annotated[int, Meta(ge=0, le=most)]
        types[name] = count if types[name] is int else count | None
    return types | ({"iteration": _ITERATION} if kind in _HAS_ITERATION else {})


def check_record(record: Any, num_ranks: int, kind: type | None = None) -> None:
    """Check the numbers of one row against their bounds.

    Args:
        record: an instance of a type of `zerosim.schema.rows.ROW_TYPES`.
        num_ranks: the maximum number of ranks.
        kind: that type, if it is a row with the fields of one.

    Raises:
        ValueError: a number is out of range; the message names it and the expected range.
    """
    kind = kind or type(record)
    _require_from_zero(kind, record)
    if kind in _HAS_ITERATION and not -1 <= record.iteration <= MOST_ITERATIONS:
        raise ValueError(
            f"iteration is {record.iteration}, expected -1 (before the first) to {MOST_ITERATIONS}"
        )
    for check in RELATIONS[kind]:
        check(record, num_ranks)


def check_times(issue_ns: int | None, start_ns: int | None, end_ns: int | None) -> None:
    """Check that an event was issued, began and ended, in this order.

    Raises:
        ValueError: the order differs.
    """
    began_ns = issue_ns if start_ns is None else start_ns
    begins_early = issue_ns is not None and start_ns is not None and start_ns < issue_ns
    if begins_early or (end_ns is not None and began_ns is not None and end_ns < began_ns):
        raise ValueError(
            f"issued at {issue_ns}, started at {start_ns}, ended at {end_ns} ns: expected "
            f"times in this order"
        )


def check_manifest_numbers(manifest: Manifest) -> None:
    """Check the numbers of a manifest against their bounds.

    Raises:
        ValueError: as for `check_record`, or the configuration is not one of zerosim.
    """
    if not 1 <= manifest.num_ranks <= MOST_RANKS:
        raise ValueError(f"num_ranks is {manifest.num_ranks}, expected 1 to {MOST_RANKS}")
    for one in manifest.alike:
        _require_in_world("rank", (one.rank, one.first, one.last), manifest.num_ranks)
    for unit in manifest.units:
        what = f"of unit {unit.name!r}"
        _require_counts(what, "elements", (unit.elements, unit.padded_elements))
        for slot in unit.slots:
            _require_counts(f"{what}, {slot.name!r}", "size", (slot.offset, slot.elements))
            _require_counts(f"{what}, {slot.name!r}", "size", slot.shape)
    names = {unit.name for unit in manifest.units}
    for bucket in manifest.buckets:
        for segment in bucket.segments:
            if segment.unit not in names:
                raise ValueError(
                    f"bucket {bucket.name!r} has unit {segment.unit!r}: not one of units"
                )
            _require_counts(f"of bucket {bucket.name!r}", "column", (segment.start, segment.stop))
    _require_plain("run", manifest.run)
    together = manifest.run.get("tensor_parallel", 1)
    if isinstance(together, int) and (together < 1 or manifest.num_ranks % together):
        raise ValueError(
            f"tensor_parallel is {together}, expected a number that divides {manifest.num_ranks}"
        )
    _require_plain("config", manifest.config)
    known = {field.name for field in fields(EngineConfig)}
    # an unknown key is rejected by the reader of the configuration
    EngineConfig.from_plain({k: v for k, v in manifest.config.items() if k in known})


def _require_from_zero(kind: type, record: Any) -> None:
    if (read := _READ.get(kind)) is None:
        return
    values = [value for value in read(record) if value is not None]
    if values and (min(values) < 0 or max(values) > _LEAST_LIMIT[kind]):
        for name, most in _COUNTED[kind].items():
            if (value := getattr(record, name)) is not None:
                _require_counts("", name, (value,), most)


def _require_counts(what: str, name: str, values: Iterable[int], most: int = MOST) -> None:
    for value in values:
        if not 0 <= value <= most:
            place = f" {what}" if what else ""
            raise ValueError(f"{name}{place} is {_shown(value)}, expected 0 to {most}")


def _require_in_world(name: str, ranks: tuple[int, ...], num_ranks: int) -> None:
    if min(ranks) < 0 or max(ranks) >= num_ranks:
        wrong = next(rank for rank in ranks if not 0 <= rank < num_ranks)
        raise ValueError(f"{name} is {_shown(wrong)}, expected a rank from 0 to {num_ranks - 1}")


def _require_signed(name: str, values: Iterable[int]) -> None:
    for value in values:
        if not -MOST <= value <= MOST:
            raise ValueError(f"{name} is {_shown(value)}, expected {-MOST} to {MOST}")


def _require_plain(name: str, value: object) -> None:
    """Check the integers within a free-form value."""
    if isinstance(value, dict):
        for key, each in value.items():
            _require_plain(f"{name}, {key}", each)
    elif isinstance(value, list | tuple):
        for each in value:
            _require_plain(name, each)
    elif isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        expected = f"a number of at most {MOST_DIGITS} digits"
        raise ValueError(f"{name} is {_shown(value)}, expected {expected}")


def _shown(value: int) -> str:
    """A number that may have thousands of digits."""
    return str(value) if abs(value) < 10**MOST_DIGITS else f"a number of {value.bit_length()} bits"


def _parts_of(name: str, record: Any, _: int) -> None:
    for part in getattr(record, name):
        _require_from_zero(type(part), part)


def _in_world(name: str, record: Any, num_ranks: int) -> None:
    _require_in_world(name, (getattr(record, name),), num_ranks)


def _all_in_world(name: str, record: Any, num_ranks: int) -> None:
    if ranks := getattr(record, name):
        _require_in_world(name, ranks, num_ranks)


def _event(event: Event | Occurrence, _: int) -> None:
    if event.parent is not None and event.parent >= event.id:
        raise ValueError(
            f"parent of event {event.id} is {event.parent}, expected an event before it"
        )
    check_times(event.issue_ns, event.start_ns, event.end_ns)
    begin_ns = getattr(event, "device_begin_ns", None)
    if begin_ns is not None:
        check_times(None, begin_ns, getattr(event, "device_end_ns", None))


def _transfer(transfer: Transfer, num_ranks: int) -> None:
    if not 0 <= transfer.peer < num_ranks:
        _require_in_world("peer", (transfer.peer,), num_ranks)
    if transfer.parent >= transfer.id:
        raise ValueError(
            f"parent of transfer {transfer.id} is {transfer.parent}, expected an event before it"
        )
    if transfer.end_ns is not None and transfer.end_ns < transfer.start_ns:
        check_times(None, transfer.start_ns, transfer.end_ns)


def _device_time(time: DeviceTime, _: int) -> None:
    check_times(None, time.begin_ns, time.end_ns)


def _group(group: Group, _: int) -> None:
    if len(set(group.ranks)) < len(group.ranks):
        raise ValueError(f"group {group.name!r} has a rank twice")


def _sample(sample: MemorySample, _: int) -> None:
    _require_signed("unrecorded_bytes", (sample.unrecorded_bytes, sample.allocated_bytes or 0))


def _allocations(allocations: Allocations, _: int) -> None:
    _require_counts("", "a sample's number", allocations.numbers)
    # counted from the beginning of the recording: earlier memory that is freed is subtracted
    _require_signed("allocated_bytes", allocations.allocated_bytes)
    _require_signed("peak_bytes", allocations.peak_bytes)


def _strategy(strategy: Strategy, _: int) -> None:
    if len(set(strategy.ranks)) < len(strategy.ranks):
        raise ValueError(f"strategy {strategy.name!r} has a rank twice")
    _require_plain("an option", strategy.options)
    for bundle in strategy.bundles:
        _require_plain("an option", bundle.options)
        for parameter in bundle.parameters:
            _parameter(parameter)


def _parameter(parameter: Parameter) -> None:
    _require_counts(f"of parameter {parameter.name!r}", "size", parameter.shape)
    _require_counts(f"of parameter {parameter.name!r}", "elements", (parameter.elements,))


_Check = Callable[[Any, int], None]
_MORE: dict[type, _Check] = {
    Event: _event,
    Occurrence: _event,
    Transfer: _transfer,
    DeviceTime: _device_time,
    Group: _group,
    MemorySample: _sample,
    Allocations: _allocations,
    Strategy: _strategy,
}


def _relations(kind: type) -> Iterator[_Check]:
    yield from (partial(_parts_of, name) for name in _PARTS[kind])
    yield from (partial(_in_world, name) for name in _IN_WORLD.get(kind, ()))
    yield from (partial(_all_in_world, name) for name in _ALL_IN_WORLD.get(kind, ()))
    if kind in _MORE:
        yield _MORE[kind]


RELATIONS = {kind: tuple(_relations(kind)) for kind in _RECORDS}
"""The checks of a row's numbers against their bounds and each other, by type.

Each takes a record, or one decoded with its `bounded_types`, and the maximum number of ranks.
"""
