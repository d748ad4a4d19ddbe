"""The first difference between ranks in states, inputs and outputs: from a trace's checksums.

Values that must be equal: the results of an all-reduce, an all-gather, a broadcast; a message at
its two ends; replicated states; states without an update, before and after. Options that should be
equal on all ranks (a learning rate, a batch size) are also compared (`exchanged`, `kept`, `told`).
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
    """The faults of values, the first one in training first."""
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
    """The iterations with checksums."""
    return sorted({one.iteration for rank in ranks for one in rank.checksums})
