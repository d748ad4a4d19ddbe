"""What tests of lessons share: the facts of the committed traces, each worked out once."""

import json
from collections.abc import Iterable
from functools import cache

import pytest

from tests.cli.command import command
from zerosim.lessons.arithmetic import read_number
from zerosim.lessons.course import course
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import QuestionKind, right_answer
from zerosim.lessons.recordings import COMMITTED, LessonRecordings

LESSONS = course()
QUESTIONS = [(lesson, question) for lesson in LESSONS for question in lesson.questions.values()]
QUESTION_IDS = [f"{lesson.id}-{question.id}" for lesson, question in QUESTIONS]
LIKE_OTHERS = {
    # of a program of which another run is recorded
    *("made-whole/stage-3", "made-ddp/stage-0", "made-fsdp2-late/stage-3"),
    *("hugging-face/stage-1", "hugging-face/stage-2", "walk/stage-1", "walk/stage-2"),
    # with other numbers, or with less of what another has: `plusplus` has all three of ZeRO++
    *("accumulate/stage-1", "accumulate/stage-2", "across/stage-1", "case-d/stage-3"),
    *("cut/stage-3", "deepspeed/deepspeed-2", "device/stage-2", "divided/stage-1"),
    *("hugging-face-deepspeed/stage-1", "kept/stage-1", "large-buckets/stage-2"),
    *("native/stage-2", "nodes/stage-3", "parallel/ddp", "parallel/gpipe", "profiles/fsdp2-kept"),
    *("qgz/stage-3", "qwz/stage-3", "ring/stage-1", "ring/stage-2", "serial/stage-3"),
    *("tokens-256/stage-3", "tokens-4096/stage-3", "untiled/stage-3"),
    *("walk-deepspeed/stage-1", "walk-deepspeed/stage-2"),
}
"""Committed runs much like others: `make test-long` records them, and reads them."""


def but_later(names: Iterable[str]) -> list:
    """Names of runs for a test, some of them for `make test-long`."""
    return [pytest.param(name, marks=[pytest.mark.long] * (name in LIKE_OTHERS)) for name in names]


@cache
def facts():
    return Facts(LessonRecordings())


@cache
def said(name, run):
    """What a command says of a committed trace."""
    return json.loads(command(name, COMMITTED / run, "--json").out)


def as_given(question, value):
    """An answer as a student gives it: a number is a text, an order a list."""
    if question.kind is QuestionKind.NUMBER:
        return repr(float(value))
    return [str(each) for each in value] if question.kind is QuestionKind.ORDER else str(value)


def same(question, one, other):
    """Whether two answers are the same to this question."""
    if question.kind is not QuestionKind.NUMBER:
        return one == other
    one, other = read_number(one), read_number(other)
    return abs(one - other) <= max(question.tolerance * max(abs(one), abs(other)), 1e-9)


def right(question, names):
    return as_given(question, right_answer(question, names))
