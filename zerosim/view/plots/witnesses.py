"""Theory, trace and wire side by side."""

from __future__ import annotations

from plotly import graph_objects as go

from zerosim.base.language import term
from zerosim.base.tables import Table
from zerosim.schema.events import Phase
from zerosim.view.plots.theme import CARD, PHASES, WORDS, figure, plain

_PATTERNS = {"theory": ".", "trace": "", "wire": "/"}


def traffic(table: Table) -> go.Figure:
    """Bytes sent by one rank, by phase and purpose, in the three ledgers.

    Args:
        table: of columns `phase`, `purpose`, `op`, `theory_bytes`, `trace_bytes`, `wire_bytes`.
    """
    drawn = figure(table.title, "", WORDS("traffic.bytes_sent"))
    drawn.update_layout(barmode="group")
    phases = list(dict.fromkeys(table["phase"]))
    for ledger, pattern in _PATTERNS.items():
        for phase in phases:
            rows = [row for row in table if row["phase"] == phase]
            reasons = [plain(f"{term(row['purpose'])}: {term(row['op'])}") for row in rows]
            drawn.add_bar(
                x=[[term(phase)] * len(rows), reasons],
                y=[row[f"{ledger}_bytes"] for row in rows],
                name=term(ledger),
                legendgroup=ledger,
                offsetgroup=ledger,
                showlegend=phase == phases[0],
                marker={
                    "color": PHASES[Phase(phase)],
                    "pattern": {"shape": pattern, "fgcolor": CARD},
                },
                hovertemplate=WORDS("traffic.hover", value="%{y:,}", ledger=term(ledger))
                + "<extra></extra>",
            )
    return drawn
