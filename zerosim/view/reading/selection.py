"""Filters of a run: ranks, iterations, phases, purposes, operations, units.

Every filter is a value or several; an unknown one is an error that lists the known ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict, TypeVar

from zerosim.base.errors import ConfigError
from zerosim.record import RankTrace, Trace, iterations
from zerosim.record.text import name_iterations
from zerosim.schema.events import STEP_PHASES, WHOLE, Event, Kind, Op, Phase, Purpose

_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection; None selects all.

    Attributes:
        iterations: `(WHOLE,)` for a program without iterations.
        units: including the modules within them.
    """

    trace: Trace
    ranks: tuple[RankTrace, ...]
    iterations: tuple[int, ...]
    phases: tuple[Phase, ...]
    purposes: tuple[Purpose, ...] | None = None
    ops: tuple[Op, ...] | None = None
    units: tuple[str, ...] | None = None

    def places(self) -> Iterator[tuple[RankTrace, int]]:
        """Every rank in every iteration."""
        for iteration in self.iterations:
            for rank in self.ranks:
                yield rank, iteration

    def has(self, event: Event) -> bool:
        """Whether an event of one of the ranks is selected."""
        return (
            (event.iteration in self.iterations or WHOLE in self.iterations)
            and event.phase in self.phases
            and (self.purposes is None or purpose_of(event) in self.purposes)
            and (self.ops is None or event.op in self.ops)
            and (self.units is None or any(is_within(event.unit, unit) for unit in self.units))
        )

    def calls(self, rank: RankTrace, iteration: int) -> list[Event]:
        """The collectives and messages that one rank called in one iteration."""
        return [event for event in all_calls(rank, iteration) if self.has(event)]

    @property
    def words(self) -> str:
        """The selected part of an iteration."""
        phases = "every phase" if set(self.phases) == set(Phase) else ", ".join(self.phases)
        if self.purposes is None:
            return f"every call in {phases}"
        return f"{', '.join(self.purposes)}; in {phases}"


class Only(TypedDict, total=False):
    """The keyword arguments of `select`: each a value, or several."""

    rank: object
    iteration: object
    phase: object
    purpose: object
    op: object
    unit: object


def select(
    trace: Trace,
    *,
    rank: object = None,
    iteration: object = None,
    phase: object = None,
    purpose: object = None,
    op: object = None,
    unit: object = None,
) -> Selection:
    """Create a selection.

    Args:
        rank: a number, or several; None for every rank.
        iteration: a number, or several; None for every one that is complete.
        phase, purpose, op: one or several, by their names; by default forward, backward and update,
            every purpose, every operation.
        unit: one or several, each with the modules within it; every one by default.

    Raises:
        ConfigError: there is no such rank, iteration, phase, purpose, operation or unit.
    """
    known = iterations(trace)
    if phase is not None:
        phases = names_of(Phase, phase, "phase")
    elif known:
        phases = STEP_PHASES
    else:
        phases = tuple(Phase)
    return Selection(
        trace=trace,
        ranks=_ranks(trace, rank),
        iterations=_iterations(known, iteration),
        phases=phases,
        purposes=None if purpose is None else names_of(Purpose, purpose, "purpose"),
        ops=None if op is None else names_of(Op, op, "op"),
        units=None if unit is None else _units(trace, unit),
    )


def names_of(kind: type[_E], given: object, what: str) -> tuple[_E, ...]:
    """Members of a closed set, by name: one, or several.

    Raises:
        ConfigError: there is no such member; the message lists them.
    """
    return tuple(_name_of(kind, each, what) for each in _several(given, what, _members(kind)))


def all_calls(rank: RankTrace, iteration: int) -> list[Event]:
    """The calls of one rank in one iteration, in any phase; a ring's hops are not calls."""
    return [
        event
        for event in rank.events
        if event.kind is Kind.COLLECTIVE
        and event.parent is None
        and event.op is not None
        and iteration in (event.iteration, WHOLE)
    ]


def purpose_of(event: Event) -> Purpose:
    """Why a call was made, as far as it is known."""
    return event.purpose or Purpose.UNLABELLED


def units_of(trace: Trace) -> tuple[str, ...]:
    """The units by name: from the engine's list, else from the events."""
    if trace.manifest.units:
        return tuple(unit.name for unit in trace.manifest.units)
    computed = (
        event.unit
        for rank in trace.ranks
        for event in rank.events
        if event.kind is Kind.COMPUTE and event.phase is Phase.FORWARD and event.unit
    )
    return tuple(dict.fromkeys(computed))


def is_within(unit: str, whole: str) -> bool:
    """Whether a unit is equal to another, or a module within it."""
    return unit == whole or unit.startswith(f"{whole}.")


def _several(given: Any, what: str, expected: str) -> Sequence[Any]:
    if isinstance(given, str | int):
        return (given,)
    if not isinstance(given, Iterable):
        raise ConfigError(f"{what} is {given!r}: expected {expected}")
    return tuple(given)


def _ranks(trace: Trace, rank: object) -> tuple[RankTrace, ...]:
    if rank is None:
        return trace.ranks
    by_number = {each.rank: each for each in trace.ranks}
    expected = f"0 to {len(trace.ranks) - 1}"
    chosen = _several(rank, "rank", expected)
    for one in chosen:
        if isinstance(one, bool) or one not in by_number:
            raise ConfigError(f"rank is {one!r}: expected {expected}")
    return tuple(by_number[one] for one in chosen)


def _iterations(known: tuple[int, ...], iteration: object) -> tuple[int, ...]:
    if iteration is None:
        return known or (WHOLE,)
    if not known:
        raise ConfigError(
            f"iteration is {iteration!r}: the program made no optimizer step, so it "
            "has no iterations"
        )
    expected = name_iterations(known)
    chosen = _several(iteration, "iteration", expected)
    for one in chosen:
        if isinstance(one, bool) or one not in known:
            raise ConfigError(f"iteration is {one!r}: expected {expected}")
    return tuple(chosen)


def _units(trace: Trace, unit: object) -> tuple[str, ...]:
    seen = {event.unit for rank in trace.ranks for event in rank.events if event.unit}
    listed = units_of(trace) or tuple(sorted(seen))
    expected = f"one of {', '.join(listed)}"
    chosen = _several(unit, "unit", expected)
    for one in chosen:
        if not any(is_within(each, str(one)) for each in seen | set(listed)):
            raise ConfigError(f"unit is {one!r}: expected {expected}")
    return tuple(str(one) for one in chosen)


def _name_of(kind: type[_E], given: Any, what: str) -> _E:
    for name in (given, *(_spellings(given) if isinstance(given, str) else ())):
        try:
            return kind(name)
        except ValueError:
            continue
    raise ConfigError(f"{what} is {given!r}: expected {_members(kind)}")


def _spellings(given: str) -> tuple[str, str]:
    """`all_gather` as an identifier for "all-gather"; also `reduce_gradients`."""
    return given.replace("_", "-"), given.replace("_", " ")


def _members(kind: type[StrEnum]) -> str:
    return "one of " + ", ".join(repr(member.value) for member in kind)
