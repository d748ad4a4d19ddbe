"""The answers of a class, as bars: by value, or by option."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.base.errors import ConfigError
from zerosim.dashboards.texts import words
from zerosim.dashboards.votes import Counted
from zerosim.lessons.arithmetic import read_number
from zerosim.lessons.questions import AnswerOption, QuestionKind

MOST_BARS = 8
"""Maximum number of bars readable from the last row; rare answers are merged."""
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class AnswerBar:
    """One answer.

    Attributes:
        first, latest: number of students whose first, or current, answer it is.
    """

    label: str
    first: int = 0
    latest: int = 0
    is_right: bool = False


@dataclass(frozen=True, slots=True)
class Thought:
    """A misconception by its name, and the number of students who had it first and have it now."""

    name: str
    first: int
    latest: int


def bars(
    kind: QuestionKind, options: Sequence[AnswerOption], right: str, answers: Sequence[Counted]
) -> tuple[AnswerBar, ...]:
    """The answers in numeric order, or in the order of the options.

    Args:
        right: the right answer's text; its bar is present even without answers.
    """
    if kind is QuestionKind.NUMBER:
        return _shortened(_numbers(answers))
    labels = {option.key: option.label for option in options}
    if kind is QuestionKind.ORDER:
        found = _sums(answers, lambda one: _ordered(one.answer.text, labels))
        return _shortened(sorted(found.values(), key=lambda bar: -max(bar.latest, bar.first)))
    found = _sums(answers, lambda one: labels.get(one.answer.text, one.answer.text))
    offered = {label: AnswerBar(label, is_right=key == right) for key, label in labels.items()}
    return _shortened((offered | found).values())


def thoughts(answers: Iterable[Counted], names: Mapping[str, str]) -> tuple[Thought, ...]:
    """The misconceptions that were recognised, the most frequent first.

    Args:
        names: by id.
    """
    sums: dict[str, Thought] = {}
    for one in answers:
        if name := names.get(one.answer.misconception):
            had = sums.get(name, Thought(name, 0, 0))
            sums[name] = Thought(name, had.first + one.first, had.latest + one.latest)
    return tuple(sorted(sums.values(), key=lambda one: (-one.first, -one.latest, one.name)))


def _numbers(answers: Sequence[Counted]) -> list[AnswerBar]:
    """The answers by value; all values that count as right are merged."""
    found = _sums(answers, lambda one: "=" if one.answer.is_right else _rounded(one.answer.text))
    places: dict[str, float] = {}
    labels: dict[str, str] = {}
    for one in sorted(answers, key=lambda one: -one.first - one.latest):
        key = "=" if one.answer.is_right else _rounded(one.answer.text)
        places.setdefault(key, _value(one.answer.text))
        labels.setdefault(key, _rounded(one.answer.text))
    ordered = sorted(found, key=lambda key: places[key])
    return [replace(found[key], label=labels[key]) for key in ordered]


def _sums(answers: Iterable[Counted], key: Callable[[Counted], str]) -> dict[str, AnswerBar]:
    sums: dict[str, AnswerBar] = {}
    for one in answers:
        had = sums.get(key(one), AnswerBar(key(one)))
        sums[key(one)] = replace(
            had,
            first=had.first + one.first,
            latest=had.latest + one.latest,
            is_right=had.is_right or one.answer.is_right,
        )
    return sums


def _shortened(found: Iterable[AnswerBar]) -> tuple[AnswerBar, ...]:
    """The most frequent and the right one, in the given order; the rest as one."""
    every = tuple(found)
    if len(every) <= MOST_BARS:
        return every
    weights = [(bar.is_right, bar.first + bar.latest, -place) for place, bar in enumerate(every)]
    kept = sorted(range(len(every)), key=weights.__getitem__, reverse=True)[: MOST_BARS - 1]
    rest = [bar for place, bar in enumerate(every) if place not in kept]
    name = str(words("rooms")["both"]["other_answers"])
    last = AnswerBar(name, sum(bar.first for bar in rest), sum(bar.latest for bar in rest))
    return (*(every[place] for place in sorted(kept)), last)


def _ordered(text: str, labels: Mapping[str, str]) -> str:
    return " → ".join(labels.get(key, key) for key in text.split())


def _rounded(text: str) -> str:
    value = _value(text)
    return f"{value:,.{_DIGITS}g}" if abs(value) < 10**_DIGITS else f"{value:,.0f}"


def _value(text: str) -> float:
    try:
        return read_number(text)
    except ConfigError:
        return 0.0
