"""Who does what when, a lane for each rank. Imports plotly, zerosim's L0 and the theme."""

from __future__ import annotations

from plotly import graph_objects as go

from zerosim.events import Phase
from zerosim.plots.theme import COMMUNICATION, COPYING, LINE, PHASES, WAIT, figure, time_axis
from zerosim.tables import Table

_NS_A_MS = 1e6
_STATES = {
    "waiting": ("waits for another rank", WAIT, "x"),
    "copying": ("waits for a copy", COPYING, "\\"),
    "other": ("own code", LINE, ""),
}
Piece = tuple[int, int, int]
"""Rank, begin and duration, ns."""


def timeline(table: Table) -> go.Figure:
    """Computation, communication and waiting of each rank.

    A rank has two lanes: its program, and what it communicates beside that.

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
            kind = ("communication", COMMUNICATION[phase], "/")
            moving.setdefault(kind, []).append(piece)
    for found, lane in ((kinds, "rank {}"), (moving, "rank {}, network")):
        named: set[str] = set()
        for (name, colour, pattern), pieces in found.items():
            drawn.add_bar(
                x=[duration / _NS_A_MS for _, _, duration in pieces],
                base=[start / _NS_A_MS for _, start, _ in pieces],
                y=[lane.format(rank) for rank, _, _ in pieces],
                orientation="h",
                name=name,
                legendgroup=name,
                showlegend=name not in named,
                marker={
                    "color": colour,
                    "line": {"width": 0},
                    "pattern": {"shape": pattern, "fgcolor": "#ffffff"},
                },
                hovertemplate=name + ": %{x:.3f} ms from %{base:.3f} ms<extra></extra>",
            )
            named.add(name)
    ranks = sorted(set(table["rank"]), reverse=True)
    lanes = [lane for rank in ranks for lane in (f"rank {rank}, network", f"rank {rank}")]
    drawn.update_yaxes(categoryorder="array", categoryarray=lanes)
    return drawn


def _kind(state: str, phase: Phase) -> tuple[str, str, str]:
    if state == "compute":
        return f"computes: {phase}", PHASES[phase], ""
    if state == "exposed":
        return "waits for communication", COMMUNICATION[phase], "x"
    return _STATES[state]
