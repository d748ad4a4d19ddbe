"""An option: the declaration of a configuration's field, made once for all its uses.

Its type and default are the field's. The checks of a value, the options of a command with their
help, and the corresponding key of DeepSpeed derive from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Self, TypeVar, cast, get_args, get_origin, get_type_hints

from zerosim.base.config.checks import require
from zerosim.base.config.choices import choice
from zerosim.base.errors import ConfigError

C = TypeVar("C", bound="Configuration")
_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Range:
    """The values that an option accepts, within its type.

    Attributes:
        expected: the values in words, for a message.
    """

    holds: Callable[[Any], bool]
    expected: str


def at_least(smallest: int, words: str = "") -> Range:
    """Numbers of at least this value."""
    return Range(
        lambda value: value >= smallest and value <= _LARGEST, words or f"{smallest} or more"
    )


def positive(what: str) -> Range:
    """Numbers above 0."""
    return Range(lambda value: value > 0 and value <= _LARGEST, f"a positive {what}")


AT_LEAST_ONE = at_least(1, "a whole number of 1 or more")


@dataclass(frozen=True, slots=True)
class Spec:
    """The declaration of a field, besides its type and default.

    Attributes:
        help: its text in a command's help; "" if no command has this option.
        range: the accepted values; None for all of its type.
        panel: its heading in a command's help.
        after: the option before it in the help, by default the one declared before it.
        metavar: the name of its value in help: FOLDER, or BYTES for a size such as 48MB.
        called: its name in messages; by default that of the field.
        least_stage: the lowest ZeRO stage that supports it.
        needs: another option that must be set with it, and its description in a message.
        deepspeed: DeepSpeed's key for it, or several.
        read: a function that parses the given value, if it is more than a word of a closed set.
    """

    help: str = ""
    range: Range | None = None
    panel: str = ""
    after: str = ""
    metavar: str = ""
    called: str = ""
    least_stage: int = 0
    needs: tuple[str, str] | None = None
    deepspeed: str = ""
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class ConfigOption:
    """A field of a configuration with its declaration.

    Attributes:
        kind: the type of its values.
        is_optional: whether None is accepted as well.
    """

    name: str
    kind: type
    is_optional: bool
    default: Any
    option: Spec

    @property
    def type_words(self) -> str:
        """The type of its values, as in a signature."""
        return f"{self.kind.__name__}{' | None' * self.is_optional}"

    @property
    def meaning(self) -> str:
        """Its description or its accepted values, and DeepSpeed's key for it."""
        values = "" if self.option.range is None else self.option.range.expected
        said = f"{self.option.help.removesuffix('.') or values or self.type_words}."
        key = self.option.deepspeed
        return f"{said} DeepSpeed: {key}." if key else said

    @property
    def label(self) -> str:
        """Its name in messages: that of the command line, if it has one."""
        return self.option.called or self.name.replace("_", "-" if self.option.help else " ")

    def checked(self, value: Any) -> Any:
        """The value, of the option's type.

        Raises:
            ConfigError: the value is of another type, or out of range.
        """
        if value is None and self.is_optional:
            return None
        if self.kind is int:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            require(is_whole, self.label, repr(value), "a whole number")
        elif self.option.read is not None:
            value = self.option.read(value)
        elif issubclass(self.kind, StrEnum):
            value = choice(self.kind, value, self.label)
        if self.option.range is not None:
            require(self.option.range.holds(value), self.label, value, self.option.range.expected)
        return value


class Configuration:
    """A dataclass in which every field is an option; JSON preserves it."""

    __slots__ = ()

    @classmethod
    @cache
    def options(cls) -> tuple[ConfigOption, ...]:
        """All options, in order of declaration."""
        hints = get_type_hints(cls, include_extras=True)
        found = []
        for field in fields(cast("Any", cls)):
            hint, option = hints[field.name], Spec()
            if get_origin(hint) is Annotated:
                hint, option = get_args(hint)
            types = get_args(hint) if isinstance(hint, UnionType) else (hint,)
            kind = get_origin(types[0]) or types[0]
            found.append(ConfigOption(field.name, kind, NoneType in types, field.default, option))
        return tuple(found)

    def __post_init__(self) -> None:
        """Check each value against its declaration.

        Raises:
            ConfigError: a value of the wrong type, out of range, or without an option that it
                needs.
        """
        for one in self.options():
            if (value := getattr(self, one.name)) is not one.default:
                object.__setattr__(self, one.name, one.checked(value))
        for one in self.options():
            if (value := getattr(self, one.name)) and value != one.default:
                self._require_possible(one)

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
            ConfigError: an unknown key, or an invalid value.
        """
        known = [one.name for one in cls.options()]
        for name in values:
            if name not in known:
                raise ConfigError(f"unknown key {name!r}: expected one of {', '.join(known)}")
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigError(f"a value of the wrong type: {error}") from None

    def _require_possible(self, one: ConfigOption) -> None:
        """Refuse an option set in too low a stage, or without an option that it needs."""
        stage = getattr(self, "stage", 0)
        expected = stage_words(one.option.least_stage)
        asked = f"asked for in stage {stage}"
        require(stage >= one.option.least_stage, one.label, asked, expected)
        if one.option.needs is not None:
            needed, words = one.option.needs
            other = next(other for other in self.options() if other.name == needed)
            is_there = getattr(self, needed) != other.default
            asked = f"asked for without {other.label}"
            require(is_there, one.label, asked, f"{words or other.label} with it")


def documented(kind: type[C]) -> type[C]:
    """Add the description of each option to the docstring, and plain types to the signature."""
    options = kind.options()
    lines = [f"    {one.name}: {one.meaning}" for one in options]
    kind.__doc__ = "\n".join([kind.__doc__ or "", "", "Args:", *lines])
    begin = cast("Any", kind).__init__
    begin.__annotations__ = {one.name: one.type_words for one in options} | {"return": None}
    return kind


def stage_words(least: int) -> str:
    """The stages from this one on, in words."""
    return "stage 3" if least == 3 else f"a stage of {least} or more"
