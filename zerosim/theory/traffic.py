"""What a system of the ZeRO family sends in one optimizer step, as rows: phase, purpose, operation.

The papers' pure laws, and why a real step differs from them, are in `laws`; which collectives there
are is in `calls`, what is copied between tiers in `tiers`. May import the standard library and
layer L0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Op, Phase, Purpose
from zerosim.theory.algorithms import Cost
from zerosim.theory.calls import Call, planned_calls
from zerosim.theory.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRow:
    """What one rank exchanges for one reason in one phase of an optimizer step.

    Attributes:
        num_collectives: calls.
        payload_bytes: their buffers together, as `Event.payload_bytes` counts them.
        sent_bytes: what the algorithm makes this rank send, without framing.
        received_bytes: likewise, received.
        messages_sent: None where the backend does not say.
        messages_received: likewise.
    """

    phase: Phase
    purpose: Purpose
    op: Op
    num_collectives: int
    payload_bytes: int
    sent_bytes: int
    received_bytes: int
    messages_sent: int | None
    messages_received: int | None


def expected_traffic(
    workload: Workload, rank: int, algorithm: Algorithm = Algorithm.RING
) -> tuple[TrafficRow, ...]:
    """What `rank` sends and receives in one optimizer step.

    Args:
        workload: the step.
        rank: 0 to N - 1; with T tensor parallel ranks, to N T - 1.
        algorithm: zerosim's own messages, which are the bound that the papers mean, or the native
            calls of a backend for the same requests.

    Returns:
        One row for each phase, purpose and operation, in the order of the phases; nothing for
        one rank.

    Raises:
        ConfigError: the algorithm's exact cost is not known, or there is no such rank.
    """
    require_rank(workload, rank)
    return _expected(workload, rank, algorithm)


@lru_cache(maxsize=1024)
def _expected(workload: Workload, rank: int, algorithm: Algorithm) -> tuple[TrafficRow, ...]:
    grouped: dict[tuple[Phase, Purpose, Op], Counter[Call]] = {}
    for call in planned_calls(workload, rank):
        grouped.setdefault((call.phase, call.purpose, call.op), Counter())[call] += 1
    rows = []
    for (phase, purpose, op), calls in grouped.items():
        total = Cost()
        for call, count in calls.items():
            total += call.cost(workload, rank, algorithm) * count
        rows.append(
            TrafficRow(
                phase=phase,
                purpose=purpose,
                op=op,
                num_collectives=sum(call.times * count for call, count in calls.items()),
                payload_bytes=sum(call.payload_bytes * count for call, count in calls.items()),
                sent_bytes=total.sent_bytes,
                received_bytes=total.received_bytes,
                messages_sent=total.messages_sent,
                messages_received=total.messages_received,
            )
        )
    return tuple(rows)


def require_rank(workload: Workload, rank: int) -> None:
    """See that there is such a rank.

    Raises:
        ConfigError: there is none.
    """
    if not 0 <= rank < workload.world_size:
        raise ConfigError(f"rank {rank}: expected 0 to {workload.world_size - 1}")


def total_sent_bytes(rows: tuple[TrafficRow, ...], phase: Phase | None = None) -> int:
    """What the rows send together, of one phase or of all."""
    return sum(row.sent_bytes for row in rows if phase is None or row.phase is phase)


def total_received_bytes(rows: tuple[TrafficRow, ...], phase: Phase | None = None) -> int:
    """What the rows receive together, of one phase or of all."""
    return sum(row.received_bytes for row in rows if phase is None or row.phase is phase)
