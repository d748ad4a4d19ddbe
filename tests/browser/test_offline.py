"""One file that needs no server: it opens from the disk and plays, with the same keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually
from tests.cli.command import command

pytestmark = [pytest.mark.browser, pytest.mark.ranks]


@pytest.fixture(scope="module")
def page_file(traces, tmp_path_factory):
    file = tmp_path_factory.mktemp("offline") / "replay.html"
    answer = command("export", traces / "stage-3", "--html", file)
    assert (answer.code, answer.err) == (0, "")
    return file


def test_it_opens_from_a_file_and_plays(watch, page_file):
    one = watch(address=page_file.as_uri())
    one.open("#at=1&speed=4")
    assert one.document()["name"] == "stage-3"
    one.press("i")
    eventually(lambda: one.document()["steps"][one.state()["position"]]["kind"] == "transfer")
    one.press("Home", " ")
    one.wait("window.__player.state().position >= 3")
    one.press(" ", "End", "p", "d")
    one.wait("location.hash.includes('mode=present') && location.hash.includes('theme=dark')")
    state, url = one.state(), one.page.url
    again = watch(address=page_file.as_uri())
    again.open(url.removeprefix(again.address))
    eventually(lambda: again.state() == state)


def test_it_shows_what_the_server_shows(watch, page_file):
    served, offline = (
        watch(reduced_motion="reduce"),
        watch(address=page_file.as_uri(), reduced_motion="reduce"),
    )
    served.open("/replay?trace=stage-3#at=40")
    offline.open("#at=40")
    assert served.document() == offline.document()
    for part in ("#title", "#what", "#why", "#ledger", "#traffic-text", "#cause"):
        eventually(lambda: served.text(part) == offline.text(part))
    expect(offline.page.locator("#runs a")).to_have_count(0)
