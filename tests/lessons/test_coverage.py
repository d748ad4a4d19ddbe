"""What the course covers: each row of its table has its place, and its words stand there."""

from __future__ import annotations

import re

import pytest

from zerosim.lessons.claims import claims
from zerosim.lessons.course import course, find_lesson
from zerosim.lessons.recordings import HERE

TABLE = HERE / "coverage.md"
REPOSITORY = HERE.parent
HEAD = {"what", "---"}


def rows():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    cells = [
        [one.strip() for one in line.strip("|").split("|")] for line in lines if line[:1] == "|"
    ]
    return [tuple(row) for row in cells if row[0] not in HEAD]


def text_at(place):
    """All that stands at a place; one that there is not is an error."""
    kind, _, name = place.partition(" ")
    if kind == "lesson":
        path = find_lesson(name).path
        return path.read_text("utf-8") + path.with_suffix(".toml").read_text("utf-8")
    if kind == "claim":
        found = claims()[name]
        return f"{found.said} {found.found}"
    return (REPOSITORY / place).read_text("utf-8")


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_what_is_covered_stands_where_it_is_said_to(row):
    what, place, words = row
    assert what
    assert len(words) > 2
    found = text_at(place)
    assert re.sub(r"\s+", " ", words.lower()) in re.sub(r"[\s#]+", " ", found.lower())


def test_nothing_is_covered_twice_under_one_name():
    names = [row[0] for row in rows()]
    assert len(set(names)) == len(names) > 40


def test_every_claim_is_in_the_table_and_so_are_most_lessons():
    places = {row[1] for row in rows()}
    assert {place.partition(" ")[2] for place in places if place.startswith("claim ")} == set(
        claims()
    )
    taught = {place.partition(" ")[2] for place in places if place.startswith("lesson ")}
    assert taught <= {lesson.id for lesson in course()}


def test_what_has_no_place_is_said_once_at_the_end_and_is_not_in_the_table():
    text = TABLE.read_text("utf-8")
    assert text.count("## No place yet") == 1
    missing = text.partition("## No place yet")[2]
    assert missing.strip()
    assert not [line for line in missing.splitlines() if line[:1] in {"|", "#"}]
    assert not {row[0] for row in rows()} & {
        line.removeprefix("- ") for line in missing.splitlines()
    }
