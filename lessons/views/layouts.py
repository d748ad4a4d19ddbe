"""Figures of layouts on a cluster. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part

_GRIDS = ((8, 1, 32), (8, 8, 4), (4, 4, 16), (1, 16, 16))
_TRIED = ((1, 1), (8, 1), (8, 8), (4, 4), (2, 16), (1, 16), (1, 32))
_AXES = ("tensor", "pipeline", "data")


def axes(facts: Facts) -> FigureTable:
    """What each axis of a layout moves, and its bubble, by theory."""
    rows = tuple(
        (
            f"{grid[0]} x {grid[1]} x {grid[2]}",
            *(f"{facts.axis_gb(axis, grid):,.1f}" for axis in _AXES),
            f"{facts.micro_batches_of(grid, 1):,}",
            f"{facts.bubble_of(grid, 1):.1%}",
        )
        for grid in _GRIDS
    )
    columns = (
        "tensor x pipeline x data",
        "tensor, GB",
        "pipeline, GB",
        "data, GB",
        "micro-batches of one sequence",
        "bubble of the total",
    )
    return FigureTable("What a GPU sends in one step for each axis, by theory", columns, rows)


def grids(facts: Facts) -> FigureTable:
    """For each grid the fastest layout that fits, predicted."""
    rows = []
    for tensor, pipeline in _TRIED:
        one = facts.of_grid(tensor, pipeline)
        layout = one.layout
        rows.append(
            (
                f"{tensor} x {pipeline} x {layout.data}",
                f"ZeRO-{layout.config.stage}" if layout.config.stage else "data parallel",
                f"{layout.batch} x {layout.micro_batches}",
                "yes" if layout.config.checkpoint_activations else "no",
                f"{one.footprint.bytes / 1e9:.1f}",
                f"{one.step_s:.1f}" if one.fits else "does not fit",
                f"{one.mfu:.0%}" if one.fits else "",
            )
        )
    columns = (
        "tensor x pipeline x data",
        "stage",
        "micro-batch x micro-batches",
        "computed again",
        "predicted peak, GB",
        "predicted step, s",
        "predicted MFU",
    )
    title = "For each grid the fastest layout that fits, predicted"
    return FigureTable(title, columns, tuple(rows))


def spans(facts: Facts, *runs: str) -> Bars:
    """How long one all-reduce of activations takes in dry runs, predicted."""
    bars = tuple(
        Bar(facts.title(run), (Part("activations", facts.call_ms(run, "activations")),))
        for run in runs
    )
    return Bars("One all-reduce of a block's activations, predicted", "ms", bars)
