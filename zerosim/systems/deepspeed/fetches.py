"""The gathers of DeepSpeed's stage 3: persistent parameters, and prefetching.

In its first micro-step it records the order in which modules compute, and gathers each module's
parameters on use. From the second on it follows that order: it prefetches the next ones, and does
not release parameters that are reused soon. A parameter that a module reads and another owns is
external: it is gathered when it is first read during the recording, and from then on together with
the reader's own.
With hpZ, parameters that were released once since the update are gathered again from a secondary
partition. docs/deepspeed.md has the rules in words. Source: DeepSpeed 0.19.8,
`runtime/zero/partitioned_param_coordinator.py`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zerosim.schema.events import Phase

ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits on how long parameters stay, in elements.

    Attributes:
        prefetch: elements of one prefetch (`stage3_prefetch_bucket_size`).
        live: elements of all fetched parameters (`stage3_max_live_parameters`).
        reuse: the distance within which a reused parameter is kept (`stage3_max_reuse_distance`).
        one_by_one: each parameter is gathered separately (`stage3_allgather_sequential`).
    """

    prefetch: int
    live: int
    reuse: int
    one_by_one: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """One gather.

    Attributes:
        names: names of the gathered parameters.
        is_secondary: from the secondary partition.
    """

    phase: Phase
    names: tuple[str, ...]
    is_secondary: bool = False


@dataclass(frozen=True, slots=True)
class RecomputedForward:
    """An entry of the order that is a forward computed again in backward.

    Attributes:
        within: modules whose backward is in progress at its start.
        is_cut: it ends early, and its module releases nothing.
    """

    within: frozenset[str]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class ExternalParameter:
    """An external parameter, seen for the first time while the order is recorded.

    Attributes:
        reader: the module that computes with it.
    """

    reader: str
    name: str


@dataclass(frozen=True, slots=True)
class _ComputingModule:
    """A module that computes: in forward, in backward, or in a recomputed forward.

    Attributes:
        names: its arguments that are parameters, which no other module releases meanwhile.
    """

    module: str
    recompute: RecomputedForward | None
    names: frozenset[str]


