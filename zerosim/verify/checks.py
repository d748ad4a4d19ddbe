"""Checks other than the laws: planned calls, their purposes, the wire and the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from zerosim.base.language import term
from zerosim.base.quantities import first_of, format_exact_bytes
from zerosim.base.tiers import Link
from zerosim.schema.events import Purpose
from zerosim.theory import LEFT_OUT, Cause, Movement
from zerosim.verify.attribution import Attributed, CallStanding, RankStep
from zerosim.verify.claims import (
    PLANNED,
    UNATTRIBUTED,
    WIRE_TOLERANCE,
    Checked,
    groups,
    what_is_unrecorded,
)
from zerosim.verify.report import Verdict
from zerosim.verify.wording import said


def planned_verdict(checked: Sequence[Checked], *, copies: bool = False) -> Verdict:
    """Each planned call or copy was made, and no others for the same purposes."""
    problems = [
        words
        for one in checked
        for rank in one.step.ranks
        for words in (
            *groups(
                one.step.iteration,
                rank.rank,
                [call for _, call in rank.missing if (call.op is None) is copies],
                "missing",
            ),
            *_unplanned(one.step.iteration, rank, copies=copies),
            *(() if copies else rank.unknown),
        )
    ]
    calls = [
        call
        for one in checked
        for rank in one.step.ranks
        for call in rank.calls
        if (call.call.op is None) is copies and not _is_left_out(call, rank)
    ]
    no_plan = next((rank.unplanned for one in checked for rank in one.step.ranks), "")
    counts = Counter(call.standing for call in calls)
    planned, taken = counts[CallStanding.PLANNED], counts[CallStanding.TAKEN]
    measured = said("claims.copies" if copies else "claims.calls", count=f"{planned:,}")
    if taken:
        measured = said("claims.taken", measured=measured, count=f"{taken:,}")
    unrecorded = max((rank.unrecorded for one in checked for rank in one.step.ranks), default=0)
    if unrecorded and not copies:
        no_plan = what_is_unrecorded(unrecorded)
    overhead = sum(call.cause is not None and call.cause not in LEFT_OUT for call in calls)
    if counts[CallStanding.OVERHEAD] or not _all_complete(checked):
        count = f"{counts[CallStanding.OVERHEAD]:,}"
        measured = said("claims.overheads", measured=measured, count=count)
    if overhead:
        measured = said("claims.in_no_plan", measured=measured, count=f"{overhead:,}")
    holds = True if planned or not (taken or overhead) else None
    return Verdict(
        id="copies" if copies else PLANNED,
        title=said("claims.every_copy" if copies else "claims.every_call"),
        holds=False if problems else (None if no_plan else holds),
        measured=first_of(problems) if problems else no_plan or measured,
        differs=overhead > 0,
    )


def _all_complete(checked: Sequence[Checked]) -> bool:
    """Whether all plans cover everything in a step, so that nothing else can be in it."""
    return all(plan.is_complete for one in checked for r in one.step.ranks for plan in r.plans)


def _is_left_out(call: Attributed, rank: RankStep) -> bool:
    """Whether a claim of a plan that covers everything in a step is skipped."""
    return call.cause is Cause.OUTSIDE and any(plan.is_complete for plan in rank.plans)


def _unplanned(iteration: int, step: RankStep, *, copies: bool) -> Iterator[str]:
    by_source: dict[str, list[Movement]] = {}
    for one in step.calls:
        if one.standing is CallStanding.UNEXPLAINED and (one.call.op is None) is copies:
            by_source.setdefault(one.source, []).append(one.call)
    for source, calls in by_source.items():
        for words in groups(iteration, step.rank, calls, "unplanned"):
            yield said("claims.at_source", words=words, source=source) if source else words


def attributed_verdict(checked: Sequence[Checked]) -> Verdict:
    """Calls without a recorded purpose, by source line: listed, but not checked."""
    title = said("claims.purpose")
    strays: dict[str, list[Attributed]] = {}
    for one in checked:
        for rank in one.step.ranks:
            for call in rank.calls:
                if call.call.purpose is Purpose.UNLABELLED:
                    strays.setdefault(call.source or said("claims.unknown_line"), []).append(call)
    if not strays:
        return Verdict(id=UNATTRIBUTED, title=title, holds=True, measured=said("claims.all_have"))
    parts = [
        said(
            "claims.without_purpose",
            count=len(calls),
            op=term(calls[0].call.op or ""),
            source=source,
            bytes=format_exact_bytes(sum(one.share.asked.sent_bytes for one in calls)),
        )
        for source, calls in strays.items()
    ]
    measured = first_of(parts)
    return Verdict(id=UNATTRIBUTED, title=title, holds=None, measured=measured)


def wire_verdict(checked: Sequence[Checked]) -> Verdict:
    """The unexplained bytes on the wire, in each iteration of each rank."""
    title = said("wire.title")
    steps = [one.step for one in checked]
    total_bytes = stray = outside = 0
    left = sum(map(abs, steps[-1].unsettled))
    for one in checked:
        found: list[tuple[int | None, int | None]] = [
            (wire.unexplained, wire.wire) for wire in one.step.wires
        ]
        if one.step.wire_by_call:
            found = [(c.unexplained_kernel, c.kernel) for row in one.rows for c in row.sent]
            outside += sum(map(abs, one.step.outside))
        if any(unexplained is None for unexplained, _ in found):
            words = said("wire.unmeasured")
            return Verdict(id="wire-is-trace", title=title, holds=None, measured=words)
        stray += sum(abs(unexplained or 0) for unexplained, _ in found)
        total_bytes += sum(wire or 0 for _, wire in found)
    key = "wire.over" if len(steps) > 1 else "wire.over_one"
    measured = said(
        "wire.by_call" if steps[0].wire_by_call else key,
        stray=format_exact_bytes(stray),
        outside=format_exact_bytes(outside),
        total=format_exact_bytes(total_bytes),
        iterations=len(steps),
        ranks=len(steps[0].ranks),
    )
    holds: bool | None = stray + outside <= WIRE_TOLERANCE * total_bytes
    if left:  # no later reading shows whether anything else was in flight
        measured = said("wire.unsettled", measured=measured, left=format_exact_bytes(left))
        holds = None if holds else holds
    return Verdict(id="wire-is-trace", title=title, holds=holds, measured=measured)


def disk_verdicts(checked: Sequence[Checked]) -> Iterator[Verdict]:
    """The kernel's count equals the size of the files in the trace, to the byte."""
    title = said("disk.title")
    counted, problems = 0, []
    rows = [
        (one.step.iteration, row)
        for one in checked
        for row in one.copies
        if row.link is Link.STORAGE
    ]
    for iteration, row in rows:
        for cell in row.sent:
            if cell.kernel is None or cell.unexplained_kernel is None:
                words = said("disk.unread")
                yield Verdict(id="disk-is-trace", title=title, holds=None, measured=words)
                return
            counted += cell.kernel
            if cell.unexplained_kernel:
                problems.append(
                    said(
                        "disk.stray",
                        counted=format_exact_bytes(cell.kernel),
                        rank=cell.rank,
                        phase=term(row.phase),
                        iteration=iteration,
                        purpose=term(row.purpose),
                        expected=format_exact_bytes(cell.trace + (cell.framing or 0)),
                    )
                )
    if rows:
        fine = said("disk.fine", counted=format_exact_bytes(counted))
        measured = first_of(problems) if problems else fine
        yield Verdict(id="disk-is-trace", title=title, holds=not problems, measured=measured)
