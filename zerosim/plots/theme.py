"""How all figures look: the colours of the pages (`dashboards/player/colours.js`), each with one
meaning; what a colour says is said by a pattern or a word as well.

Imports plotly and zerosim's L0.
"""

from __future__ import annotations

import html
import textwrap

from plotly import graph_objects as go

from zerosim.events import Phase
from zerosim.memory import Role

TEXT, MUTED, LINE, CARD = "#1b2430", "#566170", "#d9dee5", "#ffffff"
WAIT, PATH = "#a3acb8", "#1b2430"
PHASES = {
    Phase.FORWARD: "#4572A7",
    Phase.BACKWARD: "#DB8428",
    Phase.UPDATE: "#2A7F50",
    Phase.SETUP: "#7B8593",
    Phase.OUTSIDE: "#7B8593",
}
COMMUNICATION = {
    Phase.FORWARD: "#8594A9",
    Phase.BACKWARD: "#AD6C2F",
    Phase.UPDATE: "#7C9A89",
    Phase.SETUP: "#A3ABB6",
    Phase.OUTSIDE: "#A3ABB6",
}
COPYING = "#2f8f8a"
ROLES = {
    Role.PARAMETERS: "#0072B2",
    Role.GRADIENTS: "#DB8428",
    Role.MASTER: "#76828F",
    Role.MOMENTUM: "#929DA9",
    Role.VARIANCE: "#AFB8C2",
    Role.GATHERED: "#8CC6EC",
    Role.BUFFERS: "#E3CF6B",
    Role.ACTIVATIONS: "#C9B5DF",
    Role.CHECKPOINTS: "#9B7FC0",
    Role.SECONDARY: "#4FA3D1",
    Role.OTHER: "#DCE1E6",
}
OUTCOMES = {
    "as predicted": ("#8AA3BF", ""),
    "differs, every byte explained": ("#C77A1C", "/"),
    "unexplained": ("#C0392B", "x"),
}
"""Colour and pattern of what a difference makes of a law."""
SMALLEST_TEXT_PX = 15


def plain(text: str) -> str:
    """Text for a figure: plotly takes `<b>` and its like for markup, names of a trace are none."""
    return html.escape(text, quote=False)


def wrapped(text: str, width: int) -> str:
    """Text for a figure in lines of about `width` characters."""
    return "<br>".join(map(plain, textwrap.wrap(text, width, break_on_hyphens=False)))


def figure(title: str, x: str = "", y: str = "") -> go.Figure:
    """An empty figure with a title and the names of its axes; what has a height has bytes."""
    axis = {"gridcolor": LINE, "zerolinecolor": LINE, "linecolor": LINE, "automargin": True}
    return go.Figure(
        layout=go.Layout(
            title={"text": plain(title), "x": 0, "xref": "paper"},
            font={"size": SMALLEST_TEXT_PX, "color": TEXT},
            paper_bgcolor=CARD,
            plot_bgcolor=CARD,
            xaxis={**axis, "title": x},
            yaxis={**axis, "title": y, "tickformat": "~s", "ticksuffix": "B" if y else ""},
            legend={"orientation": "h", "y": -0.2, "traceorder": "normal"},
            margin={"t": 60, "r": 20},
            hovermode="closest",
        )
    )
