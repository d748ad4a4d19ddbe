"""How quantities are written and read."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.base.errors import ConfigError
from zerosim.base.quantities import (
    format_bytes,
    format_decimal,
    format_exact,
    format_exact_bytes,
    format_psi,
    parse_bytes,
    parse_count,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9_566_208, "9,566,208"),
        (-1234, "-1,234"),
        (Fraction(9009, 4), "2,252 1/4"),
        (Fraction(-1, 3), "-1/3"),
        (Fraction(8, 4), "2"),
    ],
)
def test_an_exact_number_is_written_exactly(value, text):
    assert format_exact(value) == text
    assert format_exact_bytes(value) == f"{text} B"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_566_208, "9.57 MB"),
        (-9_566_208, "-9.57 MB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_999, "1.00 MB"),
        (Fraction(9009, 4), "2.25 kB"),
        (Fraction(1, 4), "0.25 B"),
        (12_345 * 10**15, "12,345 PB"),
    ],
)
def test_bytes_are_rounded_to_three_digits(value, text):
    assert format_bytes(value) == text


def test_multiples_of_psi():
    assert format_psi(Fraction(3, 2)) == "1.500 Ψ"
    assert format_psi(1, 2) == "1.00 Ψ"
    assert format_decimal(Fraction(-1, 1000), 2) == "0.00"
    assert format_decimal(Fraction(-6, 1000), 2) == "-0.01"
    assert format_decimal(1234, 0) == "1,234"


@given(st.integers(0, 10**18))
def test_an_exact_count_is_read_back(value):
    assert parse_count(format_exact(value)) == value
    assert parse_bytes(format_exact_bytes(value)) == value


@given(st.integers(0, 10**20))
def test_rounded_bytes_are_within_half_a_percent(value):
    assert abs(parse_bytes(format_bytes(value)) - value) * 200 <= value


@pytest.mark.parametrize(
    ("text", "value"),
    [("4096", 4096), ("1 MB", 10**6), ("1MiB", 1 << 20), ("1.5 kB", 1500), ("2 GiB", 2 << 30)],
)
def test_bytes_are_read_with_units(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "x", "1 XB", "-1", "1.5", "1 mb", "1e6", "\u0663"])
def test_what_is_not_a_number_of_bytes_is_refused(text):
    with pytest.raises(ConfigError, match="expected"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "1.5", "1 B", "-3", "x"])
def test_what_is_not_a_count_is_refused(text):
    with pytest.raises(ConfigError, match="whole number"):
        parse_count(text)
