"""The page of held ranks, with real ones: steps, and Replay that grows and takes back."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import ask, eventually, heard
from tests.browser.test_access import violations
from tests.deadlines import RANKS_S

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

RUN = ("--stage", "3", "--ranks", "2", "--model", "mlp", "--no-overlap", "--steps", "2")
MS = RANKS_S * 1000
LINES = "#held-lines"
CAN_STEP = "button[data-what=over]:enabled"


@pytest.fixture
def debugged(tmp_path):
    """A run that is held, and the address of its page."""
    process = subprocess.Popen(
        [sys.executable, "-m", "zerosim", "debug", *RUN, "--out", str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    said = []
    for line in process.stdout:
        said.append(line)
        if found := re.search(r"the page: (\S+)", line):
            yield process, found[1]
            break
    else:
        raise AssertionError("".join(said))
    process.kill()
    process.wait(RANKS_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


@pytest.fixture
def opened(browser, debugged):
    """The page, which must say nothing to the console, and how a step is taken there."""
    process, address = debugged
    page, problems = browser.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.set_default_timeout(MS)
    page.goto(address)
    page.wait_for_selector(CAN_STEP)

    def take(what, words=""):
        before = eventually(lambda: page.inner_text(LINES))
        page.click(f"button[data-what={what}]")
        eventually(
            lambda: page.inner_text(LINES),
            lambda now: now != before and words in now,
            deadline_s=RANKS_S,
        )
        page.wait_for_selector(CAN_STEP)

    yield page, take
    if not page.is_closed():
        page.click("button[data-what=detach]")
        page.get_by_text("The ranks are no longer stopped by the debugger.").wait_for()
        page.close()
    process.stdin.close()
    assert process.wait(RANKS_S) == 0
    assert problems == []


def test_replay_grows_while_the_ranks_stand(browser, opened):
    page, take = opened
    expect(page.locator(LINES)).to_contain_text("ranks 0, 1 before the setup")
    expect(page.locator("#held-nothing dt")).to_have_count(6)  # what there is to be done first
    take("iteration", "ranks 0, 1 before the forward of iteration 0")
    take("over", "beat 2: compute embedding")
    replay = page.frame_locator("#held-replay")
    shown = replay.locator("#title")
    shown.get_by_text(re.compile("parameters of embedding")).wait_for()
    eventually(lambda: replay.locator("#stage").bounding_box()["height"] > 250)  # with letters
    take("phase")
    shown.get_by_text(re.compile("head")).wait_for()
    replay.locator("[data-action=back]").click()  # what happened is taken back; the ranks stand
    expect(page.locator(LINES)).to_contain_text("before the backward of iteration 0")
    other = browser.new_page()
    other.set_default_timeout(MS)
    other.goto(page.url)
    other.get_by_text("Another page controls the run; this one watches.").wait_for()
    expect(other.locator("button[data-what=over]")).to_be_disabled()
    other.click("#tab-holds")  # a watching page may look
    other.locator("#held-tensors td").get_by_text("head").first.wait_for()
    expect(other.locator("#held-sum")).to_be_disabled()
    page.close()  # the ranks stand as before, and after some seconds another page may steer
    other.wait_for_selector(CAN_STEP)
    expect(other.locator(LINES)).to_contain_text("before the backward of iteration 0")
    other.click("button[data-what=detach]")
    other.get_by_text("The ranks are no longer stopped by the debugger.").wait_for()
    other.close()


SHOWN = """() => {
    const lines = document.querySelector("#held-lines");
    window.shown = [];
    const seen = () => window.shown.push(lines.textContent);
    new MutationObserver(seen).observe(lines, {childList: true});
}"""


def older_answers_are_not_shown_after_newer_ones(page):
    """One that was asked before the next iteration comes after it has begun."""
    held = []

    def hold(route) -> None:
        held.append((route, route.fetch(timeout=MS)))

    page.route("**/api/debug?*", hold, times=1)
    eventually(lambda: heard(page, held), deadline_s=RANKS_S)
    ask(page, SHOWN)
    page.click("button[data-what=iteration]")

    def shown():
        page.dispatch_event("#held-whom", "change")  # it looks again
        return ask(page, "() => window.shown.length")

    eventually(shown, deadline_s=RANKS_S)
    now = eventually(lambda: page.inner_text(LINES))
    route, response = held[0]
    assert response.json()["lines"] != now.splitlines()
    with page.expect_request("**/api/debug?*"):  # the next look, so that the late one is over
        route.fulfill(response=response)
    page.wait_for_selector(CAN_STEP)
    eventually(lambda: set(page.evaluate("() => window.shown")) == {now})
    assert "before the forward of iteration 0" in now


def test_the_page_can_do_what_the_terminal_can(opened):
    page, take = opened
    older_answers_are_not_shown_after_newer_ones(page)
    page.click("#tab-stops")
    page.get_by_text("No breakpoint is set").wait_for()
    page.fill("#held-break input", "unit ==")
    page.press("#held-break input", "Enter")
    page.locator("#held-stopped.wrong").get_by_text("expected an expression such as").wait_for()
    page.fill("#held-break input", "phase=forward unit=hidden.1 kind=compute")
    page.press("#held-break input", "Enter")
    page.locator("#held-stops").get_by_text('unit == "hidden.1"').wait_for()
    page.select_option("#held-watch select", "memory")
    page.click("#held-watch button")
    page.locator("#held-stops").get_by_text("memory() > 1e9").wait_for()
    page.click("button[aria-label^='remove 2:']")
    page.locator("#held-stops").get_by_text("memory() > 1e9").wait_for(state="detached")
    take("continue", "ranks 0, 1 before compute hidden.1 (forward")
    assert violations(page) == []

    page.click("#tab-holds")
    page.click("button[aria-label='gathered parameters of hidden.1 on all ranks']")
    page.wait_for_selector("#held-across table")
    rows = eventually(lambda: page.locator("#held-across tbody tr").all_inner_texts())
    checksums = [row.split("\t")[6] for row in rows]
    assert len(checksums) == 2
    assert len(set(checksums)) == 1
    page.click("[data-ask=check]")
    page.get_by_text("gathered parameters of hidden.1: equal on all ranks").wait_for()
    page.fill("#held-print input", 'gathered("hidden.1").norm() > 0')
    page.press("#held-print input", "Enter")
    page.get_by_text("rank 0: True").wait_for()
    assert violations(page) == []

    page.click("#tab-stands")
    page.locator("#held-where").get_by_text("rank 1 before compute hidden.1").wait_for()
    page.select_option("#held-whom", "1")
    page.wait_for_selector("button[data-what=continue]:disabled")
    take("phase", "rank 1 waits for rank 0: all-gather of hidden.2")
    page.locator("#held-where").get_by_text("under way: all-gather of hidden.2").wait_for()
    assert violations(page) == []
