"""Memory over time, by role."""

from __future__ import annotations

from plotly import graph_objects as go

from zerosim.base.language import term
from zerosim.base.tables import Table
from zerosim.schema.memory import Role
from zerosim.view.plots.theme import ROLES, WORDS, figure, time_axis

_NS_A_MS = 1e6


def memory(table: Table) -> go.Figure:
    """Memory of one rank, stacked by role.

    Args:
        table: of columns `time_ns`, `role`, `bytes`.
    """
    drawn = figure(table.title, time_axis(table), term("bytes"))
    held = {(row["time_ns"], row["role"]): row["bytes"] for row in table}
    times = sorted(set(table["time_ns"]))
    for role in Role:
        if role.value not in table["role"]:
            continue
        drawn.add_scatter(
            x=[time / _NS_A_MS for time in times],
            y=[held.get((time, role.value), 0) for time in times],
            name=term(role.value),
            stackgroup="held",
            mode="lines",
            line={"shape": "hv", "width": 0.5, "color": ROLES[role]},
            fillcolor=ROLES[role],
            hovertemplate=WORDS(
                "memory.hover", value="%{y:,}", role=term(role.value), time="%{x:.3f}"
            )
            + "<extra></extra>",
        )
    return drawn
