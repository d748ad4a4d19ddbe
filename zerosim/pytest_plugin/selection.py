"""What an assert counts: which iterations, which ranks, which of their calls; and what Psi is.

Imports zerosim's L0 and record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from zerosim.errors import ConfigError, TraceError
from zerosim.events import Event, Kind, Phase, Purpose
from zerosim.quantities import PSI, format_exact
from zerosim.record import RankTrace, Trace, iterations
from zerosim.strategies import System

WHOLE = -1
"""In place of an iteration: a program without an optimizer's step is taken as a whole."""
STEP_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
_WHOLE_MODELS = (
    System.DDP,
    System.ZERO_REDUNDANCY,
    System.FSDP1,
    System.FSDP2,
    System.DEEPSPEED,
    System.HAND_WRITTEN,
)
"""Those that know every parameter of the model that they divide."""
_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is counted.

    Attributes:
        ranks: each of them must keep to what is expected.
        iterations: likewise; `(WHOLE,)` if the program told of none.
        phases: what of an iteration is counted.
        purposes: likewise; None for all.
    """

    trace: Trace
    ranks: tuple[RankTrace, ...]
    iterations: tuple[int, ...]
    phases: tuple[Phase, ...]
    purposes: tuple[Purpose, ...] | None

    def places(self) -> Iterator[tuple[RankTrace, int]]:
        """Every rank in every iteration."""
        for iteration in self.iterations:
            for rank in self.ranks:
                yield rank, iteration

    def calls(self, rank: RankTrace, iteration: int) -> list[Event]:
        """The collectives and messages that one rank called in one iteration."""
        return [
            event
            for event in all_calls(rank, iteration)
            if event.phase in self.phases
            and (self.purposes is None or purpose_of(event) in self.purposes)
        ]

    @property
    def words(self) -> str:
        """What of an iteration is counted, in words."""
        phases = "every phase" if set(self.phases) == set(Phase) else ", ".join(self.phases)
        if self.purposes is None:
            return f"every call in {phases}"
        return f"{', '.join(self.purposes)}; in {phases}"


def select(
    trace: Trace,
    *,
    rank: object,
    iteration: object,
    phase: object,
    purposes: tuple[Purpose, ...] | None,
) -> Selection:
    """Choose what is counted.

    Args:
        rank: a number; None for every rank.
        iteration: a number; None for every one.
        phase: one or several, by their names; None for forward, backward and update.
        purposes: None for all.

    Raises:
        ConfigError: there is no such rank, iteration or phase.
        TraceError: the trace ends early, and nothing is proved by a part.
    """
    if not trace.complete:
        others = f" (and {len(trace.warnings) - 1} more)" if len(trace.warnings) > 1 else ""
        raise TraceError(
            f"{trace.folder} is incomplete: {trace.warnings[0]}{others}: nothing is proved by a "
            f"part; zerosim show prints what is there"
        )
    known = iterations(trace)
    if phase is not None:
        phases = names_of(Phase, phase, "phase")
    elif known:
        phases = STEP_PHASES
    else:
        phases = tuple(Phase)
    return Selection(
        trace=trace,
        ranks=_ranks(trace, rank),
        iterations=_iterations(known, iteration),
        phases=phases,
        purposes=purposes,
    )


def names_of(kind: type[_E], given: object, what: str) -> tuple[_E, ...]:
    """Members of a closed set, as a test names them: one, or several.

    Raises:
        ConfigError: there is no such member; the message lists them.
    """
    many = [given] if isinstance(given, str) else given
    if not isinstance(many, Iterable):
        raise ConfigError(f"{what} is {given!r}: expected {_members(kind)}")
    return tuple(_name_of(kind, each, what) for each in many)


def all_calls(rank: RankTrace, iteration: int) -> list[Event]:
    """What one rank called in one iteration, whatever the phase; a ring's hops are no calls."""
    return [
        event
        for event in rank.events
        if event.kind is Kind.COLLECTIVE
        and event.parent is None
        and event.op is not None
        and iteration in (event.iteration, WHOLE)
    ]


def purpose_of(event: Event) -> Purpose:
    """Why a call was made, as far as it is known."""
    return event.purpose or Purpose.UNLABELLED


def num_parameters(trace: Trace, given: object) -> int:
    """Psi: what the test says, else what the trace knows.

    Args:
        given: a model, a number of parameters, or None.

    Raises:
        ConfigError: it is neither, or the trace does not know.
    """
    if given is not None:
        return _given_parameters(given)
    if trace.manifest.units:
        return sum(unit.elements for unit in trace.manifest.units)
    found = {(rank.rank, name): size for rank in trace.ranks for name, size in _systems(rank)}
    sizes = set(found.values())
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise ConfigError(
            f"the trace does not say how many parameters {PSI} is: expected psi=model, before it "
            f"is wrapped, or psi= their number"
        )
    said = {name: size for (_, name), size in found.items()}
    words = ", ".join(f"{name} says {format_exact(size)}" for name, size in said.items())
    raise ConfigError(
        f"it is not clear how many parameters {PSI} is: {words}: expected psi=model, before it is "
        f"wrapped, or psi= their number"
    )


def _systems(rank: RankTrace) -> Iterator[tuple[str, int]]:
    """How many parameters each system says that it divides."""
    for system in _WHOLE_MODELS:
        latest = {one.name: one for one in rank.strategies if one.system is system}
        size = sum(one.num_parameters for one in latest.values())
        if size:
            yield system.value, size


def _given_parameters(given: Any) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    parameters = getattr(given, "parameters", None)
    if not callable(parameters):
        raise ConfigError(f"psi is {given!r}: expected a model or a number of parameters")
    size = sum(parameter.numel() for parameter in parameters())
    if size == 0:
        raise ConfigError("psi is a model without parameters: expected one with some")
    return int(size)


def _ranks(trace: Trace, rank: object) -> tuple[RankTrace, ...]:
    if rank is None:
        return trace.ranks
    found = tuple(each for each in trace.ranks if each.rank == rank)
    if not found or isinstance(rank, bool):
        raise ConfigError(f"rank is {rank!r}: expected 0 to {len(trace.ranks) - 1}")
    return found


def _iterations(known: tuple[int, ...], iteration: object) -> tuple[int, ...]:
    if iteration is None:
        return known or (WHOLE,)
    if not known:
        raise ConfigError(
            f"iteration is {iteration!r}: the program made no step of an optimizer, so it has none"
        )
    if iteration not in known or isinstance(iteration, bool):
        raise ConfigError(f"iteration is {iteration!r}: expected {known[0]} to {known[-1]}")
    return tuple(each for each in known if each == iteration)


def _name_of(kind: type[_E], given: Any, what: str) -> _E:
    try:
        return kind(given)
    except ValueError:
        raise ConfigError(f"{what} is {given!r}: expected {_members(kind)}") from None


def _members(kind: type[StrEnum]) -> str:
    return "one of " + ", ".join(repr(member.value) for member in kind)
