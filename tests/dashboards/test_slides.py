"""Every lesson has slides: each question before its answer, and something to say beside them."""

import re

import pytest

from zerosim.dashboards.away import Away
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
