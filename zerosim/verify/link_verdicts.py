"""Claims about what leaves a node: by the trace and the sockets, and by its network interfaces.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from zerosim.quantities import PSI, format_decimal, format_exact, format_exact_bytes
from zerosim.theory import Workload, node_deviations, node_law, ranks_of_node
from zerosim.tiers import Link
from zerosim.verify.links import of_link
from zerosim.verify.report import InterfaceBytes, LinkRow, Verdict

WIRE_TOLERANCE = Fraction(2, 1000)
"""Largest part of a socket's bytes, and of an interface's, that may stay unexplained."""
_UNSEEN_BYTES = 10_000
"""What a launcher's words at the store, and the network's own packets, may add to an interface."""


@dataclass(frozen=True, slots=True)
class CheckedLinks:
    """One iteration: what was to be sent over each link class in it, and what was."""

    workload: Workload
    rows: Sequence[LinkRow]


def link_verdicts(
    checked: Mapping[int, CheckedLinks], interfaces: Sequence[InterfaceBytes]
) -> list[Verdict]:
    """All claims about what leaves a node; none with one node."""
    found = [between_nodes_verdict(checked)] if checked else []
    return [*found, interface_verdict(interfaces)] if interfaces else found


def between_nodes_verdict(checked: Mapping[int, CheckedLinks]) -> Verdict:
    """Whether each node sends to others what the law says; numbers are the last iteration's."""
    problems = [
        words
        for iteration, step in checked.items()
        for row in step.rows
        for words in _strays(row, iteration)
    ]
    last = checked[max(checked)]
    workload = last.workload
    law = node_law(workload)
    sent = sum(
        row.sent[rank].trace
        for row in of_link(last.rows, Link.NETWORK)
        for rank in ranks_of_node(workload, 0)
    )
    unit = workload.num_parameters * workload.element_bytes
    measured = f"{format_exact_bytes(sent)} = {format_decimal(Fraction(sent, unit), 3)} {PSI}"
    causes = ", ".join(
        f"{cause.cause} {'+' if cause.bytes > 0 else ''}{format_exact_bytes(cause.bytes)}"
        for cause in node_deviations(workload)
    )
    if causes:
        measured += f", of it beside the law: {causes}"
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        measured += f"; {problems[0]}{more}"
    return Verdict(
        id="sent-between-nodes",
        title=f"A node of {workload.world_node_size} ranks sends {law.symbols} to others a step",
        formula=(
            f"{format_decimal(law.sent_bytes / unit, 3)} x {format_exact(workload.num_parameters)}"
            f" x {workload.element_bytes} B = {format_exact_bytes(law.sent_bytes)}"
        ),
        holds=not problems,
        measured=measured,
    )


def _strays(row: LinkRow, iteration: int) -> list[str]:
    found = []
    for cell in row.sent:
        where = f"{row.link} in {row.phase} of iteration {iteration} ({row.purpose}: {row.op})"
        if cell.unexplained_trace:
            found.append(
                f"rank {cell.rank} was asked to send {format_exact_bytes(cell.trace)} {where}, "
                f"theory says {format_exact_bytes(cell.theory)}"
            )
        on_wire = cell.unexplained_wire or 0
        if abs(on_wire) > WIRE_TOLERANCE * cell.trace:
            found.append(
                f"the kernel sent {format_exact_bytes(abs(on_wire))} "
                f"{'more' if on_wire > 0 else 'less'} for rank {cell.rank} {where} than the trace "
                "and its framing"
            )
    return found


def interface_verdict(interfaces: Sequence[InterfaceBytes]) -> Verdict:
    """What the interfaces counted is what the sockets sent, with a header for each packet.

    An interface that counted more has been used by somebody else, too, and proves nothing.
    """
    title = "The network interfaces sent what the sockets sent, in packets"
    counted = sum(each.counted for each in interfaces)
    stray = sum(abs(each.unexplained) for each in interfaces)
    least = min(each.unexplained for each in interfaces)
    headers = sum(each.headers for each in interfaces)
    allowed = max(WIRE_TOLERANCE * counted, Fraction(_UNSEEN_BYTES * len(interfaces)))
    return Verdict(
        id="interface-is-sockets",
        title=title,
        formula="",
        holds=True if stray <= allowed else None if least >= 0 else False,
        measured=(
            f"{format_exact_bytes(stray)} unexplained of {format_exact_bytes(counted)}, "
            f"{format_exact_bytes(headers)} of it headers"
        ),
    )
