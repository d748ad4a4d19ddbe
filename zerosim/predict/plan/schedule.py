"""The time of one optimizer step on one rank: its computation, and its waits.

Three activities overlap, as in zerosim's engine: the program computes, one thread communicates in
the order of the requests, and another copies. A unit is gathered `prefetch` units ahead, its
gradients are reduced after its backward, and the program waits only for data that it is about to
use. Blocks are identical, so after the first few each takes as long as the previous one, and the
others are not simulated.

A rank of a pipeline computes its micro-batches one after another and is idle for the time of p - 1
of them, or of (p - 1) / v with v interleaved chunks (Narayanan et al. 2021, section 2.2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from zerosim.base.tiers import Link
from zerosim.predict.plan.prices import Prices, UnitPrices, number, sent_between_stages
from zerosim.predict.plan.sums import LinkTime
from zerosim.theory.layout import LAST, MIDDLE, Layout
from zerosim.theory.transformer import BLOCK, ROOT


class TimeCategory(StrEnum):
    """The categories of a step's time; each moment belongs to one."""

    COMPUTE = "computing"
    AGAIN = "computing again"
    UPDATE = "updating"
    NODE = "waiting: within the node"
    NETWORK = "waiting: between nodes"
    BUS = "waiting: device and host"
    STORAGE = "waiting: disk"
    BUBBLE = "pipeline bubble"


WAITS = {
    Link.NODE: TimeCategory.NODE,
    Link.NETWORK: TimeCategory.NETWORK,
    Link.BUS: TimeCategory.BUS,
    Link.STORAGE: TimeCategory.STORAGE,
}
Times = dict[TimeCategory, float]
"""ns by cause."""
_ZERO_BUBBLE = 1 / 3
"""The remaining fraction of 1F1B's bubble, if forward and both parts of backward take equally long.

Source: P. Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 2, ZB-H1."""
_SETTLES = 3
"""Number of blocks, besides the prefetched ones, after which all take equally long."""


@dataclass(slots=True)
class _StepClock:
    """When each of the three activities is free, ns, and the program's time by cause."""

    now: float = 0.0
    talks: float = 0.0
    copies: float = 0.0
    spent: defaultdict[TimeCategory, float] = field(default_factory=lambda: defaultdict(float))

    def compute(self, ns: float, cause: TimeCategory = TimeCategory.COMPUTE) -> None:
        self.now += ns
        self.spent[cause] += ns

    def ask(self, moved: LinkTime, since: float = 0.0) -> float:
        """Request a collective; returns its end."""
        self.talks = max(self.now, self.talks, since) + moved.ns
        return self.talks

    def copy(self, moved: LinkTime, since: float = 0.0) -> float:
        """Request a copy; returns its end."""
        self.copies = max(self.now, self.copies, since) + moved.ns
        return self.copies

    def wait(self, until: float, link: Link) -> None:
        if until > self.now:
            self.spent[WAITS[link]] += until - self.now
            self.now = until

    def skip(self, other: _StepClock, times: float) -> None:
        """Repeat the time that passed since `other` a number of times."""
        self.now += times * (self.now - other.now)
        self.talks += times * (self.talks - other.talks)
        self.copies += times * (self.copies - other.copies)
        for cause, ns in self.spent.items():
            self.spent[cause] = ns + times * (ns - other.spent.get(cause, 0.0))

    def copied(self) -> _StepClock:
        return _StepClock(self.now, self.talks, self.copies, self.spent.copy())


def step_times(prices: Prices, layout: Layout) -> Times:
    """The time of one optimizer step by cause, ns.

    For a pipeline, that of the slowest stage: the one with the head or, if layers cannot be divided
    evenly, one with an additional layer.
    """
    last = _StageStep(prices, layout, LAST).times()
    if layout.blocks_of(MIDDLE) == layout.blocks_of(LAST):
        return last
    middle = _StageStep(prices, layout, MIDDLE).times()
    return max(last, middle, key=lambda one: sum(one.values()))


