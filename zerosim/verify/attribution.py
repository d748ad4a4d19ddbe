"""Each call and copy of a rank with its reason: planned, named, or neither."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from zerosim.analysis.traffic import Pair, Share, sum_pairs
from zerosim.base.language import term
from zerosim.record.text import name_ranks
from zerosim.schema.events import STEP_PHASES, Algorithm, Event, Op, Phase, Purpose
from zerosim.schema.strategies import HAND_WRITTEN, Strategy
from zerosim.systems.registry import Axis, axis_of
from zerosim.theory import Cause, Movement
from zerosim.theory.movement import PASSES
from zerosim.theory.programs import Held, Plan, plan_hand_written
from zerosim.verify.meter import Meter, carrier_of
from zerosim.verify.wording import said

OF_BLOCKS = frozenset(
    {
        Purpose.ACTIVATIONS,
        Purpose.GATHER_ACTIVATIONS,
        Purpose.OFFLOAD_ACTIVATIONS,
        Purpose.FETCH_ACTIVATIONS,
    }
)
"""Purposes that depend on the blocks of a model, not on its parameters."""
WITHOUT_LAW = "calls.without_law"
"""The size of that traffic, in words: no law covers it."""
OVERHEADS = {
    Purpose.GRADIENT_NORM: Cause.GRADIENT_NORM,
    Purpose.OVERFLOW_FLAG: Cause.OVERFLOW_FLAG,
    Purpose.AVERAGE_LOSS: Cause.AVERAGE_LOSS,
    Purpose.AVERAGE_PARAMETERS: Cause.AVERAGED_PARAMETERS,
    Purpose.COMPUTE_UPDATE: Cause.COMPUTED_UPDATE,
    Purpose.BROADCAST_STATE: Cause.INITIAL_STATE,
    Purpose.BROADCAST_PARAMETERS: Cause.BROADCAST_PARAMETERS,
    Purpose.METADATA: Cause.METADATA,
    Purpose.SYNCHRONIZE: Cause.SYNCHRONIZATION,
}
"""Traffic that no law covers, by its name."""
_A_NUMBER = 100
"""A payload below this fraction of the model counts as a few numbers, such as an accuracy."""
_OF_PARAMETERS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)
_BESIDE_PARAMETERS = {
    Purpose.BROADCAST_BUFFERS: Cause.BUFFERS,
    **dict.fromkeys(OF_BLOCKS, Cause.ACTIVATIONS),
}
"""Purposes other than parameters and gradients in a program without a plan."""
_AGAIN = (Purpose.GATHER_PARAMETERS, Purpose.ACTIVATIONS)
"""Purposes of a module's forward, hence also of a recomputation in backward."""


class CallStanding(StrEnum):
    """The classification of a call."""

    PLANNED = "planned"
    TAKEN = "taken as given"
    """The program has no plan; the call counts for the law that the program resembles."""
    OVERHEAD = "named overhead"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributed:
    """One call or copy of one rank.

    Attributes:
        call: the recorded call.
        share: its bytes, over any link. For a copy, its bytes count as sent, framing is the
            overhead of its file, and wire is the kernel's count of the file.
        plan: index of the plan that contains it; None if it is in no plan.
        cause: the named cause of a call outside the plan; None if it is planned or unexplained.
        words: an explanation.
        source: the source line of the call.
        event: id of its event; planned: the planned call of the same phase, purpose, op, ranks
            and size, or None.
    """

    call: Movement
    share: Share
    standing: CallStanding
    source: str
    event: int
    planned: Movement | None = None
    plan: int | None = None
    cause: Cause | None = None
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """The calls of one rank in one iteration, each with its reason.

    Attributes:
        plans: the plans of theory, a hand-written program's last.
        calls: all of them, within and outside of the step.
        missing: planned calls that were not made, by the index of their plan.
        unknown: why the bytes of some call are unknown, one line per reason.
        unplanned: why a system has no plan; "" if each has one.
        unrecorded: for an imported run, calls without a recorded size.
        framing: framing of all calls; None if unknown.
        carriers: the backend of each plan's calls, by index, for plans with calls.
    """

    rank: int
    plans: tuple[Plan, ...]
    calls: tuple[Attributed, ...]
    missing: tuple[tuple[int, Movement], ...]
    unknown: tuple[str, ...]
    framing: Pair | None
    carriers: Mapping[int, Algorithm]
    unplanned: str = ""
    unrecorded: int = 0


