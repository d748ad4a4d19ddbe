"""Compare, Verify and lessons as files: they open from the disk and ask for nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually
from tests.cli.command import command
from tests.deadlines import RANKS_S

pytestmark = [pytest.mark.browser]


def visit(one) -> None:
    """Open a file of a lesson, which holds its replays."""
    one.page.goto(one.address, timeout=1000 * RANKS_S)


def made(file, *args):
    answer = command("export", *args, "--html", file)
    assert (answer.code, answer.err) == (0, "")
    return file.as_uri()


def test_compare_is_a_file(watch, traces, tmp_path):
    stages = [traces / "stage-0", traces / "stage-3"]
    one = watch(address=made(tmp_path / "compare.html", *stages))
    one.open("#at=12")
    one.press("ArrowRight", "r")
    one.has(position=12)
    eventually(lambda: not one.page.locator("dialog[open]").count())
    served = watch()
    served.open("/compare?trace=stage-0&trace=stage-3#at=13")
    for part in ("#title", "#what", "#cards .next >> nth=1", "#event"):
        eventually(lambda: one.text(part) == served.text(part))
    expect(one.page.locator("a[href]")).to_have_count(0)


def test_verify_is_a_file(watch, traces, tmp_path):
    one = watch(address=made(tmp_path / "verify.html", traces / "stage-3", "--page", "verify"))
    one.page.goto(one.address)
    one.wait("document.querySelectorAll('[data-figure] .main-svg').length >= 2")
    one.expect("#written h1").to_contain_text("3Ψ(N-1)/N")
    one.expect("#written").to_contain_text("14,889,756")
    expect(one.page.locator("a[href]")).to_have_count(0)
    one.press("d")
    one.wait("document.documentElement.dataset.theme === 'dark'")


def test_a_lesson_is_a_file(watch, tmp_path):
    one = watch(address=made(tmp_path / "lesson.html", "--lesson", 5))
    visit(one)
    expect(one.page.locator(".step")).to_have_count(6)
    frame = one.page.locator("iframe").last
    frame.scroll_into_view_if_needed()  # what is not seen is not loaded
    frame.content_frame.locator("#view:not([hidden])").wait_for()
    eventually(
        lambda: one.page.frames[-1].evaluate("() => window.__player?.state().position") == 37
    )
    answer = one.page.locator("details").first
    expect(answer.locator(".prose")).to_be_hidden()
    answer.locator("summary").press("Enter")
    expect(answer.locator(".prose")).to_be_visible()
    eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= 1280)


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    """Those of lessons with replays and many bars, long tables, wide tables, and code."""
    folder = tmp_path_factory.mktemp("slides")

    @cache
    def of(lesson):
        return made(folder / f"{lesson}.html", "--lesson", lesson, "--page", "slides")

    return of


_BEYOND = """() => {
  const slide = document.querySelector(".slide.shown");
  const room = slide.querySelector(".slide-body").getBoundingClientRect();
  const isSaid = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "";
  return [...slide.querySelectorAll(".slide-body *")].flatMap((part) => {
    const box = part.getBoundingClientRect();
    if (part.closest(".unseen") || box.width === 0) {
      return [];
    }
    const isOut = box.bottom > room.bottom + 1 || box.top < room.top - 1 || box.right > innerWidth;
    const size = parseFloat(getComputedStyle(part).fontSize);
    const isSmall = [...part.childNodes].some(isSaid) && size < 20;
    return isOut || isSmall ? [part.outerHTML.slice(0, 80)] : [];
  });
}"""


@pytest.mark.parametrize(
    "lesson", [5, 24, *(pytest.param(number, marks=pytest.mark.long) for number in (7, 25))]
)
def test_slides_hold_what_is_on_them(watch, slides, lesson):
    one = watch(address=slides(lesson))
    visit(one)
    number = eventually(lambda: one.page.locator(".slide").count())
    assert number > 20
    for at in range(1, number + 1):
        eventually(lambda: one.page.evaluate(_BEYOND) == [])
        eventually(
            lambda: (
                one.page.locator(".slide.shown .slide-foot span")
                .last.inner_text()
                .startswith(f"{at} /")
            )
        )
        one.press("PageDown")


def test_slides_ask_before_they_tell_and_replays_go_on(watch, slides):
    one = watch(address=slides(5) + "#slide=4")
    visit(one)
    frame = one.page.locator(".shown iframe")
    frame.content_frame.locator("#view:not([hidden])").wait_for()
    inside = frame.element_handle().content_frame()
    eventually(lambda: inside.evaluate("() => window.__player.state().position") == 13)
    kinds = one.ask("() => [...document.querySelectorAll('.slide')].map(s => s.className)")
    asked = [at for at, kind in enumerate(kinds) if "ask" in kind.split()]
    told = [at for at, kind in enumerate(kinds) if "answer" in kind.split()]
    assert len(asked) == len(told) == 5
    assert all(ask < tell for ask, tell in zip(asked, told, strict=True))
    one.page.goto(slides(5) + f"#slide={asked[0] + 1}")
    one.wait(f"document.querySelectorAll('.slide')[{asked[0]}].classList.contains('shown')")
    expect(one.page.locator(".shown .slide-notes")).to_be_hidden()
    one.press("n")
    one.expect(".shown .slide-notes").to_contain_text("If the class is stuck")
    eventually(lambda: "2.25 Ψ" in one.page.locator(".number-said").all_text_contents())


def test_slides_are_printed(tmp_path):
    file = tmp_path / "slides.pdf"
    asked = ["-m", "zerosim", "export", "--lesson", "5", "--pdf", str(file)]
    done = subprocess.run([sys.executable, *asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    content = file.read_bytes()
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == 29
