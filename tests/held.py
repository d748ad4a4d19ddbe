"""What the frames of a replay say that ranks hold, held against the memory ledger."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.analysis.frames import Frames, ShardState, cell_number
from zerosim.analysis.memory import timeline
from zerosim.schema.events import STEP_PHASES, Kind, Phase
from zerosim.schema.memory import Moment, Role
from zerosim.view.replay.subject import Subject


def held_bytes(subject: Subject, frames: Frames, step: int, rank: int) -> dict[Role, float]:
    """What the cells of a frame say that a rank holds, in bytes."""
    layout, cells, found = frames.layout, frames.at(step), dict.fromkeys(Role, 0.0)
    shards = len(layout.shards)
    for band, size in subject.bands().items():
        for place, unit in enumerate(subject.unit_layouts):
            first = cell_number(layout, layout.ranks.index(rank), band, place, 0)
            held = [one for one in cells[first : first + shards] if one is not ShardState.ABSENT]
            assert ShardState.ARRIVING not in held
            each = size * unit.padded_elements / shards
            if ShardState.GATHERED in held:  # a copy of all of it, the own shard too
                found[Role.GATHERED] += len(held) * each
                held = [one for one in held if one is not ShardState.GATHERED]
            found[band.role] += len(held) * each
    return found


def check_bytes(subject: Subject, frames: Frames, roles: Sequence[Role]) -> None:
    """Assert that bytes of roles are what the memory ledger has where each phase begins."""
    marks: dict[Phase, int] = {}
    for number, step in enumerate(subject.steps.steps):
        if step.kind is Kind.MARK:
            marks.setdefault(step.phase, number)
    for rank in subject.trace.ranks:
        line, compared = timeline(rank), set()
        for number, sample in enumerate(line.samples):
            is_border = sample.iteration == subject.iteration and sample.moment is Moment.PHASE
            # the second end is that of what comes between iterations
            if not is_border or sample.phase in compared or sample.phase not in marks:
                continue
            compared.add(sample.phase)
            counted = line.roles_at(number)
            held = held_bytes(subject, frames, marks[sample.phase], rank.rank)
            for role in roles:
                assert held[role] == counted.get(role, 0), (rank.rank, sample.phase, role)
        assert compared >= {*STEP_PHASES} & set(marks)
