"""Gradients that were never reduced because some parameters got none: replicas drift apart.

No call is wrong and no rank waits, so no other check finds this fault. The program's strategy lists
the
parameters; the system's plan derives the consequence.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.base.errors import ConfigError, UnplannedError
from zerosim.record import RankTrace, Trace
from zerosim.schema.events import Phase
from zerosim.theory import Cause
from zerosim.theory.programs import in_force, plan_step
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong

_OPTION = "without_gradient"
"""The option of a strategy that lists the parameters without a gradient."""


def unready(trace: Trace) -> Iterator[Finding]:
    """The first iteration in which a reduction was never made, with its ranks."""
    found = [one for rank in trace.ranks for one in _of_rank(trace, rank)]
    if not found:
        return
    first = min(iteration for iteration, _, _ in found)
    said: dict[str, set[int]] = {}
    for iteration, rank, words in found:
        if iteration == first:
            said.setdefault(words, set()).add(rank)
    for words, ranks in said.items():
        yield Finding(
            wrong=Wrong.NEVER_READY,
            ranks=tuple(sorted(ranks)),
            place=Place(iteration=first, phase=Phase.BACKWARD.value),
            sentence=wording.said(
                "unready.said", iteration=first, ranks=wording.ranks(ranks), words=words
            ),
        )


def _of_rank(trace: Trace, rank: RankTrace) -> Iterator[tuple[int, int, str]]:
    """Iterations, the rank, and why it did not reduce."""
    for row in rank.strategies:
        if not row.options.get(_OPTION):
            continue
        held = {
            other.rank: in_force(other.strategies, row.iteration, row.micro_step + 1)
            for other in trace.ranks
        }
        try:
            plans = plan_step(held, rank.rank, row.iteration, rank.strategies)
        except (ConfigError, UnplannedError):
            continue
        for plan in plans:
            for cause in plan.causes:
                if cause.cause is Cause.NEVER_READY and cause.bytes:
                    yield row.iteration, rank.rank, cause.words
