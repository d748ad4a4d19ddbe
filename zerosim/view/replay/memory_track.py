"""Memory in a replay: bytes by role and tier over the iteration, for each rank, and its peak.

A series is one role in one tier: `Memory.roles` and `Memory.tiers` name it at the same index, and a
rank's `bytes` have a row for each. The series of the device come first, then those of the host and
of the disk, each tier's from the bottom as stacked. A run with everything on the device has series
of that tier only. Peaks and `law` are of the device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph import EventGraph
from zerosim.analysis.memory import Timeline, peak, tiers_of, timeline, whole_iteration
from zerosim.base.language import enumerated, fill, term
from zerosim.base.quantities import format_bytes
from zerosim.base.tiers import Tier
from zerosim.record import RankTrace, iterations
from zerosim.schema.memory import Role
from zerosim.theory import ModelStates
from zerosim.verify.memory_plan import plan_of
from zerosim.verify.peaks import when
from zerosim.view.replay.step_sentences import find

STACK = (
    Role.MASTER,
    Role.MOMENTUM,
    Role.VARIANCE,
    Role.PARAMETERS,
    Role.SECONDARY,
    Role.GRADIENTS,
    Role.GATHERED,
    Role.BUFFERS,
    Role.CHECKPOINTS,
    Role.ACTIVATIONS,
    Role.WORKSPACES,
    Role.OTHER,
)
"""From the bottom: persistent states, then temporary ones."""
_SERIES = tuple((role, tier) for tier in Tier for role in STACK)
_NAMED = 3
"""Roles that a peak's sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """One rank's memory in an iteration.

    Attributes:
        times_ns: times of the samples since the start of the iteration; the first is the initial
            state.
        bytes: by series of `Memory`, then by sample.
        peak_bytes: the peak on the device; peak_step: its step.
        cause: the peak in words.
    """

    times_ns: tuple[int, ...]
    bytes: tuple[tuple[int, ...], ...]
    peak_ns: int
    peak_bytes: int
    peak_step: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLaw:
    """The law of the model states in one tier.

    Attributes:
        law: the law in words; "0" if nothing should be there.
        law_bytes: bytes of a rank under the law.
    """

    tier: Tier
    law: str
    law_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of all ranks.

    Attributes:
        roles: role of each series, in stacking order, tier by tier.
        tiers: tier of each series.
        ranks: in the order of the trace; None for a rank without samples.
        law: law of model states on the device, in words; "" without a law.
        law_bytes: bytes of a rank under the law.
        laws: of every tier that should have model states, the device first; empty without a law.
    """

    roles: tuple[Role, ...]
    tiers: tuple[Tier, ...]
    ranks: tuple[RankMemory | None, ...]
    law: str
    law_bytes: float | None
    laws: tuple[TierLaw, ...]


def memory_of(
    graph: EventGraph,
    iteration: int,
    zero_ns: int,
    local_times: Mapping[int, Sequence[int]],
) -> Memory | None:
    """The memory of an iteration; None if no rank recorded any.

    Args:
        zero_ns: the start of the iteration, on the graph's clock.
        local_times: by rank, its time at each step since then.
    """
    trace = graph.trace
    lines = [timeline(rank) if rank.memory_samples else None for rank in trace.ranks]
    if not any(line is not None and len(whole_iteration(line, iteration)) for line in lines):
        return None
    stacks = [
        None if line is None else _stacks(rank, line, iteration)
        for rank, line in zip(trace.ranks, lines, strict=True)
    ]
    rows = [
        row
        for row in range(len(_SERIES))
        if any(stack is not None and stack[row].any() for stack in stacks)
    ]
    of_ranks = {line.rank: line for line in lines if line is not None}
    plan = plan_of(trace, of_ranks, iterations(trace))
    workload = None if plan is None else plan.workload
    accumulate = 1 if workload is None else workload.config.accumulate
    ranks = [
        None
        if line is None or stack is None
        else _of_rank(
            line,
            stack[rows],
            iteration,
            graph.clocks.offset_ns(line.rank) - zero_ns,
            local_times[line.rank],
            accumulate=accumulate,
        )
        for line, stack in zip(lines, stacks, strict=True)
    ]
    laws: tuple[TierLaw, ...] = ()
    if plan is not None and plan.law:
        laws = tuple(_law(plan.first, tier) for tier in plan.first.tiers)
    return Memory(
        roles=tuple(_SERIES[row][0] for row in rows),
        tiers=tuple(_SERIES[row][1] for row in rows),
        ranks=tuple(ranks),
        law=laws[0].law if laws else "",
        law_bytes=laws[0].law_bytes if laws else None,
        laws=laws,
    )


def _law(states: ModelStates, tier: Tier) -> TierLaw:
    return TierLaw(tier=tier, law=states.law(tier), law_bytes=float(states.law_bytes(tier)))


def _positions(line: Timeline, iteration: int) -> np.ndarray:
    """The samples of an iteration and the one of its initial state, if any."""
    own = whole_iteration(line, iteration)
    if len(own) and own[0] > 0:
        own = np.concatenate([[own[0] - 1], own])
    return np.asarray(own, dtype=np.int64)


def _stacks(rank: RankTrace, device: Timeline, iteration: int) -> np.ndarray:
    """Bytes by series of `_SERIES` and sample of the iteration."""
    positions = _positions(device, iteration)
    present = tiers_of(rank)
    nothing = np.zeros((len(STACK), len(positions)), dtype=np.int64)
    return np.concatenate(
        [
            nothing
            if tier not in present
            else _stack(device if tier is Tier.DEVICE else timeline(rank, tier), positions)
            for tier in Tier
        ]
    )


def _stack(line: Timeline, positions: np.ndarray) -> np.ndarray:
    """Bytes by role of `STACK` at samples."""
    stack = np.zeros((len(STACK), len(positions)), dtype=np.int64)
    for column, position in enumerate(positions.tolist()):
        held = line.roles_at(position)
        held[Role.OTHER] = max(0, line.other(position) or 0)
        stack[:, column] = [held.get(role, 0) for role in STACK]
    return stack


def _of_rank(
    line: Timeline,
    stack: np.ndarray,
    iteration: int,
    shift_ns: int,
    local_times: Sequence[int],
    *,
    accumulate: int,
) -> RankMemory | None:
    positions = _positions(line, iteration)
    own = whole_iteration(line, iteration)
    top = peak(line, own)
    if top is None:
        return None
    times = [max(0, line.samples[number].time_ns + shift_ns) for number in positions.tolist()]
    if len(positions) > len(own):  # the initial state of the iteration
        times[0] = 0
    column = positions.tolist().index(top.position)
    peak_ns = times[column]
    held = line.roles_at(top.position) | {Role.OTHER: line.other(top.position) or 0}
    parts = sorted(held.items(), key=lambda part: -part[1])[:_NAMED]
    words = enumerated(f"{term(role)} {format_bytes(size)}" for role, size in parts if size > 0)
    moment = when(line, top.position, accumulate=accumulate, names_iteration=False)
    return RankMemory(
        times_ns=tuple(times),
        bytes=tuple(tuple(row) for row in stack.tolist()),
        peak_ns=peak_ns,
        peak_bytes=top.bytes,
        peak_step=max(0, bisect_right(local_times, peak_ns) - 1),
        cause=fill(find("memory", "peak"), {"when": moment, "parts": words}),
    )
