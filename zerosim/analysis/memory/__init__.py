"""The memory of one rank over time, tier by tier.

Modules:

    line        bytes by role at each sample, and the allocator's counts
    samples     the samples of an iteration, or of the start of an update, and their contents
    peaks       the peak, and the difference between roles and allocator
"""

from zerosim.analysis.memory.line import (
    NOT_MEASURED,
    ROLES,
    Bytes,
    Holders,
    Timeline,
    tiers_of,
    timeline,
)
from zerosim.analysis.memory.peaks import (
    AllocatorGap,
    Peak,
    disagreement,
    peak,
    peak_between,
)
from zerosim.analysis.memory.samples import (
    in_steps,
    in_training,
    states,
    states_of,
    updates_begin,
    whole_iteration,
)

__all__ = [
    "NOT_MEASURED",
    "ROLES",
    "AllocatorGap",
    "Bytes",
    "Holders",
    "Peak",
    "Timeline",
    "disagreement",
    "in_steps",
    "in_training",
    "peak",
    "peak_between",
    "states",
    "states_of",
    "tiers_of",
    "timeline",
    "updates_begin",
    "whole_iteration",
]
