"""Figures of mixed precision and loss scaling. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from zerosim.config import DType
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part
from zerosim.memory import MODEL_STATES
from zerosim.quantities import PSI

_HALVES = (DType.BF16, DType.FP16)
_TIMES = (1, 4, 10, 100, 1000)


def precisions(facts: Facts) -> Bars:
    """Model states with Adam in each precision, by theory, undivided."""
    bars = tuple(
        Bar(
            label,
            tuple(Part(str(role), facts.bytes_a_parameter(dtype, role)) for role in MODEL_STATES),
        )
        for label, dtype in (("fp32 throughout", "fp32"), ("fp16, mixed", "fp16"))
    )
    return Bars("Model states with Adam on a single rank, by theory", "bytes a parameter", bars)


def formats(facts: Facts) -> FigureTable:
    """What each number format can hold."""
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
    columns = ("", "sign + exponent + fraction", "next after 1", "largest", "smallest above 0")
    return FigureTable("Bits of a number, and what they hold, by definition", columns, rows)


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
        "updates",
        *(f"{dtype} alone" for dtype in _HALVES),
        "fp32 master",
        *(f"rounded to {dtype}" for dtype in _HALVES),
    )
    title = f"A weight of 1 after updates of {update:g}, rounded as the formats round"
    return FigureTable(title, columns, tuple(rows))


def scaling(facts: Facts, run: str) -> FigureTable:
    """Iteration by iteration: the loss, its scale, whether all updated, and what was sent."""
    whole = facts.psi(run) * facts.element_bytes(run)
    rows = []
    for iteration in facts.iterations(run):
        ranks = facts.updating_ranks(run, iteration)
        rows.append(
            (
                str(iteration),
                f"{facts.metric(run, 'loss', iteration):,.3f}",
                f"{facts.scale(run, iteration):,.0f}",
                f"{len(ranks)} of {facts.num_ranks(run)}",
                f"{facts.sent_in(run, iteration) / whole:.3f}",
            )
        )
    columns = ("iteration", "loss", "loss scale", "ranks that update", f"rank 0 sends, {PSI}")
    title = "Losses and scales as the program reported them, updates and messages as traced"
    return FigureTable(title, columns, tuple(rows))
