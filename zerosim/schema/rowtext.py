"""A record's fields as JSON text, in the order of the record, without default values.

A rank writes thousands of rows per second of training, so each kind of record has a generated
function that writes it field by field, compiled on first use, as `dataclasses` does for `__init__`.
A second function takes the values of the fields, for callers that do not construct the record. The
output is that of `to_json`, which is called for a value that is not of its field's declared type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache, lru_cache
from json.encoder import encode_basestring_ascii
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

_REMEMBERED = 4096
"""Size of the cache of encoded strings and tuples of strings: units and sources recur."""

Text = Callable[..., str]


def plain(value: Any) -> Any:
    """The value, with everything that JSON cannot represent converted."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        # a path may have bytes that are not valid text, which JSON cannot represent
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if is_dataclass(value):
        return plain(_inner(value))
    return value


def _inner(record: Any) -> dict[str, Any]:
    """A record within a row; `asdict` would make a deep copy, ten times as slow."""
    return {name: getattr(record, name) for name in record.__slots__}


_encoder = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":"), default=_inner
)


def to_json(value: Any) -> str:
    """JSON text; values that JSON cannot represent are rare and converted only on failure."""
    if type(value) is int:
        return int.__repr__(value)
    if type(value) is str:
        text = encode_basestring_ascii(value)
    else:
        try:
            text = _encoder.encode(value)
        except ValueError:
            return _encoder.encode(plain(value))
    return text if "\\ud" not in text else _encoder.encode(plain(value))


_text_of = lru_cache(_REMEMBERED)(to_json)
"""The cached text of a string or a tuple of strings."""


@cache
def fields_text(kind: type) -> Text:
    """The function that writes the fields of a record, each with a comma before it."""
    return _function(kind, ["r"], _writing(_hinted(kind), "r."))


@cache
def values_text(kind: type, *names: str, head: str = "") -> Text:
    """The function that writes these fields from their values, in this order, without a record.

    Args:
        names: the fields; others have their defaults.
        head: text to write before them.
    """
    chosen = {field.name: (field, hint) for field, hint in _hinted(kind)}
    return _function(kind, names, _writing((chosen[name] for name in names), "", head))


def _writing(chosen: Iterable[tuple[Field[Any], Any]], place: str, head: str = "") -> list[str]:
    """The statements that write these fields; `place` is the prefix of their values."""
    lines = [f"t = {_literal(head)}"]
    for field, hint in chosen:
        write = f"t += {_literal(f',{_key(field)}')} + {_expression(field, hint)}"
        condition = _differs(field)
        lines += [f"v = {place}{field.name}", f"if {condition}: {write}" if condition else write]
    return [*lines, "return t"]


@cache
def _record_text(kind: type) -> Text:
    """The function that writes a record within a row: all of its fields."""
    parts = [
        f"{_literal(_key(field))} + {_expression(field, hint, f'r.{field.name}')}"
        for field, hint in _hinted(kind)
    ]
    return _function(kind, ["r"], ["return '{' + " + " + ',' + ".join(parts) + " + '}'"])


def _hinted(kind: type) -> Iterator[tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if isinstance(hint, UnionType):
            (hint,) = (one for one in get_args(hint) if one is not NoneType)
        yield field, hint


def _key(field: Field[Any]) -> str:
    return f'"{field.name}":'


def _literal(text: str) -> str:
    return repr(text)


def _differs(field: Field[Any]) -> str:
    """Whether `v` is not the field's default, as source; "" if it has none."""
    if field.default is MISSING:
        return ""
    if field.default is None:
        return "v is not None"
    return f"v is not default_{field.name} and v != default_{field.name}"


def _expression(field: Field[Any], hint: Any, value: str = "v") -> str:
    """Source of a value's text, if it has its field's declared type; else it calls `to_json`."""
    name = f"type_{field.name}"
    if hint is int:
        known, text = "int", f"int_text({value})"
    elif hint is str:
        known, text = "str", f"text_of({value})"
    elif isinstance(hint, type) and issubclass(hint, StrEnum):
        known, text = name, f"'\"' + {value}._value_ + '\"'"  # names of ours: letters, hyphens
    elif _of_many(hint) is str:
        known, text = "tuple", f"text_of({value})"
    elif is_dataclass(_of_many(hint)):
        known, text = "tuple", f"'[' + ','.join([text_{field.name}(o) for o in {value}]) + ']'"
    else:
        return f"to_json({value})"
    return f"({text} if {value}.__class__ is {known} else to_json({value}))"


def _of_many(hint: Any) -> Any:
    """The element type of a tuple of any length; None for any other type."""
    return get_args(hint)[0] if get_origin(hint) is tuple else None


def _function(kind: type, names: Iterable[str], body: list[str]) -> Text:
    known: dict[str, Any] = {"to_json": to_json, "text_of": _text_of, "int_text": int.__repr__}
    for field, hint in _hinted(kind):
        known[f"default_{field.name}"] = field.default
        known[f"type_{field.name}"] = hint
        inner = _of_many(hint)
        if isinstance(inner, type) and is_dataclass(inner):
            known[f"text_{field.name}"] = _record_text(inner)
    source = "\n    ".join([f"def text({', '.join(names)}):", *body])
    # given a string, exec makes Python forget that Ctrl-C ended it, and the exit code would be 1
    exec(compile(source, __file__, "exec"), known)  # noqa: S102 - names of our own fields
    made: Text = known["text"]
    return made
