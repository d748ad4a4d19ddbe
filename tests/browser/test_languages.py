"""Every page in every language: whole, without complaints, and the choice stays."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import READY, eventually
from tests.browser.test_access import violations
from tests.browser.test_plan_page import DRAWN
from tests.browser.test_verify import DRAWN as VERIFIED

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

PAGES = {
    "replay": ("/replay?trace=stage-3", READY),
    "runs": ("/replay?trace=stage-0", READY),
    "compare": ("/compare", READY),
    "verify": ("/verify?trace=stage-3", VERIFIED),
    "graph": ("/graph?trace=stage-3", READY),
    "plan": ("/plan?model=gpt-2&gpus=16&tokens=512k", DRAWN),
    "lessons": ("/lessons", "document.querySelector('.cards')"),
    "room": ("/room", "document.querySelector('#open')"),
}
LANGUAGES = {"en": ("en", "Replay"), "zh": ("zh-Hans", "回放")}
OVERFLOWS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    const style = getComputedStyle(one);
    const isOpen = style.display !== "inline" && style.overflowX === "visible";
    if (isOpen && one.clientWidth > 0 && !one.closest("script, svg, .unseen") &&
        one.scrollWidth > one.clientWidth + 1) {
      found.push(`${one.tagName}#${one.id}.${one.className}: ${one.textContent.slice(0, 40)}`);
    }
  }
  return [...new Set(found)];
}"""
SAID = """() => {
  const shown =
    "header, button, label, legend, summary, nav, h2, th, dt, .legend, .hint, .controls";
  const told = "#runs-list, #run-text, #strip, #tables, #memory-more, .lesson-about, tbody";
  const own = (one) =>
    !one.closest(told) && !one.querySelector("select, #run-text, #strip, #runs-list");
  const texts = [...document.querySelectorAll(shown)].filter(own).map((one) => one.textContent);
  const named = [...document.querySelectorAll("[aria-label], [placeholder]")]
    .filter((one) => !one.closest(told))
    .flatMap((one) => [one.getAttribute("aria-label"), one.getAttribute("placeholder")]);
  return [...texts, ...named].filter(Boolean);
}"""
"""What the page itself says, not a run, a plan or a lesson."""
ENGLISH = re.compile(r"\b[a-z]{3,},? [a-z]{2,} [a-z]{2,}\b")


def visit(one, name: str, language: str) -> None:
    path, ready = PAGES[name]
    one.page.goto(f"{one.address}{path}{'&' if '?' in path else '?'}lang={language}")
    one.wait(ready)
    one.settle()
    if name == "runs":
        one.page.locator("#runs summary").click()
        one.expect("#runs-menu[open]").to_have_count(1)


# each page has a test of its own that says the same of English
@pytest.mark.parametrize("language", [pytest.param("en", marks=pytest.mark.long), "zh"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_a_language(watch, name, language):
    one = watch(reduced_motion="reduce")
    visit(one, name, language)
    tag, tab = LANGUAGES[language]
    one.expect(f"html[lang={tag}]").to_have_count(1)
    one.expect("nav.tabs").to_contain_text(tab)
    # the colours are those of the page in English
    assert violations(one.page, rules={"color-contrast": {"enabled": False}}) == []
    eventually(lambda: one.page.evaluate(OVERFLOWS) == [])
    if language != "en":
        said = one.ask(SAID)
        assert [text for text in said if ENGLISH.search(text)] == []
    for width, _ in one.sized((390, 844)):
        eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= width)
        eventually(lambda: one.page.evaluate(OVERFLOWS) == [])


def test_the_choice_stays_over_a_reload_and_on_other_pages(watch):
    one = watch()
    one.open("/replay?trace=stage-3#at=20")
    one.press("l")
    one.ready("zh-Hans")
    one.has(position=19)
    one.wait("location.search.includes('lang=zh')")
    one.page.reload()
    one.ready("zh-Hans")
    one.page.goto(f"{one.address}/lessons")
    one.expect("html[lang=zh-Hans]").to_have_count(1)
    one.page.goto(f"{one.address}/graph?trace=stage-3")
    one.ready()
    eventually(lambda: "依赖图" in one.page.title())
    one.page.locator("#language").click()
    one.ready("en")
    one.page.goto(f"{one.address}/verify?trace=stage-3")
    one.expect("html[lang=en]").to_have_count(1)


def test_two_readers_of_one_server_read_their_own(watch):
    here, there = watch(), watch(color_scheme="dark")
    there.page.goto(f"{there.address}/plan?lang=zh")
    here.page.goto(f"{here.address}/plan")
    for one, name, word in (
        (there, "流水线并行", "预测"),
        (here, "Pipeline parallel", "Predicted"),
    ):
        one.wait(DRAWN)
        one.page.get_by_role("navigation", name=name).get_by_text("2", exact=True).click()
        one.wait(
            f"document.querySelector('nav[aria-label=\"{name}\"] .chosen')?.textContent === '2'"
        )
        one.expect("main").to_contain_text(word)


def test_the_help_names_the_switch(watch):
    one = watch()
    one.open("/replay?trace=stage-3")
    one.press("Shift+?")
    one.expect("#help-keys").to_contain_text("中文")


@pytest.mark.parametrize("language", LANGUAGES)
def test_on_the_wall_the_hop_stands_beside_the_tools(watch, language):
    one = watch()
    one.page.goto(f"{one.address}/replay?trace=stage-3&lang={language}#hops=1&mode=present")
    one.ready()
    steps = one.document()["steps"]
    first = one.state()["position"]
    hop = next(at for at in range(first, len(steps)) if steps[at]["hop"] >= 0)
    for at in range(first, hop):
        one.press("ArrowRight")
        one.has(position=at + 1)
    one.expect("#hop").to_be_visible()
    eventually(
        lambda: [
            one.page.locator(each).bounding_box()
            for each in ("#hop", "#theme, [data-action=theme]")
        ],
        lambda boxes: all(boxes) and boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"],
    )
