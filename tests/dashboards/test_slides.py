"""Every lesson has slides: each question before its answer, and something to say beside them."""

import re

import pytest

from zerosim.dashboards.away import Away
from zerosim.language import Language, speaking
from zerosim.lessons.course import course

LESSONS = course()


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.id for lesson in LESSONS])
def test_a_lesson_has_slides_with_notes(lesson):
    deck = Away([]).lesson(lesson.number, as_slides=True)
    kinds = re.findall(r'<section class="slide ([a-z]+)', deck)
    assert kinds[0] == "title"
    assert kinds.count("ask") == kinds.count("answer") == len(lesson.questions)
    waiting = 0
    for kind in kinds:
        waiting += (kind == "ask") - (kind == "answer")
        assert waiting >= 0
    assert deck.count('class="slide-notes"') >= len(lesson.questions)


def test_a_chinese_slide_begins_with_a_sentence_as_well():
    with speaking(Language.CHINESE):
        deck = Away([]).lesson(5, as_slides=True)
    ideas = re.findall(r'<p class="lead">(.*?)</p>\s*<div class="prose">(.*?)</div>', deck)
    parted = [(lead, rest) for lead, rest in ideas if rest]
    assert len(parted) > 10
    assert all(lead.removesuffix("”")[-1] in "。？！" for lead, _ in parted)  # noqa: RUF001
