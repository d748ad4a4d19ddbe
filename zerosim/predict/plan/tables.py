"""A plan as tables, for figures, pages and terminals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zerosim.base.config.shapes import parameters_of, shape_of
from zerosim.base.language import term
from zerosim.base.quantities import format_exact
from zerosim.base.tables import Cell, Column, Evidence, Table
from zerosim.predict.plan.layout_names import name_of, words_of
from zerosim.predict.plan.predict import PredictedLayout
from zerosim.predict.plan.schedule import TimeCategory
from zerosim.predict.plan.strong_scaling import Point
from zerosim.predict.plan.wording import WORDS
from zerosim.theory.operators import Computing
from zerosim.theory.saved import ALL, block_bytes
from zerosim.theory.transformer import kinds_of, pieces

_PREDICTED = Evidence.PREDICTED


def layouts_table(predicted: Iterable[PredictedLayout], title: str) -> Table:
    """The layouts, in order."""
    names = ("peak_bytes", "fits", "step_s", "tokens_per_day", "mfu", "limit")
    columns = [Column("layout"), Column("tensor x pipeline x data"), Column("micro-batch x steps")]
    columns += [Column(name, _PREDICTED) for name in names]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *words_of(one.layout),
            one.peak_bytes,
            one.fits,
            one.step_s,
            one.tokens_per_day,
            one.mfu,
            one.limit,
        )
        for one in predicted
    )
    return Table(title, tuple(columns), rows)


def model_table(name: str) -> Table:
    """A model's structure: parameters, forward FLOPs per token, bytes kept per token.

    The numbers are for the model's own context, in bf16, without recomputation.

    Raises:
        ConfigError: there is no such model.
    """
    shape = shape_of(name)
    names = ("times", "parameters", "active", "mflop_a_token", "kept_bytes_a_token")
    computing = Computing(shape, 1, shape.context)
    rows: list[tuple[Cell, ...]] = []
    together = 0.0
    for one in pieces(shape):
        block = kinds_of(shape).get(one.name)
        flops = sum(each.calls * each.flops for each in computing.forward(one.name))
        kept = block_bytes(computing, ALL, one.name) // shape.context if block else None
        active = one.elements if block is None else block.active_elements
        each = (one.elements, active, flops / shape.context / 1e6, kept)
        rows.append((one.name, one.times, *each))
        together += one.times * flops / shape.context / 1e6
    total = (parameters_of(shape), parameters_of(shape, active=True))
    rows.append(("together", 1, *total, together, None))
    notes = tuple(f"not counted: {left}" for left in getattr(shape, "left_out", ()))
    title = f"{name}: parts of the model at {format_exact(shape.context)} tokens, by theory"
    return Table(title, (Column("part"), *map(Column, names)), tuple(rows), notes)


def memory_table(predicted: PredictedLayout) -> Table:
    """The parts of a rank's peak, each with its formula and its source."""
    columns = (
        Column("part"),
        Column("bytes", _PREDICTED),
        Column("role"),
        Column("formula"),
        Column("source"),
    )
    rows = tuple(
        (part.name, part.bytes, part.role and part.role.value, part.formula, part.source)
        for part in predicted.footprint.parts
    )
    found = predicted.footprint
    place = WORDS("peak.place", place=term(found.place)) if found.place else ""
    title = WORDS("peak.title", moment=term(found.moment), place=place)
    return Table(title, columns, rows)


def memories_table(predicted: Sequence[tuple[str, PredictedLayout]], title: str) -> Table:
    """The parts of several peaks, one after another."""
    columns = (Column("layout"), Column("part"), Column("bytes", _PREDICTED), Column("role"))
    rows = tuple(
        (name, part.name, part.bytes, part.role and part.role.value)
        for name, one in predicted
        for part in one.footprint.parts
    )
    return Table(title, columns, rows)


def times_table(predicted: Sequence[tuple[str, PredictedLayout]], title: str) -> Table:
    """The time of one step, by cause."""
    columns = (Column("layout"), Column("cause"), Column("seconds", _PREDICTED))
    rows = tuple(
        (name, cause.value, one.times[cause] / 1e9)
        for name, one in predicted
        for cause in TimeCategory
        if one.times.get(cause)
    )
    return Table(title, columns, rows)


def scaling_table(curves: Sequence[tuple[str, Sequence[Point]]], title: str) -> Table:
    """Layouts by number of GPUs."""
    named = ("layout", "gpus", "tokens_per_gpu")
    names = ("tokens_per_second_per_gpu", "mfu", "hiding_tokens", "hides", "fits")
    columns = (*map(Column, named), *(Column(name, _PREDICTED) for name in names))
    rows = tuple(
        (
            name,
            point.gpus,
            point.tokens_per_gpu,
            point.predicted.tokens_per_second / point.gpus,
            point.predicted.mfu,
            point.hiding_tokens,
            point.hides,
            point.predicted.fits,
        )
        for name, points in curves
        for point in points
    )
    return Table(title, columns, rows)


def grid_table(predicted: Iterable[PredictedLayout], title: str) -> Table:
    """The first layout that fits, for each grid of tensor x pipeline parallel ranks.

    This is the fastest, or the fastest measured one if a search puts these first. For a grid in
    which nothing fits, the table has the smallest peak and no number of tokens.
    """
    best: dict[tuple[int, int], PredictedLayout] = {}
    for one in predicted:
        best.setdefault((one.layout.cut.tensor, one.layout.pipeline), one)
    names = ("tokens_per_second_per_gpu", "mfu", "peak_bytes")
    columns = (
        Column("tensor"),
        Column("pipeline"),
        *(Column(name, _PREDICTED) for name in names),
        Column("layout"),
    )
    rows = tuple(
        (
            tensor,
            pipeline,
            one.tokens_per_second / one.layout.num_ranks if one.fits else None,
            one.mfu if one.fits else None,
            one.peak_bytes,
            name_of(one.layout),
        )
        for (tensor, pipeline), one in sorted(best.items())
    )
    return Table(title, columns, rows)


def title_of(predicted: PredictedLayout) -> str:
    """The subject of a prediction, in one line."""
    question = predicted.question
    return (
        f"{question.model} on {format_exact(question.gpus)} GPUs of {question.machine.name}, "
        f"{format_exact(question.tokens)} tokens a step"
    )
