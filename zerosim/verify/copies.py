"""What each rank copied between its tiers: theory, trace, and the kernel's counter of the disk.

The kernel counts what a thread reads and writes (`/proc/self/task/TID/io`); the bus has no counter
on a machine without a GPU, so what crossed it is "not measured" there. A file on a disk is more
than its content by what `theory.disk` says.
Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from zerosim.events import Kind, Phase, Purpose
from zerosim.record import RankTrace, Trace
from zerosim.theory import CopyRow as PlannedRow
from zerosim.theory import Workload, expected_copies
from zerosim.theory.disk import overhead_bytes
from zerosim.tiers import Link, Tier, link_of_copy
from zerosim.verify.ledgers import has_no_law
from zerosim.verify.measure import STEP_PHASES
from zerosim.verify.report import CopyBytes, CopyLedger


@dataclass(frozen=True, slots=True)
class CopyReason:
    """Why bytes were copied: the key of a row."""

    phase: Phase
    purpose: Purpose
    origin: Tier
    target: Tier

    @property
    def link(self) -> Link:
        """What they went over."""
        return link_of_copy(self.origin, self.target)


@dataclass(slots=True)
class Copied:
    """What one rank copied for one reason in one iteration.

    Attributes:
        kernel_bytes: what the kernel counted; None if it was not measured.
        framing_bytes: what the files are beside their content.
    """

    num_copies: int = 0
    payload_bytes: int = 0
    kernel_bytes: int | None = 0
    framing_bytes: int = 0


CopyMeasure = Mapping[CopyReason, Copied]
"""What one rank copied in one iteration."""


def measure_copies(trace: Trace) -> dict[int, dict[int, CopyMeasure]]:
    """What each rank copied within optimizer steps, by iteration and rank."""
    found: dict[int, dict[int, CopyMeasure]] = defaultdict(dict)
    for rank in trace.ranks:
        for iteration, copied in _measure_rank(rank).items():
            found[iteration][rank.rank] = copied
    return found


def _measure_rank(rank: RankTrace) -> dict[int, CopyMeasure]:
    found: dict[int, dict[CopyReason, Copied]] = defaultdict(lambda: defaultdict(Copied))
    for event in rank.events:
        if event.kind is not Kind.COPY or event.phase not in STEP_PHASES:
            continue
        if event.origin is None or event.target is None:
            continue  # a row of no engine of ours: between which tiers, nobody said
        reason = CopyReason(
            event.phase, event.purpose or Purpose.UNLABELLED, event.origin, event.target
        )
        row = found[event.iteration][reason]
        row.num_copies += 1
        row.payload_bytes += event.payload_bytes
        if reason.link is Link.STORAGE:
            row.framing_bytes += overhead_bytes(event.payload_bytes)
        if event.counted_bytes is None or row.kernel_bytes is None:
            row.kernel_bytes = None
        else:
            row.kernel_bytes += event.counted_bytes
    return {iteration: dict(rows) for iteration, rows in found.items()}


def copy_rows(workload: Workload, measured: Mapping[int, CopyMeasure]) -> tuple[CopyLedger, ...]:
    """Theory, trace and kernel, a row for each reason that is planned or was recorded.

    Args:
        measured: of one iteration, for all ranks.
    """
    planned = {rank: planned_by_reason(workload, rank) for rank in measured}
    keys = {key for rows in (*measured.values(), *planned.values()) for key in rows}
    return tuple(
        _row(key, measured, planned, has_law=not has_no_law(key.purpose, workload))
        for key in sorted(keys, key=_order)
    )


def planned_by_reason(workload: Workload, rank: int) -> dict[CopyReason, PlannedRow]:
    """The rows of theory, by reason."""
    return {
        CopyReason(row.phase, row.purpose, row.origin, row.target): row
        for row in expected_copies(workload, rank)
    }


def _row(
    key: CopyReason,
    measured: Mapping[int, CopyMeasure],
    planned: Mapping[int, Mapping[CopyReason, PlannedRow]],
    *,
    has_law: bool,
) -> CopyLedger:
    cells, counts = [], []
    for rank, copies in sorted(measured.items()):
        copied = copies.get(key) or Copied()
        row = planned[rank].get(key)
        theory = 0 if row is None else row.payload_bytes
        has_counter = key.link is Link.STORAGE
        cells.append(
            CopyBytes(
                rank=rank,
                theory=theory if has_law else None,
                trace=copied.payload_bytes,
                kernel=copied.kernel_bytes if has_counter else None,
                framing=copied.framing_bytes,
            )
        )
        counts.append(copied.num_copies)
    return CopyLedger(
        phase=key.phase,
        purpose=key.purpose,
        origin=key.origin,
        target=key.target,
        num_copies=tuple(counts),
        copied=tuple(cells),
    )


_WAYS = (
    (Tier.DISK, Tier.HOST),
    (Tier.HOST, Tier.DEVICE),
    (Tier.DEVICE, Tier.HOST),
    (Tier.HOST, Tier.DISK),
)
"""As a copy takes them: up one after another, then down."""


_PURPOSES = (
    Purpose.FETCH_PARAMETERS,
    Purpose.OFFLOAD_ACTIVATIONS,
    Purpose.FETCH_ACTIVATIONS,
    Purpose.OFFLOAD_GRADIENTS,
    Purpose.FETCH_STATES,
    Purpose.STORE_STATES,
    Purpose.RETURN_PARAMETERS,
    Purpose.STORE_PARAMETERS,
)
"""In the order in which a step comes to them."""


def _order(key: CopyReason) -> tuple[int, int, str, int]:
    way = (key.origin, key.target)
    place = _WAYS.index(way) if way in _WAYS else len(_WAYS)
    known = key.purpose in _PURPOSES
    purpose = _PURPOSES.index(key.purpose) if known else len(_PURPOSES)
    return STEP_PHASES.index(key.phase), purpose, key.purpose.value, place
