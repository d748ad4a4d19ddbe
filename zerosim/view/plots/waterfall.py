"""From a law to the sent bytes, cause by cause."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from plotly import graph_objects as go

from zerosim.base.language import term
from zerosim.base.quantities import format_bytes
from zerosim.base.tables import Table
from zerosim.schema.events import Phase
from zerosim.view.plots.theme import CARD, MUTED, OUTCOMES, PHASES, WORDS, figure, wrapped

_HALF = 0.4
"""Width of a bar, where bars are 1 apart."""
_LINE_OF_A_NAME = 22
"""Maximum characters per line of a name."""
_ROOM = 1.5
"""Space beside the longest bar, for its number."""


def waterfall(table: Table) -> go.Figure:
    """From the number of a law to the number on the wire.

    Args:
        table: of columns `cause`, `bytes` and `outcome`; its first row is the law itself.
    """
    drawn = figure(table.title)
    levels = list(accumulate(table["bytes"]))
    names = [*map(term, table["cause"]), *[WORDS("waterfall.sent")] * bool(levels)]
    lengths = [*table["bytes"], *levels[-1:]]
    bases = [0, *levels[:-1], 0]
    ends = [0, len(levels)] if levels else []
    _add(drawn, "", (PHASES[Phase.FORWARD], ""), [(place, 0, lengths[place]) for place in ends])
    for outcome, look in OUTCOMES.items():
        places = [place for place, one in enumerate(table["outcome"]) if one == outcome]
        _add(drawn, outcome, look, [(place, bases[place], lengths[place]) for place in places])
    for number, level in enumerate(levels):
        drawn.add_shape(
            type="line",
            x0=level,
            x1=level,
            y0=number + _HALF,
            y1=number + 1 - _HALF,
            line={"color": MUTED, "dash": "dot"},
        )
    drawn.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[wrapped(name, _LINE_OF_A_NAME) for name in names],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
    )
    longest = _ROOM * max([1, *levels])
    drawn.update_xaxes(range=[0, longest], showticklabels=False, showgrid=False)
    drawn.update_layout(barmode="overlay", legend={"y": -0.02})
    return drawn


def _add(
    drawn: go.Figure, name: str, look: tuple[str, str], bars: list[tuple[int, Any, Any]]
) -> None:
    """Draw bars of one meaning: position, base and length of each. The ends need no name."""
    colour, pattern = look
    places, bases, lengths = zip(*bars, strict=True) if bars else ((), (), ())
    drawn.add_bar(
        x=lengths,
        y=places,
        base=bases,
        orientation="h",
        width=2 * _HALF,
        name=term(name),
        showlegend=bool(name and bars),
        marker={
            "color": colour,
            "line": {"color": colour, "width": 2},
            "pattern": {"shape": pattern, "fgcolor": CARD},
        },
        text=[f"{'+ ' if name and one > 0 else ''}{format_bytes(one)}" for one in lengths],
        textposition="outside",
        constraintext="none",
        cliponaxis=False,
        hovertemplate="%{x:,} B<extra></extra>",
    )
