"""On each page of a simulated run, every time has the word "predicted" beside it."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.browser.conftest import serving
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load, write
from zerosim.schema.manifest import Source

pytestmark = [pytest.mark.browser, pytest.mark.ranks]

UNSAID = r"""() => {
  const time = /\d\s?(ns|µs|ms|s)(?![A-Za-z])/;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const host = node.parentElement;
    if (!time.test(node.textContent)) continue;
    if (host.closest("script, style, select, dialog:not([open])")) continue;
    const around = host.closest("table, section, .card, li, p, main") ?? host;
    const whole = host.closest("section, .card") ?? around;
    if (!whole.textContent.includes("predicted")) found.push(node.textContent.trim());
  }
  return found;
}"""
PAGES = ("replay", "graph", "compare")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A run with waits, as if it had been simulated; and as it was."""
    folder = tmp_path_factory.mktemp("predicted")
    shutil.copytree(COMMITTED / "ring" / "stage-3", folder / "was")
    trace = load(folder / "was")
    manifest = replace(trace.manifest, source=Source.SIMULATED, machine="dgx-h100")
    for name in ("one", "other"):
        write(replace(trace, manifest=manifest), folder / name)
    with serving(folder) as found:
        yield found


def where(page: str, run: str) -> str:
    both = f"trace={run}&trace={'other' if run == 'one' else run}"
    return f"/{page}?{both if page == 'compare' else f'trace={run}&iteration=1'}"


def seen(one, page: str, run: str) -> list[str]:
    """Times without the word, wherever the page goes."""
    one.page.goto(one.address + where(page, run))
    one.ready()
    one.settle()
    found = one.ask(UNSAID)
    if page == "graph":
        for table in ("ranks", "exposed", "waited", "path"):
            one.page.locator(f"[data-table={table}]").click()
            one.expect(f"[data-table={table}][aria-pressed=true]").to_have_count(1)
            found += one.ask(UNSAID)
        one.page.locator("#tables tbody button").last.click()
    elif page == "replay":
        step = one.ask(
            "() => window.__player.model.doc.steps.findIndex(step => step.waits.length > 0)"
        )
        one.page.goto(f"{one.address}{where(page, run)}#at={step + 1}")
        one.wait(f"window.__player.state().position === {step}")
    one.press("t")
    return found + one.ask(UNSAID)


@pytest.mark.parametrize("page", PAGES)
def test_every_time_has_the_word_beside_it(watch, address, page):
    one = watch(address=address)
    assert seen(one, page, "one") == []


def test_a_run_that_was_measured_has_not(watch, address):
    one = watch(address=address)
    assert seen(one, "graph", "was")


def test_a_wait_in_the_magnifier_is_predicted(watch, address):
    """It is drawn, so what the drawing says is asked for."""
    one = watch(address=address)
    one.open(where("replay", "one"))
    said = one.ask("""async () => {
          const { besides } = await import("#player/lens/words.js");
          const { model } = window.__player;
          const at = model.doc.steps.findIndex((step) => step.waits.length > 0);
          return model.doc.ranks.map((_, rank) => besides(model, at, rank, true));
        }""")
    waits = [words for words in said if words.startswith("waits")]
    assert waits
    assert all(words.endswith("predicted") for words in waits)
