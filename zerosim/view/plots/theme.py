"""The style of all figures: the colours of the pages (`dashboards/player/colours.js`), each with
one meaning, which a pattern or a word also conveys.
"""

from __future__ import annotations

import html
import textwrap
import unicodedata
from dataclasses import dataclass, field
from typing import Any

from plotly import graph_objects as go

from zerosim.base.language import Words
from zerosim.base.tables import Evidence, Table
from zerosim.schema.events import Phase
from zerosim.schema.memory import Role

TEXT, MUTED, LINE, CARD = "#1b2430", "#566170", "#d9dee5", "#ffffff"
WAIT, PATH = "#a3acb8", "#1b2430"
PHASES = {
    Phase.FORWARD: "#8292AD",
    Phase.BACKWARD: "#566887",
    Phase.UPDATE: "#28344D",
    Phase.SETUP: "#88919D",
    Phase.OUTSIDE: "#88919D",
}
COMMUNICATION = {
    Phase.FORWARD: "#C7CEDA",
    Phase.BACKWARD: "#B3BBC9",
    Phase.UPDATE: "#9EA4AF",
    Phase.SETUP: "#CCD0D5",
    Phase.OUTSIDE: "#CCD0D5",
}
COPYING = "#B08D6E"
ROLES = {
    Role.PARAMETERS: "#2F5D62",
    Role.GRADIENTS: "#7A2E46",
    Role.MASTER: "#6B6248",
    Role.MOMENTUM: "#8F866B",
    Role.VARIANCE: "#B4AC93",
    Role.GATHERED: "#86AFA9",
    Role.BUFFERS: "#DCCFB0",
    Role.ACTIVATIONS: "#D3B3A6",
    Role.CHECKPOINTS: "#8A6257",
    Role.SECONDARY: "#5F8A8E",
    Role.WORKSPACES: "#B7BFC9",
    Role.OTHER: "#DCE1E6",
}
OUTCOMES = {
    "as predicted": ("#8AA3BF", ""),
    "differs, every byte explained": ("#C77A1C", "/"),
    "unexplained": ("#C0392B", "x"),
}
"""Colour and pattern of a difference's effect on a law."""
WORDS = Words.beside(__file__)
SMALLEST_TEXT_PX = 15


def plain(text: str) -> str:
    """Escaped text for a figure: plotly interprets `<b>` and the like in names as markup."""
    return html.escape(text, quote=False)


def wrapped(text: str, width: int) -> str:
    """Text for a figure in lines of about `width` characters."""
    is_wide = any(unicodedata.east_asian_width(letter) == "W" for letter in text)
    letters = width // 2 if is_wide else width
    return "<br>".join(map(plain, textwrap.wrap(text, letters, break_on_hyphens=False)))


def time_axis(table: Table) -> str:
    """The title of an axis of times."""
    is_predicted = any(
        one.evidence is Evidence.PREDICTED and one.name.endswith("_ns") for one in table.columns
    )
    return WORDS("theme.ms_predicted") if is_predicted else "ms"


def figure(title: str, x: str = "", y: str = "") -> go.Figure:
    """An empty figure with a title and titles of its axes."""
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


@dataclass(frozen=True, slots=True)
class PlainFigure:
    """A figure in the form that plotly.js reads: pages avoid Plotly's objects, which take longer.

    Attributes:
        data: traces.
        layout: the axes, legend, lines and labels, including the settings of Plotly's own template.
    """

    data: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)

    def bar(self, colour: str, pattern: str, **values: Any) -> None:
        """Add bars of one colour and pattern."""
        drawn = {"shape": pattern, "fgcolor": CARD, **_PATTERN}
        marker = {"color": colour, "line": {"width": 0}, "pattern": drawn}
        self.data.append({"type": "bar", "marker": marker, **values})

    def scatter(self, **values: Any) -> None:
        """Add points and lines."""
        self.data.append({"type": "scatter", **values})

    def shape(self, **values: Any) -> None:
        """Add a line or a path."""
        self.layout.setdefault("shapes", []).append(values)

    def label(self, text: str, **values: Any) -> None:
        """Add a text at a point."""
        values = {"text": text, "showarrow": False, **values}
        self.layout.setdefault("annotations", []).append(values)

    def objects(self) -> go.Figure:
        """The same as Plotly's objects."""
        return go.Figure(data=self.data, layout=self.layout)

    def to_plotly_json(self) -> dict[str, Any]:
        """The figure as JSON values for a page."""
        return {"data": self.data, "layout": self.layout}


_PATTERN = {"fillmode": "overlay", "size": 10, "solidity": 0.2}
_AXIS = {
    "gridcolor": LINE,
    "zerolinecolor": LINE,
    "linecolor": LINE,
    "automargin": True,
    "zerolinewidth": 2,
    "ticks": "",
    "ticklabeloverflow": "allow",
}


def plain_figure(title: str, x: str = "", y: str = "") -> PlainFigure:
    """The same as `figure`, without Plotly's objects."""
    return PlainFigure(
        layout={
            "title": {"text": plain(title), "x": 0, "xref": "paper"},
            "font": {"size": SMALLEST_TEXT_PX, "color": TEXT},
            "paper_bgcolor": CARD,
            "plot_bgcolor": CARD,
            "xaxis": {**_AXIS, "title": {"text": x, "standoff": 15}},
            "yaxis": {
                **_AXIS,
                "title": {"text": y, "standoff": 15},
                "tickformat": "~s",
                "ticksuffix": "B" if y else "",
            },
            "legend": {"orientation": "h", "y": -0.2, "traceorder": "normal"},
            "margin": {"t": 60, "r": 20},
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
            "autotypenumbers": "strict",
        }
    )
