"""Combines execution traces and profiles of the same steps into one account of each rank.

A profile has the times; an execution trace has the arguments: sizes, types and parts of every call,
and groups. Newer versions give a call the same number in both; otherwise, calls of a thread match
by order and shapes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from zerosim.base.errors import TraceError
from zerosim.record.bounds import MOST_RANKS
from zerosim.record.importing.execution import LINK, Execution, sizes_of_groups
from zerosim.record.importing.kineto import NATIVE, OPERATOR, RECORD, KinetoProfile
from zerosim.record.importing.spans import ProfileSpan
from zerosim.record.importing.values import counted

_SEQUENCE = "Seq"
_NO_CALLS = (None, "wait")
"""Kinds of records outside of operators; older ones lack their kind."""


def joined(
    profiles: Sequence[KinetoProfile], executions: Sequence[Execution]
) -> list[KinetoProfile]:
    """One profile per rank: with its execution trace, or from that alone.

    Raises:
        TraceError: the rank of an execution trace is unknown, or it covers other steps.
    """
    left = list(executions)
    found = []
    for profile in profiles:
        mine = _of_profile(profile, left, alone=len(profiles) == len(executions) == 1)
        if mine is not None:
            left.remove(mine)
        found.append(profile if mine is None else _with_arguments(profile, mine))
    return found + [_alone(one, profiles) for one in left]


def _of_profile(
    profile: KinetoProfile, executions: Sequence[Execution], *, alone: bool
) -> Execution | None:
    """The execution trace of the same process, by pid; in containers also by rank."""
    fits = [one for one in executions if one.pid == profile.pid]
    if len(fits) != 1:
        fits = [one for one in fits or executions if one.rank == profile.rank]
    if not fits and alone:
        fits = list(executions)
    return fits[0] if len(fits) == 1 else None


def _with_arguments(profile: KinetoProfile, execution: Execution) -> KinetoProfile:
    """A profile with the details that an execution trace has of the same calls.

    Raises:
        TraceError: they have no call in common.
    """
    execution = _with_groups(execution, profile.num_ranks)
    mine, theirs = _calls(profile.spans), _calls(execution.spans)
    num_joined, num_told = 0, len(mine)
    for span, other in _pairs(mine, theirs):
        num_joined += 1
        _add_arguments(span, other)
    if num_told and not num_joined:
        raise TraceError(
            f"{execution.path}: none of its calls is in {profile.path}, which is from "
            "the same process: give files of the same steps"
        )
    notes = profile.notes
    if num_joined < num_told:
        left = f"{num_told - num_joined:,} of {num_told:,} calls of rank {profile.rank}"
        notes += (f"{left} are not in its execution trace, which covers fewer steps",)
    return replace(
        profile,
        groups=profile.groups or execution.groups,
        backends=profile.backends or execution.backends,
        notes=notes,
    )


def _calls(spans: Sequence[ProfileSpan]) -> list[ProfileSpan]:
    """The outermost operators that communicate, and the records outside of any."""
    named = [
        span
        for span in spans
        if span.name.startswith(OPERATOR)
        or (span.name == RECORD and span.args.get("Collective name") not in _NO_CALLS)
    ]
    return [
        span
        for span in named
        if not any(one.name.startswith((OPERATOR, RECORD)) for one in span.around())
    ]


def _add_arguments(span: ProfileSpan, other: ProfileSpan) -> None:
    """The details of a call in an execution trace, and of the records and spans within it."""
    span.args |= {name: value for name, value in other.args.items() if value is not None}
    said: dict[str, list[ProfileSpan]] = defaultdict(list)
    for one in reversed(other.within()):
        said[one.name].append(one)
    for one in span.within():
        if one.name.startswith((RECORD, *NATIVE)) and said[one.name]:
            found = said[one.name].pop()
            one.args |= {name: value for name, value in found.args.items() if value is not None}


def _pairs(
    mine: Sequence[ProfileSpan], theirs: Sequence[ProfileSpan]
) -> Iterator[tuple[ProfileSpan, ProfileSpan]]:
    """Pairs of calls of a profile and an execution trace."""
    said = {one.args[LINK]: one for one in theirs}
    linked = [(one, said.get(counted(one.args, LINK))) for one in mine]
    found = [(one, other) for one, other in linked if other and other.name == one.name]
    if found:
        yield from found
        return
    by_thread: dict[object, list[ProfileSpan]] = defaultdict(list)
    for one in theirs:
        by_thread[one.thread].append(one)
    threads: dict[object, list[ProfileSpan]] = defaultdict(list)
    for one in mine:
        threads[one.thread].append(one)
    for calls in threads.values():
        yield from max((_aligned(calls, some) for some in by_thread.values()), key=len, default=[])


def _aligned(
    mine: Sequence[ProfileSpan], theirs: Sequence[ProfileSpan]
) -> list[tuple[ProfileSpan, ProfileSpan]]:
    """The pairs of calls on two threads, one of which was observed longer; empty if they differ.

    If they match at several offsets, as equal steps do, the numbers of the calls are unknown.
    """
    longer, shorter = (mine, theirs) if len(mine) >= len(theirs) else (theirs, mine)
    fits = [
        place
        for place in range(len(longer) - len(shorter) + 1)
        if all(_is_same(a, b) for a, b in zip(longer[place:], shorter, strict=False))
    ]
    if not fits or not shorter:
        return []
    if len(fits) > 1:
        for span in (one for call in theirs for one in (call, *call.within())):
            span.args.pop(_SEQUENCE, None)
    pairs = zip(longer[fits[0] :], shorter, strict=False)
    return [(a, b) if longer is mine else (b, a) for a, b in pairs]


def _is_same(one: ProfileSpan, other: ProfileSpan) -> bool:
    """Whether two records can be of one call: the same operator with the same shapes."""
    sizes = zip(one.args.get("Input Dims", ()), other.args.get("Input Dims", ()), strict=False)
    return one.name == other.name and all(a == b or not a or not b for a, b in sizes)


def _with_groups(execution: Execution, num_ranks: int) -> Execution:
    """The name of a group that older versions identify by address, if it is known to have all
    ranks.
    """
    names = (f"everyone {number}" if number else "everyone" for number in count())
    everyone = {
        name: next(names)
        for name, size in sizes_of_groups(execution).items()
        if size == num_ranks and name not in execution.groups
    }
    for span in execution.spans:
        name = span.args.get("Process Group Name")
        if name in everyone:
            span.args["Process Group Name"] = everyone[name]
    groups = execution.groups | dict.fromkeys(everyone.values(), tuple(range(num_ranks)))
    backends = {name: execution.backends.get(name, "nccl") for name in groups}
    return replace(execution, groups=groups, backends=backends)


def _alone(execution: Execution, profiles: Sequence[KinetoProfile]) -> KinetoProfile:
    """An execution trace without a profile: an order without times.

    Raises:
        TraceError: its rank is unknown, or there are profiles of other ranks.
    """
    if profiles:
        raise TraceError(
            f"{execution.path}: no profile of the same process was given: give "
            "the profiler's trace of the same steps as well, or execution traces alone"
        )
    num_ranks, notes = execution.num_ranks, tuple(_untimed(execution))
    if num_ranks is None:
        num_ranks = max(sizes_of_groups(execution).values(), default=None)
    rank = execution.rank
    if num_ranks is None or rank is None or not rank < num_ranks <= MOST_RANKS:
        raise TraceError(
            f"{execution.path}: this execution trace does not name its rank and the number of "
            "ranks: give the profiler's trace of the same steps as well"
        )
    execution = _with_groups(execution, num_ranks)
    backends = Counter(execution.backends.values())
    return KinetoProfile(
        path=execution.path,
        rank=rank,
        num_ranks=num_ranks,
        backend=next(iter(backends), "not recorded").rpartition(":")[2],
        host="",
        pid=execution.pid,
        groups=execution.groups,
        backends=execution.backends,
        begin_ns=execution.begin_ns,
        end_ns=execution.end_ns,
        spans=execution.spans,
        differentiated_ns=execution.differentiated_ns,
        kernels=(),
        launches={},
        hidden=(),
        is_timed=False,
        notes=notes,
    )


def _untimed(execution: Execution) -> Iterator[str]:
    if execution.num_ranks is None:
        yield "the number of ranks is inferred from the parts of the largest exchange"
