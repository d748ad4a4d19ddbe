"""Which functions asked for what: DeepSpeed's and those of zerosim's engine, as calls name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.base import Base
from zerosim.schema.events import Event, Kind

_FIRST = 0
"""The iteration that is looked at: what an engine records in it, it repeats."""
_INNER = "<locals>."
_ENTRIES = (
    *("deepspeed/__init__.py", "deepspeed/runtime/engine.py", "zerosim/train/deepspeed/"),
    *("zerosim/train/engine/engine.py", "zerosim/train/engine/hooks.py"),
    # and where they were in older traces
    *("zerosim/deepspeed/", "zerosim/engine/engine.py", "zerosim/engine/hooks.py"),
)
"""Files through which everything is asked for."""
_AHEAD = "prefetch"


@dataclass(frozen=True, slots=True)
class CallSite:
    """A function on the way to a call, and its line that went on.

    Attributes:
        file: from its package on.
        name: with its class, without functions around it.
    """

    file: str
    line: int
    name: str

    @property
    def short(self) -> str:
        """Its name without the class."""
        return self.name.rpartition(".")[2]

    @property
    def where(self) -> str:
        """The name of the file, and the line."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True, slots=True)
class AskedStep:
    """What is asked for in one way, before the first iteration or in it.

    Attributes:
        phase: "initialize" before it.
        is_ahead: fetched before its use.
        calls, elements: of all that were asked for so, on rank 0.
        way: the functions between the program and the first of them, the outermost first.
    """

    phase: str
    purpose: str
    op: str
    is_ahead: bool
    calls: int
    elements: int
    way: tuple[CallSite, ...]

    @property
    def decides(self) -> CallSite:
        """The outermost function behind the engine's entries."""
        behind = (one for one in self.way if not one.file.startswith(_ENTRIES))
        return next(behind, self.way[-1])


class Functions(Base):
    """Facts of who asked."""

    def asked_steps(self, run: str) -> list[AskedStep]:
        """What rank 0 asks for before the first iteration and in it, by the functions that ask."""
        found: dict[tuple[object, ...], AskedStep] = {}
        for event in self._asked(run):
            step = AskedStep(
                phase=_phase(event),
                purpose=str(event.purpose),
                op=str(event.op),
                is_ahead=event.unit == _AHEAD,
                calls=1,
                elements=event.elements,
                way=_way(event),
            )
            key = (step.phase, step.purpose, step.op, step.is_ahead, step.decides.name)
            before = found.get(key)
            if before is not None:
                more = before.elements + step.elements
                step = replace(before, calls=before.calls + 1, elements=more)
            found[key] = step
        return list(found.values())

    def way_of(self, run: str, phase: str, purpose: str, through: str = "") -> tuple[CallSite, ...]:
        """The functions on the way to the first such call; of those through a function, if named.

        Raises:
            ConfigError: there is no such call.
        """
        for event in self._asked(run):
            way = _way(event)
            is_through = not through or through in {one.short for one in way}
            if (_phase(event), event.purpose) == (phase, purpose) and is_through:
                return way
        raise ConfigError(f"{run}: nobody asks for {purpose} in {phase}")

    def asked_through(
        self, run: str, function: str, phase: str = "", micro_step: int | None = None
    ) -> int:
        """How many calls a function stands on the way to, in the first iteration or before it."""
        return sum(
            function in {one.short for one in _way(event)}
            and phase in {"", _phase(event)}
            and micro_step in {None, event.micro_step}
            for event in self._asked(run)
        )

    def first_asked(
        self, run: str, phase: str, purpose: str, op: str, micro_step: int | None = None
    ) -> int:
        """How many such calls there are in the first iteration, or before it: "initialize"."""
        return sum(
            (_phase(event), event.purpose, event.op) == (phase, purpose, op)
            and micro_step in {None, event.micro_step}
            for event in self._asked(run)
        )

    def ahead(self, run: str, phase: str, micro_step: int) -> int:
        """How many of its gathers in the first iteration were asked for before their use."""
        return sum(
            event.unit == _AHEAD and _phase(event) == phase and event.micro_step == micro_step
            for event in self._asked(run)
        )

    def in_their_order(self, run: str, phase: str, purpose: str, names: Sequence[str]) -> list[str]:
        """Functions as they stand on the way to a call that all of them are on the way to."""
        for event in self._asked(run):
            found = [one.short for one in _way(event) if one.short in names]
            if (_phase(event), event.purpose) == (phase, purpose) and len(found) == len(names):
                return found
        return []

    def not_asking(self, run: str, names: Sequence[str]) -> str:
        """The one of these functions that no call was asked through; "" if that is not one."""
        asking = {one.short for event in self._asked(run) for one in _way(event)}
        found = [name for name in names if name not in asking]
        return found[0] if len(found) == 1 else ""

    def parameters(self, run: str) -> int:
        """How many parameters the model of a program has; a tied one is one."""
        bundles = self._run(run).strategies[-1].bundles
        return len({one.name for bundle in bundles for one in bundle.parameters})

    def _asked(self, run: str) -> Iterator[Event]:
        for event in self._run(run).trace.ranks[0].events:
            if event.kind is Kind.COLLECTIVE and event.iteration <= _FIRST and event.functions:
                yield event


def _phase(event: Event) -> str:
    return "initialize" if event.iteration < _FIRST else str(event.phase)


def _way(event: Event) -> tuple[CallSite, ...]:
    return tuple(map(_place, event.functions))


def _place(said: str) -> CallSite:
    where, _, name = said.partition(" in ")
    file, _, line = where.rpartition(":")
    return CallSite(file, int(line), name.rpartition(_INNER)[2])
