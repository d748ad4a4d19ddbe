"""How much a whole run moves over each link class in an iteration, for a comparison.

Imports zerosim's L0, record, and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict

from zerosim.record import Trace
from zerosim.tiers import Link, link_of_copy
from zerosim.verify.attribution import calls_by_iteration
from zerosim.verify.links import measure_links
from zerosim.verify.measure import STEP_PHASES


def bytes_by_link(trace: Trace, iteration: int) -> dict[Link, int]:
    """Payload that all ranks send and copy in the steps of an iteration, by link class.

    Returns:
        In the order of `Link`; nothing of what is sent if some call's messages are not in the
        trace.
    """
    found: dict[Link, int] = defaultdict(int)
    for rank in trace.ranks:
        for event in calls_by_iteration(rank).get(iteration, ()):
            if event.origin and event.target and event.phase in STEP_PHASES:
                found[link_of_copy(event.origin, event.target)] += event.payload_bytes
    sent = measure_links(trace) or {}
    for cells in sent.get(iteration, {}).values():
        for reason, cell in cells.items():
            if reason.link is not None:
                found[reason.link] += cell.trace[0]
    return {link: found[link] for link in Link if found[link]}
