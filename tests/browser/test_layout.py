"""Where things stand on every page, in windows of each size: nothing overlaps or is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import eventually
from tests.browser.test_room import answer, ask, empty, follow, join, open_room

pytestmark = pytest.mark.browser
__all__ = ["empty"]

SIZES = ((1280, 720), (1920, 1080), (1024, 768), (390, 844), (818, 614))
"""The last is the frame of a replay beside a lesson's text, in a window of 1280 px."""
FAULTS = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")
FAULTS = FAULTS[FAULTS.index("() =>") :]
PAGES = (
    "/", "/#mode=present", "/compare", "/compare#mode=present", "/verify", "/graph", "/plan",
    "/lessons", "/lessons#mode=present", "/lessons/zero3#step=2", "/lessons/zero3#step=4",
    "/lessons/zero3#step=4&mode=present", "/puzzles", "/puzzles/ring_all_gather", "/join",
    "/replay?embed=1",
)  # fmt: skip


def faults(one) -> dict[tuple[int, int], list[str]]:
    """What is wrong in windows of each size; asked until it holds still."""
    found = {}
    for size in one.sized(*SIZES):
        try:
            eventually(lambda: one.ask(FAULTS), lambda those: those == [], deadline_s=2)
        except AssertionError:
            found[size] = one.ask(FAULTS)
    return {size: those for size, those in found.items() if those}


@pytest.mark.parametrize(
    ("path", "language"),
    [(path, "en") for path in PAGES] + [(path, "zh") for path in PAGES[:6]],
)
def test_every_page(watch, server, path, language):
    one = watch(more=False)
    before, mark, after = path.partition("#")
    before += f"{'&' if '?' in before else '?'}lang={language}"
    one.page.goto(f"{server}{before}{mark}{after}")
    assert faults(one) == {}


def test_all_of_a_replay(watch, server):
    one = watch()
    one.open("/")
    assert faults(one) == {}


def test_a_room_on_the_wall(watch, empty):
    wall, student = watch(address=empty), watch(address=empty)
    code = open_room(wall)
    assert faults(wall) == {}
    join(student, code)
    ask(wall)
    assert faults(wall) == {}
    follow(student, code)
    answer(student, "3")
    wall.expect("#answered").to_have_text("1 of 1 answered")
    wall.press("a", "c")
    wall.expect("#solved").to_be_visible()
    assert faults(wall) == {}
    for _ in wall.sized((1280, 720), (1920, 1080)):  # all of the reason is on the wall
        bottom = "document.querySelector('#explain').getBoundingClientRect().bottom + scrollY"
        wall.wait(f"{bottom} <= innerHeight")
