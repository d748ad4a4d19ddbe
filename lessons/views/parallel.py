"""Figures of tensor and pipeline parallel."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, Box, Drawing, FigureTable, Note
from zerosim.lessons.views.wording import each, said
from zerosim.schema.events import Phase
from zerosim.schema.memory import MODEL_STATES, Role

MEGA = 1e6
_WIDTH, _NAMES = 790.0, 66.0
_ROW, _GAP = 40.0, 6.0


def all_reduces(facts: Facts, run: str) -> FigureTable:
    """Number and size of a rank's all-reduces in each block."""
    rows = []
    for block in facts.blocks(run):
        cells = [block]
        for phase in ("forward", "backward"):
            cells.append(f"{facts.num_calls(run, 'all-reduce', block, phase)}")
            cells.append(f"{facts.called_bytes(run, 'all-reduce', block, phase):,}")
        rows.append(tuple(cells))
    return FigureTable(said("all_reduces.title"), each("all_reduces.columns"), tuple(rows))


def messages(facts: Facts, run: str) -> FigureTable:
    """Traffic of each stage to the next, and back."""
    rows = []
    for rank, label in facts.ranks(run):
        near = [
            f"{facts.sent_to(run, int(rank), other):,}" if 0 <= other < facts.num_ranks(run) else ""
            for other in (int(rank) + 1, int(rank) - 1)
        ]
        rows.append((label, *near))
    return FigureTable(said("messages.title"), each("messages.columns"), tuple(rows))


def slots(facts: Facts, run: str) -> Drawing:
    """The micro-batch of each rank in each slot: F its forward, B its backward."""
    tasks_of, count = facts.slots(run), facts.num_slots(run)
    wide = (_WIDTH - _NAMES) / count
    boxes, notes = [], []
    for rank, tasks in enumerate(tasks_of):
        top = rank * _ROW
        notes.append(Note(0, top + 22, f"rank {rank}"))
        for slot in range(count):
            task = tasks.get(slot)
            left, high = _NAMES + slot * wide, _ROW - _GAP
            look, label = ("", "") if task is None else (task.phase.value, task.label)
            box = Box(x=left, y=top, width=wide, height=high, look=look, label=label)
            boxes.append(box)
    bottom = len(tasks_of) * _ROW + 18
    notes += [
        Note(_NAMES, bottom, said("slots.first")),
        Note(_WIDTH, bottom, said("slots.last", count=count), "end"),
    ]
    rows = tuple(
        (f"rank {rank}", *(tasks[slot].label if slot in tasks else "·" for slot in range(count)))
        for rank, tasks in enumerate(tasks_of)
    )
    title = said("slots.title", run=facts.title(run))
    return Drawing(
        width=_WIDTH,
        height=bottom + 8,
        boxes=tuple(boxes),
        notes=tuple(notes),
        legend=(Phase.FORWARD.value, Phase.BACKWARD.value),
        table=FigureTable(title, ("", *(str(slot + 1) for slot in range(count))), rows),
    )


def stages(facts: Facts, *runs: str) -> Bars:
    """Memory of each stage at its peak."""
    bars = []
    for run in runs:
        for rank, label in facts.ranks(run):
            held = [facts.peak(run, int(rank), role) for role in MODEL_STATES]
            parts = (
                BarPart("model states", sum(held) / MEGA),
                *(
                    BarPart(str(role), facts.peak(run, int(rank), role) / MEGA)
                    for role in (Role.BUFFERS, Role.ACTIVATIONS)
                ),
            )
            bars.append(Bar(said("labels.with", run=facts.title(run), what=label), parts))
    return Bars(said("stages.title"), "MB", tuple(bars))
