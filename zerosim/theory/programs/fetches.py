"""What DeepSpeed's stage 3 gathers, and when: what it keeps, and what it fetches ahead.

In its first micro-step it records the order in which modules compute, and gathers each module's
parameters when it does. From the second on it follows that order: it fetches ahead what comes next,
and does not let go what is needed again soon. docs/deepspeed.md has the rules in words.
Source: DeepSpeed 0.19.8, `runtime/zero/partitioned_param_coordinator.py`.
May import the standard library and layer L0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zerosim.events import Phase

ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What decides how long parameters stay, in elements.

    Attributes:
        prefetch: of one fetch ahead (`stage3_prefetch_bucket_size`).
        live: of all that is fetched (`stage3_max_live_parameters`).
        reuse: how far ahead a module counts as soon (`stage3_max_reuse_distance`).
        one_by_one: each parameter is gathered by itself (`stage3_allgather_sequential`).
    """

    prefetch: int
    live: int
    reuse: int
    one_by_one: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """One gather.

    Attributes:
        names: of the parameters that it makes whole.
    """

    phase: Phase
    names: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Fetcher:
    """Stage 3's bookkeeping over micro-steps: what is whole, what is fetched, what is let go.

    A decision what to let go is made once, in the first micro-step that follows the order.

    Attributes:
        order: names of modules as they compute, forward and backward.
        own: names of the parameters of each module.
        sizes: elements of each parameter.
        persistent: what is gathered after each update and kept.
        whole, on_its_way: parameters that are there, and of these, those not used since.
        released: what was decided to be let go, by module and the entry after it.
        ahead: what was not looked at yet, by parameter and entry.
        next_use: the last entry at which a parameter was seen to be used.
        num_live: elements that were fetched and not let go in this micro-step.
    """

    order: Sequence[str]
    own: Mapping[str, Sequence[str]]
    sizes: Mapping[str, int]
    persistent: frozenset[str]
    limits: Limits
    whole: set[str] = field(default_factory=set)
    on_its_way: set[str] = field(default_factory=set)
    released: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    ahead: deque[tuple[str, int]] = field(default_factory=deque)
    next_use: dict[str, int] = field(default_factory=dict)
    num_live: int = 0

    def micro_step(self, *, records: bool) -> list[Fetch]:
        """The gathers of one forward and backward.

        Args:
            records: the order is only being recorded, so nothing is known ahead.
        """
        order, fetches = self.order, list[Fetch]()
        self.next_use, self.num_live = {}, 0
        uses = [(name, place) for place, module in enumerate(order) for name in self._of(module)]
        self.ahead = deque(() if records else uses)
        goes_back = next(
            (place for place, name in enumerate(order) if place and name == order[0]), len(order)
        )
        inside: list[str] = []
        for place, module in enumerate(order):
            while inside and (place == goes_back or not _is_within(module, inside[-1])):
                self._leave(inside.pop(), place, records=records, keeps=place > goes_back)
            phase = Phase.FORWARD if place < goes_back else Phase.BACKWARD
            fetches += self._gather(self._of(module), phase)
            self.on_its_way -= set(self._of(module))
            if not records:
                fetches += self._fetch_ahead(module, place, phase)
            inside.append(module)
        for module in reversed(inside):
            self._leave(module, len(order), records=records, keeps=True)
        return fetches

    def update(self) -> tuple[str, ...]:
        """An optimizer's step lets everything go; returns what is gathered after it, and kept."""
        self.whole, self.on_its_way = set(self.persistent), set()
        return tuple(name for name in self.sizes if name in self.persistent)

    def _of(self, module: str) -> Sequence[str]:
        return self.own.get(module, ())

    def _gather(self, names: Sequence[str], phase: Phase) -> list[Fetch]:
        missing = [name for name in names if name not in self.whole]
        self.whole |= set(missing)
        self.on_its_way |= set(missing)
        self.num_live += sum(self.sizes[name] for name in missing)
        if self.limits.one_by_one:
            return [Fetch(phase, (name,)) for name in missing]
        return [Fetch(phase, tuple(missing))] if missing else []

    def _fetch_ahead(self, module: str, place: int, phase: Phase) -> list[Fetch]:
        """Fetch what comes next, as far as the limits allow."""
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

    def _leave(self, module: str, place: int, *, records: bool, keeps: bool) -> None:
        """A module is through: let go what is not needed soon.

        Args:
            place: of the entry that comes next.
            keeps: a module whose input has no gradient is through at the end of backward, when
                what is persistent stays even while the order is recorded.
        """
        names = frozenset(self._of(module))
        if records:
            if keeps and module in (self.order[0], self._first_module()):
                names -= self.persistent
        else:
            names = self.released.setdefault((module, place), self._not_needed(names, place))
        gone = (names & self.whole) - self.on_its_way
        self.whole -= gone
        self.num_live -= sum(self.sizes[name] for name in gone)

    def _not_needed(self, names: frozenset[str], place: int) -> frozenset[str]:
        kept = set(self.persistent)
        kept |= {name for name in names if self.next_use.get(name, -1) > place}
        passed = 0
        for later in self.order[place:]:
            if passed >= self.limits.reuse:
                break
            kept |= set(self._of(later))
            passed += sum(self.sizes[name] for name in self._of(later))
        return names - kept

    def _first_module(self) -> str:
        return next((name for name in self.order[1:] if self._of(name)), "")


def _is_within(module: str, parent: str) -> bool:
    return parent == ROOT or module.startswith(f"{parent}.")
