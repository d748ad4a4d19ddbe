"""Every lesson: what it says is computed, what it asks can be answered, what it shows is there."""

import re
from fractions import Fraction
from itertools import pairwise

import pytest

from tests.lessons.committed import (
    LESSONS,
    QUESTION_IDS,
    QUESTIONS,
    as_given,
    facts,
    right,
    same,
)
from zerosim.base.errors import ConfigError
from zerosim.lessons.course import LessonPath, Text, course, find_lesson, read_lesson
from zerosim.lessons.expressions import evaluate
from zerosim.lessons.questions import (
    QuestionKind,
    check,
    explanation,
    misconceptions,
    options_of,
    right_answer,
    wording,
)
from zerosim.lessons.recordings import COMMITTED, committed, settings
from zerosim.lessons.views import Bars, Drawing, view
from zerosim.view.replay.places import place

each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.id for lesson in LESSONS])
each_question = pytest.mark.parametrize(("lesson", "question"), QUESTIONS, ids=QUESTION_IDS)

NAME = re.compile(
    r"""(?:ZeRO|GPT)-\d | FSDP\d | stages?\ \d(?:\ (?:to|and)\ \d)? | (?:bf|fp)\d+
    | (?:blocks|layers)\.\d+ | ranks?\ \d | \(N[-\u2212]1\) | `[^`]*` | https?://\S+""",
    re.VERBOSE,
)
"""What has a numeral in it and states no number."""


def text_of(lesson):
    """All that a lesson says in its own words."""
    blocks = [block for step in lesson.steps for block in step.blocks]
    said = [block.markdown for block in blocks if isinstance(block, Text)]
    return "\n".join([lesson.title, *(step.title for step in lesson.steps), *said])


def calls_in_order(lesson):
    return [
        (block.name, *block.args)
        for step in lesson.steps
        for block in step.blocks
        if not isinstance(block, Text) and hasattr(block, "args")
    ]


# ------------------------------------------------------------------------------- the course


def test_lessons_are_numbered_without_a_gap_and_named_apart():
    assert [lesson.number for lesson in LESSONS] == list(range(len(LESSONS)))
    assert len({lesson.id for lesson in LESSONS}) == len(LESSONS)
    assert find_lesson(LESSONS[0].id) is LESSONS[0]


def test_a_lesson_needs_only_lessons_before_it():
    numbers = {lesson.id: lesson.number for lesson in LESSONS}
    for lesson in LESSONS:
        assert all(numbers[need] < lesson.number for need in lesson.needs), lesson.id


def test_the_course_asks_in_every_way():
    assert {question.kind for _, question in QUESTIONS} == set(QuestionKind)


def test_every_committed_run_is_recorded_by_a_lesson():
    recorded = {run for lesson in LESSONS for call in lesson.calls("record") for run in call.args}
    assert recorded <= set(committed())
    assert {run.partition("/")[0] for run in committed()} == set(settings())


def test_committed_traces_name_no_place_of_the_machine_that_made_them():
    paths = re.compile(rb'["= ](?:file://)?/(?:home|root|tmp|work|usr|opt|var|Users)\b')
    for file in COMMITTED.rglob("*"):
        if file.is_file():
            assert not paths.search(file.read_bytes()), file


def test_an_unknown_lesson_is_refused():
    with pytest.raises(ConfigError, match="there is no lesson 'zero9'"):
        find_lesson("zero9")


def test_a_question_that_is_never_asked_is_refused(tmp_path):
    source = LESSONS[0].path
    unasked = re.sub(r'lab\.ask\("\w+"\)', "pass", source.read_text("utf-8"), count=1)
    copy = tmp_path / source.name
    copy.write_text(unasked, "utf-8")
    copy.with_suffix(".toml").write_bytes(source.with_suffix(".toml").read_bytes())
    with pytest.raises(ConfigError, match="asks"):
        read_lesson(copy)


# ------------------------------------------------------------------------------- a lesson


@each_lesson
def test_what_stands_around_the_text_is_sensible(lesson):
    assert lesson.title
    assert 5 <= lesson.minutes <= 30
    assert 2 <= len(lesson.knows) <= 5
    assert lesson.takeaway.endswith(".")
    assert lesson.reading
    assert 2 <= len(lesson.vary.values) <= 5
    assert lesson.vary.run in lesson.runs()
    assert lesson.vary.option.startswith("--")
    assert "?" in lesson.vary.ask


@each_lesson
def test_it_says_what_a_student_can_do_afterwards(lesson):
    assert 5 <= len(lesson.able.split()) <= 25
    assert lesson.able[0].islower()
    assert not lesson.able.endswith(".")


def test_a_path_needs_nothing_of_a_later_one():
    order = list(LessonPath)
    path_of = {lesson.id: order.index(lesson.part) for lesson in course()}
    for lesson in course():
        assert all(path_of[need] <= path_of[lesson.id] for need in lesson.needs), lesson.id
    core = [lesson for lesson in course() if lesson.part is LessonPath.CORE]
    assert [lesson.number for lesson in core] == list(range(len(core)))
    assert sum(lesson.minutes for lesson in core) <= 90


