"""Equal actions of paused ranks: matching of paused threads, and their beat.

Steps are those of a replay: equal actions of all their ranks, in the order in which the last of
them arrived; the same function groups them into beats.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zerosim.analysis.beats import Beat, cut
from zerosim.analysis.frames import Step
from zerosim.base.errors import TraceError
from zerosim.debug.link import HeldThread
from zerosim.record import read_manifest
from zerosim.schema.events import Event, Kind, Op, Phase
from zerosim.schema.manifest import Manifest
from zerosim.schema.stands import Stand

Key = tuple[object, ...]
_PHASES = {phase: number for number, phase in enumerate(Phase)}


@dataclass(frozen=True, slots=True)
class LiveStep:
    """The common next event of some ranks.

    Attributes:
        key: the identity that they share.
        standing: a paused thread of each rank that has arrived.
        missing: ranks that take part and have not arrived.
    """

    key: Key
    standing: tuple[HeldThread, ...]
    missing: tuple[int, ...]

    @property
    def stand(self) -> Stand:
        """The paused thread of the lowest rank."""
        return self.standing[0].stand

    @property
    def arrival(self) -> int:
        """The arrival of the last rank."""
        return max(one.arrival for one in self.standing)


def key_of(rank: int, stand: Stand) -> Key:
    """The key that paused threads of several ranks share if they are at the same step."""
    if stand.peer is not None:
        ends = (rank, stand.peer) if stand.op is Op.SEND else (stand.peer, rank)
        return ("message", stand.group, *ends, stand.iteration, stand.micro_step, stand.place)
    if stand.sequence is not None:
        return ("collective", stand.group, stand.sequence, stand.ranks, stand.hop or 0)
    what = (stand.kind, stand.iteration, stand.phase, stand.micro_step, stand.unit, stand.purpose)
    return (*what, stand.place)


def part_of(rank: int, stand: Stand, all_ranks: Iterable[int]) -> tuple[int, ...]:
    """The ranks that take part in the next event of one of them."""
    if stand.peer is not None:
        return (rank, stand.peer)
    return stand.ranks or tuple(all_ranks)


def steps_of(standing: Iterable[HeldThread], here: Sequence[int]) -> list[LiveStep]:
    """The next steps of ranks: those with all ranks present first, in order.

    Args:
        here: the connected ranks.
    """
    found: dict[Key, list[HeldThread]] = defaultdict(list)
    for one in sorted(standing, key=lambda one: (one.rank, one.arrival)):
        found[key_of(one.rank, one.stand)].append(one)
    made = []
    for key, group in found.items():
        wanted = part_of(group[0].rank, group[0].stand, here)
        present = {one.rank for one in group}
        missing = tuple(rank for rank in wanted if rank in here and rank not in present)
        made.append(LiveStep(key, tuple(group), missing))
    return sorted(made, key=_turn)


def _turn(step: LiveStep) -> tuple[object, ...]:
    """Complete steps in order of arrival, then others, the earliest position first."""
    stand = step.stand
    place = (stand.iteration, stand.micro_step, _PHASES[stand.phase]) if step.missing else ()
    return (bool(step.missing), *place, step.arrival)


@dataclass(slots=True)
class History:
    """The steps so far of the current iteration of the ranks.

    Attributes:
        steps: in order of their release.
        iteration: their iteration.
    """

    folder: Path | None = None
    iteration: int | None = None
    steps: list[Step] = field(default_factory=list)
    _numbers: dict[Key, int] = field(default_factory=dict)
    _buckets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, step: LiveStep) -> None:
        """Record that a step was released."""
        if _begins_iteration(step.stand) and step.stand.iteration != self.iteration:
            self.iteration, self.steps = step.stand.iteration, []
            self._numbers.clear()
        self.steps.append(self._made(step, len(self.steps)))

    @property
    def has_begun(self) -> bool:
        """Whether an event of the iteration has begun, so that there is something to replay."""
        return any(step.kind is not Kind.MARK for step in self.steps)

    def beats(self, following: LiveStep | None = None) -> tuple[Beat, ...]:
        """The beats so far, and those with a further step."""
        steps = list(self.steps)
        if following is not None:
            if _begins_iteration(following.stand) and following.stand.iteration != self.iteration:
                steps = []
            steps.append(self._made(following, len(steps)))
        return cut(steps, buckets=self._units()) if steps else ()

    def begins_beat(self, following: LiveStep) -> bool:
        """Whether a step would be the first of another beat."""
        beats = self.beats(following)
        return beats[-1].first == beats[-1].last

    def _units(self) -> Mapping[str, tuple[str, ...]]:
        manifest = self._manifest() if not self._buckets else None
        if manifest is not None:
            self._buckets = {
                bucket.name: tuple(dict.fromkeys(one.unit for one in bucket.segments))
                for bucket in manifest.buckets
            }
        return self._buckets

    def _manifest(self) -> Manifest | None:
        try:
            return None if self.folder is None else read_manifest(self.folder)
        except TraceError:  # it is being written
            return None

    def _made(self, step: LiveStep, place: int) -> Step:
        """The step as in a replay, without known times."""
        stand = step.stand
        of_collective: int | None = None
        if stand.kind in (Kind.COLLECTIVE, Kind.TRANSFER):
            whole = step.key[:3] if stand.sequence is not None else step.key
            of_collective = self._numbers.setdefault(whole, len(self._numbers))
        events = {} if stand.kind is Kind.MARK else {one.rank: _event(one) for one in step.standing}
        return Step(
            kind=stand.kind,
            phase=stand.phase,
            micro_step=stand.micro_step,
            events=events,
            collective=of_collective,
            hop=stand.hop,
            time_ns=place,
            start_ns=place,
            end_ns=place,
            until=place,
        )


def _begins_iteration(stand: Stand) -> bool:
    return stand.kind is Kind.MARK and stand.phase is Phase.FORWARD


def _event(one: HeldThread) -> Event:
    stand = one.stand
    return Event(
        id=one.number,
        rank=one.rank,
        kind=stand.kind,
        iteration=stand.iteration,
        micro_step=stand.micro_step,
        phase=stand.phase,
        unit=stand.unit,
        purpose=stand.purpose,
        op=stand.op,
        group=stand.group,
        sequence=stand.sequence,
        payload_bytes=stand.payload_bytes,
        issue_ns=one.arrival,
        source=stand.source,
    )
