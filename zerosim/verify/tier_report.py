"""The contents of a tier off the device: its model states, and its peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zerosim.analysis.memory import Timeline, in_training, peak
from zerosim.base.language import enumerated, term
from zerosim.base.quantities import format_bytes
from zerosim.verify.memory_plan import MemoryPlan
from zerosim.verify.memory_report import TierPeak, TierReport
from zerosim.verify.peaks import parts_at, when
from zerosim.verify.states import StateCheck, state_causes, state_rows
from zerosim.verify.wording import said


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
        law=plan.first.law(tier),
        law_bytes=plan.first.law_bytes(tier),
        rows=state_rows(plan, list(checks), tier),
        causes=state_causes(plan, checks[0], tier) if checks else (),
        peaks=tuple(_peak(line) for line in lines.values()),
    )


def _peak(line: Timeline) -> TierPeak:
    top = peak(line, in_training(line))
    assert top is not None, "a timeline has samples"
    parts = parts_at(line, top.position)
    moment = when(line, top.position)
    words = enumerated(
        said("peak.part", role=term(part.role), bytes=format_bytes(part.bytes)) for part in parts
    )
    return TierPeak(
        rank=line.rank,
        bytes=top.bytes,
        when=moment,
        parts=parts,
        sentence=said(
            "peak.tier_of" if words else "peak.tier",
            rank=line.rank,
            bytes=format_bytes(top.bytes),
            place=line.tier.place,
            when=moment,
            parts=words,
        ),
    )
