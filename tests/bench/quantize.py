"""Quantizing and dequantizing against a copy of the same numbers in memory, by one thread.

The clock is the thread's own, so that other work of the machine counts less. The ways are done in
turn, so that a drift of the machine falls on all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import torch

from zerosim.train.collectives.quantization import Bits, Error, Quantizer

_NUM_ROWS = 4
_BLOCK = 256
_COLUMNS = {"a block of gpt-small": 787_968, "32 Mi elements": 8 << 20}
"""What four rows of it are, and elements of a row."""
_TURNS = 15
_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Throughput:
    """What was done with one matrix: medians of bytes of its dtype in a second, by way."""

    what: str
    dtype: torch.dtype
    bits: Bits
    by_way: dict[str, float]


def measure(what: str, columns: int, dtype: torch.dtype, bits: Bits) -> Throughput:
    """Copy, quantize, quantize with the error measured, dequantize, dequantize and add."""
    source = torch.randn(_NUM_ROWS, columns).to(dtype)
    target = torch.zeros_like(source)
    quantizer = Quantizer(bits, _BLOCK, _NUM_ROWS, columns, _CPU)
    packed = torch.zeros(_NUM_ROWS, quantizer.packing(columns).row_bytes, dtype=torch.uint8)
    error, sums = Error(_CPU), torch.zeros(_NUM_ROWS, columns)
    ways: dict[str, Callable[[], object]] = {
        "copy": lambda: target.copy_(source),
        "quantize": lambda: quantizer.quantize(source, packed),
        "and measure the error": lambda: quantizer.quantize(source, packed, error),
        "dequantize": lambda: quantizer.dequantize(packed, target),
        "and add in fp32": lambda: quantizer.dequantize(packed, sums, adds=True),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(_TURNS + 1):
        for way, work in ways.items():
            begin = time.thread_time()
            work()
            if turn:  # the first warms up
                seconds[way].append(time.thread_time() - begin)
    size = source.numel() * source.element_size()
    return Throughput(
        what, dtype, bits, {way: size / statistics.median(all_) for way, all_ in seconds.items()}
    )


def table() -> list[str]:
    """The figures as lines of Markdown."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = [
        measure(what, columns, dtype, bits)
        for what, columns in _COLUMNS.items()
        for dtype in (torch.bfloat16, torch.float32)
        for bits in Bits
    ]
    torch.set_num_threads(before)
    ways = list(rows[0].by_way)
    return [
        "## Quantization",
        "",
        (
            f"`python -m tests.bench --only quantize`, {datetime.now(UTC):%Y-%m-%d}: GB of the "
            f"unquantized dtype per second of one thread, {_NUM_ROWS} rows, a scale per "
            f"{_BLOCK} elements; in brackets, relative to a copy. Medians of {_TURNS} turns."
        ),
        "",
        f"| {' | '.join(['matrix', 'dtype', 'quantized', *ways])} |",
        "| --- " * (3 + len(ways)) + "|",
        *map(_line, rows),
    ]


def _line(row: Throughput) -> str:
    copy = row.by_way["copy"]
    cells = [
        f"{each / 1e9:.2f}" + ("" if way == "copy" else f" ({each / copy:.2f})")
        for way, each in row.by_way.items()
    ]
    dtype = str(row.dtype).removeprefix("torch.")
    return f"| {' | '.join([row.what, dtype, row.bits.dtype_name, *cells])} |"
