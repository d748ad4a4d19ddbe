"""A row of the table of keys, and the check of a value against it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from zerosim.base.errors import ConfigError

_LONGEST = 60
"""Maximum length of a value in a message."""
_LARGEST = 2**63 - 1
AUTO = "auto"


class Treatment(StrEnum):
    """The treatment of a key of DeepSpeed's."""

    HONOURED = "honoured"
    """As in DeepSpeed; the sentence states where results differ in bits."""
    IGNORED = "ignored"
    """A valid value has no effect: the trained model is the same without it."""
    REFUSED = "refused"
    """It would change the trained model, or end the run, and zerosim does not support it."""


class KeyKind(StrEnum):
    """The type of a value, in the words of a message."""

    FLAG = "true or false"
    INTEGER = "a whole number"
    NUMBER = "a number"
    TEXT = "a text"
    SECTION = "a section in braces"
    ANY = "a value"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of DeepSpeed's configuration.

    Attributes:
        path: its name with that of its sections, separated by dots: "zero_optimization.stage".
        sentence: its treatment, for the user.
        default: DeepSpeed's; None if it has none.
        least, most: bounds of a number.
        choices: the accepted texts.
        harmless: values of a refused key that have no effect.
        switch: for a refused section, the key inside that enables it unless harmless.
        auto: whether "auto" means the default, as in DeepSpeed.
    """

    path: str
    kind: KeyKind
    treatment: Treatment
    sentence: str
    default: Any = None
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    harmless: tuple[Any, ...] = (False, None)
    switch: str = ""
    auto: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def section(self) -> str:
        """The path without its last part; "" at the top."""
        return self.path.rpartition(".")[0]

    def checked(self, value: Any) -> Any:
        """The value in the form that settings need.

        Raises:
            ConfigError: the value has another type, is out of bounds, or is not supported.
        """
        if value == AUTO and isinstance(value, str):
            return self._automatic()
        if self.treatment is Treatment.REFUSED:
            if not self._asks_for_nothing(value):
                raise ConfigError(f"{self.path} is {shown(value)}: refused: {self.sentence}")
            return value
        if value is None and (self.default is None or self.treatment is Treatment.IGNORED):
            return None
        right = _of_kind(value, self.kind)
        if right is None:
            raise ConfigError(f"{self.path} is {shown(value)}: expected {self.kind}")
        self._require_in_bounds(right)
        return right

    def _automatic(self) -> Any:
        if self.auto:
            return self.default
        raise ConfigError(
            f'{self.path} is "auto": Hugging Face\'s Trainer would fill it in, but '
            f"has not; expected {self.kind}"
        )

    def _asks_for_nothing(self, value: Any) -> bool:
        if self.switch and isinstance(value, dict):
            return any(_same(value.get(self.switch), one) for one in self.harmless)
        return any(_same(value, one) for one in self.harmless)

    def _require_in_bounds(self, value: Any) -> None:
        if self.choices and value not in self.choices:
            known = ", ".join(self.choices)
            raise ConfigError(f"{self.path} is {shown(value)}: expected one of {known}")
        if self.least is not None and value < self.least:
            raise ConfigError(f"{self.path} is {shown(value)}: expected {self.least} or more")
        if self.most is not None and value > self.most:
            raise ConfigError(f"{self.path} is {shown(value)}: expected at most {self.most}")


def shown(value: Any) -> str:
    """A value in a message: JSON in one line, shortened if necessary."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        if not text.isprintable():
            text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):  # no JSON, thousands of digits, endless nesting
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _of_kind(value: Any, kind: KeyKind) -> Any:
    """The value if it is of that type, integers as int; else None."""
    right: Any = None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case KeyKind.FLAG:
            right = value if isinstance(value, bool) else None
        case KeyKind.INTEGER:
            whole = is_number and math.isfinite(_size(value)) and value == int(value)
            right = int(value) if whole and abs(int(value)) <= _LARGEST else None
        case KeyKind.NUMBER:
            right = value if is_number and math.isfinite(_size(value)) else None
        case KeyKind.TEXT:
            right = value if isinstance(value, str) else None
        case KeyKind.SECTION:
            right = value if isinstance(value, dict) else None
        case KeyKind.ANY:
            right = value
    return right


def _size(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _same(value: Any, other: Any) -> bool:
    """Whether two values are equal and of one type: 1 is not true, and 0 is not false."""
    both_numbers = not isinstance(value, bool) and isinstance(value, int | float)
    same_type = type(value) is type(other) or (both_numbers and type(other) in (int, float))
    return same_type and bool(value == other)
