"""Figures of mixed precision and loss scaling."""

from __future__ import annotations

from zerosim.base.config import DType
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said
from zerosim.schema.memory import MODEL_STATES

_HALVES = (DType.BF16, DType.FP16)
_TIMES = (1, 4, 10, 100, 1000)


def precisions(facts: Facts) -> Bars:
    """Model states with Adam in each precision, by theory, undivided."""
    bars = tuple(
        Bar(
            label,
            tuple(
                BarPart(str(role), facts.bytes_a_parameter(dtype, role)) for role in MODEL_STATES
            ),
        )
        for label, dtype in ((said(f"precisions.{name}"), name) for name in ("fp32", "fp16"))
    )
    return Bars(said("precisions.title"), said("memory.unit"), bars)


def formats(facts: Facts) -> FigureTable:
    """Range and precision of each number format."""
    rows = tuple(
        (
            str(dtype),
            f"1 + {facts.exponent_bits(dtype)} + {facts.fraction_bits(dtype)}",
            f"{1 + facts.spacing(dtype):.8g}",
            f"{facts.largest(dtype):.3g}",
            f"{facts.smallest(dtype):.1e}",
        )
        for dtype in DType
    )
    return FigureTable(said("formats.title"), each("formats.columns"), rows)


def updates(facts: Facts, run: str) -> FigureTable:
    """A weight of one through many updates, in half precision alone and with an fp32 master."""
    update = facts.config(run, "learning_rate")
    rows = []
    for times in _TIMES:
        master = facts.updated(update, times, DType.FP32)
        alone = (f"{facts.updated(update, times, dtype):.7g}" for dtype in _HALVES)
        seen = (f"{facts.rounded(master, dtype):.7g}" for dtype in _HALVES)
        rows.append((f"{times:,}", *alone, f"{master:.7g}", *seen))
    columns = (
        said("updates.updates"),
        *(said("updates.alone", dtype=dtype) for dtype in _HALVES),
        said("updates.master"),
        *(said("updates.rounded", dtype=dtype) for dtype in _HALVES),
    )
    title = said("updates.title", update=f"{update:g}")
    return FigureTable(title, columns, tuple(rows))


def scaling(facts: Facts, run: str) -> FigureTable:
    """Iteration by iteration: the loss, its scale, whether all updated, and the traffic."""
    whole = facts.psi(run) * facts.element_bytes(run)
    rows = []
    for iteration in facts.iterations(run):
        ranks = facts.updating_ranks(run, iteration)
        rows.append(
            (
                str(iteration),
                f"{facts.metric(run, 'loss', iteration):,.3f}",
                f"{facts.scale(run, iteration):,.0f}",
                said("scaling.updating", count=len(ranks), ranks=facts.num_ranks(run)),
                f"{facts.sent_in(run, iteration) / whole:.3f}",
            )
        )
    return FigureTable(said("scaling.title"), each("scaling.columns"), tuple(rows))
