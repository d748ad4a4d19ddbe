"""Bytes between ranks by link class: within a node, between two nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from zerosim.analysis.traffic import Share, traced_calls
from zerosim.base.tiers import Link
from zerosim.record import Trace
from zerosim.schema.events import STEP_PHASES
from zerosim.theory.programs import ZeroPlan
from zerosim.verify.attribution import OF_BLOCKS, RankStep
from zerosim.verify.report import LedgerRow
from zerosim.verify.rows import Cell, RowKey, rows_of
from zerosim.verify.steps import TracedStep

Cells = dict[RowKey, Cell]
"""Bytes that one rank sent in one iteration, by reason and link."""


def measure_links(trace: Trace) -> dict[int, dict[int, Cells]] | None:
    """Bytes that each rank sent within optimizer steps over each link class, by iteration and rank.

    Returns:
        None if some call's messages are not in the trace.
    """
    found: dict[int, dict[int, Cells]] = defaultdict(lambda: defaultdict(dict))
    for call in traced_calls(trace):
        event = call.event
        if event.phase not in STEP_PHASES:
            continue
        if not call.has_links:
            return None
        for share in call.shares:
            key = RowKey("", event.phase, call.purpose, event.op, link=share.link)
            cell = found[event.iteration][call.rank].setdefault(key, Cell(counted=[0, 0]))
            cell.move(Share(share.link, share.moved, share.moved, share.framing, share.wire))
    return found


def link_rows(step: TracedStep, measured: Mapping[int, Cells]) -> tuple[LedgerRow, ...]:
    """Theory, trace and wire by link class, a row for each reason, in the order of the links.

    Args:
        measured: of the step's iteration, by rank.
    """
    cells = {rank.rank: dict(measured.get(rank.rank, {})) for rank in step.ranks}
    for rank in step.ranks:
        _plan(rank, cells[rank.rank])
    rows = rows_of(cells, ())
    moving = [row for row in rows if any(cell.theory or cell.trace for cell in row.sent)]
    links = list(Link)
    return tuple(sorted(moving, key=lambda row: links.index(row.link) if row.link else -1))


def _plan(rank: RankStep, cells: dict[RowKey, Cell]) -> None:
    """Combine planned and measured bytes."""
    for plan in rank.plans:
        assert isinstance(plan, ZeroPlan), "of other systems, messages are not known by link"
        for call in plan.calls:
            moved = {} if call.op is None else call.moved_by_link(rank.rank, plan.ranks_per_node)
            for link, sent in moved.items():
                key = RowKey("", call.phase, call.purpose, call.op, link=link)
                cells.setdefault(key, Cell(counted=[0, 0])).theory[0] += sent
        for key, cell in cells.items():
            if key.purpose in OF_BLOCKS and key.purpose not in plan.purposes:
                cell.theory[0] = cell.trace[0]  # the predicted amount is not known
