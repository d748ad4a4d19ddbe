"""What a whole node sends to other nodes: the laws of ZeRO and ZeRO++ across nodes.

A ring in the order of the ranks crosses each node's border once, with (N-1)/N of a payload. An
all-to-all across K nodes sends (K-1)/K of what all ranks of a node hold for it. So stage 3 sends
3M across nodes and ZeRO++ 0.75M, M being 2 bytes a parameter: 0.5M by qwZ in forward, nothing in
backward by hpZ, 0.25M by qgZ.

Source: G. Wang et al., "ZeRO++" (arXiv 2306.10209), section 3 and Table 1. May import the standard
library and layer L0.
"""

from __future__ import annotations

from fractions import Fraction

from zerosim.quantities import PSI
from zerosim.theory.causes import Deviation, Law
from zerosim.theory.deviations import deviations
from zerosim.theory.laws import PHASES, law, link_law_bytes, multiple, system_name
from zerosim.theory.nodes import SYMBOLS, Span, link_shares
from zerosim.theory.terms import terms
from zerosim.theory.workload import Workload
from zerosim.tiers import Link


def ranks_of_node(workload: Workload, node: int) -> range:
    """The ranks of a node, counted from 0."""
    first = node * workload.world_node_size
    return range(first, min(first + workload.world_node_size, workload.world_size))


def node_law(workload: Workload, node: int = 0) -> Law:
    """What the pure law makes the ranks of a node send to other nodes together."""
    ranks = ranks_of_node(workload, node)
    by_span: dict[Span, Fraction] = {}
    for term in terms(workload, PHASES):
        crossing = sum(
            (
                link_shares(workload, term.span, term.op, rank).get(Link.NETWORK, Fraction(0))
                for rank in ranks
            ),
            Fraction(0),
        )
        payloads = crossing * term.passes * term.element_bytes / workload.element_bytes
        by_span[term.span] = by_span.get(term.span, Fraction(0)) + payloads
    crossing_spans = {span: payloads for span, payloads in by_span.items() if payloads}
    symbols = " + ".join(
        f"{multiple(payloads)}{PSI}({SYMBOLS[span]}-1)/{SYMBOLS[span]}"
        for span, payloads in crossing_spans.items()
    )
    sent = sum((link_law_bytes(workload, rank, Link.NETWORK) for rank in ranks), Fraction(0))
    return Law(
        sum(crossing_spans.values(), Fraction(0)),
        f"{system_name(workload)}: what leaves a node of {workload.world_node_size} ranks",
        law(workload).source,
        sent,
        symbols=symbols or "0",
    )


def node_deviations(workload: Workload, node: int = 0) -> tuple[Deviation, ...]:
    """Why the planned calls of a node's ranks are not what the law says, cause by cause.

    Returns:
        The causes that are not zero. Their sum is exactly what the ranks of the node send to other
        nodes, less `node_law(...).sent_bytes`.
    """
    found: dict[str, Deviation] = {}
    for rank in ranks_of_node(workload, node):
        for one in deviations(workload, rank, link=Link.NETWORK):
            before = found.get(one.cause)
            added = one.bytes + (before.bytes if before else 0)
            found[one.cause] = Deviation(one.cause, added, one.words)
    return tuple(deviation for deviation in found.values() if deviation.bytes)