Key = tuple[object, ...]
"""The identity of a movement; the phase comes first."""


def key_of(call: Movement) -> Key:
    """The key that is equal for a planned and a recorded call if they are the same."""
    return (
        call.phase,
        call.purpose,
        call.op,
        tuple(sorted(call.ranks)),
        call.origin,
        call.target,
        0 if call.op is None else call.elements,  # disks store bytes, whatever their dtype
        call.buffer_bytes,
    )


def _key_of_cuts(call: Movement) -> Key:
    """The key shared by all calls into which one bucket is split."""
    return (*key_of(replace(call, elements=0)), call.element_bytes)


@dataclass(slots=True)
class _Open:
    """Planned calls that have not been matched yet, by identity."""

    slots: dict[Key, deque[tuple[int, Movement]]] = field(
        default_factory=lambda: defaultdict(deque)
    )

    def add(self, place: int, plan: Plan) -> None:
        for call in plan.calls:
            self.slots[key_of(call)].extend([(place, call)] * call.times)

    def take(self, call: Movement) -> tuple[int, Movement] | None:
        slots = self.slots.get(key_of(call), deque())
        for place, slot in enumerate(slots):
            if call.root is None or slot[1].root == call.root:
                del slots[place]
                return slot
        return None


def attribute(
    meter: Meter,
    events: Sequence[Event],
    plans: Sequence[Plan],
    held: Sequence[Held],
    unplanned: str = "",
) -> RankStep:
    """Compare the calls and copies of one rank in one iteration with its plans.

    Args:
        meter: the rank's meter, for the bytes.
        events: the iteration's calls and copies that are not part of another.
        plans: plans of the rank's strategies.
        held: the rank's strategies; a hand-written one takes the calls that no other plan contains.
        unplanned: why a system has no plan.
    """
    rank, meter.unknown = meter.rank, []
    calls = [(meter.as_movement(event), event) for event in events]
    known = [(call, event) for call, event in calls if call is not None]
    plans = tuple(_with_cuts(plan, [call for call, _ in known]) for plan in plans)
    open_ = _Open()
    for place, plan in enumerate(plans):
        open_.add(place, plan)
    forward = Counter(key_of(c)[1:] for p in plans for c in p.calls if c.phase is Phase.FORWARD)
    asked_for = {unit: words for plan in plans for unit, words in plan.asked_for.items()}
    taken = [
        (call, event, None if call.unit in asked_for else open_.take(call)) for call, event in known
    ]
    own = next((one[-1] for one in held if one[-1].system == HAND_WRITTEN), None)
    if own is not None:
        rest = [c for c, _, slot in taken if slot is None and _is_of(own, c)]
        if rest:
            plans = (*plans, plan_hand_written(own, rest, max(len(one) for one in held)))
    found: list[Attributed] = []
    carriers: dict[int, Algorithm] = {}
    for call, event, slot in taken:
        if slot is not None and call.root is None:
            call = replace(call, root=slot[1].root)  # noqa: PLW2901 - the same call, completed
        if slot is not None and call.op is not None and slot[1].carrier is None:
            carriers[slot[0]] = carrier_of(rank, event)
        standing, planned, cause, words = _judge(
            call, event, slot=slot, plans=plans, forward=forward, own=own, unplanned=unplanned
        )
        if cause is Cause.OUTSIDE and meter.is_evaluation(event):
            cause = Cause.EVALUATION
            words = said("calls.evaluation", purpose=term(call.purpose or ""))
        if (event.source, event.op) in meter.recurring and _is_of_nobody(call, cause, plans):
            words = said("calls.no_purpose_outside", op=term(call.op or ""))
            cause = Cause.NOT_ATTRIBUTED
        found.append(
            Attributed(
                call=call,
                share=meter.moved(call, event),
                standing=standing,
                source=event.source,
                event=event.id,
                planned=None if slot is None else slot[1],
                plan=planned,
                cause=cause,
                words=words,
            )
        )
    missing = tuple(slot for slots in open_.slots.values() for slot in slots)
    framing = sum_pairs([one.share.framing for one in found if one.call.op is not None])
    if meter.unknown:
        framing = None
    return RankStep(
        rank=rank.rank,
        plans=tuple(plans),
        calls=tuple(found),
        missing=missing,
        unknown=() if meter.is_imported else tuple(dict.fromkeys(meter.unknown)),
        unrecorded=len(calls) - len(known) if meter.is_imported else 0,
        framing=framing,
        carriers=carriers,
        unplanned=unplanned,
    )


