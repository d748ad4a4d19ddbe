"""A question: its form, the right answer, and the feedback on a wrong one.

The right answer is an expression over traces and theory; so is each wrong answer that is known by
name.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.base.language import Words, in_each_language, overlaid
from zerosim.lessons.arithmetic import read_number
from zerosim.lessons.expressions import evaluate, fill
from zerosim.lessons.recordings import HERE

Names = Mapping[str, Callable[..., Any]]
Answer = float | str | tuple[str, ...]
_LONGEST = 200
_WORDS = Words(HERE / "words.toml")


class AnswerError(ConfigError):
    """The input is not an answer to this question, neither right nor wrong."""


class QuestionKind(StrEnum):
    """The form of a question."""

    NUMBER = "number"
    CHOICE = "choice"
    ORDER = "order"
    """All options, put in order."""
    CLICK = "click"
    """One of the ranks."""
    MARK = "mark"
    """A moment of the iteration."""


@dataclass(frozen=True, slots=True)
class Misconception:
    """A wrong idea that has a name.

    Attributes:
        name: the mistaken idea, in the student's words.
        hint: a hint without the answer.
    """

    id: str
    name: str
    hint: str


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong answer that reveals a misconception.

    Attributes:
        when: expression of the answer.
        misconception: by id.
        hint: in place of the misconception's own; "" for that.
    """

    when: str
    misconception: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """The options to choose from, to order, to click or to mark."""

    key: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question as its data file has it.

    Attributes:
        unit: unit of a number; "" for none.
        answer: expression of the right answer: a number, a key, or keys in order.
        tolerance: relative tolerance of a number.
        options: options of a choice or an order; for other forms `asked` computes them.
        targets: expression of the options of "click" and "mark": pairs of key and label.
        hint: hint for a wrong answer without a known misconception.
        explain: why the right answer is right, with the values in place of their names.
        values: expressions by the names in `ask` and `explain`.
    """

    id: str
    kind: QuestionKind
    ask: str
    answer: str
    hint: str
    explain: str
    unit: str = ""
    tolerance: float = 0.01
    options: tuple[AnswerOption, ...] = ()
    targets: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    wrong: tuple[WrongAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class Feedback:
    """The feedback on an answer.

    Attributes:
        headline: a few words.
        words: a hint; for a right answer, the explanation.
        is_right: whether it is the right one.
        misconception: its id; "" if none was recognised.
    """

    headline: str
    words: str
    is_right: bool = False
    misconception: str = ""


def parse_question(name: str, plain: Mapping[str, Any]) -> Question:
    """A question from its data file.

    Raises:
        ConfigError: a field is missing or unknown.
    """
    fields = dict(plain)
    try:
        kind = QuestionKind(fields.pop("kind"))
        options = tuple(
            AnswerOption(key, label) for key, label in fields.pop("options", {}).items()
        )
        wrong = tuple(WrongAnswer(**each) for each in fields.pop("wrong", ()))
        return Question(id=name, kind=kind, options=options, wrong=wrong, **fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"question {name!r}: {error}") from None


def options_of(question: Question, names: Names) -> tuple[AnswerOption, ...]:
    """The options; empty for a number."""
    if not question.targets:
        return question.options
    return tuple(AnswerOption(str(key), label) for key, label in evaluate(question.targets, names))


def offered(question: Question, names: Names) -> tuple[AnswerOption, ...]:
    """The options in display order: if their order is the answer, in an uninformative one."""

    def draw(option: AnswerOption) -> str:
        return hashlib.sha256(f"{question.id}:{option.key}".encode()).hexdigest()

    options = options_of(question, names)
    return tuple(sorted(options, key=draw)) if question.kind is QuestionKind.ORDER else options


def right_answer(question: Question, names: Names) -> Answer:
    """The right answer, worked out."""
    return _value(question, evaluate(question.answer, names))


def read_answer(question: Question, given: object, names: Names) -> Answer:
    """Parse an answer.

    Args:
        given: a number or its text; a key; keys in order.

    Raises:
        AnswerError: it is not an answer to this question.
    """
    if question.kind is QuestionKind.NUMBER:
        try:
            return read_number(given, question.unit)
        except ConfigError as error:
            raise AnswerError(str(error)) from None
    keys = [option.key for option in options_of(question, names)]
    wanted = given if isinstance(given, list | tuple) else [given]
    answer = tuple(str(each)[:_LONGEST] for each in wanted[: len(keys) + 1])
    if question.kind is QuestionKind.ORDER:
        if sorted(answer) != sorted(keys):
            raise _no_answer("no_order", answer, keys)
        return answer
    if len(answer) != 1 or answer[0] not in keys:
        raise _no_answer("no_choice", answer, keys)
    return answer[0]


def _no_answer(key: str, answer: Sequence[str], keys: Sequence[str]) -> AnswerError:
    return AnswerError(
        _WORDS(f"feedback.{key}", given=repr(" ".join(answer)), keys=", ".join(keys))
    )


def check(question: Question, given: object, names: Names) -> Feedback:
    """Return whether an answer is right, with a hint if it is not.

    Raises:
        AnswerError: it is not an answer to this question.
    """
    answer = read_answer(question, given, names)
    if _same(question, answer, right_answer(question, names)):
        return Feedback(_WORDS("feedback.right"), explanation(question, names), is_right=True)
    for wrong in question.wrong:
        if _same(question, answer, _value(question, evaluate(wrong.when, names))):
            found = misconceptions()[wrong.misconception]
            return Feedback(
                _WORDS("feedback.idea", idea=found.name),
                wrong.hint or found.hint,
                misconception=found.id,
            )
    return Feedback(_WORDS("feedback.not_yet"), question.hint)


def wording(question: Question, names: Names) -> str:
    """The question, with this run's numbers."""
    return fill(question.ask, question.values, names)


def explanation(question: Question, names: Names) -> str:
    """Why the right answer is right, in this run's numbers."""
    return fill(question.explain, question.values, names)


@in_each_language
def misconceptions() -> Mapping[str, Misconception]:
    """All that have a name, by id."""
    plain = overlaid(HERE / "misconceptions.toml")
    return {name: Misconception(name, **each) for name, each in plain.items()}


def _value(question: Question, value: Any) -> Answer:
    if question.kind is QuestionKind.NUMBER:
        return float(value)
    if question.kind is QuestionKind.ORDER:
        return tuple(map(str, value))
    return str(value)


def _same(question: Question, one: Answer, other: Answer) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=question.tolerance, abs_tol=1e-9)
    return one == other
