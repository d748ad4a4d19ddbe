"""Bars of a class's answers: by value, by option, by order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from zerosim.dashboards.figures.answers import MOST_BARS, AnswerBar, Thought, bars, thoughts
from zerosim.dashboards.votes import Counted, GivenAnswer, Vote, count
from zerosim.lessons.questions import AnswerOption, QuestionKind

OPTIONS = (AnswerOption("a", "first"), AnswerOption("b", "second"), AnswerOption("c", "third"))


def counted(text, first=1, latest=1, *, right=False, thought=""):
    return Counted(GivenAnswer(text, right, thought), first, latest)


def test_numbers_stand_in_their_order_and_equal_values_are_one():
    answers = [
        counted("10"),
        counted("3", 2, 0),
        counted("6/2", 0, 1),
        counted("3.0"),
        counted("−1"),  # noqa: RUF001 - as a student types it
        counted("2.25", 1, 2, right=True),
        counted("9/4", 0, 3, right=True),
        counted("1,000,000"),
    ]
    assert bars(QuestionKind.NUMBER, (), "", answers) == (
        AnswerBar("-1", 1, 1),
        AnswerBar("2.25", 1, 5, is_right=True),
        AnswerBar("3", 3, 2),
        AnswerBar("10", 1, 1),
        AnswerBar("1,000,000", 1, 1),
    )


def test_every_option_has_a_bar_and_the_right_one_is_known():
    assert bars(QuestionKind.CHOICE, OPTIONS, "c", [counted("b", 2, 1)]) == (
        AnswerBar("first"),
        AnswerBar("second", 2, 1),
        AnswerBar("third", is_right=True),
    )


def test_orders_say_what_was_put_first():
    answers = [counted("a b c"), counted("c b a", 3, 4, right=True)]
    assert bars(QuestionKind.ORDER, OPTIONS, "", answers) == (
        AnswerBar("third → second → first", 3, 4, is_right=True),
        AnswerBar("first → second → third", 1, 1),
    )


def test_what_is_rare_is_counted_together_but_never_the_right_one():
    answers = [counted(str(number), number, number) for number in range(2, 20)]
    answers.append(counted("1", 0, 1, right=True))
    found = bars(QuestionKind.NUMBER, (), "", answers)
    assert len(found) == MOST_BARS
    assert [bar.label for bar in found] == [
        "1",
        "14",
        "15",
        "16",
        "17",
        "18",
        "19",
        "other answers",
    ]
    assert found[-1] == AnswerBar("other answers", sum(range(2, 14)), sum(range(2, 14)))
    assert bars(QuestionKind.NUMBER, (), "", []) == ()


def test_misconceptions_by_name():
    names = {"x": "Idea X", "y": "Idea Y"}
    answers = [
        counted("1", 1, 0, thought="y"),
        counted("2", 3, 1, thought="x"),
        counted("3", 1, 1, thought="x"),
        counted("4", 5, 5, thought="unknown"),
        counted("5", 5, 5),
    ]
    assert thoughts(answers, names) == (Thought("Idea X", 4, 2), Thought("Idea Y", 1, 0))


TEXTS = st.sampled_from(["1", "2", "3.5", "7/2", "-4", "1e3", "no number", "", "nan", "9" * 120])


@given(votes=st.lists(st.tuples(TEXTS, TEXTS)), kind=st.sampled_from(QuestionKind))
def test_no_answer_is_lost(votes, kind):
    def answer(text):
        return GivenAnswer(text, is_right=text == "2")

    found = count(Vote(answer(first), answer(latest)) for first, latest in votes)
    assert {one.answer.text: one.first for one in found if one.first} == Counter(
        first for first, _ in votes
    )
    drawn = bars(kind, OPTIONS, "2", found)
    assert sum(bar.first for bar in drawn) == sum(bar.latest for bar in drawn) == len(votes)
    assert len(drawn) <= MOST_BARS
    assert len({bar.label for bar in drawn}) == len(drawn)
