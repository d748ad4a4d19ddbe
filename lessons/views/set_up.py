"""Figures of set-up, and of ranks that differ. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part

_WAYS = (
    "made-ddp/stage-0",
    "made-whole/stage-3",
    "made-fsdp2/stage-3",
    "made-late/stage-3",
    "made-fsdp2-late/stage-3",
)


def set_ups(facts: Facts, *runs: str) -> Bars:
    """What a rank has allocated at most before the first step: what stays, and what goes again."""
    bars = []
    for run in runs or _WAYS:
        stays, peak = facts.set_up_left(run), facts.set_up_peak(run)
        parts = (
            Part("there when training begins", facts.in_models(min(stays, peak), run)),
            Part("only while it is set up", facts.in_models(max(0, peak - stays), run)),
        )
        bars.append(Bar(facts.title(run), parts))
    title = "The most that PyTorch had allocated on rank 0 before the first step, measured"
    return Bars(title, "models in fp32", tuple(bars))


def set_up_calls(facts: Facts, *runs: str) -> FigureTable:
    """What the ranks ask each other for before the first step, in models."""
    rows = tuple(
        (
            facts.title(run),
            f"{facts.set_up_calls(run):,}",
            f"{facts.in_models(facts.set_up_payload(run, 'broadcast'), run):.2f}",
            f"{facts.in_models(facts.set_up_payload(run, 'all-gather'), run):.2f}",
        )
        for run in runs or _WAYS
    )
    columns = ("", "calls", "broadcast, models", "gathered, models")
    return FigureTable("What is called before the first step, traced", columns, rows)


def by_rank(facts: Facts, *runs: str) -> Bars:
    """The model states of each rank when the update begins, and the law of the mean."""
    bars = []
    for run in runs:
        for rank, held in enumerate(facts.held_by_rank(run)):
            part = Part(f"rank {rank}", held / facts.psi(run))
            label = f"{facts.title(run)}, rank {rank}"
            bars.append(Bar(label, (part,), facts.law_held(run) / facts.psi(run)))
    title = "Model states of each rank when the update begins, measured"
    return Bars(title, "bytes a parameter", tuple(bars), "16Ψ/N")


def sent_by_rank(facts: Facts, *runs: str) -> FigureTable:
    """What each rank sends in a step, and in the calls for one unit."""
    rows = []
    for run in runs:
        for what, sizes in (
            ("in all", facts.sent_by_rank(run)),
            ("for blocks.2", facts.sent_by_rank(run, unit="blocks.2")),
        ):
            mean = sum(sizes) / len(sizes)
            rows.append(
                (f"{facts.title(run)}: {what}", *(f"{one:,}" for one in sizes), f"{mean:,.0f}")
            )
    count = facts.num_ranks(runs[0])
    columns = ("bytes", *(f"rank {rank}" for rank in range(count)), "mean")
    return FigureTable("What each rank sends in a step, traced", columns, tuple(rows))
