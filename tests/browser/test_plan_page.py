"""The Plan page in a browser: controls change it without a new page, in both themes, for anyone."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import eventually
from tests.browser.test_access import violations
from tests.deadlines import RANKS_S

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

PAGE = "/plan?model=gpt-2&gpus=16&tokens=512k"
DRAWN = (
    "document.querySelectorAll('#react-entry-point:not([hidden]) .js-plotly-plot .main-svg').length"
    " >= 6 && !document.getElementById('written')"
)
"""Dash has taken the page over, and plotly has drawn its three figures."""
CHOSEN = (
    "document.querySelector('nav[aria-label=\"ZeRO stage\"] .chosen')?.textContent === 'ZeRO-3'"
)
OWN = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "vocab_size": 32_000,
    "max_position_embeddings": 2048,
    "id2label": {"0": "x" * 20_000},
}
"""A user's own model, with labels that no plan needs."""


def visit(one, path: str) -> None:
    one.page.goto(one.address + path)
    one.wait(DRAWN)
    one.settle()


@pytest.mark.parametrize("fragment", ["", "#theme=dark&mode=present"])
def test_axe_finds_nothing(watch, fragment):
    one = watch()
    visit(one, f"{PAGE}{fragment}")
    for summary in eventually(lambda: one.page.locator("main details summary").all()):
        summary.click()
    one.expect("main details:not([open])").to_have_count(0)
    one.wait("[...document.querySelectorAll('[id$=-listed]')].every(e => e.querySelector('td'))")
    assert violations(one.page) == []


@pytest.mark.parametrize("mode", ["work", "present"])
def test_nothing_is_cut_off_at_the_side(watch, mode):
    one = watch()
    visit(one, f"{PAGE}#mode={mode}")
    for width, _ in one.sized((1920, 1080), (1280, 720), (820, 900), (390, 900)):
        eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= width)


def test_controls_change_numbers_and_figures_without_a_new_page(watch):
    one = watch()
    visit(one, PAGE)
    one.ask("() => { window.stays = true; }")
    one.page.get_by_role("navigation", name="ZeRO stage").get_by_text("ZeRO-3").click()
    one.wait(CHOSEN)
    one.page.get_by_role("navigation", name="Model").get_by_text("llama-3-8b").click()
    one.expect("#headline").to_contain_text("llama-3-8b")
    eventually(lambda: one.page.evaluate("() => window.stays"))
    one.wait("location.search.includes('stage=3')")
    field = one.page.locator("#plan-gpus")
    field.fill("24")
    field.press("Enter")
    one.expect("#headline").to_contain_text("24 GPUs")
    field.fill("13")
    field.press("Enter")
    one.wait("document.querySelector('[role=alert]')?.textContent.includes('multiple of 8')")
    one.page.go_back()
    one.wait("document.querySelector('#headline')?.textContent.includes('24 GPUs')")
    one.page.locator(".heat a").first.click()
    one.wait("location.search.includes('tensor=1')")


def test_a_point_of_a_chart_leads_to_its_layout(watch):
    one = watch()
    visit(one, PAGE)
    one.ask("() => { window.stays = true; }")
    one.ask(
        "() => { const plot = document.querySelector('#curves .js-plotly-plot');"
        " const curve = plot.data.find(({name}) => name === 'ZeRO-3');"
        " const points = [{customdata: curve.customdata[[...curve.x].indexOf(8)]}];"
        " plot.emit('plotly_click', {points}); }"
    )
    one.expect("#headline").to_contain_text("on 8 GPUs")
    eventually(lambda: one.page.evaluate("() => window.stays"))
    one.wait("location.search.includes('gpus=8')")


def test_a_layout_is_simulated_and_replay_opens(watch):
    one = watch(reduced_motion="reduce")
    visit(one, f"{PAGE}&stage=3&options=plain&batch=16")
    # kept beside the page, which is left as soon as it is done
    one.ask("""() => { new MutationObserver(() => {
            const said = document.querySelector("#simulated")?.textContent ?? "";
            sessionStorage.said = (sessionStorage.said ?? "") + said;
        }).observe(document.body, {childList: true, subtree: true}); }""")
    one.page.locator("#simulate").click()
    one.wait("location.pathname === '/replay' && window.__player", deadline_s=RANKS_S)
    one.wait("sessionStorage.said?.includes('Simulat')")
    assert one.page.url.partition("?trace=")[2].startswith("plan/")
    eventually(lambda: "predicted" in one.text("body").lower())
    eventually(
        lambda: "16" in one.page.evaluate("() => String(window.__player.model.doc.stands_for)")
    )


