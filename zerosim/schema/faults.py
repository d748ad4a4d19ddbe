"""An injected fault, as given by `--fault`: its kind, its rank and its iteration.

skip,rank=2,iteration=3,unit=blocks.1      the rank skips a call
slow,rank=1,times=3                        the rank computes three times as long
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Op, Phase, Purpose


class FaultKind(StrEnum):
    """A kind of fault on a rank."""

    SLOW = "slow"
    """Its computation takes `times` as long, or `ms` more, from the iteration on."""
    SLOW_LINK = "slow-link"
    """Each message that it sends takes `ms` more, from the iteration on."""
    SKIP = "skip"
    """It skips a call."""
    REPEAT = "repeat"
    """It makes a call twice."""
    SWAP = "swap"
    """It makes a call only after the following one; a message, after the next one to that rank."""
    SIZE = "size"
    """It passes a call fewer elements."""
    DTYPE = "dtype"
    """It passes a call a different dtype."""
    GROUP = "group"
    """It makes a call in a different group."""
    PEER = "peer"
    """It sends a message to the wrong rank, or receives it from the wrong one."""
    DIE = "die"
    """It is killed where it would make the call."""
    HANG = "hang"
    """It hangs at the call."""
    DIE_WRITING = "die-writing"
    """It is killed while it writes a row of its trace."""
    FLIP_PARAMETER = "flip-parameter"
    """A bit of a parameter flips before a forward."""
    FLIP_GRADIENT = "flip-gradient"
    """A bit of its input to a reduction flips."""
    FLIP_MESSAGE = "flip-message"
    """A bit flips in transit: of a message of a ring, else of a call's output."""
    NAN = "nan"
    """An element of its input to a reduction is NaN."""
    SEED = "seed"
    LEARNING_RATE = "learning-rate"
    BATCH = "batch"
    """These three: it has a different seed, `times` the learning rate, half of the batch."""
    SHORT_DATA = "short-data"
    """Its data end before the iteration."""
    LOADER_ERROR = "loader-error"
    """Its data loader raises an exception."""
    NO_BACKWARD = "no-backward"
    """It skips a backward pass."""


OF_CALLS = frozenset(
    {
        *(FaultKind.SKIP, FaultKind.REPEAT, FaultKind.SWAP, FaultKind.SIZE, FaultKind.DTYPE),
        *(FaultKind.GROUP, FaultKind.PEER),
        *(FaultKind.DIE, FaultKind.HANG, FaultKind.DIE_WRITING),
        *(FaultKind.FLIP_GRADIENT, FaultKind.FLIP_MESSAGE, FaultKind.NAN),
    }
)
"""Faults that occur at a call of the rank."""
OF_GRADIENTS = frozenset({FaultKind.FLIP_GRADIENT, FaultKind.NAN})
"""Faults in the input of a call that reduces gradients."""
LASTING = frozenset({FaultKind.SLOW, FaultKind.SLOW_LINK, FaultKind.LEARNING_RATE})
"""Faults that last from their iteration on; the others occur once."""
OF_OPTIONS = frozenset({FaultKind.SEED, FaultKind.LEARNING_RATE, FaultKind.BATCH})
"""Faults in which a rank has an option that differs from the others."""

_NUMBERS = ("rank", "iteration", "call", "bit", "element")
_DECIMALS = ("times", "ms")
_CHOICES: Mapping[str, type[StrEnum]] = {"op": Op, "phase": Phase, "purpose": Purpose}
_EXAMPLE = "skip,rank=1,iteration=2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        rank: the rank with the fault; for a slow link, the sender.
        iteration: the iteration in which the fault occurs or begins.
        unit, op, phase, purpose: filter of the affected calls, computations or messages; "" and
            None mean any. A unit is matched by its name or a suffix of whole components: "1" does
            not match "blocks.11".
        call: index among these in that iteration, counted from 0.
        times: factor of the duration; 1 if `ms` is given.
        ms: additional milliseconds.
        bit: the bit of the element that flips, counted from the lowest.
        element: index of the element.
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
        """Parse the argument of `--fault`.

        Raises:
            ConfigError: it does not describe a fault; one line.
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
            raise ConfigError(f"fault is {text!r}: expected a rank, such as {_EXAMPLE}")
        return cls(kind=kind, **given)

    def __post_init__(self) -> None:
        for name in (*_NUMBERS, *_DECIMALS):
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"fault {self.kind} has {name}={getattr(self, name)}: expected 0 or more"
                )

    def __str__(self) -> str:
        """The fault as typed after `--fault`."""
        said = [
            f"{one.name}={getattr(self, one.name)}"
            for one in fields(self)
            if one.name not in ("kind", "rank") and getattr(self, one.name) != one.default
        ]
        return ",".join([self.kind, f"rank={self.rank}", *said])

    def require_ranks(self, num_ranks: int) -> None:
        """Check that the fault's rank exists.

        Raises:
            ConfigError: there is no such rank.
        """
        if self.rank >= num_ranks:
            raise ConfigError(
                f"fault {self.kind} is for rank {self.rank}: expected 0 to {num_ranks - 1}"
            )

    def is_at(self, unit: str, op: Op | None, phase: Phase, purpose: Purpose | None) -> bool:
        """Whether the fault applies to a call with these properties, in any iteration."""
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
    raise ConfigError(f"fault is {text!r}: {key!r} is not one of {known}; such as {_EXAMPLE}")


def read_faults(texts: Sequence[str]) -> tuple[Fault, ...]:
    """Read every `--fault` of a command.

    Raises:
        ConfigError: one of them is not a fault.
    """
    return tuple(map(Fault.read, texts))
