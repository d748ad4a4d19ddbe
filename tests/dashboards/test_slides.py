"""Every lesson has slides: each question before its answer, and something to say beside them."""

import re

import pytest

from zerosim.base.language import Language, speaking
from zerosim.dashboards.app import make_app
from zerosim.dashboards.away import StandalonePages
from zerosim.dashboards.classroom import lesson_shelf
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.library import Library
from zerosim.dashboards.page import ALONE
from zerosim.dashboards.pages import lessons
from zerosim.lessons.course import course

LESSONS = course()


@pytest.fixture(scope="module")
def client():
    """What a file is made of: of the decks alone, as what they refer to is the same in all."""
    return make_app(Library([], shelf=lesson_shelf()), Documents()).test_client()


@pytest.mark.parametrize(
    "lesson",
    [
        # what a lesson asks and shows is tested as its page: of the decks, every fourth
        pytest.param(lesson, id=lesson.id, marks=[pytest.mark.long] * (lesson.number % 4 > 0))
        for lesson in LESSONS
    ],
)
def test_a_lesson_has_slides_with_notes(client, lesson):
    address = f"{lessons.address_of(lesson)}?page={lessons.SLIDES}"
    deck = client.get(address, environ_overrides={ALONE: "1"}).text
    kinds = re.findall(r'<section class="slide ([a-z]+)', deck)
    assert kinds[0] == "title"
    assert kinds.count("ask") == kinds.count("answer") == len(lesson.questions)
    waiting = 0
    for kind in kinds:
        waiting += (kind == "ask") - (kind == "answer")
        assert waiting >= 0
    assert deck.count('class="slide-notes"') >= len(lesson.questions)


def test_a_chinese_slide_begins_with_a_sentence_as_well():
    with speaking(Language.CHINESE):  # here as a file, with all that it refers to
        deck = StandalonePages([]).lesson(5, as_slides=True)
    ideas = re.findall(r'<p class="lead">(.*?)</p>\s*<div class="prose">(.*?)</div>', deck)
    parted = [(lead, rest) for lead, rest in ideas if rest]
    assert len(parted) > 10
    assert all(lead.removesuffix("”")[-1] in "。？！" for lead, _ in parted)  # noqa: RUF001
