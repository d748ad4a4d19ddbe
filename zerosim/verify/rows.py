"""The ledger, row by row, and traffic outside of all laws, line by line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zerosim.analysis.traffic import Pair, Share
from zerosim.base.tiers import Link, Tier
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.theory import Cause, Cost, Movement
from zerosim.verify.attribution import OF_BLOCKS, Attributed, CallStanding, RankStep
from zerosim.verify.report import LedgerRow, RankBytes, SourceBytes
from zerosim.verify.steps import TracedStep

_WAYS = (
    (Tier.DISK, Tier.HOST),
    (Tier.HOST, Tier.DEVICE),
    (Tier.DEVICE, Tier.HOST),
    (Tier.HOST, Tier.DISK),
)
"""The tiers in the order of copies: towards the device, then away from it."""
_COPIED = (
    Purpose.FETCH_PARAMETERS,
    Purpose.OFFLOAD_ACTIVATIONS,
    Purpose.FETCH_ACTIVATIONS,
    Purpose.OFFLOAD_GRADIENTS,
    Purpose.FETCH_STATES,
    Purpose.STORE_STATES,
    Purpose.RETURN_PARAMETERS,
    Purpose.STORE_PARAMETERS,
)
"""The purposes in the order of a step."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """The reason for a movement: the key of a ledger's rows.

    Attributes:
        system: the system that planned it; "" if none did.
        op: None for copies, from `origin` to `target`.
        link: the link class of copies, and of messages if rows are separated by it.
    """

    system: str
    phase: Phase
    purpose: Purpose
    op: Op | None = None
    origin: Tier | None = None
    target: Tier | None = None
    link: Link | None = None

    def place(self, titles: Sequence[str]) -> tuple[int | str, ...]:
        """The sort key of rows.

        Args:
            titles: of the systems, in their order.
        """
        return (
            titles.index(self.system) if self.system in titles else len(titles),
            list(Phase).index(self.phase),
            _COPIED.index(self.purpose) if self.purpose in _COPIED else len(_COPIED),
            self.purpose.value,
            "" if self.op is None else self.op.value,
            _WAYS.index(way) if (way := (self.origin, self.target)) in _WAYS else len(_WAYS),
        )


@dataclass(slots=True)
class Cell:
    """One rank's part of one reason: planned, moved and counted bytes.

    Attributes:
        theory, native, trace, named: bytes sent and received: planned, by the backend's algorithm,
            as requested, and the part without a plan but with a cause.
        framing: None if unknown.
        counted: None if the kernel did not count it separately.
        has_no_law: the correct amount is unknown.
    """

    num_calls: int = 0
    payload_bytes: int = 0
    theory: list[int] = field(default_factory=lambda: [0, 0])
    native: list[int] = field(default_factory=lambda: [0, 0])
    trace: list[int] = field(default_factory=lambda: [0, 0])
    named: list[int] = field(default_factory=lambda: [0, 0])
    framing: list[int] | None = field(default_factory=lambda: [0, 0])
    counted: list[int] | None = None
    has_no_law: bool = False

    def of(self, rank: int, way: int) -> RankBytes:
        """Sent bytes (0) or received ones (1)."""
        return RankBytes(
            rank=rank,
            theory=None if self.has_no_law else self.theory[way],
            trace=self.trace[way],
            kernel=None if self.counted is None else self.counted[way],
            algorithm=self.native[way] - self.trace[way],
            framing=None if self.framing is None else self.framing[way],
            overhead=self.named[way],
        )

    def add(self, one: Attributed) -> None:
        """Count a call or a copy."""
        self.num_calls += 1
        self.payload_bytes += one.call.payload_bytes
        if one.standing is CallStanding.OVERHEAD:
            _add(self.named, one.share.asked)
        self.move(one.share)

    def move(self, share: Share) -> None:
        """Count moved bytes, without a reason."""
        _add(self.trace, share.asked)
        _add(self.native, share.moved)
        self.framing = _sum(self.framing, share.framing)
        self.counted = _sum(self.counted, share.wire)


def _add(total: list[int], cost: Cost) -> None:
    total[0] += cost.sent_bytes
    total[1] += cost.received_bytes


def _sum(total: list[int] | None, pair: Pair | None) -> list[int] | None:
    return None if total is None or pair is None else [total[0] + pair[0], total[1] + pair[1]]


def bound_of(call: Movement, rank: int) -> Cost:
    """The minimum bytes of a planned call or copy: by a ring, for any backend."""
    if call.op is None:
        return Cost(call.payload_bytes)
    return replace(call, carrier=None).cost(rank, Algorithm.RING)


def _cells(step: RankStep, *, counts_calls: bool) -> dict[RowKey, Cell]:
    def cell_of(title: str, call: Movement) -> Cell:
        key = RowKey(title, call.phase, call.purpose, call.op, call.origin, call.target, call.link)
        if key not in cells:
            has_counter = call.link is Link.STORAGE or (call.op is not None and counts_calls)
            cells[key] = Cell(counted=[0, 0] if has_counter else None)
        return cells[key]

    cells: dict[RowKey, Cell] = {}
    for plan in step.plans:
        for call in plan.calls:
            _add(cell_of(plan.title, call).theory, bound_of(call, step.rank))
    # a plan that covers everything also answers for calls that it did not plan
    others = next((plan.title for plan in step.plans if plan.is_complete), "")
    for found in step.calls:
        cell = cell_of(others if found.plan is None else step.plans[found.plan].title, found.call)
        cell.add(found)
        cell.has_no_law = not step.plans or (
            found.cause is Cause.ACTIVATIONS and found.call.purpose in OF_BLOCKS
        )
    return cells


def has_wire(step: TracedStep, rank: RankStep) -> bool:
    """Whether a row of a rank has its own wire count: concurrent calls have none."""
    return step.wire_by_call or not rank.plans


def ledger_rows(step: TracedStep) -> tuple[LedgerRow, ...]:
    """One row per reason of each system, in the order of systems and phases."""
    measured = [
        _cells(rank, counts_calls=has_wire(step, rank) and wire.wire is not None)
        for rank, wire in zip(step.ranks, step.wires, strict=True)
    ]
    titles = tuple(dict.fromkeys(plan.title for rank in step.ranks for plan in rank.plans))
    ranks = [rank.rank for rank in step.ranks]
    return rows_of(dict(zip(ranks, measured, strict=True)), titles)


def rows_of(
    cells: Mapping[int, Mapping[RowKey, Cell]], titles: Sequence[str]
) -> tuple[LedgerRow, ...]:
    """Cells of all ranks side by side, one row per reason.

    Args:
        cells: by rank.
        titles: of the systems, in their order.
    """
    reasons = {reason for found in cells.values() for reason in found}
    return tuple(
        _row(reason, cells) for reason in sorted(reasons, key=lambda one: one.place(titles))
    )


def _row(reason: RowKey, cells: Mapping[int, Mapping[RowKey, Cell]]) -> LedgerRow:
    found = {rank: mine.get(reason) or Cell() for rank, mine in cells.items()}
    known = [mine[reason] for mine in cells.values() if reason in mine]
    if any(cell.counted is not None for cell in known):  # a rank without it moved nothing
        for rank, cell in found.items():
            cell.counted = cell.counted if reason in cells[rank] else [0, 0]
    first = next((cell for cell in found.values() if cell.num_calls), Cell())
    is_copy = reason.op is None
    by_link = not is_copy and reason.link is not None  # for messages: a call is made for all links
    return LedgerRow(
        phase=reason.phase,
        purpose=reason.purpose,
        op=reason.op,
        origin=reason.origin,
        target=reason.target,
        link=reason.link,
        system=reason.system,
        calls=() if by_link else tuple(cell.num_calls for cell in found.values()),
        payload_bytes=None if by_link else first.payload_bytes,
        sent=tuple(cell.of(rank, 0) for rank, cell in found.items()),
        received=()
        if is_copy or by_link
        else tuple(cell.of(rank, 1) for rank, cell in found.items()),
    )


def sources_of(step: TracedStep) -> tuple[SourceBytes, ...]:
    """Traffic outside of all laws, by source line; of the first rank that made it."""
    found: dict[tuple[str, Phase, Purpose, Op | None, str], list[Attributed]] = {}
    for rank in step.ranks:
        mine: dict[tuple[str, Phase, Purpose, Op | None, str], list[Attributed]] = defaultdict(list)
        for one in rank.calls:
            if one.standing in (CallStanding.OVERHEAD, CallStanding.UNEXPLAINED):
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
            sent_bytes=sum(one.share.asked.sent_bytes for one in calls),
        )
        for (source, phase, purpose, op, why), calls in found.items()
    )