class _StageStep:
    """One optimizer step of one stage."""

    def __init__(self, prices: Prices, layout: Layout, place: str) -> None:
        self._prices, self._layout, self._config = prices, layout, layout.config
        self._ahead = self._config.prefetch
        units = {one.name: one for one in prices.units(layout, place)}
        self._root = units.get(ROOT)
        times = {one.name: one.times for one in layout.pieces(place)}
        self._blocks = times[BLOCK]
        self._loss = prices.loss(layout) if place == LAST else 0.0
        self._shown = min(self._blocks, 2 * (_SETTLES + self._ahead) + 1)
        if self._config.bucket_elements:  # several blocks together may fill a bucket
            self._shown = self._blocks
        self._units: list[UnitPrices] = []
        for name, unit in units.items():
            if name != ROOT:
                self._units += [unit] * (self._shown if name == BLOCK else times[name])
        self._block = units[BLOCK]
        self._each = [(unit, times[name]) for name, unit in units.items() if name != ROOT]
        self._gathers = any(
            one.moved.gather_forward or one.moved.gather_backward for one, _ in self._each
        )
        self._moves = any(one.moved.reduce or one.moved.offload for one, _ in self._each)
        self._each_reduces = self._config.stage >= 2
        self._message = None
        if layout.pipeline > 1:  # once for each chunk of layers
            self._message = sent_between_stages(prices, layout).times(layout.chunks)

    def times(self) -> Times:
        """The step's time by cause."""
        clock, layout = _StepClock(), self._layout
        count = layout.micro_batches
        middle = count - 1
        if middle:
            before = clock.copied()
            for _ in range(min(2, middle)):  # only the second one sees what the first left pending
                before = clock.copied()
                ends = self.micro_batch(clock, reduces=self._each_reduces)
                clock.wait(ends.reduced, ends.link)
            clock.skip(before, max(0, middle - 2))
        if layout.pipeline > 1:
            alone = _StepClock()  # the bubble consists of waits for stages without a head
            _StageStep(self._prices, layout, MIDDLE).micro_batch(alone, reduces=False)
            idle = (layout.pipeline - 1) * alone.now / layout.chunks
            if layout.zero_bubble:
                idle *= _ZERO_BUBBLE
            clock.compute(idle, TimeCategory.BUBBLE)
        ends = self.micro_batch(clock, reduces=True)
        self._update(clock, ends)
        return dict(clock.spent)

    def micro_batch(self, clock: _StepClock, *, reduces: bool) -> _Ends:
        """Forward and backward of one micro-batch, with its messages between stages."""
        if self._message:
            clock.wait(clock.now + self._message.ns, self._message.link)
        self._forward(clock)
        clock.compute(self._loss)
        if self._message:
            clock.wait(clock.now + self._message.ns, self._message.link)
        return self._backward(clock, reduces=reduces)

    # ------------------------------------------------------------------- forward and backward

    def _forward(self, clock: _StepClock) -> None:
        if not self._gathers and not (self._root and self._root.moved.gather_forward):
            self._alone(clock, is_forward=True)
            return
        units, ask = self._units, partial(self._gather, clock)
        gathers = _Gathers(clock, units, [one.moved.gather_forward for one in units], ask)
        if self._root and self._root.moved.gather_forward:
            until = ask(self._root, self._root.moved.gather_forward)
            gathers.ask_up_to(self._ahead - 1)
            clock.wait(until, self._root.moved.gather_forward.link)
        self._through(clock, gathers, is_forward=True)

    def _alone(self, clock: _StepClock, *, is_forward: bool) -> None:
        """All units when nothing overlaps with them, so that units of a kind take equally long."""
        for unit, times in self._each:
            for moved in unit.sums_forward if is_forward else unit.sums_backward:
                clock.wait(clock.now + times * moved.ns, moved.link)
            if is_forward:
                clock.compute(times * unit.forward)
                continue
            if unit.again:
                clock.compute(times * unit.again, TimeCategory.AGAIN)
            clock.compute(times * (unit.backward - unit.again))

    def _backward(self, clock: _StepClock, *, reduces: bool) -> _Ends:
        root = self._root
        gathers = self._gathers or bool(root and root.moved.gather_backward)
        moves = self._moves or bool(root and (root.moved.reduce or root.moved.offload))
        if not gathers and not (reduces and moves):
            self._alone(clock, is_forward=False)
            return _Ends()
        units, ask = self._units[::-1], partial(self._gather, clock)
        turns = _Gathers(clock, units, [one.moved.gather_backward for one in units], ask)
        if root and root.moved.gather_backward:
            clock.wait(ask(root, root.moved.gather_backward), root.moved.gather_backward.link)
        ends = _Ends()
        self._through(clock, turns, is_forward=False, ends=ends if reduces else None)
        if reduces and root:
            self._reduce(clock, root, ends)
        self._rest(clock, ends)
        return ends

    def _gather(self, clock: _StepClock, unit: UnitPrices, moved: LinkTime) -> float:
        """Gather a unit; its own shard is fetched first, if it is in another tier."""
        since = 0.0
        for way in unit.moved.fetch:
            since = clock.copy(way, since)
        return self._talk(clock, moved, since)

    def _talk(self, clock: _StepClock, moved: LinkTime, since: float = 0.0) -> float:
        """Request a collective; without overlap the program waits for it at once."""
        until = clock.ask(moved, since)
        if not self._config.overlap:
            clock.wait(until, moved.link)
        return until

    def _through(
        self, clock: _StepClock, gathers: _Gathers, *, is_forward: bool, ends: _Ends | None = None
    ) -> None:
        """All units in order; each block that is not simulated takes as long as the last one."""
        settled = _SETTLES + self._ahead
        hidden = self._blocks - self._shown
        blocks = 0
        for place, unit in enumerate(gathers.units):
            before = (
                clock.copied() if hidden and unit is self._block and blocks == settled else None
            )
            self._turn(clock, gathers, place, is_forward=is_forward, ends=ends)
            if before:
                gathers.later(hidden * (clock.talks - before.talks))
                clock.skip(before, hidden)
            blocks += unit is self._block

    def _turn(
        self,
        clock: _StepClock,
        gathers: _Gathers,
        place: int,
        *,
        is_forward: bool,
        ends: _Ends | None,
    ) -> None:
        unit = gathers.units[place]
        gathers.ask_up_to(place + self._ahead)
        gathers.wait_for(place)
        for moved in unit.sums_forward if is_forward else unit.sums_backward:
            clock.wait(clock.now + moved.ns, moved.link)
        if is_forward:
            clock.compute(unit.forward)
            return
        if unit.again:
            clock.compute(unit.again, TimeCategory.AGAIN)
        clock.compute(unit.backward - unit.again)
        if ends is not None:
            self._reduce(clock, unit, ends)

    def _reduce(self, clock: _StepClock, unit: UnitPrices, ends: _Ends) -> None:
        for moved in unit.moved.reduce:
            for part in self._full(moved, unit, ends):
                ends.reduced, ends.link = self._talk(clock, part), part.link
        for moved in unit.moved.offload:
            ends.offloaded = clock.copy(moved, ends.reduced)

    def _full(self, moved: LinkTime, unit: UnitPrices, ends: _Ends) -> Iterator[LinkTime]:
        """One reduction for each bucket that becomes full; without buckets, that of the unit."""
        size = self._config.bucket_elements
        if size is None:
            yield moved
            return
        ends.bucket = moved
        ends.filled += unit.elements
        while ends.filled >= size:
            ends.filled -= size
            yield moved

    def _rest(self, clock: _StepClock, ends: _Ends) -> None:
        """Reduce the rest in the last bucket."""
        size = self._config.bucket_elements
        if size and ends.bucket and ends.filled:
            ends.reduced = self._talk(clock, ends.bucket.times(ends.filled / size))

    # ------------------------------------------------------------------- the update

    def _update(self, clock: _StepClock, ends: _Ends) -> None:
        """Update unit after unit; copies and gathers of one overlap with the update of the next."""
        clock.wait(ends.reduced, ends.link)
        clock.wait(ends.offloaded, Link.BUS)
        agreed = number(self._prices, self._layout)
        shared, returned, links = 0.0, 0.0, (Link.NODE, Link.BUS)
        count = self._blocks / self._shown
        for unit in (*filter(None, [self._root]), *self._units):
            times = count if unit is self._block else 1
            for moved in unit.moved.states:
                returned, links = clock.copy(moved.times(times)), (links[0], moved.link)
            clock.compute(times * unit.moved.update, TimeCategory.UPDATE)
            for moved in unit.moved.returned:
                returned = clock.copy(moved.times(times))
            if unit.moved.share:
                shared = self._talk(clock, unit.moved.share.times(times), returned)
                links = (unit.moved.share.link, links[1])
        clock.wait(shared, links[0])
        clock.wait(returned, links[1])
        clock.wait(clock.now + agreed.ns, agreed.link)
        clock.compute(self._prices.machine.step_ns, TimeCategory.UPDATE)


