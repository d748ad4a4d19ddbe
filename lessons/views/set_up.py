"""Figures of set-up, and of ranks that differ."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said

_WAYS = (
    "made-ddp/stage-0",
    "made-whole/stage-3",
    "made-fsdp2/stage-3",
    "made-late/stage-3",
    "made-fsdp2-late/stage-3",
)


def set_ups(facts: Facts, *runs: str) -> Bars:
    """Peak allocations of a rank before the first step: persistent and temporary ones."""
    bars = []
    for run in runs or _WAYS:
        stays, peak = facts.set_up_left(run), facts.set_up_peak(run)
        parts = (
            BarPart("there when training begins", facts.in_models(min(stays, peak), run)),
            BarPart("only while it is set up", facts.in_models(max(0, peak - stays), run)),
        )
        bars.append(Bar(facts.title(run), parts))
    return Bars(said("set_ups.title"), said("set_ups.unit"), tuple(bars))


def set_up_calls(facts: Facts, *runs: str) -> FigureTable:
    """Communication of the ranks before the first step, in models."""
    rows = tuple(
        (
            facts.title(run),
            f"{facts.set_up_calls(run):,}",
            f"{facts.in_models(facts.set_up_payload(run, 'broadcast'), run):.2f}",
            f"{facts.in_models(facts.set_up_payload(run, 'all-gather'), run):.2f}",
        )
        for run in runs or _WAYS
    )
    return FigureTable(said("set_up_calls.title"), ("", *each("set_up_calls.columns")), rows)


def by_rank(facts: Facts, *runs: str) -> Bars:
    """The model states of each rank at the start of the update, and the law of the mean."""
    bars = []
    for run in runs:
        for rank, held in enumerate(facts.held_by_rank(run)):
            part = BarPart(f"rank {rank}", held / facts.psi(run))
            label = said("by_rank.bar", run=facts.title(run), rank=rank)
            bars.append(Bar(label, (part,), facts.law_held(run) / facts.psi(run)))
    return Bars(said("by_rank.title"), said("by_rank.unit"), tuple(bars), "16Ψ/N")


def sent_by_rank(facts: Facts, *runs: str) -> FigureTable:
    """Traffic of each rank in a step, and in the calls for one unit."""
    rows = []
    for run in runs:
        for what, sizes in (
            ("sent_by_rank.in_all", facts.sent_by_rank(run)),
            ("sent_by_rank.of_unit", facts.sent_by_rank(run, unit="blocks.2")),
        ):
            mean = sum(sizes) / len(sizes)
            rows.append(
                (
                    said(what, run=facts.title(run), unit="blocks.2"),
                    *(f"{one:,}" for one in sizes),
                    f"{mean:,.0f}",
                )
            )
    count = facts.num_ranks(runs[0])
    first, last = each("sent_by_rank.columns")
    columns = (first, *(f"rank {rank}" for rank in range(count)), last)
    return FigureTable(said("sent_by_rank.title"), columns, tuple(rows))
