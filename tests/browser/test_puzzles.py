"""The Puzzles page in a browser: a program is written, checked, kept, shown where it is wrong."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually, serving
from tests.browser.test_access import violations_in_both_themes
from tests.deadlines import RANKS_S
from zerosim.puzzles import find_puzzle, puzzles

pytestmark = pytest.mark.browser

PUZZLE = find_puzzle("ring-reduce-scatter")
ADDRESS = f"/puzzles/{PUZZLE.name}"
SIZES = [(1920, 1080), (1280, 720), (1024, 768), (390, 844)]
PAGES = ["/puzzles", ADDRESS, "/puzzles/bug-memory", "/puzzles/one-f-one-b"]


@pytest.fixture(scope="module")
def school(tmp_path_factory):
    """A server without a trace of its own."""
    with serving(tmp_path_factory.mktemp("empty")) as address:
        yield address


def visit(watch, school, path, **options):
    one = watch(address=school, **options)
    one.page.goto(school + path)
    one.wait("document.querySelector('#state, .cards')")
    one.settle()
    return one


def check(one, program):
    """Write a program, have it checked, wait for the verdict."""
    one.page.locator("#program").fill(program)
    one.ask("() => { document.querySelector('#verdict').hidden = true; }")
    one.page.locator("#program").press("Control+Enter")
    one.wait("!document.querySelector('#verdict').hidden", deadline_s=RANKS_S)
    one.wait("!document.querySelector('#check').disabled")


@pytest.mark.parametrize("path", PAGES)
def test_anyone_can_use_it(watch, school, path):
    one = visit(watch, school, path, reduced_motion="reduce")
    assert violations_in_both_themes(one) == []
    for _ in one.sized(*SIZES):
        eventually(
            lambda: one.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        )
        eventually(
            lambda: one.page.evaluate("""() => Math.min(...[...document.querySelectorAll("body *")]
                .filter(e => e.checkVisibility() && e.textContent.trim())
                .map(e => parseFloat(getComputedStyle(e).fontSize)))"""),
            lambda smallest: smallest >= 15,
        )


def test_keys_write_and_let_go(watch, school):
    one = visit(watch, school, ADDRESS)
    editor = one.page.locator("#program")
    editor.fill("")
    editor.press_sequentially("def f():\n")
    one.press("Tab")
    editor.press_sequentially("x")
    expect(editor).to_have_value("def f():\n        x")
    one.press("Shift+Tab")
    expect(editor).to_have_value("def f():\n    x")
    one.press("Control+z")
    expect(editor).to_have_value("def f():\n        x")
    one.press("Escape", "Tab")
    eventually(lambda: one.page.evaluate("() => document.activeElement.id") == "check")
    expect(one.page.locator("#program")).to_have_attribute("aria-describedby", "keys")


def test_hints_come_one_after_another(watch, school):
    one = visit(watch, school, ADDRESS)
    expect(one.page.locator(".hint:visible")).to_have_count(1)
    for number in (1, 2, 3):
        one.page.locator(".hint:visible summary").last.click()
        one.settle()
        expect(one.page.locator(".hint:visible")).to_have_count(min(number + 1, len(PUZZLE.hints)))


def test_what_is_written_stays_until_it_is_forgotten(watch, school):
    one = visit(watch, school, ADDRESS)
    expect(one.page.locator("#program")).to_have_value(PUZZLE.task)
    expect(one.page.locator("#reset")).to_be_disabled()
    one.page.locator("#program").fill("mine = 1\n")
    one.page.goto(school + "/puzzles")
    one.wait(f"document.querySelector('[data-puzzle={PUZZLE.name}] .puzzle-state').textContent")
    one.page.goto(school + ADDRESS)
    expect(one.page.locator("#program")).to_have_value("mine = 1\n")
    with one.page.expect_download() as download:
        one.page.locator("#download").click()
    assert download.value.suggested_filename == PUZZLE.file_name
    assert download.value.path().read_text() == "mine = 1\n"
    one.page.locator("#reset").click()
    one.page.locator("#reset").click()
    expect(one.page.locator("#program")).to_have_value(PUZZLE.task)
    with one.page.expect_download() as download:
        one.page.locator("#download").click()
    assert download.value.path().read_text() == PUZZLE.task
    one.page.goto(school + "/puzzles")
    one.page.locator("#forget").click()
    one.page.locator("#forget").click()
    eventually(lambda: one.page.evaluate("() => localStorage.getItem('zerosim-puzzles')") is None)


@pytest.mark.ranks
def test_a_program_is_judged_where_it_is_written(watch, school):
    one = visit(watch, school, ADDRESS, reduced_motion="reduce")
    wrong = PUZZLE.wrong[1]
    check(one, PUZZLE.program_of(wrong))
    one.expect("#verdict .why").to_contain_text(wrong.says)
    rows = one.page.locator("#verdict tbody tr")
    expect(rows).to_have_count(8)
    expect(one.page.locator("#verdict tr.fails")).to_have_count(1)
    expect(one.page.locator("#verdict .solution")).to_have_count(0)
    assert violations_in_both_themes(one) == []
    for _ in one.sized((390, 844), (1280, 720)):
        eventually(
            lambda: one.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        )
    one.page.locator("#verdict button").click()
    selected = """() => {
        const field = document.querySelector("#program");
        return field.value.slice(field.selectionStart, field.selectionEnd);
    }"""
    eventually(
        lambda: one.page.evaluate(selected),
        lambda line: line.strip().startswith("sent = dist.isend("),
    )
    one.page.locator("#verdict a.watch").click()
    one.ready()
    one.settle()
    shown = one.document()["steps"][one.state()["position"]]
    assert one.document()["texts"][shown["why"]].startswith("The first illegal step: ")
    one.page.go_back()
    one.expect("#verdict").to_be_visible()
    one.expect("#verdict .why").to_contain_text(wrong.says)
    check(one, PUZZLE.reference)
    expect(one.page.locator("#verdict .why")).to_have_count(0)
    one.expect("#verdict h2").to_have_text("Your program passes.")
    eventually(lambda: one.page.locator("#verdict .solution").text_content() == PUZZLE.reference)
    one.page.goto(school + "/puzzles")
    one.wait(f"document.querySelector('.lesson-card.done[data-puzzle={PUZZLE.name}]')")
    eventually(lambda: one.text("#kept").startswith(f"1 of {len(puzzles())} solved"))
