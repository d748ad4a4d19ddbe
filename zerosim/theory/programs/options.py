"""Typed access to options of a strategy or a bundle."""

from __future__ import annotations

from zerosim.base.errors import ConfigError
from zerosim.schema.strategies import Bundle, Parameter, Strategy

Held = Strategy | Bundle


def parameters_of(strategy: Strategy) -> tuple[Parameter, ...]:
    """The parameters of all bundles, each once."""
    found = {one.name: one for bundle in strategy.bundles for one in bundle.parameters}
    return tuple(found.values())


def flag(held: Held, key: str, *, default: bool = True) -> bool:
    """An option that is on or off."""
    return bool(held.options.get(key, default))


def passes(strategy: Strategy) -> tuple[int, int]:
    """The number of forwards and backwards of a model in a micro-step.

    Both are 0 in a micro-step without the model, in which its strategy spans one rank only.

    Raises:
        ConfigError: they are not integers.
    """
    if len(strategy.ranks) < 2:
        return 0, 0
    return number(strategy, "forwards", 1), number(strategy, "backwards", 1)


def text(held: Held, key: str) -> str:
    """An option in words; "" if missing."""
    return str(held.options.get(key) or "")


def number(held: Held, key: str, default: int = 0) -> int:
    """A whole number.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(held, key, value, "a whole number")
    return value


def numbers(held: Held, key: str) -> list[int]:
    """A list of integers; empty if missing.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key) or []
    if not isinstance(value, list | tuple) or not all(isinstance(one, int) for one in value):
        raise _wrong(held, key, value, "a list of whole numbers")
    return list(value)


def texts(held: Held, key: str) -> list[str]:
    """A list of words; empty if missing.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key) or []
    if not isinstance(value, list | tuple):
        raise _wrong(held, key, value, "a list of words")
    return [str(one) for one in value]


def name_lists(held: Held, key: str) -> list[list[str]]:
    """A list of lists of names; empty if missing.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key) or []
    if not isinstance(value, list | tuple) or not all(isinstance(o, list | tuple) for o in value):
        raise _wrong(held, key, value, "lists of names")
    return [[str(name) for name in one] for one in value]


def text_map(held: Held, key: str) -> dict[str, str]:
    """Words by name; empty if missing.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key) or {}
    if not isinstance(value, dict):
        raise _wrong(held, key, value, "words by name")
    return {str(name): str(one) for name, one in value.items()}


def text_lists(held: Held, key: str) -> dict[str, list[str]]:
    """Lists of names by name; empty if missing.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(o, list | tuple) for o in value.values()):
        raise _wrong(held, key, value, "lists of names by name")
    return {str(name): [str(one) for one in names] for name, names in value.items()}


def record_lists(held: Held, key: str) -> dict[str, list[dict[str, object]]]:
    """Lists of plain records by name; empty if missing.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key) or {}
    if not isinstance(value, dict) or not all(
        isinstance(found, list | tuple) and all(isinstance(one, dict) for one in found)
        for found in value.values()
    ):
        raise _wrong(held, key, value, "lists of records by name")
    return {str(name): list(found) for name, found in value.items()}


def number_map(held: Held, key: str) -> dict[str, int]:
    """Integers by name; empty if missing.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(one, int) for one in value.values()):
        raise _wrong(held, key, value, "whole numbers by name")
    return {str(name): size for name, size in value.items()}


def shapes(held: Held, key: str) -> list[tuple[int, ...]]:
    """A list of shapes; empty if missing.

    Raises:
        ConfigError: it has another type.
    """
    value = held.options.get(key) or []
    if not isinstance(value, list | tuple) or not all(isinstance(o, list | tuple) for o in value):
        raise _wrong(held, key, value, "a list of shapes")
    return [tuple(int(size) for size in one) for one in value]


def _wrong(held: Held, key: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"option {key!r} of {held.name!r} is {value!r}: expected {expected}")
