"""How a record becomes a line of a trace file, and how a line is known to be whole.

A line is a JSON object whose first field is the row's name and whose last is a checksum:

    {"row":"metric","iteration":3,"name":"loss","value":2.31,"time_ns":81,"crc":"5f0c1a9e"}

The checksum is the CRC-32 of the text before `,"crc"`, continued from the checksum of the line
before. So a line that was changed, dropped, doubled or moved breaks the chain at that line.
Fields that have their default value are left out. Values that JSON has no number for are written
as strings ("nan", "inf"). Shared by the writer (`zerosim.trace`) and the reader
(`zerosim.record`). Imports the standard library and
the records of L0.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import StrEnum
from functools import cache
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Any

from zerosim.events import (
    Close,
    End,
    Event,
    Failure,
    Group,
    Header,
    InterfaceSample,
    Metric,
    Socket,
    Transfer,
    WireSample,
)
from zerosim.manifest import Manifest
from zerosim.memory import AddressMap, Allocations, MemorySample
from zerosim.strategies import Strategy

ROW_TYPES: dict[str, type] = {
    "header": Header,
    "group": Group,
    "socket": Socket,
    "event": Event,
    "open": Event,
    "close": Close,
    "transfer": Transfer,
    "wire": WireSample,
    "interface": InterfaceSample,
    "memory": MemorySample,
    "allocations": Allocations,
    "addresses": AddressMap,
    "strategy": Strategy,
    "metric": Metric,
    "failure": Failure,
    "end": End,
}
"""The name that a row carries in its first field, and the record that it holds."""

MANIFEST_NAME = "manifest.json"
_MARK = b',"crc":"'
_NO_DEFAULT = object()


def rank_file_name(rank: int) -> str:
    """Name of the file that holds the rows of `rank`."""
    return f"rank-{rank}.jsonl"


def _fields(kind: type) -> tuple[tuple[tuple[str, object], ...], Callable[[Any], Any]]:
    """Names, as a line has them, and defaults of a record's fields; what reads them all at once."""
    pairs = [
        (f',"{field.name}":', _NO_DEFAULT if field.default is MISSING else field.default)
        for field in fields(kind)
    ]
    return tuple(pairs), attrgetter(*(field.name for field in fields(kind)))


_FIELDS = {kind: _fields(kind) for kind in set(ROW_TYPES.values())}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        # a path may hold bytes that are no text, which JSON has no way to write
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if is_dataclass(value):
        return _plain(_inner(value))
    return value


def _inner(record: Any) -> dict[str, Any]:
    """A record within a row; `asdict` would copy it deeply, which takes ten times as long."""
    return {name: getattr(record, name) for name in record.__slots__}


_encoder = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":"), default=_inner
)


@cache
def _known_text(value: StrEnum) -> str:
    return encode_basestring_ascii(value)


def _to_json(value: Any) -> str:
    """JSON text; values that JSON cannot hold are rare, so they are looked for only then."""
    kind = type(value)
    if kind is int:
        return int.__repr__(value)
    if kind is str:
        text = encode_basestring_ascii(value)
    elif isinstance(value, StrEnum):
        return _known_text(value)
    else:
        try:
            text = _encoder.encode(value)
        except ValueError:
            return _encoder.encode(_plain(value))
    return text if "\\ud" not in text else _encoder.encode(_plain(value))


def encode_row(name: str, record: Any, crc: int) -> tuple[bytes, int]:
    """Encode one record as a line.

    Args:
        name: a key of `ROW_TYPES`.
        record: an instance of the type that the name stands for.
        crc: the checksum of the line before; 0 for the first.

    Returns:
        The line with its newline, and its checksum.
    """
    known, read = _FIELDS[type(record)]
    parts = [f'{{"row":"{name}"']
    for (field, default), value in zip(known, read(record), strict=True):
        if value is not default and value != default:
            parts += field, _to_json(value)
    body = "".join(parts).encode()
    crc = zlib.crc32(body, crc)
    return b'%s%s%08x"}\n' % (body, _MARK, crc), crc


def check_line(line: bytes, crc: int) -> tuple[str, int]:
    """Check one line (without its newline) against the checksum of the line before.

    Returns:
        The row's name, and the line's checksum. A reader ignores the fields "row" and "crc".

    Raises:
        ValueError: the line is not what was written, or not at this place; the message says
            which of the two sides was found and expected.
    """
    body, mark, tail = line.rpartition(_MARK)
    if not mark or len(tail) != 10 or not tail.endswith(b'"}'):
        raise ValueError("no checksum at its end")
    expected = zlib.crc32(body, crc)
    if tail[:8] != b"%08x" % expected:
        found = tail[:8].decode("ascii", "replace")
        raise ValueError(f"checksum {found!r}, expected '{expected:08x}'")
    prefix = b'{"row":"'
    name = body[len(prefix) : body.find(b'"', len(prefix))].decode("ascii", "replace")
    if not body.startswith(prefix) or name not in ROW_TYPES:
        raise ValueError(f"unknown row {name!r}")
    return name, expected


def _manifest_crc(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as indented JSON, with a checksum as its last field."""
    plain = json.loads(json.dumps(_plain(asdict(manifest))))
    return (json.dumps(plain | {"crc": _manifest_crc(plain)}, indent=2) + "\n").encode()


def check_manifest(text: bytes) -> dict[str, Any]:
    """The fields of a manifest, without its checksum.

    Raises:
        ValueError: not JSON, not an object, or not what was written.
    """
    plain = json.loads(text)
    if not isinstance(plain, dict):
        raise ValueError(f"expected a JSON object, found {type(plain).__name__}")
    found = plain.pop("crc", None)
    if found != (expected := _manifest_crc(plain)):
        raise ValueError(f"checksum {found!r}, expected {expected!r}")
    return plain
