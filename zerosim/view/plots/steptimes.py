"""The parts of a step's time, one bar per layout."""

from __future__ import annotations

from plotly import graph_objects as go

from zerosim.base.language import term
from zerosim.base.tables import Table
from zerosim.schema.events import Phase
from zerosim.view.plots.theme import (
    CARD,
    COMMUNICATION,
    COPYING,
    LINE,
    PHASES,
    WAIT,
    WORDS,
    figure,
    plain,
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
    drawn = figure(table.title, "s")
    names = list(dict.fromkeys(table["layout"]))
    spent = {(row["layout"], row["cause"]): row["seconds"] for row in table}
    for cause in dict.fromkeys(table["cause"]):
        colour, pattern = _LOOKS.get(cause, (LINE, ""))
        drawn.add_bar(
            x=[spent.get((name, cause), 0) for name in names],
            y=names,
            orientation="h",
            name=plain(term(cause)),
            marker={
                "color": colour,
                "line": {"width": 0},
                "pattern": {"shape": pattern, "fgcolor": CARD},
            },
            hovertemplate=WORDS("steptimes.hover", value="%{x:.4f}", what=plain(term(cause)))
            + "<extra></extra>",
        )
    totals = {name: sum(row["seconds"] for row in table if row["layout"] == name) for name in names}
    for name, total in totals.items():
        drawn.add_annotation(
            x=total, y=name, text=f" <b>{_seconds(total)}</b>", xanchor="left", showarrow=False
        )
    drawn.update_layout(barmode="stack", bargap=0.4, legend={"y": -0.2})
    drawn.update_xaxes(range=[0, _ROOM * max(totals.values(), default=1)])
    drawn.update_yaxes(autorange="reversed", tickformat="", showgrid=False)
    return drawn
