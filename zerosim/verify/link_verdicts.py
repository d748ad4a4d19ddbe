"""Claims about inter-node traffic: by the trace and the sockets, and by network interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from zerosim.base.language import term
from zerosim.base.quantities import PSI, first_of, format_decimal, format_exact, format_exact_bytes
from zerosim.base.tiers import Link
from zerosim.theory import node_deviations, node_law, ranks_of_node
from zerosim.theory.programs import ZeroPlan
from zerosim.verify.claims import WIRE_TOLERANCE, Checked, listed
from zerosim.verify.report import InterfaceBytes, LedgerRow, Verdict
from zerosim.verify.wording import said

Rows = Mapping[int, Sequence[LedgerRow]]
"""Rows by link class, by iteration."""
_UNSEEN_BYTES = 10_000
"""Tolerance for a launcher's traffic at the store and the network's own packets."""


def between_nodes_verdict(checked: Sequence[Checked], rows: Rows) -> Verdict:
    """Whether each node's traffic to other nodes follows the law.

    Args:
        rows: by iteration, separated by link.
    """
    problems = [
        words
        for one in checked
        for row in rows[one.step.iteration]
        for words in _strays(row, one.step.iteration)
    ]
    last = checked[-1].step
    plan = last.ranks[0].plans[0]
    assert isinstance(plan, ZeroPlan), "of other systems, messages are not known by link"
    workload = plan.workload
    law = node_law(workload)
    of_node = ranks_of_node(workload, 0)
    sent = sum(
        cell.trace
        for row in rows[last.iteration]
        if row.link is Link.NETWORK
        for cell in row.sent
        if cell.rank in of_node
    )
    unit = workload.num_parameters * workload.element_bytes
    measured = f"{format_exact_bytes(sent)} = {format_decimal(Fraction(sent, unit), 3)} {PSI}"
    causes = listed(node_deviations(workload))
    if causes:
        measured = said("claims.overhead", measured=measured, causes=causes)
    if problems:
        measured = said("claims.then", measured=measured, more=first_of(problems))
    return Verdict(
        id="sent-between-nodes",
        title=said("nodes.title", ranks=workload.world_node_size, law=law.symbols),
        formula=(
            f"{format_decimal(law.sent_bytes / unit, 3)} x {format_exact(workload.num_parameters)}"
            f" x {workload.element_bytes} B = {format_exact_bytes(law.sent_bytes)}"
        ),
        holds=not problems,
        measured=measured,
    )


def _strays(row: LedgerRow, iteration: int) -> Iterator[str]:
    for cell in row.sent:
        where = said(
            "nodes.where",
            link=term(row.link or ""),
            phase=term(row.phase),
            iteration=iteration,
            purpose=term(row.purpose),
            op=term(row.op or ""),
        )
        if cell.unexplained_trace:
            yield said(
                "nodes.asked",
                rank=cell.rank,
                bytes=format_exact_bytes(cell.trace),
                where=where,
                theory=format_exact_bytes(cell.theory or 0),
            )
        on_wire = cell.unexplained_kernel or 0
        if abs(on_wire) > WIRE_TOLERANCE * cell.trace:
            yield said(
                "nodes.wire_more" if on_wire > 0 else "nodes.wire_less",
                bytes=format_exact_bytes(abs(on_wire)),
                rank=cell.rank,
                where=where,
            )


def interface_verdict(interfaces: Sequence[InterfaceBytes]) -> Verdict:
    """The interfaces' counts equal the bytes of the sockets, plus headers per packet.

    If an interface counted more, another process used it too, and the claim is undecided.
    """
    title = said("nodes.interfaces")
    counted = sum(each.counted for each in interfaces)
    stray = sum(abs(each.unexplained) for each in interfaces)
    least = min(each.unexplained for each in interfaces)
    headers = sum(each.headers for each in interfaces)
    allowed = max(WIRE_TOLERANCE * counted, Fraction(_UNSEEN_BYTES * len(interfaces)))
    return Verdict(
        id="interface-is-sockets",
        title=title,
        holds=True if stray <= allowed else None if least >= 0 else False,
        measured=said(
            "nodes.counted",
            stray=format_exact_bytes(stray),
            counted=format_exact_bytes(counted),
            headers=format_exact_bytes(headers),
        ),
    )
