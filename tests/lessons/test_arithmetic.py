"""Numbers: what a student may write, and what that is worth."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.base.errors import ConfigError
from zerosim.lessons.arithmetic import LONGEST, read_number
from zerosim.lessons.expressions import evaluate


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("0.75", 0.75),
        (".5", 0.5),
        ("5.", 5),
        ("1e3", 1000),
        ("2.5E-1", 0.25),
        ("9,921,024", 9921024),
        ("4,000.5", 4000.5),
        (7, 7),
        (0.5, 0.5),
        (" 3/4 ", 0.75),
        ("3 / 4", 0.75),
        ("3:4", 0.75),
        ("-3/4", -0.75),
        ("\u22123", -3),
        ("--3", 3),
        ("2*-3", -6),
        ("75%", 0.75),
        ("75 %", 0.75),
        ("50%+25%", 0.75),
        ("(3/4)%", 0.0075),
        ("8/(3+1)%", 200),
        ("2+14/4", 5.5),
        ("(2+14)/4", 4),
        ("2*(1+1/4)", 2.5),
        ("8-4-2", 2),
        ("8/4/2", 1),
        ("3 \u00d7 1/4", 0.75),
        ("3\u00b71\u00f74", 0.75),
        ("1/3+1/3+1/3-1", 0),
        ("0.1+0.2-0.3", 0),
        ("1e300*1e-300", 1),
    ],
)
def test_a_number_is_read_as_a_student_writes_it(given, value):
    assert read_number(given) == value


@pytest.mark.parametrize(
    "given",
    [
        *("", " ", "three", "nan", "inf", "-inf", "0x10", "1_000", None, [], True),
        *("1/0", "1/(2-2)", "1/", "/2", "1+", "*2", "1 2", "2(3)", "(1", "1)", "()", "%", "5%%"),
        *("7%3", "2**3", "2^3", "2//3", "1e", "1e999", "1e-999", "1e99999999999999", "0.5.5"),
        *("0,75", "1,2,3", "12,34", "1,2345", "2,25/3"),
        *("__import__('os')", "abs(1)", "x", "1;2", "1" * (LONGEST + 1), "(" * LONGEST),
    ],
)
def test_what_is_no_number_is_refused(given):
    with pytest.raises(ConfigError, match="expected a number"):
        read_number(given)


def test_brackets_in_brackets_are_read():
    deep = (LONGEST - 1) // 2
    assert read_number("(" * deep + "3" + ")" * deep) == 3


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_comes_back(value):
    assert read_number(repr(value)) == value


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6))
def test_every_fraction_is_a_number(above, below):
    assert read_number(f"{above}/{below}") == above / below
    assert math.isclose(read_number(f"{above}/{below}%"), 100 * above / below)


@given(st.integers(-(10**15), 10**15))
def test_commas_between_thousands_are_left_out(value):
    assert read_number(f"{value:,}") == value


@given(st.lists(st.integers(1, 999), min_size=1, max_size=8), st.data())
def test_a_sum_is_what_an_expression_makes_of_it(numbers, data):
    signs = data.draw(st.lists(st.sampled_from("+-*/"), min_size=8, max_size=8))
    text = "".join(f"{number}{sign}" for number, sign in zip(numbers, signs, strict=False))[:-1]
    assert math.isclose(read_number(text), evaluate(text, {}), abs_tol=1e-6)


@given(st.text() | st.text("0123456789.,+-*/()% e") | st.lists(st.integers()) | st.booleans())
def test_anything_is_a_finite_number_or_refused(given):
    with contextlib.suppress(ConfigError):
        assert math.isfinite(read_number(given))
