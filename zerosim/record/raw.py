"""The rows of a rank's file one by one, as far as they can be read, for display."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerosim.record.lines import Lines
from zerosim.record.schema import DECODERS, check_header_schema


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a file.

    Attributes:
        line: its number in the file, counted from 1.
        name: a key of `zerosim.schema.rows.ROW_TYPES`.
        values: its fields, including those of its template.
    """

    line: int
    name: str
    values: dict[str, Any]


def raw_rows(file: Path) -> Iterator[RawRow]:
    """Each row of a rank's file, in order, up to its end or truncation.

    Raises:
        TraceError: the file cannot be read, or is damaged from the next line on.
    """
    templates: dict[int, dict[str, Any]] = {}
    lines = Lines(file)
    with lines.errors_told():
        for name, line in lines:
            if name == "header":
                check_header_schema(line)
            DECODERS[name](line)
            values = json.loads(line)
            del values["row"], values["crc"]
            if name == "template":
                templates[values["number"]] = {k: v for k, v in values.items() if k != "number"}
            yield RawRow(lines.number, name, values | templates.get(values.get("template"), {}))
