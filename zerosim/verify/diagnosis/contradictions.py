"""Ranks that called something different from the others."""

from __future__ import annotations

from zerosim.base.language import enumerated
from zerosim.schema.events import Event
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.calls import (
    Disagreement,
    Shift,
    disagreement,
    is_after_steps,
    shift_of,
)
from zerosim.verify.diagnosis.differing import differences, is_alike
from zerosim.verify.diagnosis.evidence import (
    ObservedRun,
    advice,
    called_by,
    common,
    number,
    sides,
    waits,
)
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong


def contradiction(run: ObservedRun, found: Disagreement) -> Finding:
    """The finding on a rank with a different call."""
    expected = found.expected
    if expected is None or not found.culprits:
        return _undecided(found)
    culprit = found.culprits[0]
    own = found.called[culprit]
    shift = shift_of(found, culprit)
    wrong, sentence, about = _deed(found, culprit, own, expected, shift)
    return Finding(
        wrong=wrong,
        ranks=found.culprits,
        place=Place.of(about),
        sentence=wording.joined([sentence, waits(run, found), common(found)]),
        evidence=tuple(sides(found)),
        advice=advice("some_ranks_call_or_batches" if wrong is Wrong.ENDED_EARLY else wrong),
    )


def _deed(
    found: Disagreement,
    culprit: int,
    own: Event,
    expected: Event,
    shift: Shift | None,
) -> tuple[Wrong, str, Event]:
    """The action of a culprit: its name, a sentence, and the call concerned."""
    different = differences(own, expected)
    fields = {
        "who": wording.ranks(found.culprits),
        "call": wording.call(own),
        "expected": wording.call(expected),
        "by": called_by(found, expected),
        "at": wording.at(own.source),
    }
    if shift is not None and shift.is_swapped:  # also if they differ only in size
        first = {"by": called_by(found, expected, first=True)}
        return Wrong.ORDER, wording.said("calls.order", **fields | first), expected
    is_moved = shift is not None and (shift.left_out or shift.more)
    if (
        different
        and different <= {"size", "dtype"}
        and not (is_moved and _is_another(own, expected))
    ):
        wrong = Wrong.DTYPE if "dtype" in different else Wrong.SIZE
        sentence = wording.said(
            "calls.gave_other_end" if found.group.is_way else "calls.gave",
            elements=f"{own.elements:,}",
            dtype=own.dtype,
            others=wording.ranks(rank for rank in found.called if rank not in found.culprits),
            rest=f"{expected.elements:,}",
            rest_dtype=expected.dtype,
            source=wording.line(own),
            **fields,
        )
        return wrong, sentence, own
    if _stopped_stepping(found, culprit):
        return Wrong.ENDED_EARLY, wording.said("calls.ended", **fields), expected
    if shift is not None and shift.left_out:
        more = shift.left_out - 1
        key = "calls.left_out_more" if more else "calls.left_out"
        return Wrong.LEFT_OUT, wording.said(key, count=more, **fields), expected
    if shift is not None and shift.more:
        made = found.group.calls[culprit][: found.position]
        called = made[-shift.more] if shift.repeats else own
        key = "calls.twice" if shift.repeats else "calls.more"
        about = {"call": wording.call(called), "source": wording.line(called)}
        return Wrong.MORE, wording.said(key, **fields | about), called
    return Wrong.OTHER_CALL, wording.said("calls.instead", **fields), expected


def _is_another(own: Event, expected: Event) -> bool:
    """Whether a call has another purpose than the expected one."""
    return own.purpose is not expected.purpose or own.source != expected.source


def _stopped_stepping(found: Disagreement, culprit: int) -> bool:
    """Whether all later calls of a rank are outside of steps, while others are in a later step."""
    own = found.group.calls[culprit]
    expected = found.expected
    if expected is None or is_after_steps(expected) or not is_after_steps(own[found.position]):
        return False
    steps = [event.iteration for event in own[: found.position] if not is_after_steps(event)]
    is_later = expected.iteration > max(steps, default=-1)
    return is_later and all(is_after_steps(event) for event in own[found.position :])


def _undecided(found: Disagreement) -> Finding:
    """Ranks disagree, and the culprit is unknown."""
    told = list(sides(found))
    one = next(iter(found.called.values()))
    return Finding(
        wrong=Wrong.OTHER_CALL,
        ranks=tuple(found.called),
        place=Place.of(one),
        sentence=wording.joined(
            [
                wording.said(
                    "calls.undecided_message" if found.group.is_way else "calls.undecided",
                    ranks=wording.ranks(found.called),
                    number=number(found),
                    told=enumerated(told),
                ),
                common(found),
            ]
        ),
        evidence=tuple(told),
        advice=advice("undecided"),
    )


def in_other_group(run: ObservedRun, found: Disagreement) -> Finding | None:
    """A rank that made the missing call in a different group."""
    if found.group.is_way:
        return None
    expected = found.expected
    suspects = found.culprits or tuple(found.group.calls)
    for suspect in suspects:
        for group in run.groups:
            if group is found.group or suspect not in group.calls or group.is_way:
                continue
            other = disagreement(group)
            if other is None or suspect not in other.called:
                continue
            made = other.called[suspect]
            wanted = expected or next(
                (event for rank, event in found.called.items() if rank != suspect), None
            )
            if wanted is None or differences(made, wanted) - {"iteration"}:
                continue
            if any(is_alike(made, event) for event in group.calls[suspect][: other.position]):
                continue  # it usually makes this call in that group
            others = wording.ranks(rank for rank in found.called if rank != suspect)
            return Finding(
                wrong=Wrong.GROUP,
                ranks=(suspect,),
                place=Place.of(wanted),
                sentence=wording.joined(
                    [
                        wording.said(
                            "calls.group",
                            rank=suspect,
                            call=wording.call(made),
                            group=repr(group.name),
                            ranks=wording.ranks(group.ranks),
                            source=wording.line(made),
                            others=others,
                            other_group=repr(found.group.name),
                            other_ranks=wording.ranks(found.group.ranks),
                        ),
                        waits(run, found),
                        common(found),
                    ]
                ),
                evidence=tuple(sides(found)),
                advice=advice(Wrong.GROUP),
            )
    return None
