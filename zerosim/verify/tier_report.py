"""What is kept in a tier beyond the device: its model states, and the most that was there.

Imports zerosim's L0, analysis and this package. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from zerosim.analysis.memory import Timeline, in_training, peak
from zerosim.quantities import format_bytes
from zerosim.verify.memory_plan import PLACES, MemoryPlan
from zerosim.verify.memory_report import RolePart, TierPeak, TierReport
from zerosim.verify.peaks import when
from zerosim.verify.states import StateCheck, state_causes, state_rows


def tier_report(
    plan: MemoryPlan, lines: Mapping[int, Timeline], checks: Sequence[StateCheck]
) -> TierReport:
    """A tier of a run.

    Args:
        lines: of this tier, by rank; at least one.
        checks: of the iteration that is shown, by rank.
    """
    tier = next(iter(lines.values())).tier
    return TierReport(
        tier=tier,
        law=plan.law_of(tier),
        law_bytes=sum((law.bytes for law in plan.role_laws(tier)), Fraction()),
        rows=state_rows(plan, list(checks), tier),
        causes=state_causes(plan, checks[0], tier) if checks else (),
        peaks=tuple(_peak(line) for line in lines.values()),
    )


def _peak(line: Timeline) -> TierPeak:
    top = peak(line, in_training(line))
    assert top is not None, "a timeline has samples"
    parts = [
        RolePart(role=role, bytes=size)
        for role, size in line.roles_at(top.position).items()
        if size
    ]
    parts.sort(key=lambda part: -part.bytes)
    moment = when(line, top.position)
    words = ", ".join(f"{part.role} {format_bytes(part.bytes)}" for part in parts)
    return TierPeak(
        rank=line.rank,
        bytes=top.bytes,
        when=moment,
        parts=tuple(parts),
        sentence=f"Rank {line.rank} had at most {format_bytes(top.bytes)} {PLACES[line.tier]} "
        f"{moment}{f': {words}' if words else ''}.",
    )
