"""Checks of every trace: whether its ranks are consistent, and which data it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from zerosim.base.language import enumerated
from zerosim.base.quantities import format_exact_bytes
from zerosim.base.version import VERSION
from zerosim.record import (
    MismatchKind,
    RankTrace,
    Trace,
    ended_early,
    iterations,
    match_collectives,
    wire_by_peer,
)
from zerosim.record.text import name_iterations
from zerosim.schema.events import Op
from zerosim.schema.manifest import Source
from zerosim.verify.claims import WIRE_TOLERANCE
from zerosim.verify.report import Verdict
from zerosim.verify.wording import said

_UNDER_WAY_BYTES = 1000
"""A rank's pending control messages: about as many bytes as a small collective."""


def conservation_verdict(trace: Trace) -> Verdict:
    """Each peer received every byte sent to it, by the kernel's counts.

    Exact for `zerosim run`, whose ranks synchronize before the first and after the last reading. In
    any other program, messages may be in flight then, so a small difference proves nothing.
    """
    moved = wire_by_peer(trace)
    title = said("received.title")
    verdict = partial(Verdict, id="sent-is-received", title=title)
    sent = sum(b.sent_bytes for mine in moved.values() for b in mine.values())
    received = sum(b.received_bytes for mine in moved.values() for b in mine.values())
    if not sent and not received and trace.manifest.num_ranks > 1:
        return verdict(holds=None, measured=said("received.unmeasured"))
    measured = said(
        "received.measured", sent=format_exact_bytes(sent), received=format_exact_bytes(received)
    )
    if ended_early(trace):
        return verdict(holds=None, measured=said("received.early", measured=measured))
    on_cpu = all(rank.header.device == "cpu" for rank in trace.ranks)
    is_quiet = on_cpu or all(_ends_quiet(rank) for rank in trace.ranks)
    is_ours = trace.manifest.run and trace.manifest.light is None
    if sent == received or (is_ours and is_quiet):
        return verdict(holds=sent == received, measured=measured)
    measured = said("received.midway", measured=measured)
    if not is_quiet:  # the amount in flight is unknown
        return verdict(holds=None, measured=measured)
    allowed = max(sent * WIRE_TOLERANCE, Fraction(_UNDER_WAY_BYTES * len(moved)))
    begins_midway = any(rank.begins is not None for rank in trace.ranks)
    small = abs(sent - received) <= allowed or begins_midway
    return verdict(holds=None if small else False, measured=measured)


def _ends_quiet(rank: RankTrace) -> bool:
    """Whether a device's calls had ended at the first and last readings of the counters."""
    samples = rank.wire_samples
    return samples[-1].is_quiet and (samples[0].is_quiet or not samples[0].counters)


def matching_verdict(trace: Trace) -> Verdict:
    """Every collective has its partner on every rank, with the same size and dtype."""
    matching = match_collectives(trace)
    title = said("matched.title")
    cut = [one for one in matching.mismatches if one.kind is MismatchKind.STOPPED]
    wrong = [one for one in matching.mismatches if one.kind is not MismatchKind.STOPPED]
    if trace.manifest.source is Source.IMPORTED:  # some calls cannot be placed
        placed = [one for one in wrong if one.kind is not MismatchKind.UNKNOWN]
        apart, wrong = len(wrong) - len(placed), placed
        if not wrong and (apart or trace.lacks):
            whole = sum(one.complete for one in matching.collectives)
            measured = said("matched.some", count=f"{whole:,}")
            return Verdict(id="matched", title=title, holds=None, measured=measured)
    if not wrong:
        num_cut = len({one.key for one in cut} - {None})
        measured = said("matched.all", count=f"{len(matching.collectives) - num_cut:,}")
        if unsaid := sum(len(one.receives) for one in matching.from_any):
            measured = said("matched.from_any", measured=measured, count=unsaid)
        if cut:
            measured = said(
                "matched.cut", measured=measured, count=len(cut), message=cut[0].message
            )
        return Verdict(id="matched", title=title, holds=True, measured=measured)
    measured = said("matched.wrong", count=len(wrong), message=wrong[0].message)
    return Verdict(id="matched", title=title, holds=False, measured=measured)


def operator_verdicts(trace: Trace) -> Iterator[Verdict]:
    """Calls of operators that zerosim does not know, whose traffic is not checked."""
    names = Counter(e.operator for rank in trace.ranks for e in rank.events if e.op is Op.UNKNOWN)
    if names:
        called = enumerated(
            said("operators.called", name=name, count=f"{count:,}") for name, count in names.items()
        )
        is_imported = trace.manifest.source is Source.IMPORTED
        key = "operators.unrecorded" if is_imported else "operators.unknown"
        measured = said(key, called=called, version=VERSION)
        title = said("operators.title")
        holds = None if is_imported else False
        yield Verdict(id="operators", title=title, holds=holds, measured=measured)


def early_notes(trace: Trace) -> tuple[str, ...]:
    """A note on the checked part of a trace that ended early; none for a complete trace."""
    complete = iterations(trace)
    if not complete or not ended_early(trace):
        return ()
    if len(complete) > 1:
        return (said("notes.early_several", iterations=name_iterations(complete)),)
    return (said("notes.early", iteration=complete[0]),)
