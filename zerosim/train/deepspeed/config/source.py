"""A configuration in DeepSpeed's forms: a dictionary, a path, JSON text, JSON in base64.

DeepSpeed's own reader accepts Hjson, which allows comments; zerosim reads JSON, which covers all
other DeepSpeed files.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zerosim.base.errors import ConfigError, first_line
from zerosim.train.deepspeed.config.keys import shown

_LARGEST_BYTES = 1 << 15
"""Ten times a realistic size; it also has to fit on a rank's command line."""
_DEEPEST = 24
"""Sections within sections; DeepSpeed's own keys need five."""
_BASE64 = re.compile(r"[A-Za-z0-9_=-]+")


def read_document(source: object) -> dict[str, Any]:
    """The configuration as plain JSON values: a copy, none of them shared with the caller.

    Args:
        source: a dictionary, the path of a JSON file, JSON as text, or JSON in URL-safe base64.

    Raises:
        ConfigError: it is none of these, or not JSON, or has a key twice.
    """
    if isinstance(source, Mapping):
        return _plain_section(source)
    if isinstance(source, os.PathLike):
        return _read_file(Path(source))
    if not isinstance(source, str):
        raise ConfigError(
            f"config is {shown(source)}: expected a dictionary, a path or JSON as text"
        )
    if source.lstrip().startswith("{"):
        return _parse(source, "config")
    if os.path.exists(source):  # noqa: PTH110 - a Path of arbitrary text would raise
        return _read_file(Path(source))
    return _parse(_from_base64(source), "config (base64)")


def _read_file(path: Path) -> dict[str, Any]:
    name = str(path) if str(path).isprintable() else shown(str(path))
    try:
        if not path.is_file():
            why = "is not a file" if path.exists() else "does not exist"
            raise ConfigError(f"{name} {why}: expected a configuration in JSON")
        if (size := path.stat().st_size) > _LARGEST_BYTES:
            raise ConfigError(
                f"{name} has {size} bytes: expected a configuration, at most {_LARGEST_BYTES}"
            )
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"cannot read {name}: {first_line(error)}") from None
    return _parse(text, name)


def _from_base64(text: str) -> str:
    if _BASE64.fullmatch(text):
        try:
            return base64.urlsafe_b64decode(text).decode()
        except (binascii.Error, UnicodeDecodeError):
            pass
    raise ConfigError(f"config is {shown(text)}: no such file, and neither JSON nor JSON in base64")


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads(
            text, object_pairs_hook=_without_doubles, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{name}, line {error.lineno}, column {error.colno}: {error.msg}; expected JSON, "
            "without comments"
        ) from None
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; nesting
        raise ConfigError(f"{name} cannot be read as JSON: {first_line(error)}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{name} contains {shown(found)}: expected a section in braces")
    return _plain_section(found)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ConfigError(f"the key {shown(key)} occurs twice: keep one")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ConfigError(f"a value is {name}: expected a number")


def _plain_section(section: Mapping[Any, Any], depth: int = 1) -> dict[str, Any]:
    found = {}
    for key, value in section.items():
        if not isinstance(key, str):
            raise ConfigError(f"the key {shown(key)} is not text: expected a key of DeepSpeed")
        found[key] = _plain(value, key, depth)
    return found


def _plain(value: Any, key: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ConfigError(f"{shown(key)} is {depth} sections deep: expected at most {_DEEPEST}")
    if isinstance(value, Mapping):
        return _plain_section(value, depth + 1)
    if isinstance(value, list | tuple):
        return [_plain(one, key, depth + 1) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{shown(key)} is {value}: expected a finite number")
    if value is None or isinstance(value, str | int | float):
        return value
    raise ConfigError(f"{shown(key)} is {shown(value)}: expected a JSON value")
