"""How a configuration refuses a value, and how it goes through JSON."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, Self, cast

from zerosim.errors import ConfigError

AT_LEAST_ONE = "a whole number of 1 or more"


def require(holds: bool, what: str, value: object, expected: str) -> None:
    """Refuse a value in one line.

    Raises:
        ConfigError: `holds` is false; the message says what was given and what was expected.
    """
    if not holds:
        raise ConfigError(f"{what} is {value}: expected {expected}")


def require_divisor(what: str, size: int, num_ranks: int) -> None:
    """Refuse groups of a size that does not divide the number of ranks.

    Raises:
        ConfigError: it does not.
    """
    require(num_ranks % size == 0, what, size, f"a divisor of the {num_ranks} ranks")


def require_whole(config: object, *names: str) -> None:
    """Refuse fields that are no whole numbers.

    Raises:
        ConfigError: the value of a field is no whole number; True and False are none.
    """
    for name in names:
        value = getattr(config, name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        require(whole, name.replace("_", "-"), repr(value), "a whole number")


class Plain:
    """What goes through JSON and comes back."""

    __slots__ = ()

    def to_plain(self) -> dict[str, object]:
        """The configuration as JSON values, for a manifest."""
        values: dict[str, object] = asdict(cast("Any", self))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_plain`.

        Raises:
            ConfigError: an unknown key, or a value that the class refuses.
        """
        known = [field.name for field in fields(cast("Any", cls))]
        for name in values:
            if name not in known:
                raise ConfigError(f"unknown key {name!r}: expected one of {', '.join(known)}")
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigError(f"a value of the wrong type: {error}") from None
