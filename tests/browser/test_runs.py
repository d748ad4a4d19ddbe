"""The list of runs in a browser: new runs appear, keys reach it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watched, eventually
from tests.dashboards.samples import put_trace

pytestmark = pytest.mark.browser
FOCUSED = "() => document.activeElement.getAttribute('href') ?? ''"


@pytest.fixture
def page_of(browser, serve):
    """Opens a page in front of a folder; it must not complain, nor ask anywhere else."""
    opened = []

    def open_page(folder, *, may_complain=False):
        one = Watched(browser.new_context().new_page(), serve(folder))
        opened.append((one, may_complain))
        return one

    yield open_page
    for one, may_complain in opened:
        one.page.context.close()
        assert may_complain or one.complaints == []
        assert one.foreign == []


@pytest.fixture
def folder(tmp_path):
    put_trace(tmp_path / "runs" / "first", 1)
    put_trace(tmp_path / "runs" / "second", 3)
    return tmp_path / "runs"


def put_third(folder):
    """A third run, which is there as a whole at once: the list of runs changes once."""
    put_trace(folder.parent / "third", 3).rename(folder / "third")


def test_a_new_run_appears_in_a_page_that_is_open(page_of, folder):
    one = page_of(folder)
    one.open("/")
    one.page.wait_for_url("**/replay?trace=second*")
    one.page.locator("#runs-menu summary").click()
    one.expect("#runs-list a").to_have_count(2)
    put_third(folder)
    one.expect("#runs-list a").to_have_count(3)
    one.expect("#runs-menu[open]").to_have_count(1)
    expect(one.page).to_have_title(re.compile("^second"))  # Dash leaves the title to the player
    one.page.locator("#runs-list a", has_text="third").click()
    one.page.wait_for_url("**/replay?trace=third*")
    one.wait("window.__player?.model.doc.name === 'third'")
    one.expect("#runs-list a[aria-current=page]").to_have_count(1)
    one.expect("#runs-menu summary").to_have_text(re.compile("^third"))


def test_a_new_run_leaves_the_focus_where_it_was(page_of, folder):
    one = page_of(folder)
    one.open("/replay?trace=second")
    one.page.locator("#runs-menu summary").click()
    one.page.locator("#runs-list a", has_text="first").focus()
    before = eventually(lambda: one.page.evaluate(FOCUSED), lambda link: "trace=first" in link)
    put_third(folder)
    one.expect("#runs-list a").to_have_count(3)
    eventually(lambda: one.page.evaluate(FOCUSED) == before)
    one.page.keyboard.press("Enter")
    one.wait("window.__player?.model.doc.name === 'first'")


def test_the_keyboard_opens_follows_and_closes_it(page_of, folder):
    one = page_of(folder)
    one.open("/replay?trace=second")
    one.page.locator("#runs-menu summary").focus()
    one.press("Enter")
    one.expect("#runs-menu[open]").to_have_count(1)
    one.press("Escape")
    one.expect("#runs-menu[open]").to_have_count(0)
    one.expect("#runs-menu summary").to_be_focused()
    one.press("Enter", "Tab")
    eventually(lambda: "trace=first" in one.page.evaluate(FOCUSED))
    one.page.keyboard.press("Enter")
    one.page.wait_for_url("**/replay?trace=first*")
    one.wait("window.__player?.model.doc.name === 'first'")


def test_a_run_that_cannot_be_shown_leaves_the_list(page_of, folder):
    file = folder / "first" / "rank-0.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"sent_bytes":', b'"sent_bytes":1', 1))
    one = page_of(folder, may_complain=True)  # of the document's status 422
    one.page.goto(f"{one.address}/replay?trace=first")
    one.expect("#status h1").to_be_visible()
    one.expect("#status").to_contain_text("rank-0.jsonl")
    one.page.locator("#runs-menu summary").click()
    one.page.locator("#runs-list a", has_text="second").click()
    one.page.wait_for_url("**/replay?trace=second*")
    one.wait("window.__player?.model.doc.name === 'second'")
