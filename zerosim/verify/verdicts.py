"""What can be said of every trace: whether its ranks fit together, and what is not in it.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from zerosim.events import Op
from zerosim.manifest import Source
from zerosim.quantities import format_exact_bytes
from zerosim.record import (
    MismatchKind,
    Trace,
    ended_early,
    iterations,
    match_collectives,
    wire_by_peer,
)
from zerosim.record.text import name_iterations
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
    verdict = partial(Verdict, id="sent-is-received", title=title)
    sent = sum(b.sent_bytes for mine in moved.values() for b in mine.values())
    received = sum(b.received_bytes for mine in moved.values() for b in mine.values())
    if not sent and not received and trace.manifest.num_ranks > 1:
        return verdict(holds=None, measured="the wire was not measured")
    measured = f"{format_exact_bytes(sent)} sent, {format_exact_bytes(received)} received"
    if ended_early(trace):
        words = f"{measured}; a rank that ended early did not count to the end"
        return verdict(holds=None, measured=words)
    if sent == received or (trace.manifest.run and trace.manifest.light is None):
        return verdict(holds=sent == received, measured=measured)
    measured += "; what was under way when a rank began or ended is on one side only"
    allowed = max(sent * WIRE_TOLERANCE, Fraction(_UNDER_WAY_BYTES * len(moved)))
    begins_midway = any(rank.begins is not None for rank in trace.ranks)
    small = abs(sent - received) <= allowed or begins_midway
    return verdict(holds=None if small else False, measured=measured)


def matching_verdict(trace: Trace) -> Verdict:
    """Every collective has its partner on every rank, with the same size and dtype."""
    matching = match_collectives(trace)
    title = "Every collective was called by all of its ranks, in the same way"
    cut = [one for one in matching.mismatches if one.kind is MismatchKind.STOPPED]
    wrong = [one for one in matching.mismatches if one.kind is not MismatchKind.STOPPED]
    if trace.manifest.source is Source.IMPORTED:  # it may not say whose calls they are
        placed = [one for one in wrong if one.kind is not MismatchKind.UNKNOWN]
        apart, wrong = len(wrong) - len(placed), placed
        if not wrong and (apart or trace.lacks):
            whole = sum(one.complete for one in matching.collectives)
            measured = f"{whole:,} collectives matched; of others not all ranks are recorded"
            return Verdict(id="matched", title=title, holds=None, measured=measured)
    if not wrong:
        num_cut = len({one.key for one in cut} - {None})
        measured = f"{len(matching.collectives) - num_cut:,} collectives matched"
        if unsaid := sum(len(one.receives) for one in matching.from_any):
            measured += f", {unsaid} from any rank: which one sent what is not recorded"
        if cut:
            measured += f", {len(cut)} cut short: {cut[0].message}"
        return Verdict(id="matched", title=title, holds=True, measured=measured)
    measured = f"{len(wrong)} do not match; {wrong[0].message}"
    return Verdict(id="matched", title=title, holds=False, measured=measured)


def operator_verdicts(trace: Trace) -> Iterator[Verdict]:
    """What was called that zerosim does not know, so that nothing is proved of it."""
    names = Counter(e.operator for rank in trace.ranks for e in rank.events if e.op is Op.UNKNOWN)
    if names:
        called = ", ".join(f"{name} was called {count:,} times" for name, count in names.items())
        is_imported = trace.manifest.source is Source.IMPORTED
        unknown = "not recorded" if is_imported else f"not known to zerosim {VERSION}"
        measured = f"{called}, and what it sends is {unknown}"
        title = "Every operator that was called is known"
        holds = None if is_imported else False
        yield Verdict(id="operators", title=title, holds=holds, measured=measured)


def early_notes(trace: Trace) -> tuple[str, ...]:
    """What is judged of a trace that ended early; nothing if it did not."""
    complete = iterations(trace)
    if not complete or not ended_early(trace):
        return ()
    which = f"iteration {complete[0]}, which"
    if len(complete) > 1:
        which = f"iterations {name_iterations(complete)}, which"
    return (f"the run ended early: what is judged is {which} all ranks finished",)
