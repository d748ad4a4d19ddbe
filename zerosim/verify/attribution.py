"""Each call of a program, and why it was made: planned, named beside the law, or neither.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Event, Kind, Op, Phase, Purpose
from zerosim.record import RankTrace
from zerosim.record.text import name_ranks
from zerosim.strategies import Strategy, System
from zerosim.theory import Cause, Cost, framing
from zerosim.theory.programs import Held, Plan, PlannedCall, plan_hand_written
from zerosim.verify.measure import backend_of_call

STEP_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
MESSAGES = (Op.SEND, Op.RECEIVE)
_OF_ROOTS = (Op.BROADCAST, Op.REDUCE, Op.GATHER, Op.SCATTER)
BESIDE = {
    Purpose.GRADIENT_NORM: Cause.GRADIENT_NORM,
    Purpose.OVERFLOW_FLAG: Cause.OVERFLOW_FLAG,
    Purpose.AVERAGE_LOSS: Cause.AVERAGE_LOSS,
    Purpose.AVERAGE_PARAMETERS: Cause.AVERAGED_PARAMETERS,
    Purpose.COMPUTE_UPDATE: Cause.COMPUTED_UPDATE,
    Purpose.BROADCAST_STATE: Cause.INITIAL_STATE,
    Purpose.METADATA: Cause.METADATA,
    Purpose.SYNCHRONIZE: Cause.SYNCHRONIZATION,
}
"""What no law of traffic speaks of, and its name."""
_PHASE_OF = {Purpose.SEND_ACTIVATIONS: Phase.FORWARD, Purpose.SEND_GRADIENTS: Phase.BACKWARD}
"""A pipeline's ranks work on several micro-batches at once: a message's purpose says its phase."""
_OF_PARAMETERS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)
_AGAIN = (Purpose.GATHER_PARAMETERS, Purpose.ACTIVATIONS)
"""What a module's forward asks for, hence also a forward that is computed again in backward."""


class Standing(StrEnum):
    """What is known of a call."""

    PLANNED = "planned"
    TAKEN = "taken as it is"
    """Of a program without a plan, and counted where its law is looked for."""
    BESIDE = "beside the law"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributed:
    """One call of one rank.

    Attributes:
        call: as it was asked for.
        cost, bound: what its backend, and what a ring makes the rank send for it.
        plan: place of the plan that planned it; None if none did.
        cause: why it is beside the law; None if it is planned, or unexplained.
        words: how it comes about.
        source: the line that made it.
    """

    call: PlannedCall
    cost: Cost
    bound: Cost
    standing: Standing
    source: str
    plan: int | None = None
    cause: Cause | None = None
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """What one rank did in one iteration, each call with its reason.

    Attributes:
        plans: what theory says of it; a hand-written program's comes last.
        calls: all of them, in and outside of the step.
        missing: planned calls that were not made, by the place of their plan.
        unknown: why the bytes of some call are not known, a line for each reason.
        unplanned: why a system has no plan; "" if each has one.
        framing_sent, framing_received: of all calls; None if it is not known.
        carriers: who carried out what a plan planned, by its place; without those not called.
    """

    rank: int
    plans: tuple[Plan, ...]
    calls: tuple[Attributed, ...]
    missing: tuple[tuple[int, PlannedCall], ...]
    unknown: tuple[str, ...]
    framing_sent: int | None
    framing_received: int | None
    carriers: Mapping[int, Algorithm]
    unplanned: str = ""


Key = tuple[Phase, Purpose, Op, tuple[int, ...], int, int]


Again = tuple[Purpose, Op, tuple[int, ...], int, int]
"""A key without its phase."""


def key_of(call: PlannedCall) -> Key:
    """What a planned and a recorded call have in common if they are the same."""
    return (
        call.phase,
        call.purpose,
        call.op,
        tuple(sorted(call.ranks)),
        call.elements,
        call.element_bytes,
    )


