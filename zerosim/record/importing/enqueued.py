"""The calls of a rank in Flight Recorder's dump, as a profile of the rank.

Each call becomes a record of PyTorch's profiler, with annotations derived from its lines of code. A
dump has no optimizer steps: if the lines distinguish forward from backward, one of each is an
iteration; if only backward is known, its recurring part is one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from zerosim.record.bounds import MOST_RANKS
from zerosim.record.importing.calls import SOURCE
from zerosim.record.importing.dumps import Dump, DumpedCall
from zerosim.record.importing.kineto import RECORD, ZERO, KinetoProfile
from zerosim.record.importing.spans import ProfileSpan, in_order, nest
from zerosim.record.importing.stacks import annotated, is_backward, is_forward
from zerosim.record.text import as_text
from zerosim.schema.events import Op

_RECORDED = {
    Op.ALL_REDUCE: "allreduce",
    Op.ALL_GATHER: "_allgather_base",
    Op.REDUCE_SCATTER: "_reduce_scatter_base",
    Op.BROADCAST: "broadcast",
    Op.REDUCE: "reduce",
    Op.ALL_TO_ALL: "all_to_all",
    Op.GATHER: "gather",
    Op.SCATTER: "scatter",
    Op.BARRIER: "barrier",
    Op.SEND: "send",
    Op.RECEIVE: "recv",
}
"""The name of an operation in PyTorch's records."""
_COALESCED = "coalesced"
"""An entry that coalesces others, which have entries of their own."""
_LINK = "External id"
_LATEST_NS = 2**62
_LEVELS = 16
"""A span and those around it, a nanosecond apart; an entry has fewer annotations."""
_LEAST = 2
"""Number of equal rounds that establish a period."""
_ROUNDS = (
    "Flight Recorder has no optimizer steps: a forward with its backward is counted as an "
    "iteration; with accumulated gradients it is a micro-step of one"
)
_RECURRENCE = (
    "Flight Recorder has no optimizer steps: recurring calls of backward are counted as an "
    "iteration; with accumulated gradients they are a micro-step of one"
)
_NO_ROUNDS = (
    "Flight Recorder has no optimizer steps, and lines of code do not distinguish forwards from "
    "backwards: the iteration of a call is not recorded"
)
_NOTICED = "begin and end of a call are the times at which PyTorch's watchdog polled it"
_GLOO = (
    "Gloo's recorder keeps the order of enqueued calls, without their times and without messages "
    "between two ranks"
)


def enqueued(dumps: Sequence[Dump]) -> list[KinetoProfile]:
    """The accounts of all ranks with a dump."""
    num_ranks = _num_ranks(dumps)
    windows = _windows(dumps)
    ranks = [_EnqueuedCalls.of(dump, windows) for dump in dumps]
    rounds = [_rounds(one.noted, is_from_start=one.is_from_start) for one in ranks]
    if None in rounds:  # iterations would differ between ranks
        rounds = [None] * len(rounds)
    return [_profile(one, num_ranks, ends) for one, ends in zip(ranks, rounds, strict=True)]


def _windows(dumps: Sequence[Dump]) -> dict[str, tuple[int, int]]:
    """The calls of each group that all dumps include, which cover different times: first and
    last.
    """
    seen: dict[str, list[list[int]]] = defaultdict(list)
    for dump in dumps:
        mine: dict[str, list[int]] = defaultdict(list)
        for one in dump.entries:
            if not one.is_message and one.sequence is not None:
                mine[one.group].append(one.sequence)
        for name, numbers in mine.items():
            seen[name].append(numbers)
    return {
        name: (max(map(min, numbers)), min(map(max, numbers))) for name, numbers in seen.items()
    }


