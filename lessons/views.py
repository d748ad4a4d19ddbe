"""The figures of lessons: bars and tables, which a script prints and the page draws.

A view is a pure function of recordings and the names of runs. Imports the standard library, its
siblings and zerosim's readers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lessons.facts import Facts
from zerosim.errors import ConfigError
from zerosim.quantities import PSI


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar: its value in the bars' unit, and a colour's name ("forward", "rank 0")."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, and where a law says that it ends; None if no law is known."""

    label: str
    parts: tuple[Part, ...]
    law: float | None = None

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars to one scale.

    Attributes:
        title: says what is measured, and by whom.
        unit: of all values.
        law: what the marks are, in words; "" if there are none.
    """

    title: str
    unit: str
    bars: tuple[Bar, ...]
    law: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words and numbers; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


View = Bars | Table


def traffic(facts: Facts, *runs: str) -> Bars:
    """What rank 0 sends in a step, by phase, in Psi, as the kernel counted it."""
    bars = []
    for run in runs:
        unit = facts.psi(run) * facts.element_bytes(run)
        parts = tuple(
            Part(phase, facts.sent(run, phase=phase) / unit)
            for phase in ("forward", "backward", "update")
        )
        bars.append(Bar(facts.title(run), parts, facts.law_sent(run) / unit))
    return Bars("What a rank sends in one step", PSI, tuple(bars), "the law of a ring")


_VIEWS: dict[str, Callable[..., View]] = {"traffic": traffic}


def view(facts: Facts, name: str, *runs: str) -> View:
    """A figure by its name.

    Raises:
        ConfigError: there is none of this name, or no such run.
    """
    if name not in _VIEWS:
        raise ConfigError(f"view is {name!r}: expected one of {', '.join(_VIEWS)}")
    return _VIEWS[name](facts, *runs)
