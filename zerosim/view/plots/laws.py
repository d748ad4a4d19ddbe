"""The laws: bytes sent by a rank over the number of ranks."""

from __future__ import annotations

import math

from plotly import graph_objects as go

from zerosim.base.tables import Table
from zerosim.schema.events import Phase
from zerosim.view.plots.theme import CARD, MUTED, PHASES, WORDS, figure, plain

_TOP = 1.1
"""Above the highest curve."""


def laws(table: Table) -> go.Figure:
    """The curves of some laws, and the run as a point among them.

    Args:
        table: of columns `curve`, `kind` ("own", "other" or "run"), `ranks` and `sent_psi`.
    """
    drawn = figure(table.title, WORDS("laws.ranks_n"), "\N{GREEK CAPITAL LETTER PSI}")
    below = {"x": 1, "xanchor": "right", "y": 0.02, "yanchor": "bottom"}  # no curve is there
    drawn.update_layout(legend=below, margin={"r": 50})
    own = PHASES[Phase.FORWARD]
    for name in dict.fromkeys(table["curve"]):
        rows = [row for row in table if row["curve"] == name]
        end = rows[-1]
        if end["kind"] == "run":
            drawn.add_scatter(
                x=[end["ranks"]],
                y=[end["sent_psi"]],
                mode="markers",
                marker={"size": 14, "color": own, "line": {"color": CARD, "width": 2}},
                name=plain(name),
                showlegend=True,
                cliponaxis=False,
                hovertemplate="N = %{x}: %{y:.3f} \N{GREEK CAPITAL LETTER PSI}<extra></extra>",
            )
            continue
        is_own = end["kind"] == "own"
        drawn.add_scatter(
            x=[row["ranks"] for row in rows],
            y=[row["sent_psi"] for row in rows],
            mode="lines",
            name=plain(name),
            showlegend=False,
            line={"color": own, "width": 3} if is_own else {"color": MUTED, "dash": "dash"},
            hovertemplate="N = %{x}: %{y:.3f} \N{GREEK CAPITAL LETTER PSI}<extra></extra>",
        )
        drawn.add_annotation(
            x=math.log10(end["ranks"]),
            y=end["sent_psi"],
            text=f"<b>{plain(name)}</b>" if is_own else plain(name),
            xanchor="left",
            showarrow=False,
        )
    most = max(table["ranks"], default=2)
    powers = [2**power for power in range(math.ceil(math.log2(most)) + 1)]
    drawn.update_xaxes(type="log", tickvals=powers, range=[-0.05, math.log10(most)])
    top = _TOP * max(table["sent_psi"], default=1)
    drawn.update_yaxes(range=[0, top], tickformat="", ticksuffix="")
    return drawn
