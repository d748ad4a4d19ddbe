"""The ledgers of a program, row by row, and what no law speaks of, line by line.

Imports zerosim's L0, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from zerosim.events import Algorithm, Op, Phase, Purpose
from zerosim.theory import Cost
from zerosim.verify.attribution import Attributed, RankStep, Standing
from zerosim.verify.ledgers import PHASE_ORDER
from zerosim.verify.program_report import ProgramBytes, ProgramRow, SourceBytes
from zerosim.verify.program_steps import ProgramStep


@dataclass(slots=True)
class _Cell:
    """What one rank has for one reason: what is planned, and what was called."""

    num_calls: int = 0
    payload_bytes: int = 0
    theory: list[int] = field(default_factory=lambda: [0, 0])
    native: list[int] = field(default_factory=lambda: [0, 0])
    trace: list[int] = field(default_factory=lambda: [0, 0])
    beside: list[int] = field(default_factory=lambda: [0, 0])

    def of(self, rank: int, way: int) -> ProgramBytes:
        """Sent bytes (0) or received ones (1)."""
        return ProgramBytes(
            rank=rank,
            theory=self.theory[way],
            trace=self.trace[way],
            wire=None,
            algorithm=self.native[way] - self.trace[way],
            framing=None,
            beside=self.beside[way],
        )


Reason = tuple[str, Phase, Purpose, Op]


def _cells(step: RankStep) -> dict[Reason, _Cell]:
    cells: dict[Reason, _Cell] = defaultdict(_Cell)
    for plan in step.plans:
        for call in plan.calls:
            cell = cells[plan.title, call.phase, call.purpose, call.op]
            _add(cell.theory, call.cost(step.rank, Algorithm.RING))
    for found in step.calls:
        call = found.call
        title = "" if found.plan is None else step.plans[found.plan].title
        cell = cells[title, call.phase, call.purpose, call.op]
        cell.num_calls += 1
        cell.payload_bytes += call.payload_bytes
        _add(cell.trace, found.bound)
        _add(cell.native, found.cost)
        if found.standing is Standing.BESIDE:
            _add(cell.beside, found.bound)
    return cells


def _add(total: list[int], cost: Cost) -> None:
    total[0] += cost.sent_bytes
    total[1] += cost.received_bytes


def ledger_rows_of(step: ProgramStep) -> tuple[ProgramRow, ...]:
    """One row for each reason of each system, in the order of systems and phases."""
    by_rank = [_cells(rank) for rank in step.ranks]
    titles = list(dict.fromkeys(plan.title for rank in step.ranks for plan in rank.plans))

    def order(reason: Reason) -> tuple[int, int, str, str]:
        title, phase, purpose, op = reason
        place = titles.index(title) if title in titles else len(titles)
        return place, PHASE_ORDER.index(phase), purpose.value, op.value

    rows = []
    for reason in sorted({reason for cells in by_rank for reason in cells}, key=order):
        found = [cells.get(reason) or _Cell() for cells in by_rank]
        shown = next((cell for cell in found if cell.num_calls), found[0])
        title, phase, purpose, op = reason
        ranks = [rank.rank for rank in step.ranks]
        rows.append(
            ProgramRow(
                phase=phase,
                purpose=purpose,
                op=op,
                num_collectives=shown.num_calls,
                payload_bytes=shown.payload_bytes,
                sent=tuple(cell.of(rank, 0) for rank, cell in zip(ranks, found, strict=True)),
                received=tuple(cell.of(rank, 1) for rank, cell in zip(ranks, found, strict=True)),
                system=title,
            )
        )
    return tuple(rows)


def sources_of(step: ProgramStep) -> tuple[SourceBytes, ...]:
    """What no law speaks of, by source line; of the first rank that called it."""
    found: dict[tuple[str, Phase, Purpose, Op, str], list[Attributed]] = {}
    for rank in step.ranks:
        mine: dict[tuple[str, Phase, Purpose, Op, str], list[Attributed]] = defaultdict(list)
        for one in rank.calls:
            if one.standing in (Standing.BESIDE, Standing.UNEXPLAINED):
                why = "unexplained" if one.cause is None else one.cause.value
                call = one.call
                mine[one.source, call.phase, call.purpose, call.op, why].append(one)
        for key, calls in mine.items():
            found.setdefault(key, calls)
    return tuple(
        SourceBytes(
            source=source,
            phase=phase,
            purpose=purpose,
            op=op,
            why=why,
            num_calls=len(calls),
            payload_bytes=sum(one.call.payload_bytes for one in calls),
            sent_bytes=sum(one.bound.sent_bytes for one in calls),
        )
        for (source, phase, purpose, op, why), calls in found.items()
    )
