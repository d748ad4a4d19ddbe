"""The part of the allocator's count that roles explain: two verdicts on memory."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from zerosim.analysis.memory import NOT_MEASURED, Timeline, disagreement, in_training, peak
from zerosim.base.quantities import format_bytes, format_decimal, format_exact_bytes
from zerosim.verify.peaks import when
from zerosim.verify.report import Verdict
from zerosim.verify.wording import said

OTHER_GOAL = Fraction(2, 100)
"""Fraction of the peak: the unexplained bytes should be below it, for a model of some size."""
AGREEMENT = Fraction(2, 100)
"""Fraction of the peak: the largest difference between roles and allocator at any event."""
_SMALL_BYTES = 1_000_000
"""The tolerance for a small model: activations passed between units have no role."""


def other_verdict(lines: Mapping[int, Timeline]) -> Verdict:
    """The unexplained bytes at the highest sample with an allocator count.

    Small models have more of it, so that much refutes nothing.
    """
    title = said("other.title", percent=format_decimal(100 * OTHER_GOAL, 0))
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
    measured = said(
        "other.measured",
        percent=format_decimal(100 * share, 2),
        bytes=format_exact_bytes(other),
        alive=format_bytes(alive),
        rank=rank,
    )
    holds = True if share < OTHER_GOAL else None
    return Verdict(id="other", title=title, formula="", holds=holds, measured=measured)


def allocated_verdict(lines: dict[int, Timeline], *, is_engine: bool) -> Verdict:
    """At every event the roles have all that the allocator counted, but for a little, and no more.

    More than the allocator's count is an error; much less is the program's memory without roles.

    Args:
        is_engine: False for a program, in which threads may allocate outside of the record of one
            of them, so that more proves nothing.
    """
    title = said("allocated.title")
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
    measured = said(
        "allocated.measured",
        count=f"{count:,}",
        bytes=format_exact_bytes(size),
        rank=rank,
        when=when(lines[rank], position),
    )
    holds = True if size <= bound else None
    if least < 0:
        measured = said("allocated.too_much", measured=measured, bytes=format_exact_bytes(-least))
        holds = False if is_engine else None
    return Verdict(
        id="allocated",
        title=title,
        formula=said(
            "allocated.formula",
            bound=format_bytes(bound),
            percent=format_decimal(100 * AGREEMENT, 0),
            least=format_bytes(_SMALL_BYTES),
        ),
        holds=holds,
        measured=measured,
    )


def _not_measured(identity: str, title: str) -> Verdict:
    words = said("other.unmeasured")
    return Verdict(id=identity, title=title, formula="", holds=None, measured=words)