def _num_ranks(dumps: Sequence[Dump]) -> int:
    """The number of ranks: those named, with a dump, or contributing to an all-gather."""
    named = [rank for dump in dumps for ranks in dump.groups.values() for rank in ranks]
    found = max((*named, *(dump.rank for dump in dumps))) + 1
    gathers = (
        (sum(one.given), sum(one.gotten))
        for dump in dumps
        for one in dump.entries
        if one.op is Op.ALL_GATHER and one.is_default and one.given and one.gotten
    )
    parts = (whole // part for part, whole in gathers if part)
    return max(found, *(one for one in parts if one <= MOST_RANKS), 0)


@dataclass(slots=True)
class _Noted:
    """An entry with the meaning of its lines of code."""

    entry: DumpedCall
    names: list[str]

    @property
    def kind(self) -> tuple[Op, str, tuple[int, ...] | None]:
        """The properties that it shares with the same call in other iterations."""
        return self.entry.op, self.entry.group, self.entry.given


@dataclass(frozen=True, slots=True)
class _EnqueuedCalls:
    """The calls of one rank, in order, up to where all dumps end; and the number of further
    calls.
    """

    dump: Dump
    noted: list[_Noted]
    num_more: int

    @classmethod
    def of(cls, dump: Dump, windows: dict[str, tuple[int, int]]) -> _EnqueuedCalls:
        entries = [
            one
            for one in dump.entries
            if 0 < one.created_ns < _LATEST_NS and not one.name.endswith(f":{_COALESCED}")
        ]
        kept = [one for one in entries if _is_within(one, windows)]
        kept.sort(key=lambda one: (one.created_ns, one.number))
        return cls(dump, [_Noted(one, annotated(one)) for one in kept], len(entries) - len(kept))

    @property
    def is_from_start(self) -> bool:
        """Whether nothing precedes the recorded calls."""
        return bool(self.noted) and self.noted[0].entry.number == 0


def _is_within(entry: DumpedCall, windows: dict[str, tuple[int, int]]) -> bool:
    if entry.is_message or entry.sequence is None:
        return True
    first, last = windows[entry.group]
    return first <= entry.sequence <= last


def _profile(rank: _EnqueuedCalls, num_ranks: int, rounds: _Rounds | None) -> KinetoProfile:
    dump, noted = rank.dump, rank.noted
    entries = [one.entry for one in noted]
    groups = _groups(dump, num_ranks)
    spans = [span for place, one in enumerate(noted) for span in _spans(one, place)]
    spans += [
        ProfileSpan(f"{ZERO}of a round", (0, -1), end, end, {})
        for end in (_ends_of_backwards(noted) if rounds is None else rounds.ends)
    ]
    spans.sort(key=in_order)
    nest(spans)
    kernels = [span for place, one in enumerate(entries) for span in _carried(one, place)]
    return KinetoProfile(
        path=dump.path,
        rank=dump.rank,
        num_ranks=num_ranks,
        backend=dump.backend or "not recorded",
        host="",
        pid=0,
        groups=groups,
        backends=dict.fromkeys(groups, dump.backend),
        begin_ns=min((one.start_ns for one in spans), default=0),
        end_ns=max((one.end_ns for one in (*spans, *kernels)), default=0),
        spans=tuple(spans),
        differentiated_ns=(),
        kernels=tuple(sorted(kernels, key=in_order)),
        launches={},
        hidden=tuple(
            ProfileSpan(as_text(one.name), (0, 0), one.created_ns, one.created_ns, {})
            for one in entries
            if one.op not in _RECORDED
        ),
        counts_iterations=rounds is not None,
        unsized="dumps have dtypes from PyTorch 2.4 on, one per call",
        apart="Gloo's dumps do not list the ranks of a group",
        notes=tuple(
            _notes(
                rank,
                num_ranks,
                _NO_ROUNDS if rounds is None else rounds.note,
                is_noticed=bool(kernels),
            )
        ),
    )


def _groups(dump: Dump, num_ranks: int) -> dict[str, tuple[int, ...]]:
    """Gloo's default group has all ranks."""
    everybody = tuple(range(num_ranks))
    return {one.group: everybody for one in dump.entries if one.is_default} | dump.groups


def _spans(noted: _Noted, place: int) -> Iterator[ProfileSpan]:
    """A call as a record, and the annotations around it, on a separate thread."""
    entry = noted.entry
    if entry.op not in _RECORDED:
        return
    end = entry.created_ns + _LEVELS
    for level, name in enumerate(noted.names):
        yield ProfileSpan(name, (0, place), entry.created_ns, end - level, {})
    yield ProfileSpan(
        RECORD, (0, place), entry.created_ns, entry.created_ns + 1, _args(entry, place)
    )


def _args(entry: DumpedCall, place: int) -> dict[str, Any]:
    gotten = entry.given if entry.op is Op.RECEIVE and not entry.gotten else entry.gotten
    found = {
        "Collective name": _RECORDED[entry.op],
        "In msg nelems": None if entry.given is None else sum(entry.given),
        "Out msg nelems": None if gotten is None else sum(gotten),
        "dtype": entry.dtype,
        "Process Group Name": entry.group,
        "Seq": entry.sequence,
        "Rank": entry.peer,
        _LINK: place,
        SOURCE: entry.source,
    }
    return {name: value for name, value in found.items() if value is not None}


def _carried(entry: DumpedCall, place: int) -> Iterator[ProfileSpan]:
    begin, end = entry.started_ns, entry.completed_ns
    if begin is not None and end is not None and entry.created_ns <= begin <= end < _LATEST_NS:
        yield ProfileSpan("nccl", (0, place), begin, end, {_LINK: place})


class _Rounds(NamedTuple):
    """The end of each presumed iteration, and a sentence that explains it."""

    ends: list[int]
    note: str


def _rounds(noted: Sequence[_Noted], *, is_from_start: bool) -> _Rounds | None:
    """The presumed iteration; None if there is none.

    Calls before the first complete one lose their annotations, as they belong to no iteration.
    """
    found = _whole_rounds(noted, is_from_start=is_from_start)
    rounds, note = (found, _ROUNDS) if found else (_recurring(noted), _RECURRENCE)
    if not rounds:
        return None
    for one in noted[: next(n for n, one in enumerate(noted) if one is rounds[0][0])]:
        one.names = []
    return _Rounds([some[-1].entry.created_ns + _LEVELS for some in rounds], note)


def _whole_rounds(noted: Sequence[_Noted], *, is_from_start: bool) -> list[list[_Noted]]:
    """Each forward with its backward; empty if they cannot be separated."""
    rounds: list[list[_Noted]] = []
    has_gone_back = True
    for one in noted:
        if is_forward(one.names) and has_gone_back:
            rounds.append([])
            has_gone_back = False
        if rounds and (is_forward(one.names) or is_backward(one.names)):
            rounds[-1].append(one)
            has_gone_back |= is_backward(one.names)
    kinds = [tuple(one.kind for one in some) for some in rounds]
    usual, count = Counter(kinds).most_common(1)[0] if kinds else ((), 0)
    is_first_whole = is_from_start or (kinds and kinds[0] == usual)
    whole = rounds[0 if is_first_whole else 1 : len(rounds) if kinds[-1:] == [usual] else -1]
    if count < _LEAST or not all(is_backward(some[-1].names) for some in whole):
        return []
    return whole


def _recurring(noted: Sequence[_Noted]) -> list[list[_Noted]]:
    """The calls of backward, split where they begin again; empty if they never do.

    Identical calls may belong to one iteration or to many: they are not split.
    """
    backward = [one for one in noted if is_backward(one.names)]
    kinds = [one.kind for one in backward]
    for period in range(2, len(kinds) // _LEAST + 1):
        usual, count = kinds[-period:], 1
        while kinds[-(count + 1) * period : -count * period] == usual:
            count += 1
        if count >= _LEAST and len(set(usual)) > 1:
            first = len(kinds) - count * period
            return [backward[at : at + period] for at in range(first, len(kinds), period)]
    return []


def _ends_of_backwards(noted: Sequence[_Noted]) -> list[int]:
    return [
        one.entry.created_ns + _LEVELS
        for one, after in zip_longest(noted, noted[1:])
        if is_backward(one.names) and (after is None or not is_backward(after.names))
    ]


def _notes(rank: _EnqueuedCalls, num_ranks: int, rounds: str, *, is_noticed: bool) -> Iterator[str]:
    dump, entries = rank.dump, [one.entry for one in rank.noted]
    if not any(one.frames for one in entries):
        yield "the dumps have no lines of code (JSON never does): the purpose of a call is unknown"
    yield rounds
    if dump.backend == "gloo":
        yield _GLOO
    if is_noticed:
        yield _NOTICED
    if not dump.groups:
        yield f"the dumps name no ranks: the sizes of all-gathers imply {num_ranks}"
    if rank.num_more:
        yield (
            f"rank {dump.rank}: left out {_calls(rank.num_more)} beyond the end of other ranks' "
            "dumps: `zerosim diagnose` shows whether a rank is missing"
        )
    if is_open := [one for one in entries if one.state != "completed" and not one.is_retired]:
        yield (
            f"rank {dump.rank}: {_calls(len(is_open))} had not ended when its dump was made: "
            "`zerosim diagnose` names the faulty rank"
        )


def _calls(number: int) -> str:
    return f"{number:,} call{'s' * (number != 1)}"