def test_a_table_comes_when_it_is_unfolded(watch):
    one = watch()
    visit(one, PAGE)
    expect(one.page.locator("#scaling-listed td")).to_have_count(0)
    one.page.locator("#scaling-more").click()
    one.wait("document.querySelectorAll('#scaling-listed td').length > 20")


def test_figures_have_the_room_and_the_words_of_the_page(watch):
    fits = (
        "[...document.querySelectorAll('.js-plotly-plot')].every((one) =>"
        " Math.abs(one._fullLayout?.width - one.clientWidth) < 2 && one._fullLayout.font.size"
        " === parseFloat(getComputedStyle(document.documentElement).fontSize))"
    )
    one = watch()
    visit(one, PAGE)
    one.wait(fits)
    for _ in one.sized((900, 700)):
        one.wait(fits)
    one.press("p")
    one.wait(fits)
    one.page.get_by_role("navigation", name="ZeRO stage").get_by_text("ZeRO-3").click()
    one.wait(CHOSEN)
    one.wait(f"document.querySelectorAll('.main-svg').length >= 6 && {fits}")


def test_a_model_of_one_s_own_is_pasted_or_chosen_as_a_file(watch, tmp_path):
    one = watch()
    visit(one, PAGE)
    one.ask("() => { window.stays = true; }")
    one.page.locator(".own summary").click()
    one.page.locator("#own-config").fill(json.dumps(OWN))
    one.page.get_by_role("button", name="Plan with it").click()
    one.expect("#headline").to_contain_text("config.json on 16 GPUs")
    one.expect(".planned").to_contain_text("llama, 8 layers of width 512")
    one.page.get_by_role("navigation", name="ZeRO stage").get_by_text("ZeRO-3").click()
    one.wait(CHOSEN)
    one.expect("#headline").to_contain_text("config.json on 16 GPUs")
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**OWN, "num_hidden_layers": 4}), encoding="utf-8")
    one.page.locator(".own summary").click()
    with one.page.expect_file_chooser() as chosen:
        one.page.get_by_role("button", name="Choose a file").click()
    chosen.value.set_files(path)
    one.expect(".planned").to_contain_text("llama, 4 layers of width 512")
    path.write_text('{"model_type": "bert"}', encoding="utf-8")
    one.page.locator(".own summary").click()
    with one.page.expect_file_chooser() as chosen:
        one.page.get_by_role("button", name="Choose a file").click()
    chosen.value.set_files(path)
    one.expect("[role=alert]").to_contain_text("model_type is 'bert': expected one of llama")
    eventually(lambda: one.page.evaluate("() => window.stays"))


def test_two_layouts_are_compared(watch):
    one = watch()
    visit(one, PAGE)
    compared = one.page.get_by_role("navigation", name="Compare with")
    compared.get_by_text("pipeline parallel").click()
    one.expect("#compared").to_contain_text("takes")
    one.expect(".compared thead").to_contain_text("difference")
    one.wait("document.querySelector('#peaks .js-plotly-plot')?.data[0].x.length === 2")
    assert violations(one.page) == []
    for width, _ in one.sized((390, 900)):
        eventually(lambda: one.page.evaluate("() => document.documentElement.scrollWidth") <= width)
        assert violations(one.page) == []
    one.page.get_by_role("link", name="stop comparing").first.click()
    one.expect(".compared").to_have_count(0)


def test_without_a_script_numbers_and_links_are_there(watch):
    one = watch(java_script_enabled=False)
    one.page.goto(one.address + PAGE)
    one.expect("#headline").to_contain_text("gpt-2 on 16 GPUs")
    one.page.get_by_role("navigation", name="ZeRO stage").get_by_text("ZeRO-2").click()
    one.expect("#headline").to_contain_text("ZeRO-2")
    one.page.locator(".own summary").click()
    one.page.locator("#own-config").fill(json.dumps({**OWN, "id2label": {}}))
    one.page.get_by_role("button", name="Plan with it").click()
    one.expect("#headline").to_contain_text("config.json on 16 GPUs")
    one.complaints[:] = [said for said in one.complaints if not said.endswith(".js: csp")]


def test_from_page_to_page(watch):
    one = watch(reduced_motion="reduce")
    one.open("/replay?trace=stage-2#at=9")
    one.page.get_by_role("link", name="Plan").click()
    one.wait("location.pathname === '/plan'")
    one.wait(DRAWN)
    eventually(lambda: one.text("#headline"))
