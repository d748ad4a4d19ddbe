"""A fault that is made on purpose, as `--fault` says it: what goes wrong, on which rank, when.

skip,rank=2,iteration=3,unit=blocks.1      that rank leaves a call out
slow,rank=1,times=3                        it computes three times as long from there on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Op, Phase, Purpose


class FaultKind(StrEnum):
    """What goes wrong on a rank."""

    SLOW = "slow"
    """What it computes takes `times` as long, or `ms` more, from the iteration on."""
    SLOW_LINK = "slow-link"
    """Each message that it sends takes `ms` more, from the iteration on."""
    SKIP = "skip"
    """It leaves a call out."""
    REPEAT = "repeat"
    """It makes a call twice."""
    SWAP = "swap"
    """It makes a call only after the one that follows, a message after the next to that rank."""
    SIZE = "size"
    """It gives a call fewer elements."""
    DTYPE = "dtype"
    """It gives a call another dtype."""
    GROUP = "group"
    """It makes a call in another group."""
    PEER = "peer"
    """It sends a message to another rank than it should, or receives it from another."""
    DIE = "die"
    """It is killed where it would call."""
    HANG = "hang"
    """It stands still where it would call."""
    DIE_WRITING = "die-writing"
    """It is killed while it writes a row of its trace."""
    FLIP_PARAMETER = "flip-parameter"
    """A bit of a parameter flips before a forward."""
    FLIP_GRADIENT = "flip-gradient"
    """A bit of what it gives to be reduced flips."""
    FLIP_MESSAGE = "flip-message"
    """A bit flips on the way: of a message of a ring, else of what it gets from a call."""
    NAN = "nan"
    """What it gives to be reduced has an element that is no number."""
    SEED = "seed"
    LEARNING_RATE = "learning-rate"
    BATCH = "batch"
    """It has another seed, `times` the learning rate, half of the batch."""
    SHORT_DATA = "short-data"
    """Its data end before the iteration."""
    LOADER_ERROR = "loader-error"
    """Its data loader raises an exception."""
    NO_BACKWARD = "no-backward"
    """It leaves a backward out."""


OF_CALLS = frozenset(
    {
        *(FaultKind.SKIP, FaultKind.REPEAT, FaultKind.SWAP, FaultKind.SIZE, FaultKind.DTYPE),
        *(FaultKind.GROUP, FaultKind.PEER),
        *(FaultKind.DIE, FaultKind.HANG, FaultKind.DIE_WRITING),
        *(FaultKind.FLIP_GRADIENT, FaultKind.FLIP_MESSAGE, FaultKind.NAN),
    }
)
"""What happens at a call that the rank is about to make."""
OF_GRADIENTS = frozenset({FaultKind.FLIP_GRADIENT, FaultKind.NAN})
"""What happens to what a call that reduces gradients is given."""
LASTING = frozenset({FaultKind.SLOW, FaultKind.SLOW_LINK, FaultKind.LEARNING_RATE})
"""What goes on from its iteration on; all else happens once."""
OF_OPTIONS = frozenset({FaultKind.SEED, FaultKind.LEARNING_RATE, FaultKind.BATCH})
"""What a rank is told otherwise than the others."""

_NUMBERS = ("rank", "iteration", "call", "bit", "element")
_DECIMALS = ("times", "ms")
_CHOICES: Mapping[str, type[StrEnum]] = {"op": Op, "phase": Phase, "purpose": Purpose}
_EXAMPLE = "skip,rank=1,iteration=2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        rank: on which it happens; of a slow link the one that sends.
        iteration: in which, or from which on.
        unit, op, phase, purpose: at which calls, computations or messages; "" and None stand for
            any. A unit is meant by its name or by its end: "1" is no end of "blocks.11".
        call: which of these in that iteration, counted from 0.
        times: how many times as much; 1 for what `ms` says.
        ms: how much longer.
        bit: which bit of the element flips, counted from the lowest.
        element: which element.
    """

    kind: FaultKind
    rank: int
    iteration: int = 1
    unit: str = ""
    op: Op | None = None
    phase: Phase | None = None
    purpose: Purpose | None = None
    call: int = 0
    times: float = 1.0
    ms: float = 0.0
    bit: int = 30
    element: int = 0

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what stands after `--fault`.

        Raises:
            ConfigError: it is no fault; one line.
        """
        name, *parts = (part.strip() for part in text.split(","))
        if name not in set(FaultKind):
            raise ConfigError(f"fault is {name!r}: expected one of {', '.join(FaultKind)}")
        kind = FaultKind(name)
        given: dict[str, Any] = dict(_DEFAULTS.get(kind, {}))
        for part in parts:
            key, _, value = part.partition("=")
            given[key] = _value(text, key, value)
        if "rank" not in given:
            raise ConfigError(f"fault is {text!r}: on which rank? such as {_EXAMPLE}")
        return cls(kind=kind, **given)

    def __post_init__(self) -> None:
        for name in (*_NUMBERS, *_DECIMALS):
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"fault {self.kind} has {name}={getattr(self, name)}: expected 0 or more"
                )

    def __str__(self) -> str:
        """As it is typed."""
        said = [
            f"{one.name}={getattr(self, one.name)}"
            for one in fields(self)
            if one.name not in ("kind", "rank") and getattr(self, one.name) != one.default
        ]
        return ",".join([self.kind, f"rank={self.rank}", *said])

    def require_ranks(self, num_ranks: int) -> None:
        """See that there is such a rank.

        Raises:
            ConfigError: there is not.
        """
        if self.rank >= num_ranks:
            raise ConfigError(
                f"fault {self.kind} is for rank {self.rank}: expected 0 to {num_ranks - 1}"
            )

    def is_at(self, unit: str, op: Op | None, phase: Phase, purpose: Purpose | None) -> bool:
        """Whether it is for such a call, in any iteration."""
        return (
            (not self.unit or unit == self.unit or unit.endswith(f".{self.unit}"))
            and self.op in (None, op)
            and self.phase in (None, phase)
            and self.purpose in (None, purpose)
        )


_DEFAULTS: Mapping[FaultKind, Mapping[str, Any]] = {
    FaultKind.SLOW: {"times": 3.0},
    FaultKind.SLOW_LINK: {"ms": 20.0},
    FaultKind.LEARNING_RATE: {"times": 10.0},
    FaultKind.FLIP_PARAMETER: {"bit": 20},
    FaultKind.FLIP_MESSAGE: {"bit": 20},
    FaultKind.FLIP_GRADIENT: {"purpose": Purpose.REDUCE_GRADIENTS},
    FaultKind.NAN: {"purpose": Purpose.REDUCE_GRADIENTS},
}


def _value(text: str, key: str, value: str) -> Any:
    try:
        if key in _NUMBERS:
            return int(value)
        if key in _DECIMALS:
            return float(value.removeprefix("x"))
        if key in _CHOICES:
            return _CHOICES[key](value)
    except ValueError:
        expected = ", ".join(_CHOICES[key]) if key in _CHOICES else "a number"
        raise ConfigError(f"fault is {text!r}: {key} is {value!r}: expected {expected}") from None
    if key == "unit":
        return value
    known = ", ".join([*_NUMBERS, *_DECIMALS, "unit", *_CHOICES])
    raise ConfigError(f"fault is {text!r}: {key!r} is none of {known}; such as {_EXAMPLE}")


def read_faults(texts: Sequence[str]) -> tuple[Fault, ...]:
    """Read every `--fault` of a command.

    Raises:
        ConfigError: one is none.
    """
    return tuple(map(Fault.read, texts))