@dataclass(slots=True)
class _Ends:
    """The times at which the last gradient is reduced, and at which it is on the host.

    Attributes:
        filled: elements of the bucket that is not full yet.
        bucket: the reduction of a full bucket.
    """

    reduced: float = 0.0
    link: Link = Link.NODE
    offloaded: float = 0.0
    filled: int = 0
    bucket: LinkTime | None = None


class _Gathers:
    """The requested gathers, and when each ends."""

    def __init__(
        self,
        clock: _StepClock,
        units: Sequence[UnitPrices],
        moved: Sequence[LinkTime | None],
        ask: Callable[[UnitPrices, LinkTime], float],
    ) -> None:
        self.units = units
        self._clock, self._moved, self._ask = clock, moved, ask
        self._ends: list[float] = []
        self._is_idle = not any(moved)

    def ask_up_to(self, place: int) -> None:
        if self._is_idle:
            return
        for at in range(len(self._ends), min(place + 1, len(self.units))):
            moved = self._moved[at]
            self._ends.append(self._ask(self.units[at], moved) if moved else 0.0)

    def wait_for(self, place: int) -> None:
        if self._is_idle:
            return
        moved = self._moved[place]
        if moved:
            self._clock.wait(self._ends[place], moved.link)

    def later(self, ns: float) -> None:
        """Delay all requested gathers by the time of the units that are not simulated."""
        self._ends = [end + ns for end in self._ends]
