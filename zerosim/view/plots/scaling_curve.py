"""Layouts over the number of GPUs, and where communication becomes exposed."""

from __future__ import annotations

import math
from itertools import pairwise

from plotly import graph_objects as go

from zerosim.base.quantities import format_amount
from zerosim.base.tables import Table
from zerosim.view.plots.theme import (
    CARD,
    MUTED,
    OUTCOMES,
    PHASES,
    WORDS,
    PlainFigure,
    plain,
    plain_figure,
)

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
_TOP = 1.25
_CHOSEN = OUTCOMES["differs, every byte explained"][0]


def scaling(table: Table, chosen: str = "") -> go.Figure:
    """Tokens per second of one GPU, for the same tokens per step; hollow if it does not fit.

    Args:
        table: of columns `layout`, `gpus`, `tokens_per_gpu`, `tokens_per_second_per_gpu`,
            `hiding_tokens`, `hides`, `fits`.
        chosen: the layout that is highlighted.
    """
    return plain_scaling(table, chosen).objects()


def plain_scaling(table: Table, chosen: str = "") -> PlainFigure:
    """The same for a page."""
    drawn = plain_figure(table.title, WORDS("scaling.gpus"), WORDS("scaling.rate"))
    colours = tuple(dict.fromkeys(PHASES.values()))
    top = _TOP * max(table["tokens_per_second_per_gpu"], default=1)
    for place, name in enumerate(dict.fromkeys(table["layout"])):
        rows = [row for row in table if row["layout"] == name]
        colour = _CHOSEN if name == chosen else colours[place % 3]
        drawn.scatter(
            x=[row["gpus"] for row in rows],
            y=[row["tokens_per_second_per_gpu"] for row in rows],
            mode="lines+markers",
            name=plain(name),
            line={"color": colour, "width": 4 if name == chosen else 2, "dash": _DASHES[place % 5]},
            marker={
                "size": 10,
                "symbol": _SYMBOLS[place % 5],
                "color": [colour if row["fits"] else CARD for row in rows],
                "line": {"color": colour, "width": 2},
            },
            hovertemplate=WORDS("scaling.hover", gpus="%{x}", tokens="%{y:,.0f}")
            + "<extra></extra>",
        )
    ticks = {row["gpus"]: row["tokens_per_gpu"] for row in table}
    for gpus, words in _stops_hiding(table):
        drawn.shape(
            type="line", x0=gpus, x1=gpus, y0=0, y1=top, line={"color": MUTED, "dash": "dash"}
        )
        drawn.label(words, x=math.log10(gpus), y=top, xanchor="right", yanchor="top")
    drawn.layout["xaxis"].update(
        type="log",
        tickvals=list(ticks),
        ticktext=[f"{gpus}<br>{format_amount(tokens)}" for gpus, tokens in ticks.items()],
    )
    drawn.layout["yaxis"].update(range=[0, top], ticksuffix="")
    drawn.layout["legend"].update(y=-0.32)
    return drawn


def _stops_hiding(table: Table) -> list[tuple[float, str]]:
    """The interval of numbers of GPUs in which a gather becomes exposed, for the first layout."""
    for name in dict.fromkeys(table["layout"]):
        rows = [row for row in table if row["layout"] == name and row["hiding_tokens"]]
        for before, after in pairwise(rows):
            if before["hides"] and not after["hides"]:
                between = math.sqrt(before["gpus"] * after["gpus"])
                tokens = format_amount(after["hiding_tokens"])
                return [(between, WORDS("scaling.stops_hiding", tokens=tokens))]
    return []
