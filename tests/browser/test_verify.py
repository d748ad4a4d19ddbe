"""The Verify page in a browser: it says what `zerosim verify` says, in both themes, for anyone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually, heard
from tests.browser.test_access import violations
from zerosim.record import load
from zerosim.verify import verify

pytestmark = [pytest.mark.browser, pytest.mark.ranks]


DRAWN = (
    "document.querySelectorAll('#react-entry-point:not([hidden]) .js-plotly-plot .main-svg').length"
    " >= 4 && !document.getElementById('written')"
)
"""Dash has taken the page over, and plotly has drawn both figures."""


def visit(one, path: str) -> None:
    one.page.goto(one.address + path)
    one.wait(DRAWN)
    one.settle()


@pytest.mark.parametrize("stage", [0, 3])
def test_the_numbers_are_those_of_zerosim_verify(watch, traces, stage):
    one = watch()
    visit(one, f"/verify?trace=stage-{stage}&rank=2")
    report = verify(load(traces / f"stage-{stage}"))
    one.expect("#headline").to_have_text(report.headline)
    for shown, ledger in (("theory", "theory"), ("trace", "trace"), ("wire", "kernel")):
        one.expect(f"#total-{shown}").to_have_text(f"{report.total(ledger, 2):,}")
    eventually(lambda: one.page.locator(".claims li").count() > len(report.verdicts))
    expect(one.page.locator(".claims .mark.bad")).to_have_count(0)


@pytest.mark.parametrize("fragment", ["", "#theme=dark&mode=present"])
def test_axe_finds_nothing(watch, fragment):
    one = watch()
    visit(one, f"/verify?trace=stage-3{fragment}")
    one.page.locator("main details summary").click()
    one.expect("main details[open]").to_have_count(1)
    assert violations(one.page) == []


def test_nothing_is_cut_off_at_the_side_of_a_presentation(watch):
    one = watch()
    visit(one, "/verify?trace=stage-3#mode=present")
    for width, _ in one.sized((1920, 1080), (1280, 720), (1024, 768), (500, 900)):
        eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= width)


def test_keys_and_links(watch):
    one = watch()
    visit(one, "/verify?trace=stage-1")
    one.press("d", "p")
    html = one.page.locator("html")
    expect(html).to_have_attribute("data-mode", "present")
    theme = eventually(lambda: html.get_attribute("data-theme"))
    one.wait("location.hash.includes('mode=present')")  # what was pressed last
    again = watch()
    visit(again, one.page.url.removeprefix(one.address))
    expect(again.page.locator("html")).to_have_attribute("data-theme", theme)
    expect(again.page.locator("html")).to_have_attribute("data-mode", "present")
    again.page.locator(".ranks a", has_text="3").click()
    again.expect("#ledgers-title").to_contain_text("rank 3")
    again.wait("location.hash.includes('mode=present')")
    count, psi = (
        again.page.get_by_label(one) for one in ("N, number of ranks", "Ψ, number of parameters")
    )
    count.fill("10")
    psi.fill("1000000")  # the other one is left: what was typed in it stays, and so does the focus
    expect(count).to_have_value("10")
    expect(psi).to_be_focused()
    again.press("Enter")
    again.wait("document.body.textContent.includes('1.60 MB')")
    again.wait("location.search.includes('trace=stage-1')")
    again.wait("location.search.includes('psi=1000000&n=10')")
    again.page.go_back()
    again.wait("!document.body.textContent.includes('1.60 MB')")


def test_controls_change_numbers_and_figures_without_a_new_page(watch):
    one = watch()
    asked = []
    visit(one, "/verify?trace=stage-2&rank=1")
    one.page.on("request", lambda request: asked.append(request.url))
    one.ask("() => { window.stays = true; }")
    one.page.get_by_role("navigation", name="iteration").get_by_text("0").click()
    one.wait("document.querySelector('.figure')?.textContent.includes('iteration 0')")
    eventually(lambda: one.page.evaluate("() => window.stays"))
    one.wait("location.search.includes('iteration=0')")
    assert {url.partition("?")[0].rpartition("/")[2] for url in heard(one.page, asked)} <= {
        "_dash-update-component", "runs",
    }  # fmt: skip
    bars = one.page.locator("#waterfall .bars path")
    expect(bars).to_have_count(4)
    eventually(
        lambda: {*one.page.locator("#waterfall text").all_text_contents()},
        lambda words: {"2Ψ(N-1)/N", "message framing", "sent", "9.92 MB"} <= words,
    )
    tick = "document.querySelector('#waterfall .ytick text')"
    one.press("p")
    one.wait(f"{tick} && parseFloat(getComputedStyle({tick}).fontSize) >= 20")


def test_without_a_script_numbers_and_links_are_there(watch):
    one = watch(java_script_enabled=False)
    one.page.goto(f"{one.address}/verify?trace=stage-3&psi=1000000&n=10")
    one.expect("main").to_contain_text("1.60 MB")
    one.expect("#total-wire").to_have_text("14,889,756")
    one.page.locator(".ranks a", has_text="2").click()
    one.expect("#ledgers-title").to_contain_text("bytes sent by rank 2")
    one.complaints[:] = [said for said in one.complaints if not said.endswith(".js: csp")]


def test_from_page_to_page_the_trace_stays(watch):
    one = watch(reduced_motion="reduce")
    one.open("/replay?trace=stage-2#at=9")
    one.page.get_by_role("link", name="Verify").click()
    one.wait("location.pathname === '/verify'")
    one.wait(DRAWN)
    one.expect("#headline").to_contain_text("ZeRO-2")
    one.page.locator("#runs summary").click()
    one.page.locator("#runs a", has_text="stage-3").click()
    one.wait("document.querySelector('#headline')?.textContent.includes('ZeRO-3')")
    one.wait("location.href.includes('/verify?trace=stage-3')")
