"""The claims about traffic that can be held against a run, as data.

A claim has the law in words, the law with this run's numbers, and what exactly is expected of the
run once every named deviation is counted. Whether it holds is for `zerosim.verify` to say. May
import the standard library and layer L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from zerosim.events import Algorithm, Phase
from zerosim.quantities import format_exact_bytes
from zerosim.theory.causes import Deviation, Law
from zerosim.theory.deviations import deviations
from zerosim.theory.laws import PHASES, formula, law, system_name
from zerosim.theory.traffic import (
    expected_traffic,
    total_received_bytes,
    total_sent_bytes,
)
from zerosim.theory.workload import Workload


class Measure(StrEnum):
    """What has to be measured to check a claim."""

    SENT_BY_RANK = "sent by a rank"
    """Bytes that `Claim.rank` sends in one optimizer step, in `Claim.phase` if there is one."""
    SENT_AND_RECEIVED_BY_ALL = "sent and received by all ranks"
    """Two sums over all ranks in one optimizer step, both equal to the expected bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence that a run can prove or refute.

    Attributes:
        id: stable name, such as "sent-a-step".
        title: the sentence.
        formula: the law with this run's numbers filled in, and its value.
        measure: what to hold against it.
        phase: the phase it speaks of; None for the whole optimizer step.
        rank: the rank it speaks of; None for all together.
        law_bytes: what the pure law says.
        expected_bytes: what the run must send: the law and all deviations.
        deviations: why the two differ; they sum exactly to the difference.
        source: where the law comes from.
    """

    id: str
    title: str
    formula: str
    measure: Measure
    phase: Phase | None
    rank: int | None
    law_bytes: Fraction
    expected_bytes: int
    deviations: tuple[Deviation, ...]
    source: str


def claims(
    workload: Workload, rank: int, algorithm: Algorithm = Algorithm.RING
) -> tuple[Claim, ...]:
    """All claims about the traffic of one optimizer step, of `rank` and of all ranks.

    Args:
        workload: the step.
        rank: 0 to N - 1.
        algorithm: who carries the collectives out.

    Returns:
        The whole step, its phases in order, and the sum over all ranks.

    Raises:
        ConfigError: the algorithm's exact cost is not known, or there is no such rank.
    """
    sent = [_sent(workload, rank, algorithm, phase) for phase in (None, *PHASES)]
    return (*sent, _conservation(workload, algorithm))


def _sent(workload: Workload, rank: int, algorithm: Algorithm, phase: Phase | None) -> Claim:
    pure = law(workload, phase)
    return Claim(
        id="sent-a-step" if phase is None else f"sent-in-{phase}",
        title=_title(workload, pure, phase),
        formula=formula(workload, phase),
        measure=Measure.SENT_BY_RANK,
        phase=phase,
        rank=rank,
        law_bytes=pure.sent_bytes,
        expected_bytes=total_sent_bytes(expected_traffic(workload, rank, algorithm), phase),
        deviations=deviations(workload, rank, algorithm, phase),
        source=pure.source,
    )


def _title(workload: Workload, pure: Law, phase: Phase | None) -> str:
    where = "a step" if phase is None else f"in {phase}"
    if workload.accumulate > 1:
        where += f" of {workload.accumulate} micro-steps"
    what = pure.symbols if pure.payloads else "no gradients and no parameters"
    name = system_name(workload)
    return f"{name[0].upper()}{name[1:]} sends {what} {where}"


def _conservation(workload: Workload, algorithm: Algorithm) -> Claim:
    of_ranks = [expected_traffic(workload, rank, algorithm) for rank in range(workload.world_size)]
    sent_bytes = sum(total_sent_bytes(rows) for rows in of_ranks)
    received_bytes = sum(total_received_bytes(rows) for rows in of_ranks)
    return Claim(
        id="sent-is-received",
        title=f"What {workload.world_size} ranks send together, they receive together",
        formula=(
            f"{format_exact_bytes(sent_bytes)} sent = {format_exact_bytes(received_bytes)} received"
        ),
        measure=Measure.SENT_AND_RECEIVED_BY_ALL,
        phase=None,
        rank=None,
        law_bytes=Fraction(sent_bytes),
        expected_bytes=sent_bytes,
        deviations=(),
        source="conservation of bytes",
    )