@each_lesson
def test_steps_are_few_and_short(lesson):
    assert 4 <= len(lesson.steps) - 1 <= 6
    for step in lesson.steps:
        words = " ".join(block.markdown for block in step.blocks if isinstance(block, Text))
        assert 30 <= len(words.split()) <= 140, step.title


@each_lesson
def test_a_prediction_comes_before_its_answer_and_before_the_run(lesson):
    calls = calls_in_order(lesson)
    for question in lesson.questions:
        assert calls.count(("ask", question)) == calls.count(("reveal", question)) == 1
        assert calls.index(("ask", question)) < calls.index(("reveal", question))
    names = [call[0] for call in calls]
    assert 2 <= names.count("ask") <= 6
    if "record" in names:
        assert names.index("ask") < names.index("record")
        assert "reveal" in names[names.index("record") :]
    assert names[-1] == "end"


@each_lesson
def test_every_numeral_of_the_text_is_computed(lesson):
    text = text_of(lesson)
    for figure in sorted(lesson.figures, key=len, reverse=True):
        text = text.replace(figure, "")
    assert re.findall(r"\S*\d\S*", NAME.sub("", text)) == []


@each_lesson
def test_every_figure_is_what_it_says(lesson):
    said = "\n".join([text_of(lesson), lesson.takeaway, lesson.vary.ask, *lesson.knows])
    for figure, expression in lesson.figures.items():
        assert figure in said, f"{figure} stands nowhere in the text"
        value = evaluate(expression, facts().names())
        if isinstance(value, str):
            assert value == figure
        else:
            stated = Fraction(figure.replace(",", ""))
            assert float(value) == pytest.approx(float(stated), rel=1e-3), figure


@each_lesson
def test_every_figure_can_be_drawn(lesson):
    for call in lesson.calls("show"):
        shown = view(facts(), *call.args)
        assert shown.title
        shown = shown.table if isinstance(shown, Drawing) else shown
        if isinstance(shown, Bars):
            assert shown.bars
            assert all(bar.total >= 0 for bar in shown.bars)
        else:
            assert shown.rows
            assert {len(row) for row in shown.rows} == {len(shown.columns)}


@each_lesson
def test_every_replay_has_the_place_that_it_opens_at(lesson):
    for call in lesson.calls("replay"):
        (run,), at = call.args, call.options.get("at", "")
        document = facts()._document(run)
        assert 0 <= place(document, at) < len(document["steps"])


# ------------------------------------------------------------------------------- a question


@each_question
def test_the_right_answer_is_accepted(lesson, question):
    names = facts().names()
    answer = right(question, names)
    feedback = check(question, answer, names)
    assert feedback.is_right
    assert feedback.words == explanation(question, names)
    keys = [option.key for option in options_of(question, names)]
    if question.kind is QuestionKind.NUMBER:
        assert keys == []
    elif question.kind is QuestionKind.ORDER:
        assert sorted(keys) == sorted(answer)
    else:
        assert len(keys) == len(set(keys)) >= 2
        assert answer in keys


@each_question
def test_each_wrong_answer_is_recognised_and_leads_on(lesson, question):
    names = facts().names()
    answer = right(question, names)
    assert question.wrong, "no wrong answer of it has a name"
    for wrong in question.wrong:
        given = as_given(question, evaluate(wrong.when, names))
        assert not same(question, given, answer), wrong.when
        feedback = check(question, given, names)
        assert not feedback.is_right
        assert feedback.misconception == wrong.misconception, wrong.when
        assert feedback.words == (wrong.hint or misconceptions()[wrong.misconception].hint)


@each_question
def test_a_hint_does_not_tell_the_answer(lesson, question):
    if question.kind is not QuestionKind.NUMBER:
        return
    answer = float(right_answer(question, facts().names()))
    hints = [question.hint]
    hints += [wrong.hint or misconceptions()[wrong.misconception].hint for wrong in question.wrong]
    for hint in hints:
        numerals = re.findall(r"\d+(?:\.\d+)?", NAME.sub("", hint))
        assert answer not in {float(numeral) for numeral in numerals}, hint


@each_question
def test_its_words_are_whole(lesson, question):
    names = facts().names()
    for words in (wording(question, names), explanation(question, names), question.hint):
        assert words.strip()
        assert "{" not in words
        assert "}" not in words


@each_question
def test_the_right_answer_is_worked_out(lesson, question):
    assert "(" in question.answer, f"{question.answer} is typed, not computed"


def test_every_misconception_says_something_and_leads_on():
    assert all(each.name and each.hint for each in misconceptions().values())
    names = sorted(each.name for each in misconceptions().values())
    assert all(one != other for one, other in pairwise(names))


def test_every_misconception_is_met_somewhere():
    met = {wrong.misconception for _, question in QUESTIONS for wrong in question.wrong}
    assert set(misconceptions()) - met == set()


def test_the_course_is_read_once():
    assert course() is course()


def test_a_paper_has_one_year():
    years = {}
    for lesson in LESSONS:
        for entry in lesson.reading:
            if found := re.search(r"(.{20}) \((\d{4})\)", entry):
                years.setdefault(found[1], set()).add(found[2])
    assert years["ion Parameter Models"] == {"2020"}
    assert {title: found for title, found in years.items() if len(found) > 1} == {}
