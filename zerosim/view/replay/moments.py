"""Moments in a replay: those that are common to runs of any stage.

A moment is identified by micro-step, phase, unit and event; a run is at one step when it happens.
Derived from a replay document alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any

from zerosim.base.language import Words, fill
from zerosim.schema.events import Kind, Phase, Purpose
from zerosim.schema.memory import Role

Document = Mapping[str, Any]
"""The result of `replay_document`."""
_ARRIVING = 3
"""The code of a cell whose shard is in flight; see `CellCode` in types.d.ts."""
_IN_MICRO_STEPS = (Phase.FORWARD, Phase.BACKWARD)


class What(StrEnum):
    """The event of a moment."""

    BEGINS = "begins"
    """A phase begins."""
    COMPUTES = "computes"
    """A unit computes, with all parameters that it needs."""
    COMPUTED = "computed"
    """The computation of a unit is over on every rank."""
    REDUCED = "reduced"
    """The unit's whole gradient is reduced."""
    GATHERED = "gathered"
    """The unit's new parameters are on every rank that keeps them."""
    OVER = "over"
    """The iteration is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMoment:
    """A moment.

    Attributes:
        micro_step: from 0; 0 in the update, which is common to all micro-steps.
        unit: "" for a phase.
        nth: index among otherwise equal moments, as for a module that is used twice.
    """

    phase: Phase
    what: What
    unit: str = ""
    micro_step: int = 0
    nth: int = 0


@dataclass(frozen=True, slots=True)
class Happening:
    """A moment of one run, and the step of the run at it."""

    moment: ComparedMoment
    step: int


@dataclass(frozen=True, slots=True)
class Happenings:
    """The moments of one run.

    Attributes:
        program: common to every run, in the program's own order, ascending by step.
        communication: caused by arriving messages, which have no fixed order.
    """

    program: tuple[Happening, ...]
    communication: tuple[Happening, ...]


_WORDS = Words.beside(__file__, "moments")


def texts() -> Mapping[str, Any]:
    """All sentences of `moments.toml` in the current language."""
    return _WORDS.table


def say(*path: str, **fields: object) -> str:
    """A sentence by its path in `moments.toml`, with its placeholders filled in."""
    here: Any = texts()
    for name in path:
        here = here[name]
    assert isinstance(here, str), path
    return fill(here, fields)


def last_step(document: Document) -> int:
    """The last step that a replay can show."""
    broken = document["broken"]
    return int(broken["step"]) if broken else len(document["steps"]) - 1


def happenings(document: Document) -> Happenings:
    """All moments that a run reached."""
    seen: Counter[ComparedMoment] = Counter()
    program: list[Happening] = []
    communication: list[Happening] = []

    def add(to: list[Happening], step: int, what: What, like: Mapping[str, Any], unit: str) -> None:
        phase = Phase(like["phase"])
        micro_step = like["micro_step"] if phase in _IN_MICRO_STEPS else 0
        plain = ComparedMoment(phase=phase, what=what, unit=unit, micro_step=micro_step)
        if step <= last_step(document):
            nth = seen[plain]
            seen[plain] += 1
            named = ComparedMoment(
                phase=phase, what=what, unit=unit, micro_step=micro_step, nth=nth
            )
            to.append(Happening(named, step))

    for number, step in enumerate(document["steps"]):
        if step["kind"] == "mark":
            if step["phase"] == Phase.OUTSIDE:  # with everything that is still in progress
                add(program, len(document["steps"]) - 1, What.OVER, step, "")
            else:
                add(program, number, What.BEGINS, step, "")
        elif step["kind"] == "compute" and _is_of_a_unit(step):
            # the update of a unit is one moment; elsewhere its dependencies are worth showing
            if step["phase"] != Phase.UPDATE:
                add(program, number, What.COMPUTES, step, step["unit_name"])
            add(program, step["until"] + 1, What.COMPUTED, step, step["unit_name"])
    for what, like, unit, end in _arrivals(document):
        add(communication, end, what, like, unit)
    communication.sort(key=lambda one: one.step)
    return Happenings(_in_order(program), tuple(communication))


def _is_of_a_unit(step: Mapping[str, Any]) -> bool:
    """A program's optimizer updates all units at once, and names none of them."""
    return bool(step["unit"] >= 0 or (step["unit_name"] and step["phase"] != Phase.UPDATE))


_PHASES = tuple(Phase)


def _in_order(program: list[Happening]) -> tuple[Happening, ...]:
    """The moments by phase, and within a phase in order of arrival.

    Events without duration may be in a different order in the steps of a replay.
    """

    def place(one: Happening) -> tuple[bool, int, int, bool]:
        phase = one.moment.phase
        after = _PHASES.index(phase) > _PHASES.index(Phase.BACKWARD)
        return (
            after,
            one.moment.micro_step,
            _PHASES.index(phase),
            one.moment.what is not What.BEGINS,
        )

    ordered = sorted(program, key=place)
    steps = accumulate((one.step for one in ordered), max)
    return tuple(Happening(one.moment, step) for one, step in zip(ordered, steps, strict=True))


def moved_units(document: Document) -> tuple[tuple[int, ...], ...]:
    """By collective, indices of its units; a bucket may have parts of several."""
    calls = document["collectives"]
    found = [{call["unit"]} if call["unit"] >= 0 else set() for call in calls]
    roles = [state["role"] for state in document["states"]]
    if Role.GRADIENTS in roles:
        in_flight = Counter[int]()
        arriving: set[int] = set()
        for step in document["steps"]:
            for cell, code in zip(step["cells"][::2], step["cells"][1::2], strict=True):
                band, unit = divmod(cell // document["num_shards"], len(document["units"]))
                if band % len(roles) != roles.index(Role.GRADIENTS):
                    continue
                in_flight[unit] += (code == _ARRIVING) - (cell in arriving)
                (arriving.add if code == _ARRIVING else arriving.discard)(cell)
            number = step["collective"]
            if number < 0 or calls[number]["unit"] >= 0:
                continue
            if calls[number]["purpose"] == Purpose.REDUCE_GRADIENTS:
                found[number] |= {unit for unit, count in in_flight.items() if count}
    return tuple(tuple(sorted(units)) for units in found)


def _arrivals(document: Document) -> list[tuple[What, Mapping[str, Any], str, int]]:
    """Completed communication: its kind, a step of it, its unit, the first step after it.

    Only units with computations under their own name: other runs lack a system's smaller ones.
    """
    steps = document["steps"]
    computed = {step["unit"] for step in steps if step["kind"] == Kind.COMPUTE}
    wanted = {
        (Purpose.REDUCE_GRADIENTS, Phase.BACKWARD): What.REDUCED,
        (Purpose.GATHER_PARAMETERS, Phase.UPDATE): What.GATHERED,
    }
    last: dict[tuple[What, int, int], tuple[Mapping[str, Any], int]] = {}
    moved = moved_units(document)
    for number, collective in enumerate(document["collectives"]):
        what = wanted.get((collective["purpose"], collective["phase"]))
        if what is None:
            continue
        step = document["steps"][collective["last"]]
        for unit in (unit for unit in moved[number] if unit in computed):
            # a unit in several buckets is reduced when the last of them is
            key = (what, unit, step["micro_step"])
            end = step["until"] + 1
            if key not in last or last[key][1] < end:
                last[key] = (step, end)
    return [
        (what, step, document["units"][unit]["name"], end)
        for (what, unit, _), (step, end) in last.items()
    ]
