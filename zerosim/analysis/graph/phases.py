"""The starts of a rank's phases, and the ends of its iterations.

The kernel's counters and the memory are sampled whenever a phase begins, and those rows have the
time. A trace without them has the phases of its events, in order of issue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from zerosim.record import Events, RankTrace, Trace
from zerosim.schema.events import Event, Kind, Phase
from zerosim.schema.memory import Moment

_BETWEEN = (Phase.SETUP, Phase.OUTSIDE)


@dataclass(frozen=True, slots=True)
class Border:
    """A phase of an iteration begins; `Phase.OUTSIDE` is the iteration's end."""

    iteration: int
    phase: Phase
    time_ns: int


def borders(rank: RankTrace, offset_ns: int) -> list[Border]:
    """The borders of one rank's iterations in order; for a trace without iterations, its start.

    Args:
        offset_ns: added to the rank's times.
    """
    has_device = any(time is not None for time in rank.events.column("device_end_ns"))
    if has_device and any(_is_on_device(one) for _, one in rank.events.of_kind(Kind.COMPUTE)):
        # the counters and the memory were sampled when the host reached a phase
        found = list(_on_device(rank.events))
        return [Border(one.iteration, one.phase, one.time_ns + offset_ns) for one in found]
    seen = [(one.time_ns, one.iteration, one.micro_step, one.phase) for one in rank.wire_samples]
    if not seen:
        seen = [
            (one.time_ns, one.iteration, one.micro_step, one.phase)
            for one in rank.memory_samples
            if one.moment is Moment.PHASE
        ]
    found = list(_iterations(sorted(seen, key=lambda one: one[0])))
    if not any(border.phase not in _BETWEEN for border in found):
        found = list(_from_events(rank.events))
    return [Border(one.iteration, one.phase, one.time_ns + offset_ns) for one in found]


def _iterations(seen: Iterable[tuple[int, int, int, Phase]]) -> Iterator[Border]:
    """The borders within iterations, and the first one after each."""
    inside: tuple[int, int, Phase] | None = None
    for time_ns, iteration, micro_step, phase in seen:
        if phase not in _BETWEEN:
            if inside is not None and inside[0] != iteration:
                yield Border(inside[0], Phase.OUTSIDE, time_ns)
            if inside != (iteration, micro_step, phase):
                yield Border(iteration, phase, time_ns)
            inside = (iteration, micro_step, phase)
        elif inside is not None:
            yield Border(inside[0], Phase.OUTSIDE, time_ns)
            inside = None


def _from_events(events: Events) -> Iterator[Border]:
    """The phases of events; the end of the last one in an iteration is its end."""
    others = (kind for kind in Kind if kind is not Kind.TRANSFER)
    own = sorted((event for _, event in events.of_kind(*others)), key=_issue)
    inside: tuple[int, int, Phase] | None = None
    end_ns = 0
    for event in own:
        position = (event.iteration, event.micro_step, event.phase)
        if position != inside:
            if inside is not None and inside[0] != event.iteration:
                yield Border(inside[0], Phase.OUTSIDE, min(end_ns, event.issue_ns))
            yield Border(event.iteration, event.phase, event.issue_ns)
            inside = position
        end_ns = max(end_ns, event.issue_ns, event.start_ns or 0, event.end_ns or 0)
    if inside is not None:
        yield Border(inside[0], Phase.OUTSIDE, end_ns)


def _on_device(events: Events) -> Iterator[Border]:
    """Phases of a device's computations; collectives may overlap with the next one.

    A phase begins with its first collective, unless the previous one was still computing then.
    """
    begins: dict[tuple[int, int, Phase], int] = {}
    inside: tuple[int, int, Phase] | None = None
    end_ns = computed_ns = 0
    others = (kind for kind in Kind if kind is not Kind.TRANSFER)
    for event in sorted((event for _, event in events.of_kind(*others)), key=_start):
        position = (event.iteration, event.micro_step, event.phase)
        begin_ns = begins.setdefault(position, _start(event))
        if _is_on_device(event) and position != inside:
            begin_ns = max(begin_ns, computed_ns)
            if inside is not None and inside[0] != event.iteration:
                yield Border(inside[0], Phase.OUTSIDE, min(end_ns, begin_ns))
            yield Border(event.iteration, event.phase, begin_ns)
            inside = position
        end_ns = max(end_ns, _start(event), event.end_ns or 0)
        if _is_on_device(event):
            computed_ns = max(computed_ns, event.end_ns or 0)
    if inside is not None:
        yield Border(inside[0], Phase.OUTSIDE, end_ns)


def late_updates(trace: Trace, rank: RankTrace) -> dict[int, int]:
    """Updates that were computed during the next iteration, by event id: that iteration.

    A delayed update (ZeRO-Offload) has the label of the iteration whose gradients it applies, and a
    thread of its own, which may begin before that iteration's end. Empty without one.
    """
    if not trace.manifest.config.get("delayed_update"):
        return {}
    return {
        event.id: event.iteration + 1
        for _, event in rank.events.of_kind(Kind.COMPUTE)
        if event.phase is Phase.UPDATE
    }


def _is_on_device(event: Event) -> bool:
    """Whether it is a computation with device times."""
    is_seen = event.device_end_ns is not None and event.end_ns == event.device_end_ns
    return event.kind is Kind.COMPUTE and is_seen


def _start(event: Event) -> int:
    return event.issue_ns if event.start_ns is None else event.start_ns


def _issue(event: Event) -> int:
    return event.issue_ns
