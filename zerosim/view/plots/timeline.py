"""The activity of ranks over time, one lane per rank."""

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
    figure,
    time_axis,
)

_NS_A_MS = 1e6
_STATES = {
    "waiting": ("timeline.waits_rank", WAIT, "x"),
    "copying": ("timeline.waits_copy", COPYING, "\\"),
    "other": ("timeline.own_code", LINE, ""),
}
Piece = tuple[int, int, int]
"""Rank, start and duration, ns."""


def timeline(table: Table) -> go.Figure:
    """Computation, communication and waiting of each rank.

    A rank has two lanes: its program, and its concurrent communication.

    Args:
        table: of columns `rank`, `start_ns`, `duration_ns`, `phase`, `state`, `communicates`.
    """
    drawn = figure(table.title, time_axis(table))
    drawn.update_layout(barmode="overlay", bargap=0.15)
    kinds: dict[tuple[str, str, str], list[Piece]] = {}
    moving: dict[tuple[str, str, str], list[Piece]] = {}
    for row in table:
        phase = Phase(row["phase"])
        piece = (row["rank"], row["start_ns"], row["duration_ns"])
        kinds.setdefault(_kind(str(row["state"]), phase), []).append(piece)
        if row["communicates"]:
            kind = (WORDS("timeline.communication"), COMMUNICATION[phase], "/")
            moving.setdefault(kind, []).append(piece)
    for found, lane in ((kinds, "timeline.rank"), (moving, "timeline.network")):
        known: set[str] = set()
        for (name, colour, pattern), pieces in found.items():
            drawn.add_bar(
                x=[duration / _NS_A_MS for _, _, duration in pieces],
                base=[start / _NS_A_MS for _, start, _ in pieces],
                y=[WORDS(lane, rank=rank) for rank, _, _ in pieces],
                orientation="h",
                name=name,
                legendgroup=name,
                showlegend=name not in known,
                marker={
                    "color": colour,
                    "line": {"width": 0},
                    "pattern": {"shape": pattern, "fgcolor": "#ffffff"},
                },
                hovertemplate=WORDS(
                    "timeline.hover", name=name, long="%{x:.3f}", begin="%{base:.3f}"
                )
                + "<extra></extra>",
            )
            known.add(name)
    ranks = sorted(set(table["rank"]), reverse=True)
    lanes = [
        lane
        for rank in ranks
        for lane in (WORDS("timeline.network", rank=rank), WORDS("timeline.rank", rank=rank))
    ]
    drawn.update_yaxes(categoryorder="array", categoryarray=lanes)
    return drawn


def _kind(state: str, phase: Phase) -> tuple[str, str, str]:
    if state == "compute":
        return WORDS("timeline.computes", phase=term(phase)), PHASES[phase], ""
    if state == "exposed":
        return WORDS("timeline.waits"), COMMUNICATION[phase], "x"
    key, colour, pattern = _STATES[state]
    return WORDS(key), colour, pattern
