"""Applies the steps of an iteration to the contents of the ranks, one frame per step.

A frame has the shards of every rank when a step has begun and the effects of all completed steps
are applied. The rules of the stage are checked on the way, so a replay of a run that broke them
ends at the offending step, with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from zerosim.analysis.frames.holdings import IllegalFrame, ShardState
from zerosim.analysis.frames.layout import ShardLayout
from zerosim.analysis.frames.ledger import Change
from zerosim.analysis.frames.rules import Rules
from zerosim.analysis.frames.step import Step
from zerosim.schema.manifest import BucketLayout


@dataclass(frozen=True, slots=True)
class Broken:
    """The step that broke a law.

    Attributes:
        step: its index; the frames end with the previous one.
        reason: the broken law, and the rank that broke it.
    """

    step: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The contents of all ranks, position by position.

    Attributes:
        initial: by cell, before the first step.
        changes: by step, the cells that change at its start.
        freed: by step, the units whose gathered parameters are freed at its end, because their
            computation ends; those cells change when the next step begins.
        broken: None if all laws were obeyed.
    """

    layout: ShardLayout
    initial: tuple[ShardState, ...]
    changes: tuple[tuple[Change, ...], ...]
    freed: dict[int, tuple[str, ...]]
    broken: Broken | None

    def at(self, position: int) -> tuple[ShardState, ...]:
        """The frame at a step."""
        cells = list(self.initial)
        for changes in self.changes[: position + 1]:
            for cell, holding in changes:
                cells[cell] = holding
        return tuple(cells)


def play(layout: ShardLayout, buckets: Sequence[BucketLayout], steps: Sequence[Step]) -> Frames:
    """The frames of an iteration.

    Args:
        layout: the shards of each rank.
        buckets: units that are reduced together.
        steps: in order.
    """
    player = Rules(layout, buckets, steps)
    ledger = player.ledger
    initial = ledger.all_cells()
    ledger.cells = list(initial)
    ending: dict[int, list[Step]] = defaultdict(list)
    changes: list[tuple[Change, ...]] = []
    freed: dict[int, tuple[str, ...]] = {}
    broken = None
    for position, step in enumerate(steps):
        try:
            for over in sorted(ending.pop(position - 1, ()), key=lambda one: one.end_ns):
                player.end(over)
            player.begin(step)
            if player.freed:  # a call from within a computation shows that it is over
                freed[position - 1] = tuple(player.freed)
                player.freed.clear()
        except IllegalFrame as error:
            broken = Broken(position, str(error))
        changes.append(tuple(ledger.changed()))
        if broken is not None:
            break
        if step.is_over:
            ending[step.until].append(step)
    return Frames(
        layout=layout, initial=initial, changes=tuple(changes), freed=freed, broken=broken
    )
