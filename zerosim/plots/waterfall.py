"""From a law to what is sent, cause by cause. Imports plotly, zerosim's L0 and the theme."""

from __future__ import annotations

from plotly import graph_objects as go

from zerosim.plots.theme import MUTED, PATH, PHASES, figure
from zerosim.tables import Table


def waterfall(table: Table) -> go.Figure:
    """What makes the number of a law the number on the wire.

    Args:
        table: of columns `cause` and `bytes`; its first row is the law itself.
    """
    drawn = figure(table.title, "", "bytes sent")
    causes = [*table["cause"], "sent"]
    size = sum(table["bytes"])
    drawn.add_waterfall(
        x=causes,
        y=[*table["bytes"], size],
        measure=["absolute", *["relative"] * (len(table) - 1), "total"],
        text=[f"{height:,.0f} B" for height in table["bytes"]] + [f"{size:,.0f} B"],
        textposition="outside",
        connector={"line": {"color": MUTED}},
        increasing={"marker": {"color": next(iter(PHASES.values()))}},
        decreasing={"marker": {"color": MUTED}},
        totals={"marker": {"color": PATH}},
        hovertemplate="%{x}: %{delta:,} B<extra></extra>",
    )
    return drawn