def _with_cuts(plan: Plan, called: Sequence[Movement]) -> Plan:
    """A plan with buckets split as in the trace, if their sum is as planned."""
    planned: dict[Key, int] = defaultdict(int)
    for call in plan.calls:
        if call.is_cut:
            planned[_key_of_cuts(call)] += call.elements * call.times
    if not planned:
        return plan
    seen: dict[Key, list[Movement]] = defaultdict(list)
    for call in called:
        seen[_key_of_cuts(call)].append(call)
    calls = [call for call in plan.calls if not call.is_cut]
    for key, elements in planned.items():
        if sum(call.elements for call in seen[key]) == elements:
            calls += seen[key]
        else:
            calls += [c for c in plan.calls if c.is_cut and _key_of_cuts(c) == key]
    return replace(plan, calls=tuple(calls))


def _may_be_hand_written(call: Movement) -> bool:
    is_overhead = call.purpose in OVERHEADS or call.purpose in _BESIDE_PARAMETERS
    return call.phase in STEP_PHASES and not is_overhead


def _is_exchange(call: Movement) -> bool:
    """Whether ranks exchange activations, as for experts and sequence parallelism: no law counts
    it.
    """
    return call.op is Op.ALL_TO_ALL and call.purpose is Purpose.ACTIVATIONS


def _is_of(own: Strategy, call: Movement) -> bool:
    """Whether a law may apply to this call: all ranks that divide the model make it."""
    return _may_be_hand_written(call) and call.op in PASSES and set(call.ranks) == set(own.ranks)


def _judge(
    call: Movement,
    event: Event,
    *,
    slot: tuple[int, Movement] | None,
    plans: Sequence[Plan],
    forward: Counter[Key],
    own: Strategy | None,
    unplanned: str,
) -> tuple[CallStanding, int | None, Cause | None, str]:
    """The classification of a call, the index of its plan, and for overhead the reason and
    words.
    """
    if slot is not None:
        return CallStanding.PLANNED, slot[0], None, ""
    if own is not None and _is_of(own, call):
        return CallStanding.TAKEN, len(plans) - 1, None, ""
    if any(plan.is_complete for plan in plans):
        cause, words = _left_out(call, plans)
    else:
        cause, words = _overhead_of(call, event, plans, forward, own)
    if cause is None and unplanned and call.purpose in _OF_PARAMETERS:
        cause, words = Cause.NO_PLAN, unplanned  # has a name, but is neither confirmed nor refuted
    standing = CallStanding.UNEXPLAINED if cause is None else CallStanding.OVERHEAD
    return standing, None, cause, words


def _left_out(call: Movement, plans: Sequence[Plan]) -> tuple[Cause | None, str]:
    """The cause of a call that plans omit although they cover the rest of a step."""
    if call.phase not in STEP_PHASES:
        return Cause.OUTSIDE, said("calls.outside", purpose=term(call.purpose or ""))
    if call.purpose in OF_BLOCKS and not any(call.purpose in plan.purposes for plan in plans):
        return Cause.ACTIVATIONS, said(WITHOUT_LAW)
    return None, ""


