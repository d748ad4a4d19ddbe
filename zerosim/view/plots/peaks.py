"""Memory of GPUs at their peaks, stacked below the card's limit."""

from __future__ import annotations

from collections import Counter

from plotly import graph_objects as go

from zerosim.base.language import term
from zerosim.base.quantities import format_bytes
from zerosim.base.tables import Table
from zerosim.schema.memory import Role
from zerosim.view.plots.theme import (
    CARD,
    LINE,
    OUTCOMES,
    ROLES,
    TEXT,
    WORDS,
    PlainFigure,
    plain,
    plain_figure,
)

_PATTERNS: dict[Role | None, str] = {
    Role.GATHERED: "/",
    Role.ACTIVATIONS: ".",
    Role.CHECKPOINTS: "\\",
    Role.SECONDARY: "x",
}
_BESIDE_BARS = 0.75
"""Fraction of a bar's width for the label of the limit."""
_TOP = 1.15
_HALF_BAR = 0.34
_CUT_AT, _CUT_RISES, _CUT = (0.9, 0.94), 0.03, 0.012
"""The two cuts of a shortened bar, as fractions of the axis' height: position, slant, width."""
_MOST_ABOVE = 2.5
"""Maximum height of a complete bar, in multiples of the card."""


def peaks(table: Table, card_bytes: int) -> go.Figure:
    """One bar per layout, its parts by role; parts above the card's limit do not fit.

    Args:
        table: of columns `layout`, `part`, `bytes`, `role`.
        card_bytes: memory of a card.
    """
    return plain_peaks(table, card_bytes).objects()


def plain_peaks(table: Table, card_bytes: int) -> PlainFigure:
    """The same for a page."""
    drawn = plain_figure(table.title, "", term("bytes"))
    names = list(dict.fromkeys(table["layout"]))
    sizes: Counter[tuple[str, str | None]] = Counter()
    for row in table:
        sizes[row["layout"], row["role"]] += row["bytes"]
    totals = [sum(sizes[name, role] for role in (*Role, None)) for name in names]
    for role in (*Role, None):
        heights = [sizes[name, role] for name in names]
        if not any(heights):
            continue
        words = WORDS("peaks.beside") if role is None else term(role.value)
        drawn.bar(
            LINE if role is None else ROLES[role],
            "" if role is None else _PATTERNS.get(role, ""),
            x=names,
            y=heights,
            name=plain(words),
            hovertemplate=WORDS("peaks.hover", value="%{y:,}", what=plain(words))
            + "<extra></extra>",
        )
    top = _TOP * max(card_bytes, min(max(totals, default=0), _MOST_ABOVE * card_bytes))
    bad = OUTCOMES["unexplained"][0]
    drawn.shape(
        type="line",
        xref="paper",
        x0=0,
        x1=1,
        y0=card_bytes,
        y1=card_bytes,
        line={"color": bad, "width": 2, "dash": "dash"},
    )
    drawn.label(
        WORDS("peaks.the_card_br_b_b", card_bytes=format_bytes(card_bytes)),
        xref="paper",
        x=1,
        y=card_bytes,
        xanchor="right",
        yanchor="bottom",
        font={"color": TEXT},
    )
    drawn.layout.update(barmode="stack", bargap=0.35)
    drawn.layout["xaxis"].update(
        range=[-0.5, len(names) - 0.5 + _BESIDE_BARS],
        showgrid=False,
        tickangle=0,
        tickvals=names,
        ticktext=[
            f"{plain(name)}<br><b>{format_bytes(total)}</b>"
            for name, total in zip(names, totals, strict=True)
        ],
    )
    drawn.layout["yaxis"].update(range=[0, top])
    for at, total in enumerate(totals):
        if total > top:
            _break(drawn, at)
    return drawn


def _break(drawn: PlainFigure, at: int) -> None:
    """Draw the cuts of a bar that exceeds the axis; the label below it has its full height."""
    left, right = at - _HALF_BAR, at + _HALF_BAR
    for low in _CUT_AT:
        drawn.shape(
            type="path",
            xref="x",
            yref="y domain",
            path=f"M {left},{low} L {right},{low + _CUT_RISES} L {right},{low + _CUT_RISES + _CUT} "
            f"L {left},{low + _CUT} Z",
            fillcolor=CARD,
            line={"width": 0},
        )
