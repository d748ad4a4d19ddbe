"""Memory of a rank other than its model states, compared with the limits of its stage.

A window lasts from the beginning of one computation to that of the next. A sample of another thread
in between may belong to two windows. No torch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from zerosim.analysis.memory import Timeline, states_of
from zerosim.base.language import enumerated, term
from zerosim.base.quantities import first_of, format_exact_bytes
from zerosim.record import RankTrace, Trace
from zerosim.schema.events import Event, Kind, Phase
from zerosim.schema.manifest import BucketLayout
from zerosim.schema.memory import Moment, Role
from zerosim.theory import (
    Workload,
    module_of,
    most_gathered_bytes,
    num_ahead,
    whole_bytes,
    whole_gradients,
    zero_states,
)
from zerosim.theory.residency import LEAVING
from zerosim.verify.report import Verdict
from zerosim.verify.states import name_units
from zerosim.verify.wording import said


@dataclass(frozen=True, slots=True)
class Window:
    """The computing units, from the beginning of a computation to that of the next.

    Attributes:
        begins_ns: its start, on the rank's clock.
        computing: units that compute in it.
        computed: units whose backward had ended at its start, in this micro-step.
        before: units that computed in the previous window.
    """

    begins_ns: int
    computing: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()


@dataclass(slots=True)
class Largest:
    """The maximum found so far, and the violations."""

    bytes: int = 0
    units: tuple[str, ...] = ()
    strays: list[str] = field(default_factory=list)

    def meet(self, held: Mapping[str, int]) -> None:
        """Update the maximum."""
        total = sum(held.values())
        if total > self.bytes:
            self.bytes, self.units = total, tuple(held)


def windows(rank: RankTrace, units: Collection[str] = ()) -> list[Window]:
    """The windows of one rank, in the order of time.

    When all computations of a backward have ended, the gradients of unused units are completed with
    zeros: from then on these units count as computing.

    Args:
        units: all that have gradients.
    """
    computations = sorted(filter(_computes, rank.events), key=_begins_ns)
    found = [Window(0)]
    for (_, _, phase), group in groupby(computations, key=_pass_of):
        events = list(group)
        last = {event.unit: event.id for event in events}
        going_on: list[Event] = []
        computed: set[str] = set()
        for event in events:
            begins = _begins_ns(event)
            over = [one for one in going_on if one.end_ns is not None and one.end_ns <= begins]
            going_on = [one for one in going_on if one not in over] + [event]
            if phase is Phase.BACKWARD:  # the unit to be recomputed first is not complete yet
                computed |= {one.unit for one in over if last[one.unit] == one.id}
            computing = frozenset(one.unit for one in going_on)
            found.append(Window(begins, computing, frozenset(computed), found[-1].computing))
        ends = [event.end_ns for event in events]
        if phase is Phase.BACKWARD and None not in ends:
            rest = found[-1].computing | (set(units) - set(last))
            end_ns = max(end for end in ends if end is not None)
            found.append(Window(end_ns, rest, frozenset(computed), found[-1].computing))
    return found


def _begins_ns(event: Event) -> int:
    return event.issue_ns if event.start_ns is None else event.start_ns


def _pass_of(event: Event) -> tuple[int, int, Phase]:
    return event.iteration, event.micro_step, event.phase


def _computes(event: Event) -> bool:
    return event.kind is Kind.COMPUTE and event.phase in (Phase.FORWARD, Phase.BACKWARD)


def with_windows(
    line: Timeline, rank: RankTrace, role: Role, units: Collection[str] = ()
) -> Iterator[tuple[int, dict[str, int], tuple[Window, ...]]]:
    """Samples within iterations: the contents of a role, and the possible windows.

    A sample without a change of either is skipped.
    """
    path = windows(rank, units)
    index = 0
    seen: tuple[int, int] | None = None
    for number, state, changed in states_of(line, role):
        sample = line.samples[number]
        # predicted times coincide: a sample at the end of one computation does not belong to the
        # next
        until_ns = sample.time_ns - (sample.moment is Moment.END)
        while index + 1 < len(path) and path[index + 1].begins_ns <= until_ns:
            index += 1
        if sample.iteration < 0:
            continue
        first = max(0, index - 1) if line.is_beside(number) else index
        if not changed and seen == (first, index):
            continue
        seen = first, index
        yield number, state, tuple(path[first : index + 1])


def spanning_modules(trace: Trace) -> set[str]:
    """Modules without computations of their own, which span the whole model, such as "root"."""
    own = {event.unit for rank in trace.ranks for event in rank.events if _computes(event)}
    return {module_of(u.name) for u in trace.manifest.units} - {module_of(unit) for unit in own}


def gathered_verdict(trace: Trace, workload: Workload, lines: Mapping[int, Timeline]) -> Verdict:
    """Stage 3: only one module's units, the prefetched units and the root are gathered."""
    spanning, prefetch = spanning_modules(trace), workload.config.prefetch
    whole = whole_bytes(workload)
    largest = Largest()
    bounds: dict[frozenset[str], int] = {}
    for rank in trace.ranks:
        if rank.rank not in lines:
            continue
        line = lines[rank.rank]
        order = _forward_order(rank, whole, spanning)
        for number, held, path in with_windows(line, rank, Role.GATHERED):
            if not held:
                continue
            beside = line.is_beside(number)
            if not beside:
                largest.meet(held)
            computing = frozenset(module_of(unit) for w in path for unit in w.computing)
            if computing not in bounds:
                together = most_gathered_bytes(whole, order, spanning, prefetch, computing)
                bounds[computing] = together
            leaving = {module_of(unit) for window in path for unit in window.before}
            ahead = num_ahead(held, computing, spanning, computing | leaving)
            if ahead > prefetch + beside:
                words = said("gathered.ahead", count=ahead, names=name_units(held))
                largest.strays.append(_at(line, number, words))
            largest.strays += [
                said(
                    "gathered.stray",
                    where=_where(line, number),
                    bytes=format_exact_bytes(size),
                    unit=unit or said("gathered.no_unit"),
                    whole=format_exact_bytes(whole.get(unit, 0)),
                )
                for unit, size in held.items()
                if size != whole.get(unit)
            ]
    bound = max(bounds.values(), default=0)
    return _verdict(
        "gathered-parameters",
        said(
            "gathered.title_beside" if spanning else "gathered.title",
            prefetch=prefetch,
            modules=enumerated(sorted(spanning)),
        ),
        said("gathered.at_most", bytes=format_exact_bytes(bound)),
        largest,
        bound,
    )