def _overhead_of(
    call: Movement,
    event: Event,
    plans: Sequence[Plan],
    forward: Counter[Key],
    own: Strategy | None,
) -> tuple[Cause | None, str]:
    """The description of a call that no plan predicts; None if unknown."""
    cause, words = None, ""
    op, purpose = term(call.op or ""), term(call.purpose or "")
    named = OVERHEADS if own is None else OVERHEADS | _BESIDE_PARAMETERS
    asked_for = next((p.asked_for[call.unit] for p in plans if call.unit in p.asked_for), "")
    if asked_for:
        key = "calls.asked_for" if call.phase in STEP_PHASES else "calls.asked_for_outside"
        cause = Cause.ASKED_FOR
        words = said(key, what=asked_for, op=op, phase=term(call.phase))
    elif call.phase not in STEP_PHASES:
        cause, words = Cause.OUTSIDE, said("calls.outside", purpose=purpose)
    elif _is_exchange(call) and not any(_is_exchange(c) for plan in plans for c in plan.calls):
        cause = Cause.ACTIVATIONS
        words = said("calls.exchange", op=op)
    elif call.purpose in named:
        cause, words = named[call.purpose], said("calls.named", purpose=purpose, op=op)
    elif own is not None:
        cause = Cause.UNLIKE
        words = said("calls.unlike", call=_called(call), ranks=name_ranks(list(call.ranks)))
    elif hook := _hook_of(call, plans):
        cause, words = Cause.HOOK, said("calls.hook", hook=hook)
    elif _is_again(call, forward):
        cause, words = _why_again(call, plans)
    elif _is_prepared_too_soon(call, event, plans):
        cause = Cause.REDUCED_AGAIN
        words = said("calls.too_soon")
    elif call.purpose is Purpose.UNLABELLED:
        cause = Cause.SMALL if _is_small(call, plans) else Cause.NOT_ATTRIBUTED
        words = said("calls.no_purpose", op=op)
    return cause, words


def _is_of_nobody(call: Movement, cause: Cause | None, plans: Sequence[Plan]) -> bool:
    """Whether a recurring call between steps has an unknown purpose.

    A single call may be a checkpoint; a small one may be an evaluation metric.
    """
    if cause is not Cause.OUTSIDE or any(plan.is_complete for plan in plans):
        return False
    return call.purpose is Purpose.UNLABELLED and not _is_small(call, plans)


def _is_small(call: Movement, plans: Sequence[Plan]) -> bool:
    """Whether a call sends only a few numbers, and nothing of the size of a model."""
    least = min((plan.scale.unit_bytes for plan in plans), default=0)
    return call.buffer_bytes * _A_NUMBER < least


def _hook_of(call: Movement, plans: Sequence[Plan]) -> str:
    """The plan that is responsible for calls of this purpose; "" if any plan may be."""
    return next((p.left_to[call.purpose] for p in plans if call.purpose in p.left_to), "")


def _called(call: Movement) -> str:
    """A call in words: its operation, and its purpose if known."""
    op = term(call.op or "")
    if call.purpose is Purpose.UNLABELLED:
        return op
    return said("calls.named", purpose=term(call.purpose or ""), op=op)


def _is_again(call: Movement, forward: Counter[Key]) -> bool:
    return call.phase is Phase.BACKWARD and call.purpose in _AGAIN and forward[key_of(call)[1:]] > 0


def _why_again(call: Movement, plans: Sequence[Plan]) -> tuple[Cause, str]:
    """Why backward gathers again: the program freed a unit that should be kept after forward, as
    when a recomputation needs it whole.
    """
    is_kept = not any(
        (one.phase, one.purpose, one.unit) == (call.phase, call.purpose, call.unit)
        for plan in plans
        for one in plan.calls
    )
    purpose = term(call.purpose or "")
    if is_kept:
        return Cause.ASKED_FOR, said("calls.freed", purpose=purpose)
    return Cause.RECOMPUTATION, said("calls.again", purpose=purpose)


def _is_prepared_too_soon(call: Movement, event: Event, plans: Sequence[Plan]) -> bool:
    """Whether the first micro-batch of a pipeline is reduced in addition to the last."""
    if event.iteration != 0 or call.op is not Op.ALL_REDUCE:
        return False
    axes = [axis_of(plan.system) for plan in plans]
    if Axis.PIPELINE not in axes:
        return False
    data = (plan for plan, axis in zip(plans, axes, strict=True) if axis is Axis.DATA)
    return key_of(call) in {key_of(one) for plan in data for one in plan.calls}
