"""What a plan takes: trying all layouts, and answering a changed control of the page Plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

from zerosim.dashboards.callbacks.plan import PlanPage
from zerosim.dashboards.page import DashParts
from zerosim.plan import ask, make_plan

PLANS = (
    ("llama-3-8b", 64, "dgx-h100", 4_000_000),
    ("gpt-3", 384, "dgx-a100", 3_000_000),
    ("llama-3-405b", 1024, "dgx-h100", 16_000_000),
)
CHANGES = (
    "gpus=64&tokens=4M",
    "gpus=64&tokens=4M&stage=3",
    "gpus=256&tokens=4M&stage=3",
    "model=llama-3-70b&gpus=512&tokens=16M",
    "model=gpt-2&gpus=8&tokens=1M",
)


def table() -> list[str]:
    """The report's part."""
    return [
        "## Plans",
        "",
        "CPU seconds of one process; all layouts of a plan are tried and put in order.",
        "",
        "| plan | layouts | s |",
        "| --- | --- | --- |",
        *_plans(),
        "",
        "One changed control of the page Plan after another, as the server answers it:",
        "",
        "| address | s |",
        "| --- | --- |",
        *_page(),
    ]


def _plans() -> Iterator[str]:
    for model, gpus, machine, tokens in PLANS:
        question = ask(model, gpus, machine, tokens)
        seconds, plan = _timed(lambda question=question: make_plan(question))
        yield f"| {model}, {gpus} GPUs of {machine} | {len(plan.tried):,} | {seconds:.2f} |"


def _page() -> Iterator[str]:
    page = PlanPage(lambda: DashParts("", ""))
    page.body({})  # imports, and what is made once
    for change in CHANGES:
        seconds, _ = _timed(lambda change=change: page.body(dict(parse_qsl(change))))
        yield f"| {change} | {seconds:.2f} |"


def _timed(what: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    found = what()
    return time.process_time() - begin, found
