"""Questions: what counts as an answer, as the same answer, and as an expression."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.base.errors import ConfigError
from zerosim.lessons.expressions import evaluate
from zerosim.lessons.questions import AnswerError, check, parse_question, read_answer

NAMES = {"three_quarters": lambda: 0.75, "zero": lambda: 0, "first": lambda: "a"}
PLAIN = {"ask": "How much?", "hint": "Count.", "explain": "So much."}


def question(kind="number", answer="three_quarters()", **more):
    return parse_question("made", PLAIN | {"kind": kind, "answer": answer} | more)


def order(answer="['a', 'b', 'c']", **more):
    options = {"a": "first", "b": "second", "c": "third"}
    return question("order", answer, options=options, **more)


# ------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("given", ["0.75", "3/4", "75%", "(1 + 2)/4", "0.755", "0.745"])
def test_close_is_right(given):
    assert check(question(), given, NAMES).is_right


@pytest.mark.parametrize("given", ["0.77", "0.7", "-0.75", "0", "75"])
def test_not_close_is_not_right(given):
    feedback = check(question(), given, NAMES)
    assert not feedback.is_right
    assert feedback.headline == "Not yet."
    assert feedback.words == "Count."


@pytest.mark.parametrize("given", ["0.75 Ψ", "0.75Ψ", "0.75 Ψ in a step", "3/4 Ψ"])
def test_the_questions_unit_may_stand_behind_a_number(given):
    assert check(question(unit="Ψ in a step"), given, NAMES).is_right
    with pytest.raises(AnswerError, match="expected a number"):
        check(question(unit="bytes"), given, NAMES)


def test_tolerance_is_the_questions_own():
    assert not check(question(tolerance=0.001), "0.755", NAMES).is_right
    assert check(question(tolerance=0.1), "0.8", NAMES).is_right


def test_zero_is_right_only_as_zero():
    assert check(question(answer="zero()"), "0.0", NAMES).is_right
    assert not check(question(answer="zero()"), "0.001", NAMES).is_right


def test_a_wrong_answer_with_a_name_is_named():
    wrong = [
        {"when": "1", "misconception": "forgot-share"},
        {"when": "3 * three_quarters()", "misconception": "only-weights", "hint": "Once."},
    ]
    asked = question(wrong=wrong)
    assert check(asked, "1", NAMES).misconception == "forgot-share"
    own = check(asked, "9/4", NAMES)
    assert (own.misconception, own.words, own.is_right) == ("only-weights", "Once.", False)


# ------------------------------------------------------------------------------- keys


def test_an_order_is_right_in_one_order_only():
    assert check(order(), ["a", "b", "c"], NAMES).is_right
    assert not check(order(), ["b", "a", "c"], NAMES).is_right


@pytest.mark.parametrize(
    "given", [[], ["a", "b"], ["a", "b", "b"], ["a", "b", "c", "d"], "abc", "a", None, 3]
)
def test_what_is_not_all_of_it_is_no_order(given):
    with pytest.raises(AnswerError, match="a, b, c in order"):
        read_answer(order(), given, NAMES)


@given(st.permutations(["a", "b", "c"]))
def test_every_permutation_is_an_answer(given):
    assert check(order(), given, NAMES).is_right == (given == ["a", "b", "c"])


@given(st.lists(st.text()) | st.text() | st.integers())
def test_anything_is_an_order_or_refused(given):
    with contextlib.suppress(ConfigError):
        assert sorted(read_answer(order(), given, NAMES)) == ["a", "b", "c"]


def test_a_choice_is_one_of_its_options():
    asked = question("choice", "first()", options={"a": "this", "b": "that"})
    assert check(asked, "a", NAMES).is_right
    assert not check(asked, ["b"], NAMES).is_right
    for given_ in ("c", "", ["a", "b"], None):
        with pytest.raises(AnswerError, match="expected one of a, b"):
            read_answer(asked, given_, NAMES)


def test_targets_are_worked_out():
    asked = question("click", "first()", targets="[(first(), 'this'), ('b', 'that')]")
    assert check(asked, "a", NAMES).is_right
    with pytest.raises(AnswerError, match="expected one of a, b"):
        read_answer(asked, "c", NAMES)


# ------------------------------------------------------------------------------- data files


@pytest.mark.parametrize(
    ("change", "said"),
    [({"kind": "essay"}, "essay"), ({"hints": "typo"}, "hints"), ({"wrong": [{"if": "1"}]}, "if")],
)
def test_a_question_that_is_none_is_refused(change, said):
    with pytest.raises(ConfigError, match=said):
        parse_question("made", PLAIN | {"kind": "number", "answer": "1"} | change)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "open('/etc/passwd')",
        "().__class__.__bases__",
        "first.__globals__",
        "unknown()",
        "1 +",
        "",
        "zero(1)",
        "1 / zero()",
        "[1][3]",
        "9 ** 9 ** 9",
        "'a' * 10 ** 9",
    ],
)
def test_an_expression_reaches_nothing_but_facts(expression):
    with pytest.raises(ConfigError, match="expression"):
        evaluate(expression, NAMES)
