"""What a plan takes: trying all layouts, and showing a changed control of the page Plan.

Of a changed control the processor time of both sides counts, the server's answer and the browser's
script, so that other programs' work does not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

from plotly.utils import PlotlyJSONEncoder as AsDash

from tests.bench.pages import script_ms
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
SETTLED_MS, LOOKS_EVERY_MS = 12.0, 400
"""A page is done when between two looks it has hardly computed."""
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
            "The controls of the page Plan are changed one after another. The table gives the "
            "processor time in milliseconds of the server's answer, and of the browser's script "
            "until it is idle."
        ),
        "",
        f"| control | chosen | server | browser | together | below {GOAL_MS} |",
        "| --- | --- | ---: | ---: | ---: | --- |",
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
    for (control, chosen), (search, browser_ms) in zip(CHANGES, shown, strict=True):
        seconds, _ = _timed(lambda search=search: json.dumps(server.follow(search), cls=AsDash))
        both = 1000 * seconds + browser_ms
        cells = (control, chosen, f"{1000 * seconds:.0f}", f"{browser_ms:.0f}", f"{both:.0f}")
        yield f"| {' | '.join((*cells, 'yes' if both < GOAL_MS else '**no**'))} |"


def _walk(page: Any) -> Iterator[tuple[str, float]]:
    """Where each choice leads, and what script it takes in the browser, ms of the processor."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    _settle(page, session)
    for control, chosen in CHANGES:
        before = script_ms(session)
        choices = page.get_by_role("navigation", name=control, exact=True)
        with page.expect_response(lambda answer: "_dash-update" in answer.url):
            choices.get_by_text(chosen, exact=True).click()
        yield page.evaluate("() => location.search"), _settle(page, session) - before


def _settle(page: Any, session: Any) -> float:
    """Wait until script has nothing to do; what it took until now."""
    before = float("-inf")
    while (now := script_ms(session)) - before > SETTLED_MS:
        before = now
        page.wait_for_timeout(LOOKS_EVERY_MS)
    return now


def _timed(what: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    found = what()
    return time.process_time() - begin, found
