"""The lines of a trace file: how a record is written, and how a line is checked.

A line is a JSON object whose first field is the row's name and whose last is a checksum:

    {"row":"metric","iteration":3,"name":"loss","value":2.31,"time_ns":81,"crc":"5f0c1a9e"}

The checksum is the CRC-32 of the text before `,"crc"`, continued from the checksum of the line
before. A line that was changed, dropped, duplicated or moved therefore breaks the chain. Fields
with their default value are omitted. Values that JSON cannot represent as numbers are written as
strings ("nan", "inf"). The most frequent rows are short records between the lines
(`zerosim.schema.shortrows`). A file that is being written, or whose rank was killed, ends in zeros:
space for further rows. Shared by the writer (`zerosim.trace`) and the reader (`zerosim.record`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any
from zlib import crc32

from zerosim.schema.events import (
    Checksum,
    Close,
    DeviceClock,
    DeviceTime,
    End,
    Event,
    Failure,
    Group,
    Header,
    InterfaceSample,
    Metric,
    Occurrence,
    Socket,
    Standstill,
    Template,
    Transfer,
    WireSample,
)
from zerosim.schema.manifest import Manifest
from zerosim.schema.memory import AddressMap, Allocations, MemoryPlace, MemorySample
from zerosim.schema.rowtext import fields_text, plain, values_text
from zerosim.schema.shortrows import SIZE
from zerosim.schema.strategies import Strategy

ROW_TYPES: dict[str, type] = {
    "header": Header,
    "group": Group,
    "socket": Socket,
    "event": Event,
    "open": Event,
    "template": Template,
    "begin": Occurrence,
    "happened": Occurrence,
    "close": Close,
    "transfer": Transfer,
    "device": DeviceTime,
    "device_clock": DeviceClock,
    "wire": WireSample,
    "interface": InterfaceSample,
    "place": MemoryPlace,
    "memory": MemorySample,
    "allocations": Allocations,
    "addresses": AddressMap,
    "strategy": Strategy,
    "metric": Metric,
    "standstill": Standstill,
    "checksum": Checksum,
    "failure": Failure,
    "end": End,
}
"""The name in a row's first field, and the type of its record."""

MANIFEST_NAME = "manifest.json"
_PREFIX = b'{"row":"'
_MARK = b',"crc":"'
_SEAL_LENGTH = len(_MARK) + len('5f0c1a9e"}')
_END_LENGTH = _SEAL_LENGTH + len(b"\n")
_NAME_AT = len(_PREFIX)
_NAMES = {_PREFIX + name.encode(): name for name in ROW_TYPES}
"""Row names by the beginning of a line, up to the end of the name."""


def rank_file_name(rank: int) -> str:
    """Name of the file with the rows of `rank`."""
    return f"rank-{rank}.jsonl"


def earlier_file_name(rank: int) -> str:
    """Name of the previous file of a light trace, whose beginning is discarded."""
    return f"{rank_file_name(rank)}.before"


def next_file_name(rank: int) -> str:
    """Name of the next file, until it can be read by itself."""
    return f".{rank_file_name(rank)}.next"


def encode_row(name: str, record: Any, crc: int) -> tuple[bytes, int]:
    """Encode one record as a line.

    Args:
        name: a key of `ROW_TYPES`.
        record: an instance of the type of that name.
        crc: the checksum of the line before; 0 for the first.

    Returns:
        The line with its newline, and its checksum.
    """
    return seal((row_text(name, record),), crc)


def row_text(name: str, record: Any) -> str:
    """A record as a row without a checksum; arguments as for `encode_row`."""
    return f'{{"row":"{name}"{fields_text(record.__class__)(record)}'


def row_writer(name: str, *fields: str) -> Callable[..., str]:
    """A function that writes rows of this name from these fields; others keep their defaults."""
    return values_text(ROW_TYPES[name], *fields, head=f'{{"row":"{name}"')


def seal(texts: Iterable[str], crc: int) -> tuple[bytes, int]:
    """Turn rows into lines with checksums; `crc` and result as for `encode_row`."""
    lines = b""
    for text in texts:
        body = text.encode()
        crc = crc32(body, crc)
        lines += b'%s,"crc":"%08x"}\n' % (body, crc)
    return lines, crc


def last_row(tail: bytes) -> bytes:
    """The last row of a file, as text or as a short row; b"" if it is incomplete or not in `tail`.

    Args:
        tail: the end of the file.
    """
    tail = tail.rstrip(b"\0")
    if tail.endswith(b"\n"):
        return tail[tail.rfind(_PREFIX) : -1] if _PREFIX in tail else b""
    return tail[-SIZE:]


def name_of_whole(line: bytes, crc: int) -> tuple[str | None, int]:
    """Check a line with its newline.

    Returns:
        As for `check_line`, but None for the name of a line that was changed, moved or is unknown.
    """
    crc = crc32(line[:-_END_LENGTH], crc)
    if line[-_END_LENGTH:] != b',"crc":"%08x"}\n' % crc:
        return None, crc
    return _NAMES.get(line[: line.find(b'"', _NAME_AT)]), crc


def check_line(line: bytes, crc: int) -> tuple[str, int]:
    """Check one line (without its newline) against the checksum of the line before.

    Returns:
        The row's name, and the line's checksum. A reader ignores the fields "row" and "crc".

    Raises:
        ValueError: the line was changed or moved; the message shows the found and the expected
            checksum.
    """
    name, expected = name_of_whole(line + b"\n", crc)
    if name is not None:
        return name, expected
    seal = line[-_SEAL_LENGTH:]
    if seal != b'%s%08x"}' % (_MARK, expected):
        if not seal.startswith(_MARK) or not seal.endswith(b'"}'):
            raise ValueError("no checksum at its end")
        found = seal[len(_MARK) : -2].decode("ascii", "replace")
        raise ValueError(f"checksum {found!r}, expected '{expected:08x}'")
    start = line[: line.find(b'"', len(_PREFIX))]
    raise ValueError(f"unknown row {start[len(_PREFIX) :].decode('ascii', 'replace')!r}")


def _manifest_crc(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"{crc32(text.encode()):08x}"


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as indented JSON, with a checksum as its last field."""
    values = json.loads(json.dumps(plain(asdict(manifest))))
    return (json.dumps(values | {"crc": _manifest_crc(values)}, indent=2) + "\n").encode()


def check_manifest(text: bytes) -> dict[str, Any]:
    """The fields of a manifest, without its checksum.

    Raises:
        ValueError: it is not JSON, not an object, or was changed.
    """
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"expected a JSON object, found {type(values).__name__}")
    found = values.pop("crc", None)
    if found != (expected := _manifest_crc(values)):
        raise ValueError(f"checksum {found!r}, expected {expected!r}")
    return values
