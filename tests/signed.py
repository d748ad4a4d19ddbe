"""Traces that were altered and signed again, so that their checksums are valid."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

from zerosim.record import raw_rows
from zerosim.schema.rows import MANIFEST_NAME

Row = dict[str, Any]
ABSURD = (-(2**63) - 1, -1, 0, 1, 7, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, 10**400)
STRANGE = (None, True, "3", "", 1.5, [], {}, [-1], "<script>")
_OF_MANIFEST = 0.15
"""How often it is the manifest that is altered."""


def read_rows(path: Path, most: int | None = None) -> list[Row]:
    """The rows of a rank's file, without their checksums; the first ones, or all."""
    return [{"row": one.name, **one.own} for one in islice(raw_rows(path), most)]


def signed(rows: list[Row]) -> str:
    """Rows as a rank's file, with checksums that fit."""
    crc, lines = 0, []
    for row in rows:
        body = json.dumps(row, separators=(",", ":"))[:-1]
        crc = zlib.crc32(body.encode(), crc)
        lines.append(f'{body},"crc":"{crc:08x}"}}\n')
    return "".join(lines)


def signed_manifest(plain: Row) -> str:
    """A manifest with a checksum that fits."""
    plain = {name: value for name, value in plain.items() if name != "crc"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return json.dumps(plain | {"crc": f"{zlib.crc32(text.encode()):08x}"})


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places of values: what holds each, and its key or index."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(pairs):
        if key != "row":
            yield value, key
        if isinstance(each, dict | list):
            yield from places(each)


def alter(folder: Path, chance: random.Random) -> str:
    """Alter one to three things of a trace and sign it again; says which."""
    said = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if chance.random() < _OF_MANIFEST:
            path = folder / MANIFEST_NAME
            plain = json.loads(path.read_text())
            said.append(f"{path.name} {_set(plain, plain, chance)}")
            path.write_text(signed_manifest(plain))
        else:
            path = chance.choice(sorted(folder.glob("rank-*.jsonl")))
            rows = read_rows(path)
            said.append(f"{path.name} {_alter_rows(rows, chance)}")
            path.write_text(signed(rows))
    return "; ".join(said)


def _alter_rows(rows: list[Row], chance: random.Random) -> str:
    # rare kinds of rows as often as frequent ones
    kind = chance.choice(sorted({row["row"] for row in rows}))
    place = chance.choice([at for at, row in enumerate(rows) if row["row"] == kind])
    what = f"line {place + 1}, {kind}"
    if chance.random() < 0.75:
        return f"{what}, {_set(rows[place], rows, chance)}"
    row = rows[place] if (doubled := chance.random() < 0.3) else rows.pop(place)
    if doubled or chance.random() < 0.5:
        to = chance.randrange(1, len(rows) + 1)
        rows.insert(to, row)
        what += f", {'again' if doubled else 'moved'} to line {to + 1}"
    else:
        what += ", left out"
    if rows[-1]["row"] == "end":  # a careful forger also corrects the number of rows
        rows[-1]["num_rows"] = len(rows) - 1
    return what


def _set(row: Row, among: Any, chance: random.Random) -> str:
    """Give one value of a row another: absurd, strange, near, or what others have there."""
    where, key = chance.choice(list(places(row)))
    old = where[key]
    like = [at[one] for at, one in places(among) if one == key and at[one] != old]
    match chance.randrange(6):
        case 0:
            where[key] = chance.choice(ABSURD)
        case 1:
            where[key] = chance.choice(STRANGE)
        case 2 if isinstance(old, int | float):
            where[key] = chance.choice((old + 1, old - 1, old * 2, old // 2, -old))
        case 3 if isinstance(where, dict):
            del where[key]
            return f"without {key}"
        case 4 if isinstance(old, str):
            where[key] = chance.choice(
                [at[one] for at, one in places(row) if isinstance(at[one], str)]
            )
        case _:
            where[key] = deepcopy(chance.choice(like or ABSURD))  # it may hold the place itself
    return f"{key} = {str(where[key])[:60]}"
