"""The notes for lecturers: minutes add up, and what they name is there."""

import re
import shutil
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import pytest
import typer

from tests.lessons import notes
from zerosim.cli.app import app
from zerosim.dashboards.pages import compare, graph, lessons, replay, room, verify
from zerosim.lessons.course import course
from zerosim.lessons.questions import misconceptions
from zerosim.lessons.recordings import HERE

PLANS = notes.plans()
ROWS = [row for plan in PLANS for row in plan.rows]
ROW_IDS = [f"{plan.minutes}-{number}" for plan in PLANS for number, _ in enumerate(plan.rows, 1)]
HELPS = notes.cells(notes.sections()["What students get wrong, and what helps"])
PATHS = {page.PATH for page in (replay, compare, verify, graph, lessons, room)} | {lessons.NOTES}
BREAKS = re.compile(r"kind:(compute|transfer|wait),unit:[a-z.0-9]+")


def test_there_are_two_plans():
    assert [plan.minutes for plan in PLANS] == [50, 15]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: str(plan.minutes))
def test_the_minutes_add_up(plan):
    assert sum(row.minutes for row in plan.rows) + plan.slack == plan.minutes
    assert plan.slack >= plan.minutes / 10


@pytest.mark.parametrize("address", sorted(set(notes.addresses())))
def test_an_address_is_a_page(address):
    parts = urlsplit(address)
    fragment = parse_qs(parts.fragment, strict_parsing=bool(parts.fragment))
    lesson = notes.lesson_of(address)
    if lesson is None:
        assert parts.path in PATHS
        assert set(fragment) <= {"break"}
        assert all(BREAKS.fullmatch(each) for each in fragment.get("break", ()))
    else:
        assert 1 <= notes.step_of(address) <= len(lesson.steps)
        assert set(fragment) <= {"step", "mode"}
        assert set(fragment.get("mode", ())) <= {"present"}
    query = parse_qs(parts.query, strict_parsing=bool(parts.query))
    assert set(query) <= {"trace"}
    assert set(query.get("trace", ())) <= set(notes.NAMES)


@pytest.mark.parametrize("row", ROWS, ids=ROW_IDS)
def test_what_a_row_says_they_get_wrong_is_recognised(row):
    assert row.address in notes.addresses()
    lesson = notes.lesson_of(row.address)
    if lesson is None:  # a page that asks nothing: some lesson does
        questions = [each for one in course() for each in one.questions.values()]
    else:
        assert max(row.steps) <= len(lesson.steps)
        questions = notes.asked(lesson, row.steps)
        assert row.wrong
    assert set(row.wrong) <= notes.known(questions)


def test_all_that_they_get_wrong_has_help():
    helped = [name for name, *_ in HELPS]
    assert len(set(helped)) == len(helped)
    assert {name for row in ROWS for name in row.wrong} <= set(helped)


@pytest.mark.parametrize("help_", HELPS, ids=[name for name, *_ in HELPS])
def test_help_is_for_what_the_step_asks(help_):
    name, says, asks, show = help_
    assert says == misconceptions()[name].name
    assert asks.endswith("?")
    address = show.strip("`")
    lesson = notes.lesson_of(address)
    assert lesson is not None
    assert name in notes.known(notes.asked(lesson, [notes.step_of(address)]))


@pytest.mark.parametrize("words", notes.commands("zerosim "), ids=" ".join)
def test_a_command_parses(words):
    command = typer.main.get_command(app).commands[words[1]]
    context = command.make_context(words[1], words[2:])
    assert not context.args


@pytest.mark.parametrize("words", notes.commands("python "), ids=" ".join)
def test_a_script_is_a_lesson_and_takes_what_it_is_given(words):
    lesson = next(one for one in course() if one.path == HERE.parent / words[1])
    match words[2:]:
        case []:
            pass
        case ["--vary", value]:
            assert value in lesson.vary.values
        case given:
            raise AssertionError(given)


@pytest.mark.parametrize("words", notes.commands("make "), ids=" ".join)
def test_a_target_of_make_is_there(words):
    done = subprocess.run(
        [shutil.which("make"), "--dry-run", f"PYTHON={sys.executable}", *words[1:]],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for given in words[2:]:
        assert given.split("=")[1] in done.stdout


def test_the_files_that_they_name_are_there():
    files = [each for each in notes.code() if re.fullmatch(r"[\w/]+\.(py|md|toml)", each)]
    assert files
    assert all((HERE.parent / each).is_file() for each in files)


def test_the_claims_lab_has_as_many_claims_as_the_notes_say():
    from zerosim.lessons.claims import claims

    assert len(claims()) == 7
    assert "seven sentences" in notes.text()