def gradients_verdict(trace: Trace, workload: Workload, lines: Mapping[int, Timeline]) -> Verdict:
    """Stages 2 and 3: a whole gradient exists only until its last bucket is reduced."""
    title = said("whole_gradients.title")
    if workload.num_ranks == 1:
        return Verdict(
            id="whole-gradients",
            title=title,
            formula="",
            holds=None,
            measured=said("whole_gradients.alone"),
        )
    spanning = spanning_modules(trace)
    whole = whole_bytes(workload)
    trained = {unit.name for unit in workload.units if unit.trainable}
    always = {unit for unit in trained if module_of(unit) in spanning}
    leaving = LEAVING if workload.config.offloads_optimizer else 0
    largest, bound = Largest(), sum(whole[unit] for unit in always)
    for rank in trace.ranks:
        if rank.rank not in lines:
            continue
        line = lines[rank.rank]
        kept = zero_states(workload, rank.rank).bytes()
        rows = {unit: size for (role, unit), size in kept.items() if role is Role.GRADIENTS}
        for number, state, path in with_windows(line, rank, Role.GRADIENTS, trained):
            allowed = (_allowed(trace.manifest.buckets, path, leaving) & trained) | always
            held, strays = _held_gradients(state, rows, whole)
            if held.keys() - allowed:
                late = name_units(held.keys() - allowed)
                strays.append(said("whole_gradients.late", names=late))
            if not line.is_beside(number):
                largest.meet(held)
                bound = max(bound, sum(whole[unit] for unit in allowed))
            largest.strays += [_at(line, number, words) for words in strays]
    total = sum(whole[unit] for unit in trained)
    allowed_words = said(
        "whole_gradients.allowed", bound=format_exact_bytes(bound), total=format_exact_bytes(total)
    )
    verdict = _verdict("whole-gradients", title, allowed_words, largest, bound)
    if largest.bytes == total and len(trained) > 1:
        return replace(verdict, measured=said("whole_gradients.all", measured=verdict.measured))
    return verdict


def _held_gradients(
    state: Mapping[str, int], rows: Mapping[str, int], whole: Mapping[str, int]
) -> tuple[dict[str, int], list[str]]:
    """Whole gradients, and gradients that are neither a row nor whole.

    An owner's row is the whole unit: it does not also count as a whole gradient.
    """
    held, strays = {}, []
    for unit, size in state.items():
        row, all_rows = rows.get(unit, 0), whole.get(unit, 0)
        if size not in (row, all_rows, row + all_rows):
            strays.append(
                said(
                    "whole_gradients.stray",
                    bytes=format_exact_bytes(size),
                    unit=unit or said("states.unknown_unit"),
                    row=format_exact_bytes(row),
                )
            )
        if size >= all_rows + (row if row == all_rows else 0):
            held[unit] = all_rows
    return held, strays


def _allowed(buckets: tuple[BucketLayout, ...], path: tuple[Window, ...], leaving: int) -> set[str]:
    return {
        unit
        for window in path
        for unit in whole_gradients(buckets, window.computed, window.computing, leaving)
    }


def _forward_order(rank: RankTrace, whole: Mapping[str, int], spanning: set[str]) -> list[str]:
    """Units in the order of the first forward; a module's frozen unit follows it."""
    modules = dict.fromkeys(
        module_of(event.unit)
        for event in rank.events
        if event.kind is Kind.COMPUTE and event.phase is Phase.FORWARD
    )
    units_of: dict[str, list[str]] = {}
    for unit in whole:
        units_of.setdefault(module_of(unit), []).append(unit)
    return [unit for one in modules if one not in spanning for unit in units_of.get(one, ())]


def _verdict(identity: str, title: str, formula: str, largest: Largest, bound: int) -> Verdict:
    measured = said(
        "gathered.at_most_of" if largest.units else "gathered.at_most",
        bytes=format_exact_bytes(largest.bytes),
        names=name_units(largest.units),
    )
    if largest.strays:
        measured = said("claims.then", measured=measured, more=first_of(largest.strays))
    holds = not largest.strays and largest.bytes <= bound
    return Verdict(id=identity, title=title, formula=formula, holds=holds, measured=measured)


def _where(line: Timeline, number: int) -> str:
    sample = line.samples[number]
    return said(
        "gathered.where",
        rank=line.rank,
        phase=term(sample.phase),
        iteration=sample.iteration,
    )


def _at(line: Timeline, number: int, what: str) -> str:
    return said("gathered.at", where=_where(line, number), what=what)
