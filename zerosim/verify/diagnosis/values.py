"""Where ranks begin to differ in what they hold, give and get: from the checksums of a trace.

What must be equal: what ranks get from an all-reduce, an all-gather, a broadcast; a message at its
two ends; of replicas, what they keep; what nobody writes, before and after. What is told to all
alike (a learning rate, the size of a batch) is held against each other as well (`exchanged`,
`kept`, `told`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from zerosim.base.language import term
from zerosim.record import RankTrace, Trace
from zerosim.schema.events import Phase
from zerosim.schema.manifest import Source
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.evidence import advice
from zerosim.verify.diagnosis.exchanged import of_calls, of_messages
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong
from zerosim.verify.diagnosis.kept import of_changes, of_states
from zerosim.verify.diagnosis.told import of_settings


def value_findings(trace: Trace) -> list[Finding]:
    """What is wrong with values, the first of it in training first."""
    if not any(rank.checksums for rank in trace.ranks):
        return list(_losses(trace))
    found = [
        *of_calls(trace),
        *of_messages(trace),
        *of_states(trace),
        *of_changes(trace),
        *of_settings(trace),
    ]
    found.sort(key=lambda one: one.at)
    seen: dict[Wrong, Finding] = {}
    for one in found:
        seen.setdefault(one.finding.wrong, one.finding)
    return list(seen.values())


def _losses(trace: Trace) -> Iterator[Finding]:
    """A number that the program reported is not finite; a dry run computes none."""
    if trace.manifest.source is Source.SIMULATED:
        return
    for rank in trace.ranks:
        for metric in rank.metrics:
            if not math.isfinite(metric.value):
                yield Finding(
                    wrong=Wrong.NOT_FINITE,
                    ranks=(),
                    place=Place(iteration=metric.iteration, phase=Phase.UPDATE.value),
                    sentence=wording.said(
                        "values.metric",
                        name=term(metric.name),
                        value=metric.value,
                        iteration=metric.iteration,
                    ),
                    advice=advice("check"),
                )
                return


def checked_iterations(ranks: Iterable[RankTrace]) -> list[int]:
    """The iterations of which there are checksums."""
    return sorted({one.iteration for rank in ranks for one in rank.checksums})
