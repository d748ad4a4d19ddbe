"""The idle time of a pipeline's ranks, predicted and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from zerosim.base.quantities import format_decimal
from zerosim.record import Trace
from zerosim.schema.events import Kind, Phase
from zerosim.theory.programs import Bubble, Plan
from zerosim.verify.report import Verdict
from zerosim.verify.wording import said


def bubble_verdicts(trace: Trace, plans: Sequence[Plan], iteration: int) -> Iterator[Verdict]:
    """The theoretical bubble of a pipeline and the idle time of this run, for information only."""
    for plan in plans:
        if plan.bubble is not None:
            idle = _idle(trace, plan.ranks, iteration)
            measured = said("bubble.unrecorded")
            if idle is not None:
                percent = format_decimal(100 * idle, 1)
                measured = said("bubble.idle", percent=percent, iteration=iteration)
            yield Verdict(
                id="bubble",
                title=said("bubble.title"),
                formula=_formula(plan.bubble),
                holds=None,
                measured=measured,
            )


def _formula(bubble: Bubble) -> str:
    p, m, v = bubble.num_ranks, bubble.num_microbatches, bubble.stages_a_rank
    work = f"({v} x {m})" if v > 1 else f"{m}"
    return said(
        "bubble.formula",
        formula=f"(p-1)/{'(v m)' if v > 1 else 'm'} = {p - 1}/{work}",
        ideal=format_decimal(100 * bubble.of_ideal, 1),
        total=format_decimal(100 * bubble.of_total, 1),
    )


def _idle(trace: Trace, ranks: Sequence[int], iteration: int) -> Fraction | None:
    """The fraction of the time from first to last computation in which a rank does not compute."""
    spans = {
        rank.rank: sorted(
            (event.start_ns, event.end_ns)
            for event in rank.events
            if event.kind is Kind.COMPUTE
            and event.iteration == iteration
            and event.phase in (Phase.FORWARD, Phase.BACKWARD)
            and event.start_ns is not None
            and event.end_ns is not None
        )
        for rank in trace.ranks
        if rank.rank in ranks
    }
    if not spans or not all(spans.values()):
        return None
    if len({rank.header.host for rank in trace.ranks}) > 1:
        return None
    begin = min(start for mine in spans.values() for start, _ in mine)
    total = max(end for mine in spans.values() for _, end in mine) - begin
    busy = sum(_covered(mine) for mine in spans.values())
    return 1 - Fraction(busy, total * len(spans)) if total else None


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    covered = until = 0
    for start, end in spans:
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered
