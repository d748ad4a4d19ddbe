"""The beats of a pipeline: all ranks compute at once, each on its own micro-batch.

A beat lasts until a rank would begin its second turn in it, so there are about as many as the
columns in the diagram of a schedule (Huang et al., "GPipe", arXiv 1811.06965, figure 2). Messages
sent meanwhile belong to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from zerosim.analysis.beats.beat import Doing, Sign, Turn
from zerosim.analysis.beats.part import StepRange
from zerosim.analysis.frames.step import Step
from zerosim.schema.events import Phase

_IN_TURNS = (Sign.COMPUTE, Sign.SEND)


def in_turns(parts: Sequence[StepRange], steps: Sequence[Step]) -> list[StepRange]:
    """The parts of an iteration, with concurrent computations and sends combined."""
    found: list[StepRange] = []
    for part in parts:
        own = replace(part, turns=_turns(part, steps[part.main]))
        if found and _goes_on(found[-1], own):
            found[-1] = _computing_first(found[-1].with_more(own))
        else:
            found.append(own)
    return list(_with_kept(found))


def _with_kept(parts: Sequence[StepRange]) -> Iterator[StepRange]:
    """Set the number of micro-batches with live activations on each rank at the end of a part.

    For a rank with several stages, all of them count.
    """
    every = [(place, *one) for place, part in enumerate(parts) for one in part.turns.items()]
    last = {
        (rank, turn.stage, turn.micro_batch): place
        for place, rank, turn in every
        if turn.phase is Phase.BACKWARD
    }
    kept: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for place, part in enumerate(parts):
        for rank, turn in part.turns.items():
            if turn.phase is Phase.FORWARD:
                kept[rank].add((turn.stage, turn.micro_batch))
            elif last[rank, turn.stage, turn.micro_batch] == place:
                kept[rank].discard((turn.stage, turn.micro_batch))
        counts = {rank: len(numbers) for rank, numbers in sorted(kept.items())}
        yield replace(part, kept=counts if part.turns else {})


def _turns(part: StepRange, step: Step) -> dict[int, Turn]:
    is_compute = part.signs == (Sign.COMPUTE,)
    return {
        rank: Turn(step.phase, step.micro_step, event.unit.partition(".")[0])
        for rank, event in (step.events if is_compute else {}).items()
    }


def _goes_on(before: StepRange, part: StepRange) -> bool:
    if part.begins or not {*before.signs, *part.signs} <= {*_IN_TURNS}:
        return False
    return all(before.turns.get(rank, turn) == turn for rank, turn in part.turns.items())


def _computing_first(part: StepRange) -> StepRange:
    def is_sent(doing: Doing) -> bool:
        return doing.sign is Sign.SEND

    return replace(part, doings=tuple(sorted(part.doings, key=is_sent)))
