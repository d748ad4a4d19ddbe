"""A checked row becomes a typed record; a checked manifest becomes a `Manifest`.

The checksum shows that a line was not altered (`zerosim.schema.rows`). This module checks that this
version of zerosim can read it. Reasons are `ValueError`s without a location; the caller adds file
and line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from zerosim.record.bounds import MOST_DIGITS, check_manifest_numbers
from zerosim.schema.events import SCHEMAS_READ
from zerosim.schema.manifest import Manifest
from zerosim.schema.rows import ROW_TYPES, check_manifest

DAMAGE = (ValueError, RecursionError, OverflowError)
"""The exceptions of decoding for invalid bytes; msgspec's errors are ValueErrors."""
_READ = f"schemas {', '.join(map(str, SCHEMAS_READ[:-1]))} and {SCHEMAS_READ[-1]}"
_TOO_LONG = ("Exceeds the limit", "Integer value out of range")
"""Prefixes of the messages of json and msgspec for a number with more digits than Python reads."""


class OtherSchemaError(ValueError):
    """The trace is intact, but a different version wrote it."""


class _SchemaOnly(msgspec.Struct):
    """The one header field that every schema has."""

    schema: int


_SCHEMA_DECODER = msgspec.json.Decoder(_SchemaOnly)

_MEASURED = ("metric", "checksum")
"""Rows of values that a program computed."""

DECODERS: dict[str, Callable[[bytes], Any]] = {
    # a value that is not finite is a string ("nan", "inf", "-inf"), which strict mode rejects
    name: msgspec.json.Decoder(kind, strict=name not in _MEASURED).decode
    for name, kind in ROW_TYPES.items()
}
"""For each row name, the decoder of a line to the record of `ROW_TYPES`; raises one of `DAMAGE`."""


def check_header_schema(line: bytes) -> None:
    """Check the schema of a header row, before its other fields are read.

    Raises:
        OtherSchemaError: the message names the schema found and the supported one.
    """
    _require_schema(_SCHEMA_DECODER.decode(line).schema)


def decode_manifest(text: bytes) -> Manifest:
    """Decode `manifest.json`.

    Raises:
        OtherSchemaError: it was written by a different version.
        ValueError: not JSON, altered, or without a required field.
        RecursionError: nested deeper than any manifest.
    """
    plain = check_manifest(text)
    _require_schema(plain.get("schema"))
    manifest = msgspec.convert(plain, Manifest)
    check_manifest_numbers(manifest)
    return manifest


def reason(error: BaseException) -> str:
    """Why decoding failed, for a message."""
    if isinstance(error, RecursionError):
        return "nested too deep"
    text = str(error)
    if text.startswith(_TOO_LONG):
        return f"it has a number that is too long, expected at most {MOST_DIGITS} digits"
    return text


def _require_schema(found: object) -> None:
    # JSON's true equals 1 in Python
    if type(found) is not int or found not in SCHEMAS_READ:
        raise OtherSchemaError(
            f"written with schema {found!r}; this version reads {_READ}: "
            f"read it with the version that wrote it, or record it again"
        )
