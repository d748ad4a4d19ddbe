"""Reduces the number of beats, if an iteration has more than a lecture would show.

The measures are applied in order until there are few enough beats. Among several micro-steps, the
last one, after which the ranks agree, is shown as usual; for the equal ones before it, each phase
is one beat. Copies between tiers in forward and backward are listed in the concurrent beat. The
tiles of an operator are one beat, and finally the units of a block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from zerosim.analysis.beats.beat import Sign
from zerosim.analysis.beats.part import StepRange
from zerosim.analysis.frames.step import Step
from zerosim.schema.events import STEP_PHASES, Kind, Phase, Purpose

MOST_BEATS = 40
_OF_MICRO_STEPS = (Phase.FORWARD, Phase.BACKWARD)
_OF_UNITS = (Sign.UPDATE, Sign.GATHER, Sign.COMPUTE, Sign.REDUCE)
_WORK = {Sign.COMPUTE, Sign.UPDATE}
_PUT_AWAY = (Purpose.STORE_PARAMETERS, Purpose.STORE_STATES)
_TILE = re.compile(r"(.+)\.tiles\.\d+")
_IN_A_BLOCK = re.compile(r"((?:[^.]+\.)*?\d+)\..+")

ModuleOf = Callable[[str], str]
"""The parent of a unit; "" for one without."""


def folded(parts: list[StepRange], steps: Sequence[Step]) -> list[StepRange]:
    """The parts of an iteration, folded if there are too many."""
    for fold in (_micro_steps, _copies, _tiles, _stores, _blocks):
        if len(parts) > MOST_BEATS:
            parts = fold(parts, steps)
    return parts


def operator_of(unit: str) -> str:
    """The operator of a tile (memory-centric tiling); "" if the unit is not a tile."""
    found = _TILE.fullmatch(unit)
    return "" if found is None else found[1]


def _block_of(unit: str) -> str:
    """The first numbered module on the path to a unit: `blocks.0`; "" if there is none."""
    found = _IN_A_BLOCK.fullmatch(unit)
    return "" if found is None else found[1]


def _micro_steps(parts: Sequence[StepRange], steps: Sequence[Step]) -> list[StepRange]:
    last = max(steps[part.main].micro_step for part in parts)
    found: list[StepRange] = []
    for part in parts:
        step = steps[part.main]
        is_early = step.phase in _OF_MICRO_STEPS and step.micro_step < last
        is_within = bool(found) and found[-1].is_phase and not part.begins
        if is_early and is_within:
            found[-1] = found[-1].with_more(part)
        else:
            found.append(replace(part, is_phase=is_early))
    return found


def _copies(parts: Sequence[StepRange], steps: Sequence[Step]) -> list[StepRange]:
    """Each copy is concurrent with the beat before it, or with the one after it if a phase begins.

    Copies of the update stay separate, because the update waits for some of them.
    """

    def is_beside(part: StepRange) -> bool:
        return part.signs == (Sign.COPY,) and steps[part.main].phase in _OF_MICRO_STEPS

    found: list[StepRange] = []
    for part in parts:
        before = found[-1] if found else None
        if before is not None and is_beside(part) and not part.begins:
            found[-1] = replace(before, last=part.last)
        elif before is not None and is_beside(before) and not part.begins:
            found[-1] = replace(part, first=before.first, begins=before.begins)
        else:
            found.append(part)
    return found


def _stores(parts: Sequence[StepRange], steps: Sequence[Step]) -> list[StepRange]:
    """Stores of updated parameters are concurrent with the update, which is then one beat."""

    def puts_away(part: StepRange) -> bool:
        own = steps[part.first : part.last + 1]
        events = [step.event for step in own if step.kind is Kind.COPY]
        return part.signs == (Sign.COPY,) and all(
            event is not None and event.purpose in _PUT_AWAY for event in events
        )

    found: list[StepRange] = []
    for part in parts:
        is_more = bool(found) and found[-1].signs == (Sign.UPDATE,) and not part.begins
        if is_more and puts_away(part):
            found[-1] = replace(found[-1], last=part.last)
        elif is_more and part.signs == (Sign.UPDATE,):
            found[-1] = found[-1].with_more(part)
        else:
            found.append(part)
    return found


def _tiles(parts: Sequence[StepRange], steps: Sequence[Step]) -> list[StepRange]:
    return _modules(parts, steps, operator_of)


def _blocks(parts: Sequence[StepRange], steps: Sequence[Step]) -> list[StepRange]:
    return _modules(parts, steps, _block_of)


def _modules(
    parts: Sequence[StepRange], steps: Sequence[Step], module_of: ModuleOf
) -> list[StepRange]:
    """Consecutive actions of a phase on the parts of a module are one beat.

    Prefetches for another module, or pending reductions of another, are concurrent.
    """
    names = [_module(part, steps[part.main], module_of) for part in parts]
    found: list[StepRange] = []
    place = 0
    while place < len(parts):
        end = _end_of(place, parts, names)
        own = [at for at in range(place, end) if names[at] == names[place]]
        works = [at for at in own if _WORK & {*parts[at].signs}]
        if names[place] and len(own) > 1 and works:
            whole = reduce(StepRange.with_more, [parts[at] for at in own])
            doings = sorted(whole.doings, key=lambda doing: _OF_UNITS.index(doing.sign))
            found.append(
                replace(
                    whole,
                    main=parts[works[0]].main,
                    last=parts[end - 1].last,
                    doings=tuple(doings),
                    within=names[place],
                )
            )
        else:
            end = place + 1
            found.append(parts[place])
        place = end
    return found


def _module(part: StepRange, step: Step, module_of: ModuleOf) -> str:
    """The common parent of all units concerned."""
    modules = {module_of(doing.unit) for doing in part.doings}
    is_of_units = step.phase in STEP_PHASES and {*part.signs} <= {*_OF_UNITS}
    return modules.pop() if is_of_units and len(modules) == 1 else ""


def _end_of(first: int, parts: Sequence[StepRange], names: Sequence[str]) -> int:
    """The index after the last part of the first one's module."""
    end = first + 1
    for place in range(first + 1, len(parts)):
        part, name = parts[place], names[place]
        if part.begins or not name or (name != names[first] and _WORK & {*part.signs}):
            break
        if name == names[first]:
            end = place + 1
    return end
