"""`python -m zerosim.train.deepspeed.config.pages`: docs/deepspeed-config.md, from the table.

Prose outside of tables is in page.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from zerosim.train.deepspeed.config.keys import Key, KeyKind, Treatment, shown
from zerosim.train.deepspeed.config.schedule import SCHEDULES
from zerosim.train.deepspeed.config.table_family import ACTIVATIONS, OFFLOAD, PLUS_PLUS
from zerosim.train.deepspeed.config.table_top import BATCH, OTHER, PRECISION, REPORTING, TRAINING
from zerosim.train.deepspeed.config.table_zero import ZERO

_PAGE = Path(__file__).with_name("page.md")
_TABLES = "[tables]\n"
_GROUPS: tuple[tuple[str, Sequence[Key]], ...] = (
    ("Batch sizes and data", BATCH),
    ("zero_optimization", ZERO),
    ("Offload: ZeRO-Offload and ZeRO-Infinity", OFFLOAD),
    ("ZeRO++", PLUS_PLUS),
    ("Activation checkpoints: ZeRO-R", ACTIVATIONS),
    ("Precision", PRECISION),
    ("Gradients, optimizer, scheduler", TRAINING),
    ("What is printed and logged", REPORTING),
    ("The rest", OTHER),
)


def markdown() -> str:
    """The text of the page."""
    tables = "\n".join(_lines()) + "\n"
    return _PAGE.read_text(encoding="utf-8").replace(_TABLES, tables)


def _lines() -> Iterator[str]:
    for title, keys in _GROUPS:
        yield f"## {title}"
        yield from ("", "| key | default | zerosim | |", "| --- | --- | --- | --- |")
        yield from (_row(key) for key in keys)
        yield ""
    yield from ("## Schedulers", "", "| scheduler | | keys and defaults |", "| --- | --- | --- |")
    for name, kind in SCHEDULES.items():
        yield f"| {name} | {_first_line(kind)} | {', '.join(_parameters(kind))} |"


def _row(key: Key) -> str:
    default = "" if key.kind is KeyKind.SECTION or key.default is None else shown(key.default)
    return f"| {key.path} | {default} | {key.treatment} | {_sentence(key)} |"


def _sentence(key: Key) -> str:
    if key.treatment is not Treatment.REFUSED:
        return key.sentence
    asks_nothing = [shown(value) for value in key.harmless if value is not None]
    if not asks_nothing:
        return f"{key.sentence}."
    return f"Refused unless {key.switch or 'it'} is {' or '.join(asks_nothing)}: {key.sentence}."


def _first_line(kind: Any) -> str:
    return str(kind.__doc__).splitlines()[0]


def _parameters(kind: Any) -> Iterator[str]:
    for field in fields(kind):
        has_default = field.default is not MISSING and field.default is not None
        yield f"{field.name} ({shown(field.default)})" if has_default else field.name


if __name__ == "__main__":
    sys.stdout.write(markdown())
