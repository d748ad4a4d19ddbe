"""Ranks that called something else than the others.

Imports zerosim's L0 and its siblings.
"""

from __future__ import annotations

from zerosim.diagnosis import words
from zerosim.diagnosis.calls import (
    Disagreement,
    Shift,
    disagreement,
    is_after_steps,
    shift_of,
)
from zerosim.diagnosis.differing import differences, is_alike
from zerosim.diagnosis.evidence import (
    ADVICE,
    Run,
    called_by,
    common,
    number,
    sides,
    waits,
)
from zerosim.diagnosis.findings import Finding, Place, Wrong
from zerosim.events import Event


def contradiction(run: Run, found: Disagreement) -> Finding:
    """What the rank did that called something else."""
    expected = found.expected
    if expected is None or not found.culprits:
        return _undecided(found)
    culprit = found.culprits[0]
    own = found.called[culprit]
    shift = shift_of(found, culprit)
    wrong, sentence, about = _deed(found, culprit, own, expected, shift)
    who = words.ranks(found.culprits)
    return Finding(
        wrong=wrong,
        ranks=found.culprits,
        place=Place.of(about),
        sentence=words.joined([f"{who} {sentence}", waits(run, found), common(found)]),
        evidence=tuple(sides(found)),
        advice=ADVICE[wrong],
    )


def _deed(
    found: Disagreement,
    culprit: int,
    own: Event,
    expected: Event,
    shift: Shift | None,
) -> tuple[Wrong, str, Event]:
    """What a culprit did: its name, words after "rank 2", and the call that it is about."""
    different = differences(own, expected)
    by = called_by(found, expected)
    if different <= {"size", "dtype"}:
        wrong = Wrong.DTYPE if "dtype" in different else Wrong.SIZE
        gave = f"{own.elements:,} elements of {own.dtype}"
        rest = f"{expected.elements:,} of {expected.dtype}"
        others = words.ranks(rank for rank in found.called if rank not in found.culprits)
        at = "at its other end" if found.group.is_way else "gave"
        return (
            wrong,
            (
                f"gave {words.call(own)} {gave}, where {others} {at} {rest}, from "
                f"{own.source or 'an unknown line'}"
            ),
            own,
        )
    if shift is not None and shift.is_swapped:
        return (
            Wrong.ORDER,
            (
                f"called {words.call(own)} before {words.call(expected)}, "
                f"{called_by(found, expected, ' first')}"
            ),
            expected,
        )
    if _stopped_stepping(found, culprit):
        return (
            Wrong.ENDED_EARLY,
            (
                f"ended its iterations before {words.call(expected)}, {by}: "
                f"it called {words.call(own)} instead{words.at(own.source)}"
            ),
            expected,
        )
    if shift is not None and shift.left_out:
        more = f" and {shift.left_out - 1} more" if shift.left_out > 1 else ""
        return (
            Wrong.LEFT_OUT,
            (
                f"never called {words.call(expected)}{more}, {by}; it went on to "
                f"{words.call(own)}{words.at(own.source)}"
            ),
            expected,
        )
    if shift is not None and shift.more:
        how = "twice" if shift.repeats else "which nobody else did"
        called = own if not shift.repeats else _before(found, culprit) or own
        return (
            Wrong.MORE,
            f"called {words.call(called)} {how}, from {called.source or 'an unknown line'}",
            called,
        )
    return (
        Wrong.OTHER_CALL,
        (
            f"called {words.call(own)}{words.at(own.source)} in place of {words.call(expected)}, "
            f"{by}"
        ),
        expected,
    )


def _before(found: Disagreement, rank: int) -> Event | None:
    calls = found.group.calls[rank]
    return calls[found.position - 1] if found.position else None


def _stopped_stepping(found: Disagreement, culprit: int) -> bool:
    """Whether a rank has called nothing of a step since, and the others are in a later one."""
    own = found.group.calls[culprit]
    expected = found.expected
    if expected is None or is_after_steps(expected) or not is_after_steps(own[found.position]):
        return False
    steps = [event.iteration for event in own[: found.position] if not is_after_steps(event)]
    is_later = expected.iteration > max(steps, default=-1)
    return is_later and all(is_after_steps(event) for event in own[found.position :])


def _undecided(found: Disagreement) -> Finding:
    """Ranks disagree, and nothing says who is right."""
    told = list(sides(found))
    what = "message" if found.group.is_way else "call"
    one = next(iter(found.called.values()))
    return Finding(
        wrong=Wrong.OTHER_CALL,
        ranks=tuple(found.called),
        place=Place.of(one),
        sentence=words.joined(
            [
                (
                    f"{words.ranks(found.called)} disagree at {what} {number(found)} of a group, "
                    f"and nothing recorded says who is right: {', '.join(told)}"
                ),
                common(found),
            ]
        ),
        evidence=tuple(told),
        advice="compare the two lines; a branch on the rank, or on data, stands before one of them",
    )


def in_other_group(run: Run, found: Disagreement) -> Finding | None:
    """A rank that made the call that is missing here in another group."""
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
                continue  # it calls so in that group as a rule
            others = words.ranks(rank for rank in found.called if rank != suspect)
            return Finding(
                wrong=Wrong.GROUP,
                ranks=(suspect,),
                place=Place.of(wanted),
                sentence=words.joined(
                    [
                        (
                            f"rank {suspect} called {words.call(made)} in group {group.name!r} of "
                            f"{words.ranks(group.ranks)}, from {made.source or 'an unknown line'}; "
                            f"{others} called it in group {found.group.name!r} of "
                            f"{words.ranks(found.group.ranks)}"
                        ),
                        waits(run, found),
                        common(found),
                    ]
                ),
                evidence=tuple(sides(found)),
                advice=ADVICE[Wrong.GROUP],
            )
    return None
