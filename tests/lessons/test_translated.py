"""Each lesson in each language: cell for cell, heading for heading, text for text."""

import re
import tomllib

import pytest

from tests.base.test_language import OTHERS, braces, texts
from tests.lessons.committed import LESSONS
from zerosim.base.language import Language, sibling, speaking
from zerosim.lessons.course import course, read_lesson
from zerosim.lessons.questions import misconceptions
from zerosim.lessons.recordings import HERE

each_language = pytest.mark.parametrize("language", OTHERS)
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.id for lesson in LESSONS])

OF_A_LESSON = re.compile(
    r"""\.(able | knows\[\d+\] | reading\[\d+\] | takeaway | vary\.(what|ask)
    | questions\.\w+\.(ask|unit|hint|explain|options\..+|wrong\[\d+\]\.hint))""",
    re.VERBOSE,
)
OF_ANY = {
    "misconceptions.toml": re.compile(r"\.[\w-]+\.(name|hint)"),
    "runs.toml": re.compile(r"\.[\w-]+\.title"),
    "claims.toml": re.compile(
        r"\.[\w-]+\.(said|found|unit|because|cases\[\d+\]\.(when|numbers\[\d+\]\.of))"
    ),
}
"""Of each file of data, which of its keys are for a person. A text that is the same in both
languages, such as a unit or a name, may be left out."""
HEADING = re.compile(r"(?m)^(#{1,2}) ")


def read(path):
    return dict(texts(tomllib.loads(path.read_text("utf-8"))))


def problems(path, language, for_a_person):
    """What a sibling has that it must not, lacks, or says with other braces."""
    here, there = read(path), read(sibling(path, language))
    said = {key: text for key, text in here.items() if for_a_person.fullmatch(key)}
    assert said, path
    found = [f"{key} is not for a person" for key in there.keys() - said.keys()]
    found += [
        f"{key} is not there"
        for key in said.keys() - there.keys()
        if re.search(r"[a-z]{2} [a-z]{2}", said[key])
    ]
    found += [
        f"{key} has other braces"
        for key in said.keys() & there.keys()
        if braces(said[key]) != braces(there[key])
    ]
    return sorted(found)


@each_language
@each_lesson
def test_a_lesson_is_there_cell_for_cell(lesson, language):
    cells = sibling(lesson.path.with_suffix(".md"), language)
    assert cells.exists(), f"{lesson.path.name} is not there in {language}"
    with speaking(language):
        translated = read_lesson(lesson.path)  # refuses another number of cells
    assert len(translated.steps) == len(lesson.steps)
    assert [len(step.blocks) for step in translated.steps] == [
        len(step.blocks) for step in lesson.steps
    ]
    source = re.sub(r"(?m)^# ?", "", lesson.path.read_text("utf-8"))
    own = [found[1] for found in HEADING.finditer(source)]
    assert [found[1] for found in HEADING.finditer(cells.read_text("utf-8"))] == own


@each_language
@each_lesson
def test_what_stands_around_a_lesson_has_the_same_texts(lesson, language):
    path = lesson.path.with_suffix(".toml")
    assert sibling(path, language).exists(), f"{path.name} is not there in {language}"
    assert not problems(path, language, OF_A_LESSON)


@each_language
@pytest.mark.parametrize("name", OF_ANY)
def test_data_of_all_lessons_have_the_same_texts(name, language):
    assert sibling(HERE / name, language).exists(), f"{name} is not there in {language}"
    assert not problems(HERE / name, language, OF_ANY[name])


@each_language
def test_no_sibling_is_of_a_lesson_that_is_gone(language):
    known = {lesson.path.stem for lesson in LESSONS} | {"words", "instructor"}
    known |= {name.partition(".")[0] for name in OF_ANY}
    assert {path.stem for path in (HERE / language).iterdir()} <= known


def test_lessons_are_kept_apart_for_each_language():
    english = course()
    with speaking(Language.CHINESE):
        chinese = course()
        assert chinese is not english
        assert chinese is course()
    assert course() is english
    assert [lesson.id for lesson in chinese] == [lesson.id for lesson in english]


def test_numbers_and_expressions_come_from_the_english_file():
    with speaking(Language.CHINESE):
        for lesson, other in zip(LESSONS, course(), strict=True):
            assert other.figures == lesson.figures
            for name, question in lesson.questions.items():
                assert other.questions[name].answer == question.answer
                assert other.questions[name].values == question.values
        assert misconceptions().keys() >= {
            wrong.misconception
            for lesson in course()
            for question in lesson.questions.values()
            for wrong in question.wrong
        }
