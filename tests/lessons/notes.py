"""The notes for lecturers as tests read them: headings, rows of their tables, code."""

import re
from dataclasses import dataclass
from functools import cache
from urllib.parse import parse_qs, urlsplit

from zerosim.lessons.course import LabCall, find_lesson
from zerosim.lessons.recordings import HERE

NAMES = ("stage-0", "stage-1", "stage-2", "stage-3")
"""Of the traces that `make demo` leaves."""


@dataclass(frozen=True)
class Row:
    """A row of a plan.

    Attributes:
        address: the page.
        do: in words.
        wrong: names of misconceptions.
    """

    minutes: int
    address: str
    do: str
    wrong: tuple[str, ...]

    @property
    def steps(self):
        """The steps of a lesson that it goes through, from 1: the address's, and "step 5"."""
        said = re.findall(r"\bsteps? (\d+)(?: and (\d+))?", self.do)
        return (step_of(self.address), *(int(each) for pair in said for each in pair if each))


@dataclass(frozen=True)
class Plan:
    """What a heading promises, the rows below it, and the minutes that are left."""

    minutes: int
    rows: tuple[Row, ...]
    slack: int


@cache
def text():
    return (HERE / "instructor.md").read_text(encoding="utf-8")


def sections():
    """What stands below each heading."""
    parts = re.split(r"(?m)^## (.*)$", text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def cells(section):
    """Of the one table in it, without its head."""
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def plans():
    """The plans, longest first."""
    return [
        Plan(
            int(found[1]),
            tuple(
                Row(int(minutes), address.strip("`"), do, _names(wrong))
                for minutes, address, do, _, wrong in cells(section)
            ),
            int(re.search(r"(\d+) are slack", section)[1]),
        )
        for heading, section in sections().items()
        if (found := re.match(r"(\d+) minutes", heading))
    ]


def _names(cell):
    return tuple(each for each in cell.split(", ") if each)


def code():
    """All that stands in backticks."""
    return re.findall(r"`([^`]+)`", text())


def addresses():
    return [each for each in code() if each.startswith("/")]


def commands(*beginnings):
    """Commands, word by word."""
    return [each.split() for each in code() if each.startswith(beginnings)]


def lesson_of(address):
    """The lesson at an address; None if another page is there."""
    found = re.fullmatch(r"/lessons/([a-z0-9-]+)", urlsplit(address).path)
    return find_lesson(found[1]) if found and found[1] != "notes" else None


def step_of(address):
    """The step that an address names, from 1."""
    return int(parse_qs(urlsplit(address).fragment).get("step", ["1"])[0])


def asked(lesson, steps):
    """The questions in some steps of a lesson, in order."""
    return [
        lesson.questions[block.args[0]]
        for step in steps
        for block in lesson.steps[step - 1].blocks
        if isinstance(block, LabCall) and block.name == "ask"
    ]


def known(questions):
    """The misconceptions that questions recognise."""
    return {wrong.misconception for question in questions for wrong in question.wrong}
