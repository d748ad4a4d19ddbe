"""`python -m tests.bench`: measure, print, and write docs/bench.md."""

from __future__ import annotations

import argparse
import platform
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

from tests.bench import (
    costs,
    disk,
    events,
    gate,
    offload,
    pages,
    plan,
    published,
    quantize,
    rooms,
    scale,
    serving,
    simulate,
)
from tests.bench.training import Row, measure, measure_programs
from tests.ranks import run_ranks
from zerosim.base.config import ModelName

TARGET = Path("docs/bench.md")
PARTS = {
    "training": "# Benchmarks",
    "scale": "## The event graph at scale",
    "serving": "## Serving a class",
    "pages": "## The Replay page",
    "rooms": "## A room of 30 and of 300",
    "programs": "## Tracing other programs",
    "events": "## What an event costs",
    "costs": "## What an event costs, part by part",
    "gate": "## The gate",
    "offload": "## Overlap of offload",
    "disk": "## The disk store",
    "quantize": "## Quantization",
    "simulate": "## Prediction",
    "published": published.HEADING,
    "plan": "## Plans",
}
"""As they follow each other in the report, and the heading that each begins with."""


ELSEWHERE = {"published": Path("docs/simulate.md")}
"""Parts of another document, which has all but them."""


def main() -> None:
    """Run every benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--model", type=ModelName, default=ModelName.GPT_SMALL)
    parser.add_argument("--only", choices=PARTS, help="measure this part, keep the others")
    parser.add_argument(
        "--kept", type=Path, metavar="FOLDER",
        help="simulate: keep what is recorded there; what is there already is not recorded again",
    )  # fmt: skip
    options = parser.parse_args()
    parts = _parts(TARGET.read_text()) if TARGET.exists() else {}
    if options.only in (None, "training"):
        print(f"timing {options.pairs} pairs of each comparison, some minutes", file=sys.stderr)
        rows = run_ranks(measure, options.ranks, options.model, options.pairs, deadline_s=3600)[0]
        parts["training"] = _report(rows, options)
    if options.only in (None, "programs"):
        print("tracing others' programs, some minutes", file=sys.stderr)
        rows = run_ranks(
            measure_programs, options.ranks, options.model, options.pairs, deadline_s=3600
        )[0]
        parts["programs"] = "\n".join([PARTS["programs"], "", *_preface(options), "", *_rows(rows)])
    modules = {
        "scale": scale,
        "serving": serving,
        "pages": pages,
        "rooms": rooms,
        "events": events,
        "costs": costs,
        "gate": gate,
        "offload": offload,
        "disk": disk,
        "quantize": quantize,
        "simulate": simulate,
        "published": published,
        "plan": plan,
    }
    for name, module in modules.items():
        if options.only in (None, name):
            given = (options.kept,) if module is simulate else ()
            parts[name] = "\n".join(module.table(*given))
    for name in ELSEWHERE.keys() & parts.keys():
        text = parts.pop(name)
        _put(text, ELSEWHERE[name])
        print(text)
    text = "\n\n".join(parts[name].strip() for name in PARTS if name in parts) + "\n"
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text)
    print(text)


def _put(part: str, document: Path) -> None:
    """Put a part in the place of an earlier one with its heading, which must be there."""
    heading = part.partition("\n")[0]
    before, found, after = document.read_text().partition(f"\n{heading}\n")
    assert found, f"{document} has no {heading}"
    rest = re.search(r"^## ", after, flags=re.MULTILINE)
    document.write_text(f"{before}\n{part.strip()}\n\n{after[rest.start() :] if rest else ''}")


def _parts(text: str) -> dict[str, str]:
    """The parts of an earlier report, by their headings."""
    pieces = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    by_heading = {piece.partition("\n")[0]: piece for piece in pieces}
    return {name: by_heading[head] for name, head in PARTS.items() if head in by_heading}


def _report(rows: list[Row], options: argparse.Namespace) -> str:
    lines = [
        PARTS["training"],
        "",
        *_preface(options),
        "Bytes are those that the kernel sent for rank 0 in one step.",
        "",
        *_rows(rows),
    ]
    return "\n".join(lines)


def _preface(options: argparse.Namespace) -> list[str]:
    return [
        (
            f"`make bench`, {datetime.now(UTC):%Y-%m-%d}: {options.model}, {options.ranks} ranks, "
            f"one thread each, Gloo over loopback; torch {torch.__version__}, "
            f"Python {platform.python_version()}."
        ),
        (
            "Steps of A and B alternate. The ratio is the median over "
            f"{options.pairs} pairs, with its first and third quartile. Below 1, A is faster."
        ),
    ]


def _rows(rows: list[Row]) -> list[str]:
    lines = [
        "| A | B | A, s | B, s | A/B | quartiles | A sent, B | B sent, B |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        first, third = row.pairs.spread
        lines.append(
            f"| {row.a} | {row.b} | {_median(row.pairs.seconds_a):.3f} "
            f"| {_median(row.pairs.seconds_b):.3f} | **{row.pairs.ratio:.3f}** "
            f"| {first:.3f} to {third:.3f} | {_bytes(row.pairs.sent_bytes_a)} "
            f"| {_bytes(row.pairs.sent_bytes_b)} |"
        )
    return lines


def _median(values: tuple[float, ...]) -> float:
    return sorted(values)[len(values) // 2]


def _bytes(number: int) -> str:
    return f"{number:,}" if number else ""


if __name__ == "__main__":
    main()
