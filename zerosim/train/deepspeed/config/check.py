"""Every key of a configuration, compared with the table of keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.train.deepspeed.config.keys import AUTO, Key, KeyKind, Treatment, shown
from zerosim.train.deepspeed.config.table_family import ACTIVATIONS, OFFLOAD, PLUS_PLUS
from zerosim.train.deepspeed.config.table_top import TOP
from zerosim.train.deepspeed.config.table_zero import ALIASES, SECTION, ZERO

KEYS: dict[str, Key] = {key.path: key for key in (*TOP, *ZERO, *OFFLOAD, *PLUS_PLUS, *ACTIVATIONS)}
"""All keys by path, in the order of the table."""
_OPEN_SECTIONS = ("scheduler.params",)
"""Sections whose contents are checked elsewhere."""
_OLD_NAMES = {"bfloat16": "bf16"} | ALIASES
_WALKED = {key.section for key in KEYS.values()}


@dataclass(frozen=True, slots=True)
class CheckedKey:
    """The treatment of one given key.

    Attributes:
        value: the given value, shortened.
        is_default: whether it equals DeepSpeed's default.
    """

    path: str
    value: str
    treatment: Treatment
    sentence: str
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """A checked configuration.

    Attributes:
        values: values of the given keys that are not null, by path.
        lines: the treatment of all given keys, in the order of the table.
    """

    values: dict[str, Any]
    lines: tuple[CheckedKey, ...]

    def __getitem__(self, path: str) -> Any:
        """The value of a key; DeepSpeed's default if it was not given."""
        return self.values.get(path, KEYS[path].default)

    def __contains__(self, path: str) -> bool:
        return path in self.values


def check(document: dict[str, Any]) -> Given:
    """Compare a configuration with the table.

    Raises:
        ConfigError: an unknown key, a value of the wrong kind, or one that is refused.
    """
    values: dict[str, Any] = {}
    lines: dict[str, CheckedKey] = {}
    for path, value in _walk(_modern(document), ""):
        key = KEYS[path]
        checked = key.checked(value)
        if checked is not None:
            values[path] = checked
        if not (key.kind is KeyKind.SECTION and path in _WALKED):
            lines[path] = _line(key, value)
    return Given(values, tuple(lines[path] for path in KEYS if path in lines))


def _line(key: Key, value: Any) -> CheckedKey:
    treatment, sentence = key.treatment, key.sentence
    if value == AUTO and isinstance(value, str):
        trainer = "Hugging Face's Trainer would fill in its own"
        sentence = f"Read as DeepSpeed's default, {shown(key.default)}; {trainer}. {sentence}"
    if treatment is Treatment.REFUSED:  # accepted nevertheless: the value has no effect
        treatment = Treatment.HONOURED
        sentence = f"This value changes nothing; other values are refused: {sentence}."
    is_default = value in (AUTO, key.default)
    return CheckedKey(key.path, shown(value), treatment, sentence, is_default)


def _walk(section: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        inner = f"{path}.{name}" if path else name
        if inner not in KEYS:
            raise ConfigError(_unknown(name, path))
        yield inner, value
        if inner in _WALKED and inner not in _OPEN_SECTIONS and isinstance(value, dict):
            yield from _walk(value, inner)


def _unknown(name: str, section: str) -> str:
    where = f" in {section}" if section else ""
    unknown = f"unknown key {shown(name)}{where}"
    elsewhere = [key for key in KEYS.values() if key.name == name]
    if elsewhere:
        home = elsewhere[0].section
        return f"{unknown}: expected {f'it in {home}' if home else 'it at the top'}"
    siblings = [key.name for key in KEYS.values() if key.section == section]
    near = get_close_matches(name, siblings, n=1, cutoff=0.0)[0]
    return f"{unknown}: the nearest that DeepSpeed has is {near}"


def _modern(document: dict[str, Any]) -> dict[str, Any]:
    """The document with deprecated names of DeepSpeed replaced by the current ones."""
    named = _renamed(document, "")
    zero = named.get(SECTION)
    if isinstance(zero, bool):
        named[SECTION] = {"stage": int(zero)}
    elif isinstance(zero, dict):
        named[SECTION] = _renamed(zero, f"{SECTION}.")
    return named


def _renamed(section: dict[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in section.items():
        today = _OLD_NAMES.get(f"{prefix}{name}", f"{prefix}{name}").removeprefix(prefix)
        if today in found:
            raise ConfigError(f"{prefix}{name} and {prefix}{today} are the same key: keep one")
        found[today] = value
    return found
