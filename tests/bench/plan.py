"""What a plan takes: trying all layouts, and showing a changed control of the Plan page.

Of a changed control the processor time of both sides counts, the server's answer and the browser's
main thread (script, styles, layout, paint), so that other programs' work does not: until the answer
is painted, and until all is drawn. Charts out of the window are drawn after what is seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

from plotly.utils import PlotlyJSONEncoder as AsDash

from tests.bench.serving import serving
from zerosim.dashboards.callbacks.plan import PlanPage
from zerosim.dashboards.page import DashParts
from zerosim.dashboards.pages.plan import PATH
from zerosim.dashboards.server import settle
from zerosim.predict.plan import ask, make_plan
from zerosim.view.export.browser import launched

PLANS = (
    ("llama-3-8b", 64, "dgx-h100", 4_000_000),
    ("gpt-3", 384, "dgx-a100", 3_000_000),
    ("llama-3-405b", 1024, "dgx-h100", 16_000_000),
)
CHANGES = (
    ("ZeRO stage", "ZeRO-3"),
    ("Micro-batch size", "2"),
    ("Tensor parallel", "2"),
    ("Tensor parallel", "any"),
    ("Activation checkpointing", "full"),
    ("Activation checkpointing", "any"),
    ("GPUs", "256"),
    ("Variant of ZeRO", "ZeRO++"),
    ("Tokens per step", "16M"),
    ("GPU and machine", "dgx-a100"),
    ("Model", "llama-3-70b"),
)
"""One after the other, from the page's usual address: a control, and what is chosen of it."""
GOAL_MS = 300
SETTLED_MS, LOOKS_EVERY_MS, LEAST_S = 12.0, 400, 3.0
"""A page is done when between two looks it has hardly computed, after a while on a busy machine."""
_DRAWN = (
    "() => document.querySelectorAll('#react-entry-point:not([hidden]) .main-svg').length >= 6"
    " && !document.getElementById('written')"
)


def table() -> list[str]:
    """The report's part."""
    return [
        "## Plans",
        "",
        "CPU seconds of one process, in which all layouts of a plan are evaluated and sorted.",
        "",
        "| plan | layouts | s |",
        "| --- | --- | --- |",
        *_plans(),
        "",
        (
            "The controls of the Plan page are changed one after another. The table gives "
            "milliseconds of processor time: of the server's answer, of the browser's main thread "
            "until the answer is painted, of both in total, and of the browser until the charts "
            "below the window are drawn as well."
        ),
        "",
        f"| control | chosen | server | browser | total | below {GOAL_MS} | browser, all |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: |",
        *_page(),
    ]


def _plans() -> Iterator[str]:
    for model, gpus, machine, tokens in PLANS:
        question = ask(model, gpus, machine, tokens)
        seconds, plan = _timed(lambda question=question: make_plan(question))
        yield f"| {model}, {gpus} GPUs of {machine} | {len(plan.tried):,} | {seconds:.2f} |"


def _page() -> Iterator[str]:
    with TemporaryDirectory() as folder, launched() as browser, serving(folder) as address:
        page = browser.new_context(viewport={"width": 1920, "height": 1080}).new_page()
        page.goto(f"{address}{PATH}")
        while not page.evaluate(_DRAWN):
            page.wait_for_timeout(LOOKS_EVERY_MS)
        shown = list(_walk(page))
    server = PlanPage(lambda: DashParts("", ""))
    server.follow("")  # imports, and what is made once
    settle()  # as a server does
    for (control, chosen), (search, seen_ms, all_ms) in zip(CHANGES, shown, strict=True):
        seconds, _ = _timed(lambda search=search: json.dumps(server.follow(search), cls=AsDash))
        both = 1000 * seconds + seen_ms
        cells = [control, chosen, *(f"{one:.0f}" for one in (1000 * seconds, seen_ms, both))]
        cells += ["yes" if both < GOAL_MS else "**no**", f"{all_ms:.0f}"]
        yield f"| {' | '.join(cells)} |"


def _walk(page: Any) -> Iterator[tuple[str, float, float]]:
    """Where each choice leads, and what it takes the browser, ms: until it is seen, and in all."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    _settle(page, session)
    for control, chosen in CHANGES:
        page.evaluate(_NEXT)
        before = _tasks_ms(session)
        choices = page.get_by_role("navigation", name=control, exact=True)
        choices.get_by_text(chosen, exact=True).click()
        page.evaluate("() => window.painted")
        seen = _tasks_ms(session) - before
        yield page.evaluate("() => location.search"), seen, _settle(page, session) - before


_NEXT = """() => {
    window.painted = new Promise((done) => {
        const before = document.querySelector("#planner").textContent;
        const watch = new MutationObserver(() => {
            if (document.querySelector("#planner").textContent !== before) {
                watch.disconnect();
                requestAnimationFrame(() => setTimeout(done));
            }
        });
        watch.observe(document.body, { childList: true, subtree: true, characterData: true });
    });
}"""


def _settle(page: Any, session: Any) -> float:
    """Wait until the main thread has nothing to do; what it took until now."""
    before, since = float("-inf"), time.monotonic()
    while (now := _tasks_ms(session)) - before > SETTLED_MS or time.monotonic() - since < LEAST_S:
        before = now
        page.wait_for_timeout(LOOKS_EVERY_MS)
    return now


def _tasks_ms(session: Any) -> float:
    found = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(float(one["value"]) for one in found if one["name"] == "TaskDuration")


def _timed(what: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    found = what()
    return time.process_time() - begin, found
