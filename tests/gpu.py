"""`python -m tests.gpu`: everything that needs a card, on one of them, and docs/gpu.md's table.

Two and four ranks share the card: each is a host of its own to NCCL (`NCCL_HOSTID`), so that their
bytes cross sockets that the kernel counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from zerosim.verify.outcome import Outcome

DOCUMENT = Path("docs/gpu.md")
HEADING = "## Results of `make test-gpu`"
RUNS = [
    *((stage, 2, "ring") for stage in range(4)),
    (3, 2, "native"),
    (3, 4, "native"),
]
"""Stage, ranks, and the implementation of the collectives."""
TIMEOUT_S = 90


@dataclass(frozen=True, slots=True)
class Row:
    """One run: the bytes that rank 0 sent in its last iteration, and the unexplained bytes on the
    wire; None for a run that failed.
    """

    stage: int
    ranks: int
    collectives: str
    holds: bool
    trace_bytes: int | None
    framing_bytes: int | None
    wire_bytes: int | None
    unexplained_bytes: int | None


def main() -> int:
    """Run the tests marked `gpu`, then the runs; returns the exit code."""
    if not torch.cuda.is_available():
        print("no CUDA device: expected one; nothing was run, and docs/gpu.md is as it was")
        return 2
    tests = [sys.executable, "-m", "pytest", "-m", "gpu", "-n", "0"]
    code = subprocess.run(tests, check=False).returncode
    with tempfile.TemporaryDirectory() as folder:
        rows = [_run(Path(folder), *one) for one in RUNS]
    card = torch.cuda.get_device_name(0)
    DOCUMENT.write_text(written(DOCUMENT.read_text(), rows, card))
    return code or int(not all(row.holds for row in rows))


def _run(folder: Path, stage: int, ranks: int, collectives: str) -> Row:
    out = str(folder / f"{stage}-{ranks}-{collectives}")
    _zerosim(
        *("run", "--device", "cuda", "--stage", str(stage), "--ranks", str(ranks)),
        *("--collectives", collectives, "--steps", "4", "--out", out),
    )
    told = _zerosim("verify", out, "--json")
    if not told:  # the other runs are rows of the table nevertheless
        return Row(stage, ranks, collectives, False, None, None, None, None)
    return row_of(json.loads(told), stage, ranks, collectives)


def _zerosim(*words: str) -> str:
    command = [sys.executable, "-m", "zerosim", *words]
    # a run whose verdict does not hold is a row of the table, too
    try:
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        print(f"zerosim {' '.join(words)}: still there after {TIMEOUT_S} s")
        return ""
    return done.stdout


def row_of(report: dict[str, Any], stage: int, ranks: int, collectives: str) -> Row:
    """What `zerosim verify --json` says of a run, as a row of the table."""
    wire = report["wires"][0]
    return Row(
        stage=stage,
        ranks=ranks,
        collectives=collectives,
        holds=report["outcome"] != Outcome.UNEXPLAINED,
        trace_bytes=wire["trace"],
        framing_bytes=wire["framing"],
        wire_bytes=wire["wire"],
        unexplained_bytes=wire["unexplained"],
    )


def written(document: str, rows: list[Row], card: str) -> str:
    """The document with this table in place of its last one."""
    where = f"`make test-gpu` on {datetime.now(UTC):%Y-%m-%d}: {card}, torch {torch.__version__}"
    what = "all ranks on the one card. Bytes of rank 0 in the last of four iterations."
    lines = [
        HEADING,
        "",
        f"{where}, {what}",
        "",
        "| stage | ranks | collectives | trace | framing | wire | unexplained | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {row.stage} | {row.ranks} | {row.collectives} | {_number(row.trace_bytes)} | "
            f"{_number(row.framing_bytes)} | {_number(row.wire_bytes)} | "
            f"{_number(row.unexplained_bytes)} | {'holds' if row.holds else 'does not hold'} |"
            for row in rows
        ),
        "",
    ]
    before, _, after = document.partition(HEADING)
    rest = after.find("\n## ")
    return before + "\n".join(lines) + (after[rest:] if rest >= 0 else "")


def _number(value: int | None) -> str:
    return "not measured" if value is None else f"{value:,}"


if __name__ == "__main__":
    sys.exit(main())
