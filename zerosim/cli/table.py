"""`zerosim table`: tables and figures of papers beside the values of the laws and a plan."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from zerosim.base.config import STAGE_NAMES, STAGES, DType, EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import PSI
from zerosim.base.tables import Cell, Table, cell_text
from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.options import AsJson, OptionalModel
from zerosim.cli.verdicts import print_answer
from zerosim.predict.plan.redrawn import FIGURES
from zerosim.predict.plan.tables import model_table
from zerosim.theory import (
    Optimizer,
    TableCell,
    bytes_a_parameter,
    optimizer_bytes,
    paper_table_1,
    stage_states,
)
from zerosim.verify.outcome import outcome_of

_SOURCE = "S. Rajbhandari et al., ZeRO, arXiv 1910.02054"
_NAMES = {1: "P_os", 2: "P_os+g", 3: "P_os+g+p"}
"""The paper's names of stages 1 to 3."""
_DTYPES = {DType.BF16: "mixed (bf16, fp16)", DType.FP32: "fp32"}


_WRITTEN = {
    "gb": "GB",
    "gpu": "GPU",
    "gpus": "GPUs",
    "mflop": "MFLOP",
    "tflops": "TFLOP/s",
    "pflops": "PFLOP/s",
}

PAPER, MODEL = "paper", "model"
_NAMED = (PAPER, MODEL, *FIGURES)
"""The printable tables: the paper's Table 1, the parts of a model, and the figures of a plan."""


def table(
    name: Annotated[
        str,
        typer.Argument(
            help=f"paper: Table 1 of ZeRO, and K; model: sizes of --model; {', '.join(FIGURES)}."
        ),
    ],
    *,
    model: OptionalModel = None,
    as_json: AsJson = False,
) -> int:
    """Print a paper's table or figure beside the prediction; exit 1 if the law differs."""
    if name not in _NAMED:
        raise ConfigError(f"unknown table {name!r}: expected one of {', '.join(_NAMED)}")
    if (name == MODEL) != (model is not None):
        raise ConfigError(
            f"table is {name} and model {model}: expected `table model --model` with a name or a "
            "Hugging Face config.json"
        )
    if model is not None:
        _show(model_table(model), as_json=as_json)
        return 0
    if name != PAPER:
        _show(FIGURES[name](), as_json=as_json)
        return 0
    cells = paper_table_1()
    agree = all(_agrees(cell) for cell in cells)
    if as_json:
        print_json(_plain(cells, agree=agree))
    else:
        _print(make_console(), cells, agree=agree)
    return 0 if agree else 1


def _show(figure: Table, *, as_json: bool) -> None:
    if as_json:
        print_json(figure.to_dict())
        return
    console = make_console()
    heads = (_head(column.name) for column in figure.columns)
    names = sum(isinstance(cell, str) for cell in figure.rows[0])
    shown = make_table(*heads, left=names, title=figure.title)
    for row in figure.rows:
        shown.add_row(*map(_cell, row))
    print_table(console, shown)
    for note in figure.notes:
        console.print(Text(note, style="dim"))


def _head(name: str) -> str:
    """A column's name as it is displayed."""
    words = name.replace("zero_3", "ZeRO-3").replace("zero_pp", "ZeRO++").split("_")
    return " ".join(_WRITTEN.get(word, word) for word in words)


def _cell(cell: Cell) -> str:
    """The text of a cell; a number with four digits, or all digits before the point."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.4g}" if abs(cell) < 1000 else f"{cell:,.0f}"
    return cell_text(cell)


def _agrees(cell: TableCell) -> bool:
    return abs(Fraction(cell.printed) - cell.exact_gb) < cell.last_place


def _print(console: Console, cells: tuple[TableCell, ...], *, agree: bool) -> None:
    count = sum(_agrees(cell) for cell in cells)
    answer = (
        f"{count} of the {len(cells)} cells of Table 1 agree with the law, within one "
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
    found.title = f"{model} parameters: the paper's value and the law's"
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
    for optimizer in Optimizer:
        for dtype, words in _DTYPES.items():
            k = str(optimizer_bytes(dtype, optimizer))
            found.add_row(optimizer.value, words, k, *_laws(dtype, optimizer).values())
    print_table(console, found)


def _laws(dtype: DType, optimizer: Optimizer) -> dict[str, str]:
    return {STAGE_NAMES[s]: stage_states(s, 1, 1, dtype, optimizer).law() for s in STAGES}


def _stage_name(stage: int) -> str:
    return STAGE_NAMES[stage]


def exact_decimal(value: Fraction) -> str:
    """An exact decimal number: `30.087890625`; its denominator divides a power of 10."""
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
                    each.role.value: each.bytes
                    for each in bytes_a_parameter(EngineConfig(dtype=dtype), optimizer)
                },
                "laws": _laws(dtype, optimizer),
            }
            for optimizer in Optimizer
            for dtype in _DTYPES
        ],
    }
