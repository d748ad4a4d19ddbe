"""What tests of lessons share: the facts of the committed traces, each worked out once."""

import json
from functools import cache

from tests.cli.command import command
from zerosim.lessons.arithmetic import read_number
from zerosim.lessons.course import course
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import QuestionKind, right_answer
from zerosim.lessons.recordings import COMMITTED, LessonRecordings

LESSONS = course()
QUESTIONS = [(lesson, question) for lesson in LESSONS for question in lesson.questions.values()]
QUESTION_IDS = [f"{lesson.id}-{question.id}" for lesson, question in QUESTIONS]


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
