"""`zerosim table`: tables of the paper beside what the laws give."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.ledgers import print_answer
from zerosim.config import STAGE_NAMES, STAGES, DType, choice
from zerosim.quantities import PSI
from zerosim.theory import (
    Optimizer,
    TableCell,
    bytes_a_parameter,
    law_words,
    optimizer_bytes,
    paper_table_1,
)
from zerosim.verify.outcome import outcome_of

_SOURCE = "S. Rajbhandari et al., ZeRO, arXiv 1910.02054"
_NAMES = {1: "P_os", 2: "P_os+g", 3: "P_os+g+p"}
"""What the paper calls stages 1 to 3."""
_DTYPES = {DType.BF16: "mixed (bf16, fp16)", DType.FP32: "fp32"}


class TableName(StrEnum):
    """The tables that can be printed."""

    PAPER = "paper"


def table(
    name: Annotated[str, typer.Argument(help="paper: Table 1 of the ZeRO paper, and K.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Print a table of the paper beside what the laws give; exit 1 if they do not agree."""
    choice(TableName, name, "table")
    cells = paper_table_1()
    agree = all(_agrees(cell) for cell in cells)
    if as_json:
        print_json(_plain(cells, agree=agree))
    else:
        _print(make_console(), cells, agree=agree)
    return 0 if agree else 1


def _agrees(cell: TableCell) -> bool:
    return abs(Fraction(cell.printed) - cell.exact_gb) < cell.last_place


def _print(console: Console, cells: tuple[TableCell, ...], *, agree: bool) -> None:
    count = sum(_agrees(cell) for cell in cells)
    answer = (
        f"{count} of the {len(cells)} cells of Table 1 are what the law gives, within one "
        "unit of the last printed place."
    )
    print_answer(console, outcome_of(holds=agree), answer)
    facts = "GB = 10^9 B of model states on each of N ranks; mixed precision Adam, K = 12"
    console.print(Text(f"  {facts}", style="dim"))
    console.print()
    for model in dict.fromkeys(cell.model for cell in cells):
        _print_model(console, model, [cell for cell in cells if cell.model == model])
    _print_k(console)
    sources = f"{_SOURCE}: Table 1; K of Adam: section 3.1; K of SGD is derived the same way"
    console.print(Text(f"source: {sources}", style="dim"))


def _print_model(console: Console, model: str, cells: list[TableCell]) -> None:
    headers = [text for stage in _NAMES for text in (_NAMES[stage], "the law")]
    found = make_table("N", *headers, left=0)
    found.title = f"{model} parameters: as the paper prints it, and what the law gives"
    found.title_justify = "left"
    found.title_style = "dim"
    for num_ranks in dict.fromkeys(cell.num_ranks for cell in cells):
        row = [cell for cell in cells if cell.num_ranks == num_ranks]
        texts = [text for cell in row for text in (cell.printed, exact_decimal(cell.exact_gb))]
        style = "" if all(_agrees(cell) for cell in row) else "red"
        found.add_row(str(num_ranks), *texts, style=style)
    print_table(console, found)
    console.print()


def _print_k(console: Console) -> None:
    found = make_table("optimizer", "precision", "K", *map(_stage_name, STAGES), left=2)
    found.title = f"K, bytes of optimizer states for a parameter, and the law of each stage ({PSI})"
    found.title_justify = "left"
    found.title_style = "dim"
    for optimizer in Optimizer:
        for dtype, words in _DTYPES.items():
            laws = [law_words(stage, dtype, optimizer) for stage in STAGES]
            found.add_row(optimizer.value, words, str(optimizer_bytes(dtype, optimizer)), *laws)
    print_table(console, found)


def _stage_name(stage: int) -> str:
    return STAGE_NAMES[stage]


def exact_decimal(value: Fraction) -> str:
    """A number in whole: `30.087890625`. Its denominator holds no primes but 2 and 5."""
    number = Decimal(value.numerator) / Decimal(value.denominator)
    assert Fraction(number) == value, f"{value} has no end"
    whole, _, rest = f"{number:,f}".partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest}" if rest else whole


def _plain(cells: tuple[TableCell, ...], *, agree: bool) -> dict[str, object]:
    return {
        "source": _SOURCE,
        "agrees": agree,
        "cells": [
            {
                "num_ranks": cell.num_ranks,
                "model": cell.model,
                "num_parameters": cell.num_parameters,
                "stage": cell.stage,
                "printed_gb": cell.printed,
                "law_gb": exact_decimal(cell.exact_gb).replace(",", ""),
                "agrees": _agrees(cell),
            }
            for cell in cells
        ],
        "optimizers": [
            {
                "optimizer": optimizer.value,
                "precision": "fp32" if dtype is DType.FP32 else "mixed",
                "k": optimizer_bytes(dtype, optimizer),
                "bytes_a_parameter": {
                    each.role.value: each.bytes for each in bytes_a_parameter(dtype, optimizer)
                },
                "laws": {STAGE_NAMES[s]: law_words(s, dtype, optimizer) for s in STAGES},
            }
            for optimizer in Optimizer
            for dtype in _DTYPES
        ],
    }
