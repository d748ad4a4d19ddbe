"""The laws: bytes sent by a rank over the number of ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from plotly import graph_objects as go

from zerosim.base.tables import Table
from zerosim.schema.events import Phase
from zerosim.view.plots.theme import CARD, MUTED, PHASES, WORDS, figure, plain

Row = dict[str, Any]

_TOP = 1.1
"""The axis ends at this multiple of the highest curve."""
_APART = 0.08
"""Curves whose ends are closer than this fraction of the height share a label."""


def laws(table: Table) -> go.Figure:
    """The curves of some laws, and the run as a point among them.

    Args:
        table: of columns `curve`, `kind` ("own", "other" or "run"), `ranks` and `sent_psi`.
    """
    drawn = figure(table.title, WORDS("laws.ranks_n"), "\N{GREEK CAPITAL LETTER PSI}")
    above = {"x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"}  # no curve reaches there
    drawn.update_layout(legend=above)
    top = _TOP * max(table["sent_psi"], default=1)
    ends = []
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
        ends.append(end)
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
    longest = 0
    for group in _together(ends, _APART * top):
        names = ", ".join(plain(one["curve"]) for one in group)
        drawn.add_annotation(
            x=math.log10(group[0]["ranks"]),
            y=sum(one["sent_psi"] for one in group) / len(group),
            text=f"<b>{names}</b>" if group[0]["kind"] == "own" else names,
            xanchor="left",
            showarrow=False,
        )
        longest = max(longest, len(names))
    drawn.update_layout(margin={"r": 20 + 8 * longest})
    most = max(table["ranks"], default=2)
    powers = [2**power for power in range(math.ceil(math.log2(most)) + 1)]
    drawn.update_xaxes(type="log", tickvals=powers, range=[-0.05, math.log10(most)])
    drawn.update_yaxes(range=[0, top], tickformat="", ticksuffix="")
    return drawn


def _together(ends: Iterable[Row], apart: float) -> list[list[Row]]:
    """The curves that have one label: their ends lie closer to each other than lines of text."""
    groups: list[list[Row]] = []
    for end in sorted(ends, key=lambda one: float(one["sent_psi"])):
        last = groups[-1][-1] if groups else None
        is_near = last is not None and end["sent_psi"] - groups[-1][0]["sent_psi"] < apart
        if last is not None and is_near and "own" not in (end["kind"], last["kind"]):
            groups[-1].append(end)
        else:
            groups.append([end])
    return groups