@dataclass(slots=True)
class _Open:
    """Planned calls that were not met yet, by what identifies them."""

    slots: dict[Key, list[tuple[int, PlannedCall]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, place: int, plan: Plan) -> None:
        for call in plan.calls:
            self.slots[key_of(call)] += [(place, call)] * call.times

    def take(self, call: PlannedCall) -> tuple[int, PlannedCall] | None:
        slots = self.slots.get(key_of(call), [])
        chosen = next(
            (slot for slot in slots if call.root is None or slot[1].root == call.root), None
        )
        if chosen is not None:
            slots.remove(chosen)
        return chosen


def attribute(
    rank: RankTrace,
    events: Sequence[Event],
    plans: Sequence[Plan],
    held: Sequence[Held],
    unplanned: str = "",
) -> RankStep:
    """Hold the calls of one rank in one iteration against its plans.

    Args:
        events: the iteration's calls that are no part of another.
        plans: of the rank's strategies.
        held: the strategies; a hand-written one takes what is left.
        unplanned: why a system has no plan.
    """
    unknown: list[str] = []
    calls = [(_as_call(rank, event, unknown), event) for event in events]
    known = [(call, event) for call, event in calls if call is not None]
    plans = [_with_cuts(plan, [call for call, _ in known]) for plan in plans]
    open_ = _Open()
    for place, plan in enumerate(plans):
        open_.add(place, plan)
    forward = Counter(key_of(c)[1:] for p in plans for c in p.calls if c.phase is Phase.FORWARD)
    asked_for = {unit: words for plan in plans for unit, words in plan.asked_for.items()}
    taken = [
        (call, event, None if call.unit in asked_for else open_.take(call)) for call, event in known
    ]
    own = next((one[-1] for one in held if one[-1].system is System.HAND_WRITTEN), None)
    if own is not None:
        rest = [c for c, _, slot in taken if slot is None and _is_of(own, c)]
        if rest:
            plans = (*plans, plan_hand_written(own, rest, max(len(one) for one in held)))
    found: list[Attributed] = []
    framings: list[tuple[int, int] | None] = []
    carriers: dict[int, Algorithm] = {}
    for call, event, slot in taken:
        if slot is not None and call.root is None:
            call = replace(call, root=slot[1].root)  # noqa: PLW2901 - the same call, completed
        backend = backend_of_call(rank, event)
        carrier = Algorithm.GLOO if backend == Algorithm.GLOO else Algorithm.RING
        if slot is not None:
            carriers[slot[0]] = carrier
        cost, bound = _costs(call, rank.rank, carrier, unknown)
        added = framing(backend, cost)
        framings.append(None if added is None else (added.sent_bytes, added.received_bytes))
        found.append(
            _judge(
                call,
                event,
                (cost, bound),
                slot=slot,
                plans=plans,
                forward=forward,
                own=own,
            )
        )
    if unplanned:
        found = [_without_plan(one, unplanned) for one in found]
    missing = tuple(slot for slots in open_.slots.values() for slot in slots)
    sums = [pair for pair in framings if pair is not None]
    whole = len(sums) == len(framings) and not unknown
    return RankStep(
        rank=rank.rank,
        plans=tuple(plans),
        calls=tuple(found),
        missing=missing,
        unknown=tuple(dict.fromkeys(unknown)),
        framing_sent=sum(sent for sent, _ in sums) if whole else None,
        framing_received=sum(received for _, received in sums) if whole else None,
        carriers=carriers,
        unplanned=unplanned,
    )


def _with_cuts(plan: Plan, called: Sequence[PlannedCall]) -> Plan:
    """A plan whose buckets are cut as they were in the trace, if their sum is as planned."""
    planned: dict[Key, int] = defaultdict(int)
    for call in plan.calls:
        if call.is_cut:
            planned[key_of(replace(call, elements=0))] += call.elements * call.times
    if not planned:
        return plan
    seen: dict[Key, list[PlannedCall]] = defaultdict(list)
    for call in called:
        seen[key_of(replace(call, elements=0))].append(call)
    calls = [call for call in plan.calls if not call.is_cut]
    for key, elements in planned.items():
        if sum(call.elements for call in seen[key]) == elements:
            calls += seen[key]
        else:
            calls += [c for c in plan.calls if c.is_cut and key_of(replace(c, elements=0)) == key]
    return replace(plan, calls=tuple(calls))


def _may_be_hand_written(call: PlannedCall) -> bool:
    is_beside = call.purpose in BESIDE or _is_exchange(call)
    return call.phase in STEP_PHASES and not is_beside


def _is_exchange(call: PlannedCall) -> bool:
    """Whether ranks exchange activations as experts and parts of sequences do: no law counts it."""
    return call.op is Op.ALL_TO_ALL and call.purpose is Purpose.ACTIVATIONS


def _is_of(own: Strategy, call: PlannedCall) -> bool:
    """Whether a law may speak of this call: all of the ranks that divide the model make it."""
    is_message = call.op in MESSAGES
    return _may_be_hand_written(call) and not is_message and set(call.ranks) == set(own.ranks)


def _judge(
    call: PlannedCall,
    event: Event,
    costs: tuple[Cost, Cost],
    *,
    slot: tuple[int, PlannedCall] | None,
    plans: Sequence[Plan],
    forward: Counter[Again],
    own: Strategy | None,
) -> Attributed:
    standing, plan, cause, words = Standing.UNEXPLAINED, None, None, ""
    if slot is not None:
        standing, plan = Standing.PLANNED, slot[0]
    elif own is not None and _is_of(own, call):
        standing, plan = Standing.TAKEN, len(plans) - 1
    else:
        cause, words = _beside_the_law(call, event, plans, forward, own)
    if cause is not None:
        standing = Standing.BESIDE
    return Attributed(
        call=call,
        cost=costs[0],
        bound=costs[1],
        standing=standing,
        source=event.source,
        plan=plan,
        cause=cause,
        words=words,
    )


def _without_plan(found: Attributed, why: str) -> Attributed:
    """A call of a system that has no plan: named, and neither proved nor refuted."""
    if found.standing is not Standing.UNEXPLAINED or found.call.purpose not in _OF_PARAMETERS:
        return found
    return replace(found, standing=Standing.BESIDE, cause=Cause.NO_PLAN, words=why)


def _beside_the_law(
    call: PlannedCall,
    event: Event,
    plans: Sequence[Plan],
    forward: Counter[Again],
    own: Strategy | None,
) -> tuple[Cause | None, str]:
    """What a call is that no plan asked for, in words; None if nobody knows."""
    cause, words = None, ""
    asked_for = next((p.asked_for[call.unit] for p in plans if call.unit in p.asked_for), "")
    if asked_for:
        where = f"in {call.phase}" if call.phase in STEP_PHASES else "outside of the step"
        cause, words = Cause.ASKED_FOR, f"{asked_for}: {call.op} {where}"
    elif call.phase not in STEP_PHASES:
        cause, words = Cause.OUTSIDE, f"{call.purpose}, outside of the step"
    elif call.purpose in BESIDE:
        cause, words = BESIDE[call.purpose], f"{call.purpose}: {call.op}"
    elif _is_exchange(call) and not any(_is_exchange(c) for plan in plans for c in plan.calls):
        cause = Cause.ACTIVATIONS
        words = f"{call.op} of activations, to experts or parts of sequences on other ranks"
    elif own is not None:
        cause, words = Cause.UNLIKE, f"{_said(call)} among {name_ranks(list(call.ranks))}"
    elif hook := _hook_of(call, plans):
        cause, words = Cause.HOOK, f"{hook} sends"
    elif _is_again(call, forward):
        cause = Cause.RECOMPUTATION
        words = f"{call.purpose} again, for a forward that is computed in backward"
    elif _is_prepared_too_soon(call, event, plans):
        cause = Cause.REDUCED_AGAIN
        words = (
            "the forward that finds a pipeline's shapes prepares DDP, which then reduces at once"
        )
    elif call.purpose is Purpose.UNLABELLED:
        cause, words = Cause.NOT_ATTRIBUTED, f"{call.op} that nobody said the purpose of"
    return cause, words


def _hook_of(call: PlannedCall, plans: Sequence[Plan]) -> str:
    """Who decides about calls of this purpose; "" if the plans do."""
    return next((p.left_to[call.purpose] for p in plans if call.purpose in p.left_to), "")


def _said(call: PlannedCall) -> str:
    """What a call is, in words: its operation, and its purpose where one is known."""
    return f"{call.op}" if call.purpose is Purpose.UNLABELLED else f"{call.purpose}: {call.op}"


def _is_again(call: PlannedCall, forward: Counter[Again]) -> bool:
    return call.phase is Phase.BACKWARD and call.purpose in _AGAIN and forward[key_of(call)[1:]] > 0


def _is_prepared_too_soon(call: PlannedCall, event: Event, plans: Sequence[Plan]) -> bool:
    """Whether DDP reduces the first micro-batch of all in a pipeline, as well as the last."""
    if event.iteration != 0 or call.op is not Op.ALL_REDUCE:
        return False
    reduced = {key_of(c) for p in plans if p.system is System.DDP for c in p.calls}
    return any(p.system is System.PIPELINE for p in plans) and key_of(call) in reduced


def calls_by_iteration(rank: RankTrace) -> dict[int, list[Event]]:
    """The calls of a rank that are no part of another one, in their order."""
    found: dict[int, list[Event]] = defaultdict(list)
    for event in rank.events:
        if event.kind is Kind.COLLECTIVE and event.parent is None and event.op is not None:
            found[event.iteration].append(event)
    return found


def _as_call(rank: RankTrace, event: Event, unknown: list[str]) -> PlannedCall | None:
    """A recorded call as a plan would have it; None if its group or its operator is not known."""
    assert event.op is not None
    if event.op is Op.UNKNOWN:
        where = f" at {event.source}" if event.source else ""
        unknown.append(
            f"rank {rank.rank}, iteration {event.iteration}: {event.operator} was called in "
            f"{event.phase}{where}, an operator that zerosim does not know, nor what it sends"
        )
        return None
    group = rank.groups.get(event.group)
    if group is None or rank.rank not in group.ranks:
        unknown.append(
            f"rank {rank.rank}: who is in group {event.group!r} of event {event.id} is not recorded"
        )
        return None
    purpose = event.purpose or Purpose.UNLABELLED
    ranks, root = group.ranks, None
    if event.op in MESSAGES and len(event.peers) == 1:
        ranks, root = tuple(sorted((rank.rank, event.peers[0]))), event.peers[0]
    elif event.op in _OF_ROOTS and len(event.peers) == 1:
        root = event.peers[0]
    phase = event.phase
    if phase in STEP_PHASES:
        phase = _PHASE_OF.get(purpose, phase)
    return PlannedCall(
        phase=phase,
        purpose=purpose,
        op=event.op,
        ranks=ranks,
        elements=event.elements,
        element_bytes=event.payload_bytes // event.elements if event.elements else 1,
        root=root,
        unit=event.unit,
        parts=event.parts,
        received_parts=event.received_parts,
    )


def _costs(
    call: PlannedCall, rank: int, algorithm: Algorithm, unknown: list[str]
) -> tuple[Cost, Cost]:
    try:
        return _cost(call, rank, algorithm), _cost(call, rank, Algorithm.RING)
    except ConfigError as error:
        unknown.append(str(error))
        return Cost(), Cost()


@lru_cache(maxsize=4096)
def _cost(call: PlannedCall, rank: int, algorithm: Algorithm) -> Cost:
    """A program makes the same calls in each step."""
    return call.cost(rank, algorithm)
