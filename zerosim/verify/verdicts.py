"""What can be said of every trace: whether its ranks fit together, and what is not in it.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from zerosim.events import Op
from zerosim.quantities import format_exact_bytes
from zerosim.record import (
    MismatchKind,
    Trace,
    ended_early,
    iterations,
    match_collectives,
    wire_by_peer,
)
from zerosim.verify.claims import WIRE_TOLERANCE
from zerosim.verify.report import Verdict
from zerosim.version import VERSION

_UNDER_WAY_BYTES = 1000
"""Control messages that a rank may have under way: a small collective costs about as much."""


def conservation_verdict(trace: Trace) -> Verdict:
    """What every rank sent to a peer, the peer received: by the kernel's counters, whole run.

    Exact for `zerosim run`, whose ranks meet before the first and after the last reading. In any
    other program something may be under way then, so a small difference proves nothing.
    """
    moved = wire_by_peer(trace)
    title = "Together, the ranks receive what they send"
    sent = sum(b.sent_bytes for mine in moved.values() for b in mine.values())
    received = sum(b.received_bytes for mine in moved.values() for b in mine.values())
    if not sent and not received and trace.manifest.num_ranks > 1:
        return _verdict("sent-is-received", title, None, "the wire was not measured")
    measured = f"{format_exact_bytes(sent)} sent, {format_exact_bytes(received)} received"
    if ended_early(trace):
        words = f"{measured}; a rank that ended early did not count to the end"
        return _verdict("sent-is-received", title, None, words)
    if sent == received or trace.manifest.run:
        return _verdict("sent-is-received", title, sent == received, measured)
    measured += "; what was under way when a rank began or ended is on one side only"
    allowed = max(sent * WIRE_TOLERANCE, Fraction(_UNDER_WAY_BYTES * len(moved)))
    small = abs(sent - received) <= allowed
    return _verdict("sent-is-received", title, None if small else False, measured)


def matching_verdict(trace: Trace) -> Verdict:
    """Every collective has its partner on every rank, with the same size and dtype."""
    matching = match_collectives(trace)
    title = "Every collective was called by all of its ranks, in the same way"
    cut = [one for one in matching.mismatches if one.kind is MismatchKind.STOPPED]
    wrong = [one for one in matching.mismatches if one.kind is not MismatchKind.STOPPED]
    if not wrong:
        num_cut = len({one.key for one in cut} - {None})
        measured = f"{len(matching.collectives) - num_cut:,} collectives matched"
        if unsaid := sum(len(one.receives) for one in matching.from_any):
            measured += f", {unsaid} from any rank: which one sent what is not recorded"
        if cut:
            measured += f", {len(cut)} cut short: {cut[0].message}"
        return _verdict("matched", title, holds=True, measured=measured)
    measured = f"{len(wrong)} do not match; {wrong[0].message}"
    return _verdict("matched", title, holds=False, measured=measured)


def operator_verdicts(trace: Trace) -> Iterator[Verdict]:
    """What was called that zerosim does not know, so that nothing is proved of it."""
    names = Counter(e.operator for rank in trace.ranks for e in rank.events if e.op is Op.UNKNOWN)
    if names:
        called = ", ".join(f"{name} was called {count:,} times" for name, count in names.items())
        measured = f"{called}, and what it sends is not known to zerosim {VERSION}"
        title = "Every operator that was called is known"
        yield _verdict("operators", title, holds=False, measured=measured)


def early_notes(trace: Trace) -> tuple[str, ...]:
    """What is judged of a trace that ended early; nothing if it did not."""
    complete = iterations(trace)
    if not complete or not ended_early(trace):
        return ()
    which = f"iteration {complete[0]}, which"
    if len(complete) > 1:
        which = f"iterations {complete[0]} to {complete[-1]}, which"
    return (f"the run ended early: what is judged is {which} all ranks finished",)


def _verdict(identity: str, title: str, holds: bool | None, measured: str) -> Verdict:
    return Verdict(id=identity, title=title, formula="", holds=holds, measured=measured)
