"""From a law to what is sent, cause by cause. Imports plotly, zerosim's L0 and the theme."""

from __future__ import annotations

from itertools import accumulate

from plotly import graph_objects as go

from zerosim.events import Phase
from zerosim.plots.theme import CARD, MUTED, OUTCOMES, PHASES, figure, wrapped
from zerosim.quantities import format_bytes
from zerosim.tables import Table

_HALF = 0.4
"""Of a bar's width, where bars are 1 apart."""
_LINE_OF_A_NAME = 12
"""Characters, so that six names stand beside each other."""
_HEADROOM = 1.12
"""Above the highest bar, for its number."""


def waterfall(table: Table) -> go.Figure:
    """What makes the number of a law the number on the wire.

    Args:
        table: of columns `cause`, `bytes` and `outcome`; its first row is the law itself.
    """
    drawn = figure(table.title, "", "bytes sent")
    levels = list(accumulate(table["bytes"]))
    heights = [*table["bytes"], *levels[-1:]]
    bases = [0, *levels[:-1], 0]
    looks = [OUTCOMES.get(outcome, (PHASES[Phase.FORWARD], "")) for outcome in table["outcome"]]
    looks.append((PHASES[Phase.FORWARD], ""))
    names = [*table["cause"], "sent"][: len(heights)]
    signs = ["", *["+ " if height > 0 else "" for height in heights[1:-1]], ""]
    drawn.add_bar(
        x=list(range(len(names))),
        y=heights,
        base=bases,
        width=2 * _HALF,
        marker={
            "color": [colour for colour, _ in looks],
            "line": {"color": [colour for colour, _ in looks], "width": 2},
            "pattern": {"shape": [pattern for _, pattern in looks], "fgcolor": CARD},
        },
        text=[f"{sign}{format_bytes(one)}" for sign, one in zip(signs, heights, strict=False)],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y:,} B<extra></extra>",
    )
    for number, level in enumerate(levels):
        drawn.add_shape(
            type="line",
            x0=number + _HALF,
            x1=number + 1 - _HALF,
            y0=level,
            y1=level,
            line={"color": MUTED, "dash": "dot"},
        )
    drawn.update_xaxes(
        tickvals=list(range(len(names))),
        ticktext=[wrapped(name, _LINE_OF_A_NAME) for name in names],
        tickangle=0,
        showgrid=False,
    )
    drawn.update_yaxes(range=[0, _HEADROOM * max([1, *levels])], showticklabels=False, title="")
    return drawn