@dataclass(slots=True, kw_only=True)
class Fetcher:
    """Stage 3's state over micro-steps: gathered, prefetched and released parameters.

    A release is decided once, in the first micro-step that follows the order.

    Attributes:
        order: names of modules as they compute, forward and backward.
        own: names of the parameters that each module gathers: its own, for a leaf module all
            within it, and those that it only reads.
        direct: for a leaf module, its direct parameters.
        external: for each module, those that it only reads.
        returned: parameters that modules return to their callers; released only by an update.
        externals: by index in the order, before the entry there.
        sizes: elements of each parameter.
        persistent: parameters gathered after each update and kept.
        recomputes: by index in the order.
        frozen: parameters without updates, so their secondary partition stays valid.
        has_secondary: whether there are secondary partitions.
        secondary: parameters that currently have one.
        whole, on_its_way: gathered parameters, and those of them that have not been used since.
        released: releases decided, by module and the entry after it.
        ahead: parameters not considered yet, by parameter and entry.
        next_use: the last known entry that uses a parameter.
        unmet: external parameters of each module that are not known yet.
        num_live: elements fetched and not released in this micro-step.
    """

    order: Sequence[str]
    own: Mapping[str, Sequence[str]]
    sizes: Mapping[str, int]
    persistent: frozenset[str]
    limits: FetchLimits
    direct: Mapping[str, Sequence[str]] = field(default_factory=dict)
    external: Mapping[str, Sequence[str]] = field(default_factory=dict)
    returned: frozenset[str] = frozenset()
    externals: Mapping[int, Sequence[ExternalParameter]] = field(default_factory=dict)
    recomputes: Mapping[int, RecomputedForward] = field(default_factory=dict)
    frozen: frozenset[str] = frozenset()
    has_secondary: bool = False
    secondary: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    on_its_way: set[str] = field(default_factory=set)
    released: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    ahead: deque[tuple[str, int]] = field(default_factory=deque)
    next_use: dict[str, int] = field(default_factory=dict)
    unmet: dict[str, set[str]] = field(default_factory=dict)
    num_live: int = 0

    def micro_step(self, *, records: bool, partitioned: Collection[str] = ()) -> list[Fetch]:
        """The gathers of one forward and backward.

        Args:
            records: whether the order is being recorded, so that later entries are unknown.
            partitioned: parameters that the program released before it began.
        """
        order, fetches = self.order, list[Fetch]()
        self.whole -= set(partitioned)
        self.next_use, self.num_live, self.unmet = {}, 0, {}
        externals = self.externals if records else {}
        for one in (one for met in externals.values() for one in met):
            self.unmet.setdefault(one.reader, set()).add(one.name)
        uses = [(name, place) for place, module in enumerate(order) for name in self._of(module)]
        self.ahead = deque(() if records else uses)
        goes_back = next(
            (place for place, name in enumerate(order) if place and name == order[0]), len(order)
        )
        num_calls = Counter(order[:goes_back])
        inside: list[_ComputingModule] = []
        for place, module in enumerate(order):
            again, met = self.recomputes.get(place), deque(externals.get(place, ()))
            # backward enters a module once for each output of its call, and leaves it once
            is_another = place > goes_back and num_calls[module] == 1
            is_another &= bool(inside) and _is_same(inside[-1], module, again)
            while inside and not is_another:
                if place != goes_back and not _is_over(inside[-1], module, again):
                    break
                fetches += self._meet(met, inside[-1].module)
                self._leave(inside, place, records=records, keeps=place > goes_back)
            fetches += self._meet(met)
            phase = Phase.FORWARD if place < goes_back else Phase.BACKWARD
            names = self._of(module)
            fetches += self._gather(names, phase)
            self.on_its_way -= set(names)
            if not records:
                fetches += self._fetch_ahead(module, place, phase)
            if not is_another:
                inside.append(_ComputingModule(module, again, frozenset(names)))
        while inside:
            self._leave(inside, len(order), records=records, keeps=True)
        return fetches

    def num_recomputed(self) -> Counter[str]:
        """Number of times that a micro-step needs each parameter for a recomputation."""
        return Counter(name for place in self.recomputes for name in self._of(self.order[place]))

    def update(self) -> tuple[str, ...]:
        """Release everything after a step; return the parameters gathered then."""
        self.whole, self.on_its_way = set(self.persistent), set()
        self.secondary &= self.frozen
        return tuple(name for name in self.sizes if name in self.persistent)

    def _of(self, module: str) -> Sequence[str]:
        unmet = self.unmet.get(module, ())
        return [name for name in self.own.get(module, ()) if name not in unmet]

    def _passed(self, module: str, *, whole: bool) -> Iterable[str]:
        """The parameters of a module for prefetching: its own, or all within it.

        Parameters that it only reads are included, twice if also within it.
        """
        external = self.external.get(module, ())
        if not whole:
            own = self.direct.get(module)
            return [*(self._owned(module) if own is None else own), *external]
        within = [name for name in self.own if name == module or _is_within(name, module)]
        owned = dict.fromkeys(name for part in within for name in self._owned(part))
        return [*owned, *external]

    def _owned(self, module: str) -> list[str]:
        external = self.external.get(module, ())
        return [name for name in self._of(module) if name not in external]

    def _meet(self, met: deque[ExternalParameter], reader: str = "") -> list[Fetch]:
        """Gather the next external parameters that this module reads."""
        fetches = []
        while met and (not reader or met[0].reader == reader):
            one = met.popleft()
            self.unmet[one.reader].discard(one.name)
            fetches += self._gather([one.name], Phase.FORWARD)
            self.on_its_way.discard(one.name)
        return fetches

    def _gather(self, names: Sequence[str], phase: Phase) -> list[Fetch]:
        missing = [name for name in names if name not in self.whole]
        self.whole |= set(missing)
        self.on_its_way |= set(missing)
        self.num_live += sum(self.sizes[name] for name in missing)
        fetches = []
        for is_secondary in (True, False):
            chosen = [name for name in missing if (name in self.secondary) == is_secondary]
            if self.limits.one_by_one:
                fetches += [Fetch(phase, (name,), is_secondary) for name in chosen]
            elif chosen:
                fetches.append(Fetch(phase, tuple(chosen), is_secondary))
        return fetches

    def _fetch_ahead(self, module: str, place: int, phase: Phase) -> list[Fetch]:
        """Prefetch the next parameters, within the limits."""
        here = {name for name in self._of(module) if self.next_use.get(name, -1) < place}
        for _ in range(min(len(here), len(self.ahead))):
            name, use = self.ahead.popleft()
            self.next_use[name] = use
        bucket = 1 if self.limits.one_by_one else self.limits.prefetch
        most = min(self.limits.live - self.num_live, bucket)
        chosen: list[str] = []
        num_chosen = 0
        while self.ahead and num_chosen < most:
            name, use = self.ahead.popleft()
            self.next_use[name] = max(self.next_use.get(name, -1), use)
            if name not in self.whole and name not in chosen:
                chosen.append(name)
                num_chosen += self.sizes[name]
        return self._gather(chosen, phase)

    def _leave(
        self, inside: list[_ComputingModule], place: int, *, records: bool, keeps: bool
    ) -> None:
        """The innermost module has finished: release parameters that are not needed soon.

        Args:
            place: index of the next entry.
            keeps: a module whose input has no gradient finishes at the end of backward, where
                persistent parameters stay even while the order is recorded.
        """
        module, recompute = inside[-1].module, inside[-1].recompute
        inside.pop()
        if recompute is not None and recompute.is_cut:
            return
        names = frozenset(self._of(module))
        if records:
            if keeps and module in (self.order[0], self._first_module()):
                names -= self.persistent
        else:
            key = (module, place)
            if key not in self.released:
                self.released[key] = self._not_needed(module, place)
            names = self.released[key]
        in_use = {name for one in inside if one.module != module for name in one.names}
        gone = (names & self.whole) - self.on_its_way - in_use - self.returned
        self.whole -= gone
        self.num_live -= sum(self.sizes[name] for name in gone)
        if self.has_secondary:
            self.secondary |= gone

    def _not_needed(self, module: str, place: int) -> frozenset[str]:
        names = frozenset(self._of(module))
        kept = set(self.persistent)
        kept |= {name for name in names if self.next_use.get(name, -1) > place}
        passed = 0
        for later in self.order[place:]:
            if passed >= self.limits.reuse:
                break
            seen = list(self._passed(later, whole=module in self.direct))
            kept |= set(seen)
            passed += sum(self.sizes[name] for name in seen)
        return names - kept

    def _first_module(self) -> str:
        return next((name for name in self.order[1:] if self._of(name)), "")


def _is_over(inside: _ComputingModule, module: str, again: RecomputedForward | None) -> bool:
    """Whether a module has finished when the entry of another begins."""
    if inside.recompute is None and again is not None:
        return inside.module not in again.within
    if inside.recompute is not None and again is None:
        return True
    return not _is_within(module, inside.module)


def _is_same(inside: _ComputingModule, module: str, again: RecomputedForward | None) -> bool:
    """Whether backward enters a module that contains this one."""
    return inside.module == module and inside.recompute is None and again is None


def _is_within(module: str, parent: str) -> bool:
    return parent == ROOT or module.startswith(f"{parent}.")
