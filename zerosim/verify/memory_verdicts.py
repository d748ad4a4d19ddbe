"""What the roles explain of what the allocator counted: two verdicts of a verification of memory.

Imports zerosim's L0, analysis and this package. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from zerosim.analysis.memory import NOT_MEASURED, Timeline, disagreement, in_training, peak
from zerosim.quantities import format_bytes, format_decimal, format_exact_bytes
from zerosim.verify.peaks import when
from zerosim.verify.report import Verdict

OTHER_GOAL = Fraction(2, 100)
"""Of the peak: what no role explains should be less on a model of some size."""
AGREEMENT = Fraction(2, 100)
"""Of the peak: how far roles and allocator may be apart at any event."""
_SMALL_BYTES = 1_000_000
"""Of a small model, this far: activations on their way from one unit to the next have no role."""


def other_verdict(lines: Mapping[int, Timeline]) -> Verdict:
    """How much no role explains where most is alive of all that the allocator was asked about.

    Small models have more of it, so that much refutes nothing.
    """
    title = f"What no role explains is under {format_decimal(100 * OTHER_GOAL, 0)} % of the peak"
    known = []
    for rank, line in lines.items():
        positions = in_training(line)
        top = peak(line, positions[line.allocated[positions] != NOT_MEASURED])
        if top is not None and top.bytes:
            other = line.other(top.position) or 0
            known.append((Fraction(abs(other), top.bytes), other, top.bytes, rank))
    if not known:
        return _not_measured("other", title)
    share, other, alive, rank = max(known, key=lambda found: found[0])
    measured = (
        f"{format_decimal(100 * share, 2)} %: {format_exact_bytes(other)} of "
        f"{format_bytes(alive)} on rank {rank}"
    )
    holds = True if share < OTHER_GOAL else None
    return Verdict(id="other", title=title, formula="", holds=holds, measured=measured)


def allocated_verdict(lines: dict[int, Timeline], *, is_engine: bool) -> Verdict:
    """At every event the roles have all that the allocator counted, but for a little, and no more.

    More than the allocator counted is false; much less is what a program keeps beside the roles.

    Args:
        is_engine: False for a program whose threads may allocate what the record of one of them
            does not hold, so that more proves nothing.
    """
    title = "At every event the roles add up to what PyTorch's allocator says is alive"
    worst: tuple[int, int, int] | None = None
    least = count = 0
    bound = Fraction(_SMALL_BYTES)
    for rank, line in lines.items():
        if (found := disagreement(line)) is None:
            continue
        count += found.num_samples
        least = min(least, found.least_bytes)
        bound = max(bound, AGREEMENT * int(line.alive().max()))
        if worst is None or abs(found.bytes) > abs(worst[0]):
            worst = found.bytes, rank, found.position
    if worst is None:
        return _not_measured("allocated", title)
    size, rank, position = worst
    measured = (
        f"{count:,} samples, the largest difference {format_exact_bytes(size)} on rank {rank} "
        f"{when(lines[rank], position)}"
    )
    holds = True if size <= bound else None
    if least < 0:
        measured += f"; the roles count up to {format_exact_bytes(-least)} too much"
        holds = False if is_engine else None
    return Verdict(
        id="allocated",
        title=title,
        formula=f"within {format_bytes(bound)}: {format_decimal(100 * AGREEMENT, 0)} % of the "
        f"peak, {format_bytes(_SMALL_BYTES)} at least",
        holds=holds,
        measured=measured,
    )


def _not_measured(identity: str, title: str) -> Verdict:
    words = "nothing: the allocator was not asked"
    return Verdict(id=identity, title=title, formula="", holds=None, measured=words)
