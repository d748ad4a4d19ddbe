"""How the program of a trace partitions its training: as declared, or inferred from its calls."""

from __future__ import annotations

from collections import Counter

from zerosim.record import RankTrace, Trace
from zerosim.schema.events import STEP_PHASES, Event, Op, Phase, Purpose
from zerosim.schema.manifest import Source
from zerosim.schema.memory import Role
from zerosim.schema.strategies import HAND_WRITTEN, Bundle, Parameter, Strategy
from zerosim.verify.meter import calls_by_iteration

_OF_PARAMETERS = (Purpose.UNLABELLED, Purpose.REDUCE_GRADIENTS, Purpose.GATHER_PARAMETERS)
_FLOATS = ("float16", "float32", "float64")
_REDUCTIONS = (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE)


def strategies_of(trace: Trace) -> dict[int, tuple[Strategy, ...]]:
    """How the program partitions its training, by rank; empty if unknown.

    A program without strategies that calls collectives in its steps counts as hand-written; its
    parameters are those in its memory. For an imported run, whose memory is not recorded, their
    number is that of the gradients reduced in a micro-step, since every law reduces each gradient
    once.
    """
    if any(rank.strategies for rank in trace.ranks):
        return {rank.rank: rank.strategies for rank in trace.ranks}
    is_imported = trace.manifest.source is Source.IMPORTED
    found = {
        rank.rank: _taken_as_hand_written(rank, is_imported=is_imported) for rank in trace.ranks
    }
    return found if all(found.values()) else {}


def _taken_as_hand_written(rank: RankTrace, *, is_imported: bool) -> tuple[Strategy, ...]:
    purposes = _OF_PARAMETERS if is_imported else (Purpose.UNLABELLED,)
    called = [
        event
        for events in calls_by_iteration(rank).values()
        for event in events
        if event.phase in STEP_PHASES and event.purpose in purposes
    ]
    sizes = Counter[str]()
    for event in called:
        sizes[event.group] += event.payload_bytes
    group = next((name for name, _ in sizes.most_common(1)), None)
    if group not in rank.groups:
        return ()
    options: dict[str, object] = {"counts_bytes": True}
    dtype, largest, name = "uint8", _held(rank), "parameters"  # the dtype is not recorded
    if is_imported:
        dtype, largest = _reduced([event for event in called if event.group == group])
        name = "what a micro-step reduces"
        options = {"counted_by": "as many elements as a micro-step reduces"}
        if not dtype:  # in that case elements are bytes
            dtype, options = "uint8", {"counts_bytes": True}
    if not largest:
        return ()
    whole = Parameter(name=name, shape=(largest,), dtype=dtype)
    return (
        Strategy(
            system=HAND_WRITTEN,
            name="program",
            ranks=rank.groups[group].ranks,
            bundles=(Bundle(name="model", parameters=(whole,), options=options),),
        ),
    )


def _held(rank: RankTrace) -> int:
    """The peak bytes of parameters on a rank."""
    parts: dict[str, int] = {}
    largest = 0
    for sample in rank.memory_samples:
        for holding in sample.changes:
            if holding.role is Role.PARAMETERS:
                parts[holding.unit] = holding.bytes
        largest = max(largest, sum(parts.values()))
    return largest


def _reduced(called: list[Event]) -> tuple[str, int]:
    """The elements that a micro-step reduces once backward has begun, in the dtype of communicated
    parameters: that of the reduction if none are gathered.
    """
    gathered = Counter(event.dtype for event in called if event.op is Op.ALL_GATHER)
    sizes = Counter[tuple[int, int, str]]()
    for event in called:
        if event.op in _REDUCTIONS and event.phase is not Phase.FORWARD:
            sizes[event.iteration, event.micro_step, event.dtype] += event.elements
    (_, _, dtype), elements = next(iter(sizes.most_common(1)), ((0, 0, ""), 0))
    own = next((name for name, _ in gathered.most_common(1)), dtype)
    return (own if dtype and own.endswith(_FLOATS) else dtype), elements
