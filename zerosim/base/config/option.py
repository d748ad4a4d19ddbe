"""An option: what is said of a field of a configuration, once, for all that read it.

Its type and default are the field's. From here come the checks of a value, the options of a command
with their help, and what DeepSpeed calls it.
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
    """Which values of its type an option may have.

    Attributes:
        expected: the values in words, for a message.
    """

    holds: Callable[[Any], bool]
    expected: str


def at_least(smallest: int, words: str = "") -> Range:
    """Numbers from here on."""
    return Range(
        lambda value: value >= smallest and value <= _LARGEST, words or f"{smallest} or more"
    )


def positive(what: str) -> Range:
    """Numbers above 0."""
    return Range(lambda value: value > 0 and value <= _LARGEST, f"a positive {what}")


AT_LEAST_ONE = at_least(1, "a whole number of 1 or more")


@dataclass(frozen=True, slots=True)
class Spec:
    """What is said of a field beside its type and default.

    Attributes:
        help: what a command's help says of it; "" if no command takes it under its name.
        range: which values there are; None for all of its type.
        panel: the heading that it stands under in a command's help.
        after: where it stands there, if not behind what is declared before it.
        metavar: what a command's help calls its value: FOLDER, or BYTES for a size such as 48MB.
        called: what a message calls it; by default its name.
        least_stage: it may be asked for in this stage and later ones.
        needs: another option that must be asked for with it, and how a message says that.
        deepspeed: DeepSpeed's key for it, or several.
        read: what its value is of what was given, where it is more than a word of a closed set.
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
    """A field of a configuration with what is said of it.

    Attributes:
        kind: the type of its values.
        is_optional: None is a value as well.
    """

    name: str
    kind: type
    is_optional: bool
    default: Any
    option: Spec

    @property
    def type_words(self) -> str:
        """The type of its values as a signature says it."""
        return f"{self.kind.__name__}{' | None' * self.is_optional}"

    @property
    def meaning(self) -> str:
        """What it is in words, or which values there are; and what DeepSpeed calls it."""
        values = "" if self.option.range is None else self.option.range.expected
        said = f"{self.option.help.removesuffix('.') or values or self.type_words}."
        key = self.option.deepspeed
        return f"{said} DeepSpeed: {key}." if key else said

    @property
    def label(self) -> str:
        """What a message calls it: as the command line does, if it is there."""
        return self.option.called or self.name.replace("_", "-" if self.option.help else " ")

    def checked(self, value: Any) -> Any:
        """The value, of the option's type.

        Raises:
            ConfigError: it is of another type, or out of range.
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
    """What can be asked for: a dataclass whose fields are options. Goes through JSON and back."""

    __slots__ = ()

    @classmethod
    @cache
    def options(cls) -> tuple[ConfigOption, ...]:
        """All options, in the order in which they are declared."""
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
        """Hold each value against its declaration.

        Raises:
            ConfigError: a value of the wrong type, out of range, or without what it needs.
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
            ConfigError: an unknown key, or a value that the class refuses.
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
        """Refuse an option that was asked for in an earlier stage, or without what it needs."""
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
    """Let `help` say what each option of a configuration is, and a signature its types alone."""
    options = kind.options()
    lines = [f"    {one.name}: {one.meaning}" for one in options]
    kind.__doc__ = "\n".join([kind.__doc__ or "", "", "Args:", *lines])
    begin = cast("Any", kind).__init__
    begin.__annotations__ = {one.name: one.type_words for one in options} | {"return": None}
    return kind


def stage_words(least: int) -> str:
    """The stages from this one on, in words."""
    return "stage 3" if least == 3 else f"a stage of {least} or more"
