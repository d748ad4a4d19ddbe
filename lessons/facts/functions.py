"""The functions behind calls: DeepSpeed's and those of zerosim's engine, by their names in
calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.base import Base
from zerosim.schema.events import Event, Kind

_FIRST = 0
"""The iteration to inspect: an engine records in it, and repeats it."""
_INNER = "<locals>."
_ENTRIES = (
    *("deepspeed/__init__.py", "deepspeed/runtime/engine.py", "zerosim/train/deepspeed/"),
    *("zerosim/train/engine/engine.py", "zerosim/train/engine/hooks.py"),
    # and their files in older traces
    *("zerosim/deepspeed/", "zerosim/engine/engine.py", "zerosim/engine/hooks.py"),
)
"""Files through which every call passes."""
_AHEAD = "prefetch"


@dataclass(frozen=True, slots=True)
class CallSite:
    """A function on the stack of a call, and its line.

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
    """Calls with the same stack, before the first iteration or in it.

    Attributes:
        phase: "initialize" before it.
        is_ahead: prefetched.
        calls, elements: of all such calls, on rank 0.
        way: the functions between the program and the first of them, outermost first.
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
    """Facts about callers."""

    def asked_steps(self, run: str) -> list[AskedStep]:
        """Calls of rank 0 before the first iteration and in it, by calling functions."""
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
        """The functions on the stack of the first such call; of one through a function, if named.

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
        """Number of calls with a function on their stack, in the first iteration or before it."""
        return sum(
            function in {one.short for one in _way(event)}
            and phase in {"", _phase(event)}
            and micro_step in {None, event.micro_step}
            for event in self._asked(run)
        )

    def first_asked(
        self, run: str, phase: str, purpose: str, op: str, micro_step: int | None = None
    ) -> int:
        """Number of such calls in the first iteration, or before it: "initialize"."""
        return sum(
            (_phase(event), event.purpose, event.op) == (phase, purpose, op)
            and micro_step in {None, event.micro_step}
            for event in self._asked(run)
        )

    def ahead(self, run: str, phase: str, micro_step: int) -> int:
        """Number of its gathers in the first iteration that were prefetched."""
        return sum(
            event.unit == _AHEAD and _phase(event) == phase and event.micro_step == micro_step
            for event in self._asked(run)
        )

    def in_their_order(self, run: str, phase: str, purpose: str, names: Sequence[str]) -> list[str]:
        """Functions in the order of the stack of a call that has all of them."""
        for event in self._asked(run):
            found = [one.short for one in _way(event) if one.short in names]
            if (_phase(event), event.purpose) == (phase, purpose) and len(found) == len(names):
                return found
        return []

    def not_asking(self, run: str, names: Sequence[str]) -> str:
        """The one of these functions that is on no call's stack; "" if that is not exactly one."""
        asking = {one.short for event in self._asked(run) for one in _way(event)}
        found = [name for name in names if name not in asking]
        return found[0] if len(found) == 1 else ""

    def parameters(self, run: str) -> int:
        """Number of parameters of a program's model; a tied one counts once."""
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
