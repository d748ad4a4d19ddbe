"""The parts of a step's time, one bar per layout."""

from __future__ import annotations

from plotly import graph_objects as go

from zerosim.base.language import term
from zerosim.base.tables import Table
from zerosim.schema.events import Phase
from zerosim.view.plots.theme import (
    COMMUNICATION,
    COPYING,
    LINE,
    PHASES,
    WAIT,
    WORDS,
    PlainFigure,
    plain,
    plain_figure,
)

_LOOKS = {
    "computing": (PHASES[Phase.FORWARD], ""),
    "computing again": (PHASES[Phase.BACKWARD], "\\"),
    "updating": (PHASES[Phase.UPDATE], ""),
    "waiting: within the node": (COMMUNICATION[Phase.FORWARD], "/"),
    "waiting: between nodes": (COMMUNICATION[Phase.UPDATE], "x"),
    "waiting: device and host": (COPYING, "\\"),
    "waiting: disk": (COPYING, "x"),
    "pipeline bubble": (WAIT, "."),
}
_ROOM = 1.25
_MANY_S = 100


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= _MANY_S else f"{value:,.3g} s"


def step_times(table: Table) -> go.Figure:
    """Seconds of one step by cause, as horizontal bars.

    Args:
        table: of columns `layout`, `cause`, `seconds`.
    """
    return plain_step_times(table).objects()


def plain_step_times(table: Table) -> PlainFigure:
    """The same for a page."""
    drawn = plain_figure(table.title, "s")
    names = list(dict.fromkeys(table["layout"]))
    spent = {(row["layout"], row["cause"]): row["seconds"] for row in table}
    for cause in dict.fromkeys(table["cause"]):
        colour, pattern = _LOOKS.get(cause, (LINE, ""))
        drawn.bar(
            colour,
            pattern,
            x=[spent.get((name, cause), 0) for name in names],
            y=names,
            orientation="h",
            name=plain(term(cause)),
            hovertemplate=WORDS("steptimes.hover", value="%{x:.4f}", what=plain(term(cause)))
            + "<extra></extra>",
        )
    totals = {name: sum(row["seconds"] for row in table if row["layout"] == name) for name in names}
    for name, total in totals.items():
        drawn.label(f" <b>{_seconds(total)}</b>", x=total, y=name, xanchor="left")
    drawn.layout.update(barmode="stack", bargap=0.4)
    drawn.layout["xaxis"].update(range=[0, _ROOM * max(totals.values(), default=1)])
    drawn.layout["yaxis"].update(autorange="reversed", tickformat="", showgrid=False)
    return drawn
