"""The readable rows of a rank's file, one by one, for display."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerosim.record.lines import Lines
from zerosim.record.schema import DECODERS, check_header_schema
from zerosim.record.shortrows import SHORT, plain_rows


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a file.

    Attributes:
        line: its number among the rows of the file, counted from 1.
        name: a key of `zerosim.schema.rows.ROW_TYPES`.
        own: its fields.
        values: its fields, including those of its template.
    """

    line: int
    name: str
    own: dict[str, Any]
    values: dict[str, Any]


def raw_rows(file: Path) -> Iterator[RawRow]:
    """Each row of a rank's file, in order, up to its end or truncation.

    Raises:
        TraceError: the file cannot be read, or is damaged from the next line on.
    """
    templates: dict[int, dict[str, Any]] = {}
    places: dict[int, dict[str, Any]] = {}
    known = {"template": templates, "place": places}
    issued: dict[int, int] = {}
    lines = Lines(file)
    with lines.errors_told():
        for block_name, line in lines:
            if block_name == SHORT:
                rows = plain_rows(line, places, issued)
            else:
                plain = _plain(block_name, line)
                if block_name == "begin":  # of an event whose close may be short
                    issued[plain["id"]] = plain["issue_ns"]
                rows = iter([plain])
            for number, values in enumerate(rows, lines.number):
                name = values.pop("row")
                if name in known:
                    named = {key: value for key, value in values.items() if key != "number"}
                    known[name][values["number"]] = named
                shared = templates.get(values.get("template", -1), {})
                yield RawRow(number, name, values, values | shared)


def _plain(name: str, line: bytes) -> dict[str, Any]:
    if name == "header":
        check_header_schema(line)
    DECODERS[name](line)
    values: dict[str, Any] = json.loads(line)
    del values["crc"]
    return values
