"""How much a whole run moves over each link class in an iteration, for a comparison.

Imports zerosim's L0, record, and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict

from zerosim.record import Trace
from zerosim.tiers import Link
from zerosim.verify.copies import measure_copies
from zerosim.verify.links import measure_links


def bytes_by_link(trace: Trace, iteration: int) -> dict[Link, int]:
    """Payload that all ranks send and copy in the steps of an iteration, by link class.

    Returns:
        In the order of `Link`; nothing of what is sent if some call's messages are not in the
        trace.
    """
    found: dict[Link, int] = defaultdict(int)
    for copied in measure_copies(trace).get(iteration, {}).values():
        for way, copies in copied.items():
            found[way.link] += copies.payload_bytes
    sent = measure_links(trace) or {}
    for ledger in sent.get(iteration, {}).values():
        for (_, link), moved in ledger.items():
            found[link] += moved.cost.sent_bytes
    return {link: found[link] for link in Link if found[link]}
