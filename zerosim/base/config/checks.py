"""The refusal of invalid values."""

from __future__ import annotations

from zerosim.base.errors import ConfigError


def require(holds: bool, what: str, value: object, expected: str) -> None:
    """Refuse an invalid value with a message of one line.

    Raises:
        ConfigError: `holds` is false; the message has the given value and the expected one.
    """
    if not holds:
        raise ConfigError(f"{what} is {value}: expected {expected}")


def require_divisor(what: str, size: int, num_ranks: int) -> None:
    """Refuse groups of a size that does not divide the number of ranks.

    Raises:
        ConfigError: the size does not divide it.
    """
    require(num_ranks % size == 0, what, size, f"a divisor of the {num_ranks} ranks")
