"""Runs side by side, to print, to display and to process further."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zerosim.base.config import STAGE_NAMES
from zerosim.base.errors import ConfigError
from zerosim.base.language import term
from zerosim.base.tables import Cell, Column, Table, html_text, written_out
from zerosim.record import Trace, ended_early
from zerosim.view.reading.differences import differences, headline, notes
from zerosim.view.reading.measured import measurable, side_of
from zerosim.view.reading.side import Side

FEWEST, MOST = 2, 4
"""Maximum number of traces in a comparison."""


class Comparison:
    """Two to four runs, aligned by phase and unit.

    Attributes:
        sides: traffic, memory and times of each.
    """

    def __init__(self, traces: Sequence[Trace]) -> None:
        """Measure the traces.

        If one of them ended early, only iterations that all of them finished are used: a later one
        has data that an earlier one lacks, such as the optimizer's moments.

        Args:
            traces: 2 to 4, in display order.

        Raises:
            ConfigError: too few, or too many.
            TraceError: one of them has no iteration that all its ranks finished.
        """
        if not FEWEST <= len(traces) <= MOST:
            raise ConfigError(
                f"{len(traces)} traces to compare: expected {FEWEST} to {MOST}; give their folders"
            )
        complete = [measurable(trace) for trace in traces]
        common = set[int].intersection(*map(set, complete))
        if common and any(map(ended_early, traces)):
            complete = [tuple(sorted(common)) for _ in traces]
        self.sides: tuple[Side, ...] = tuple(map(side_of, traces, _names(traces), complete))

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        return headline(self.sides)

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences from the first, one sentence each."""
        return differences(self.sides)

    @property
    def table(self) -> Table:
        """Traffic, memory and time of the first rank of each."""
        held, times = [side.held for side in self.sides], [side.times for side in self.sides]
        rows: list[tuple[Cell, ...]] = [
            ("sent_bytes", *(side.total_bytes for side in self.sides)),
            ("wire_bytes", *(side.wire_bytes for side in self.sides)),
            ("model_states_bytes", *(None if one is None else one.states_bytes for one in held)),
            ("peak_bytes", *(None if one is None else one.highest_bytes for one in held)),
            ("iteration_ns", *(None if one is None else one.duration_ns for one in times)),
            ("loss", *(side.loss for side in self.sides)),
        ]
        columns = (Column("first rank"), *(Column(side.name) for side in self.sides))
        return Table(self.headline, columns, tuple(rows), notes(self.sides))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values: the output of the command with --json."""
        return {
            "headline": self.headline,
            "notes": list(notes(self.sides)),
            "differences": list(self.differences),
            "sides": [side.to_plain() for side in self.sides],
        }

    def __repr__(self) -> str:
        return "\n".join([repr(self.table), *map(written_out, self.differences)])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html_text(one)}</li>" for one in self.differences)
        return f"{self.table._repr_html_()}<ul>{items}</ul>"


def _names(traces: Sequence[Trace]) -> list[str]:
    """Names by stage if the stages differ, otherwise by folder."""
    stages = [trace.manifest.config.get("stage") for trace in traces]
    if None not in stages and len(set(stages)) == len(stages):
        return [term(STAGE_NAMES[stage]) for stage in stages if isinstance(stage, int)]
    paths = [trace.folder.resolve() for trace in traces]
    short = [path.name for path in paths]
    return short if len(set(short)) == len(short) else [f"{p.parent.name}/{p.name}" for p in paths]
