"""What a notebook's cell shows of a run: the player at its step, figures in a page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import zerosim
from tests.deadlines import QUESTION_S

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def run(traces):
    return zerosim.load(traces / "stage-3")


def test_a_replay_plays_in_a_cell(browser, run, tmp_path):
    replay = run.replay(at="backward gather blocks.2")
    file = tmp_path / "cell.html"
    file.write_text(f"<!doctype html><title>cell</title>{replay._repr_html_()}")
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(1000 * QUESTION_S)
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text))
    page.goto(file.as_uri())
    frame = page.frame_locator("iframe")
    frame.get_by_text("prefetch the parameters of blocks.2").first.wait_for()
    frame.locator("#title").click()
    page.keyboard.press("Home")
    frame.get_by_text(re.compile(r"beat\s1\sof")).first.wait_for()
    page.close()
    assert complaints == []


def test_figures_are_drawn_without_a_complaint(browser, run, tmp_path):
    names = ("memory", "traffic", "timeline", "waterfall")
    drawn = [getattr(run.plot, name)() for name in names]
    parts = [
        one.to_html(full_html=False, include_plotlyjs=not number)
        for number, one in enumerate(drawn)
    ]
    file = tmp_path / "figures.html"
    file.write_text(f"<!doctype html><title>figures</title>{''.join(parts)}")
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(1000 * QUESTION_S)
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text))
    page.goto(file.as_uri())
    page.wait_for_function("document.querySelectorAll('.main-svg .bars, .fills').length > 3")
    expect(page.locator(".plotly-graph-div")).to_have_count(len(names))
    page.close()
    assert complaints == []
