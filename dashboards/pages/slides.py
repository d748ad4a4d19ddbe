"""A lesson as slides: one idea per slide, with speaker notes.

They are made of the lesson's own blocks: each paragraph, prediction, answer, replay and figure is a
slide; long tables continue on the next slide.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from unicodedata import east_asian_width

from zerosim.dashboards.markdown import to_html, to_inline_html
from zerosim.dashboards.pages.blocks import (
    AnyBlock,
    AskBlock,
    EndBlock,
    FigureBlock,
    GraphBlock,
    ReplayBlock,
    RevealBlock,
    StepPage,
    TextBlock,
)
from zerosim.dashboards.pages.lessons import words
from zerosim.lessons.course import Lesson
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import (
    Answer,
    AnswerOption,
    Question,
    QuestionKind,
    explanation,
    misconceptions,
    options_of,
    right_answer,
)

_PARAGRAPH = re.compile(
    r"<p>(.*?)</p>|(<(?:ul|ol|table|pre)\b.*?</(?:ul|ol|table|pre)>)", re.DOTALL
)
_SENTENCE = re.compile(r"(.{25,}?[.?!](?=\s)|.{10,}?[。？！]”?)\s*(.+)", re.DOTALL)  # noqa: RUF001
"""Pattern of a first sentence that is not a mere "Memory, now."."""
_ROOM, _TITLE, _LINE, _PADDING = 29.0, 2.1, 1.55, 0.65
"""Heights in rem: of a table on a slide, of a line of its title, and of a row."""
_TITLE_LETTERS, _LETTERS, _GAP, _BRIEF = 60, 86, 2, 20
"""Characters on a line of a title, of a table, between two columns, in a one-line cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """One idea.

    Attributes:
        kind: title, idea, or that of its block; answer.
        title: the title of its step.
        lead: the first sentence, HTML.
        html: the rest.
        block: the block to show.
        options: for an answer, each with whether it is right.
        notes: speaker notes, each a paragraph of HTML.
    """

    kind: str
    title: str
    lead: str = ""
    html: str = ""
    block: AnyBlock | None = None
    options: tuple[tuple[str, bool], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deck:
    """All slides of a lesson, created once."""

    lesson: Lesson
    facts: Facts
    steps: Sequence[StepPage]
    said: dict[str, str] = field(default_factory=lambda: dict(words()["slides"]))

    def slides(self) -> tuple[Slide, ...]:
        """In order, the title first."""
        knows = "".join(f"<li>{to_inline_html(each)}</li>" for each in self.lesson.knows)
        first = Slide(kind="title", title=self.lesson.title, html=f"<ul>{knows}</ul>")
        revealed = {
            block.question
            for step in self.steps
            for block in step.blocks
            if isinstance(block, RevealBlock)
        }
        return (first, *(one for step in self.steps for one in self._of_step(step, revealed)))

    def _of_step(self, step: StepPage, revealed: set[str]) -> Iterator[Slide]:
        """A question is answered where the lesson does that, or at the end of its step."""
        open_ones = [
            block.question
            for block in step.blocks
            if isinstance(block, AskBlock) and block.question not in revealed
        ]
        for block in step.blocks:
            if isinstance(block, TextBlock) and block.after:  # conclusions from the answers
                yield from map(self._answer, open_ones)
                open_ones = []
            yield from self._of_block(step.title, block)
        yield from map(self._answer, open_ones)

    def _of_block(self, title: str, block: AnyBlock) -> Iterator[Slide]:
        if isinstance(block, TextBlock):
            yield from _ideas(title, block.html)
        elif isinstance(block, AskBlock):
            notes = self._thoughts(self.lesson.questions[block.question])
            yield Slide(kind="ask", title=title, block=block, notes=tuple(notes))
        elif isinstance(block, RevealBlock):
            yield self._answer(block.question)
        elif isinstance(block, FigureBlock):
            yield from (Slide(kind="figure", title=title, block=one) for one in _sheets(block))
        elif isinstance(block, EndBlock):
            yield Slide(kind="end", title=title, block=block)
        elif isinstance(block, ReplayBlock | GraphBlock):
            if not (isinstance(block, ReplayBlock) and block.problem):
                note = to_inline_html(self.said["live"].format(address=block.address))
                yield Slide(kind="watch", title=title, block=block, notes=(note,))
        else:
            yield Slide(kind=block.kind, title=title, block=block)

    def _answer(self, name: str) -> Slide:
        question, names = self.lesson.questions[name], self.facts.names()
        right = right_answer(question, names)
        title, asked = self._asked(name)
        return Slide(
            kind="answer",
            title=title,
            block=asked,
            lead=_number(right, question.unit) if isinstance(right, float) else "",
            html=to_html(explanation(question, names)),
            options=tuple(_options(question, options_of(question, names), right)),
        )

    def _asked(self, name: str) -> tuple[str, AskBlock]:
        """A question, and the title of its step."""
        return next(
            (step.title, block)
            for step in self.steps
            for block in step.blocks
            if isinstance(block, AskBlock) and block.question == name
        )

    def _thoughts(self, question: Question) -> Iterator[str]:
        """The follow-up texts: for all, and for answers with a known mistake."""
        yield to_inline_html(f"{self.said['hint']}: {question.hint}")
        known = misconceptions()
        hints = {wrong.misconception: wrong.hint for wrong in question.wrong}
        for name, hint in hints.items():
            said = self.said["thought"].format(name=known[name].name, hint=hint or known[name].hint)
            yield to_inline_html(said)


def _ideas(title: str, html: str) -> Iterator[Slide]:
    """A slide for each paragraph."""
    for paragraph, other in _PARAGRAPH.findall(html):
        found = _SENTENCE.fullmatch(paragraph)
        lead, rest = (found[1], found[2]) if found else (paragraph, "")
        yield Slide(kind="idea", title=title, lead=lead, html=other or rest)


def _sheets(block: FigureBlock) -> Iterator[FigureBlock]:
    """A table that is too long for a slide continues on the next."""
    if block.table is None:
        yield block
        return
    table, rows = block.table, list[tuple[str, ...]]()
    room = _ROOM - _TITLE * math.ceil(_wide(table.title) / _TITLE_LETTERS)
    for row in table.rows:
        if rows and _high([table.columns, *rows, row]) > room:
            yield replace(block, table=replace(table, rows=tuple(rows)))
            rows = []
        rows.append(row)
    yield replace(block, table=replace(table, rows=tuple(rows)))


def _high(rows: Sequence[Sequence[str]]) -> float:
    """Heights of rows, with column widths as a browser would choose.

    Each is at least as wide as its longest word; the rest is given to those with longer cells.
    """
    columns = list(zip(*rows, strict=True))
    least = [max(_wide(word) for cell in each for word in _words(cell)) for each in columns]
    most = [max(map(_wide, each)) for each in columns]
    left = _LETTERS - _GAP * len(columns) - sum(least)
    part = min(max(left, 0) / max(sum(most) - sum(least), 1), 1)
    widths = [
        max(math.floor(low + part * (high - low)), 1) for low, high in zip(least, most, strict=True)
    ]
    lines = [
        max(_num_lines(cell, width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return _PADDING * len(rows) + _LINE * sum(lines)


def _wide(text: str) -> int:
    """The width of a text in letters; a Chinese character is as wide as two."""
    return sum(1 + (east_asian_width(letter) in "WF") for letter in text)


def _words(cell: str) -> list[str]:
    """The texts on one line; the template keeps short ones together."""
    return [cell] if _wide(cell) <= _BRIEF else cell.split()


def _num_lines(cell: str, width: int) -> int:
    """Lines of a cell; a line ends between words, or between Chinese characters."""
    return max(len(wrap(cell, width, break_long_words=False)), math.ceil(_wide(cell) / width), 1)


def _options(
    question: Question, options: Iterable[AnswerOption], right: Answer
) -> Iterator[tuple[str, bool]]:
    """The options, with the right ones marked; for an ordering, in order."""
    labels = {option.key: option.label for option in options}
    if question.kind is QuestionKind.ORDER and isinstance(right, tuple):
        yield from ((labels[key], True) for key in right)
    else:
        yield from ((label, key == right) for key, label in labels.items())


def _number(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} {unit}".strip()
