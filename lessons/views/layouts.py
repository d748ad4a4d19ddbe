"""Figures of layouts on a cluster."""

from __future__ import annotations

from zerosim.base.language import term
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said

_GRIDS = ((8, 1, 32), (8, 8, 4), (4, 4, 16), (1, 16, 16))
_TRIED = ((1, 1), (8, 1), (8, 8), (4, 4), (2, 16), (1, 16), (1, 32))
_AXES = ("tensor", "pipeline", "data")


def axes(facts: Facts) -> FigureTable:
    """Traffic of each axis of a layout, and its bubble, by theory."""
    rows = tuple(
        (
            f"{grid[0]} x {grid[1]} x {grid[2]}",
            *(f"{facts.axis_gb(axis, grid):,.1f}" for axis in _AXES),
            f"{facts.micro_batches_of(grid, 1):,}",
            f"{facts.bubble_of(grid, 1):.1%}",
        )
        for grid in _GRIDS
    )
    return FigureTable(said("axes.title"), each("axes.columns"), rows)


def grids(facts: Facts) -> FigureTable:
    """For each grid the fastest layout that fits, predicted."""
    rows = []
    for tensor, pipeline in _TRIED:
        one = facts.of_grid(tensor, pipeline)
        layout = one.layout
        rows.append(
            (
                f"{tensor} x {pipeline} x {layout.data}",
                f"ZeRO-{layout.config.stage}" if layout.config.stage else term("data parallel"),
                f"{layout.batch} x {layout.micro_batches}",
                said(f"grids.{layout.config.checkpoint_activations}"),
                f"{one.footprint.bytes / 1e9:.1f}",
                f"{one.step_s:.1f}" if one.fits else said("grids.does_not_fit"),
                f"{one.mfu:.0%}" if one.fits else "",
            )
        )
    return FigureTable(said("grids.title"), each("grids.columns"), tuple(rows))


def spans(facts: Facts, *runs: str) -> Bars:
    """Duration of one all-reduce of activations in dry runs, predicted."""
    bars = tuple(
        Bar(facts.title(run), (BarPart("activations", facts.call_ms(run, "activations")),))
        for run in runs
    )
    return Bars(said("spans.title"), "ms", bars)
