"""The part of the allocator's count that roles explain: two verdicts on memory."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from zerosim.analysis.memory import NOT_MEASURED, Timeline, disagreement, in_training, peak
from zerosim.base.language import enumerated
from zerosim.base.quantities import format_bytes, format_decimal, format_exact_bytes
from zerosim.schema.events import Phase
from zerosim.schema.memory import MemorySample, Moment
from zerosim.verify.peaks import when
from zerosim.verify.report import Verdict
from zerosim.verify.wording import said

OTHER_GOAL = Fraction(2, 100)
"""Fraction of the peak: the unexplained bytes should be below it, for a model of some size."""
AGREEMENT = Fraction(2, 100)
"""Fraction of the peak by which roles and allocator may differ at any event."""
_MOST_KINDS = 3
_WORTH_NAMING = Fraction(1, 20)
_SMALL_BYTES = 1_000_000
"""The tolerance for a small model: activations passed between units have no role."""


def other_verdict(lines: Mapping[int, Timeline]) -> Verdict:
    """The unexplained bytes at the highest sample with an allocator count.

    Small models have a larger share, which refutes nothing.
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
    more = without_role(lines) if any(line.roleless for line in lines.values()) else ""
    if more:  # the tensors are known
        return Verdict(id="other", title=title, holds=True, measured=more, differs=True)
    return Verdict(id="other", title=title, formula="", holds=holds, measured=measured)


def without_role(lines: Mapping[int, Timeline]) -> str:
    """Memory without a role at phase borders, in words; "" if it is small on all ranks.

    The allocator gives only the number of bytes; without it, the tensors are known as well.
    """
    most: tuple[Fraction, int, int, int] | None = None
    for rank, line in lines.items():
        top = peak(line, in_training(line))
        for position in _borders(line):
            other = line.other(position) or 0
            share = Fraction(other, max(1, 0 if top is None else top.bytes))
            if share >= OTHER_GOAL and (most is None or other > most[1]):
                most = share, other, rank, position
    if most is None:
        return ""
    share, other, rank, position = most
    kinds = sorted(lines[rank].roleless_at(position).items(), key=lambda one: (-one[1], one[0]))
    named = [
        said("other.kind", kind=kind or said("other.of_many"), bytes=format_exact_bytes(size))
        for kind, size in kinds[:_MOST_KINDS]
        if size >= _WORTH_NAMING * other
    ]
    if more := sum(size for _, size in kinds[len(named) :]):
        named.append(said("other.more", bytes=format_exact_bytes(more)))
    return said(
        "other.without_role_of" if named else "other.without_role",
        bytes=format_exact_bytes(other),
        percent=format_decimal(100 * share, 1),
        rank=rank,
        when=when(lines[rank], position),
        kinds=enumerated(named),
    )


def _borders(line: Timeline) -> list[int]:
    """The phase borders at which it is known which memory has no role.

    The role of some memory is found only when it is used: a master copy's in the first update, that
    of DDP's buckets, which the second forward rebuilds, in the backward after it. So only the end
    of the first iteration counts, if it is the only one, and only the update of the second.
    """
    positions = in_training(line)
    known = [
        position
        for position in positions[line.allocated[positions] != NOT_MEASURED].tolist()
        if line.samples[position].moment is Moment.PHASE
    ]
    first = min((line.samples[position].iteration for position in known), default=0)
    later = [position for position in known if _is_settled(line.samples[position], first)]
    over = [position for position in known if line.samples[position].phase is Phase.OUTSIDE]
    return later or over or known


def _is_settled(sample: MemorySample, first: int) -> bool:
    is_used = sample.phase in (Phase.UPDATE, Phase.OUTSIDE)
    return sample.iteration > first + 1 or (sample.iteration > first and is_used)


def allocated_verdict(lines: dict[int, Timeline], *, is_engine: bool) -> Verdict:
    """At every event, the roles add up to the allocator's count, within a small tolerance.

    More than the allocator's count is an error; much less means that the program has memory without
    roles.

    Args:
        is_engine: False for a program, whose other threads may allocate without being recorded,
            so that a larger sum proves nothing.
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
