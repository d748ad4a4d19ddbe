"""Memory of ranks, as tables: at a peak, at a moment of the program, at every sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zerosim.analysis.memory import (
    Holders,
    Timeline,
    in_training,
    peak,
    states,
    whole_iteration,
)
from zerosim.base.errors import ConfigError
from zerosim.base.tables import Cell, Column, Evidence, Table
from zerosim.record import way_to_memory
from zerosim.schema.memory import Role
from zerosim.view.reading.moments import moments_of
from zerosim.view.reading.selection import Selection
from zerosim.view.reading.traffic_tables import keys_of

PEAK, EVERY_SAMPLE = "peak", "every sample"
_KEYS: dict[str, Callable[[int, Role, str], Cell]] = {
    "rank": lambda rank, _, __: rank,
    "role": lambda _, role, __: role.value,
    "unit": lambda _, __, unit: unit,
}


def memory(
    chosen: Selection, lines: Sequence[Timeline], at: str, by: object, title: str, *, of_one: bool
) -> Table:
    """Memory of ranks in one tier.

    Args:
        lines: the lines of ranks with recorded memory.
        at: "peak", a rank's own; "every sample" of the last iteration, with its time; or a moment
            such as "backward compute blocks.2" (`reading.moments`).
        by: "rank", "role", "unit", or several.
        of_one: whether one iteration was requested, whose own peak is then used.

    Raises:
        ConfigError: there is no such moment.
    """
    keys = keys_of(by, _KEYS)
    found: dict[tuple[Cell, ...], int] = {}
    for line in lines:
        for moment, held in _held(chosen, line, at, of_one=of_one):
            for (role, unit), size in held.items():
                key = (*moment, *(_KEYS[name](line.rank, role, unit) for name in keys))
                found[key] = found.get(key, 0) + size
    time = (Column("time_ns", Evidence.TRACED),) if at == EVERY_SAMPLE else ()
    is_measured = any(line.is_measured for line in lines)
    evidence = Evidence.MEASURED if is_measured else Evidence.TRACED
    return Table(
        title,
        (*time, *(Column(key) for key in keys), Column("bytes", evidence)),
        tuple((*key, found[key]) for key in sorted(found, key=_place)),
        () if len(lines) == len(chosen.ranks) else (_no_memory(chosen),),
    )


def _no_memory(chosen: Selection) -> str:
    return f"memory was not recorded: {way_to_memory(chosen.trace)}"


def _held(
    chosen: Selection, line: Timeline, at: str, *, of_one: bool
) -> list[tuple[tuple[Cell, ...], Holders]]:
    """Memory at each moment: with its time, if there are several."""
    if at == PEAK:
        top = peak(line, in_training(line, chosen.iterations if of_one else None))
        return [] if top is None else [((), _with_other(line, top.position))]
    if at == EVERY_SAMPLE:
        return _every_sample(chosen, line)
    rank = next(one for one in chosen.ranks if one.rank == line.rank)
    passed = {each.at: each for each in moments_of(rank, line, chosen.iterations[-1])}
    if at not in passed:
        raise ConfigError(
            f"at is {at!r}: expected 'peak', 'every sample' or a moment of the iteration: "
            f"{', '.join(passed)}"
        )
    return [((), dict(passed[at].held))]


def _with_other(line: Timeline, position: int) -> Holders:
    """All live bytes: the roles, and the allocator's further bytes."""
    held, other = line.at(position), line.other(position)
    return held | {(Role.OTHER, ""): other} if other is not None and other > 0 else held


def _every_sample(chosen: Selection, line: Timeline) -> list[tuple[tuple[Cell, ...], Holders]]:
    last = chosen.iterations[-1]
    positions = whole_iteration(line, last)
    if not len(positions):
        positions = np.arange(len(line.samples), dtype=np.int64)
    wanted = set(positions.tolist())
    zero = line.samples[int(positions[0])].time_ns
    return [
        ((line.samples[number].time_ns - zero,), dict(state))
        for number, state in states(line)
        if number in wanted
    ]


def _place(key: tuple[Cell, ...]) -> list[int]:
    """Times and ranks ascending, roles in standard order, units in order of appearance."""
    order = {role.value: place for place, role in enumerate(Role)}
    return [part if isinstance(part, int) else order.get(str(part), 0) for part in key]
