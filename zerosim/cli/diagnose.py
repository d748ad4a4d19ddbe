"""`zerosim diagnose`: the rank at fault, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.console import make_console, print_json, print_lines
from zerosim.cli.options import AsJson, decimal, open_run
from zerosim.cli.wording import said
from zerosim.record.importing.dumps import find_dumps
from zerosim.verify.diagnosis import Diagnosis, diagnose_dumps, diagnose_folder
from zerosim.verify.diagnosis.evidence import PATIENCE_S

FOUND = 1
"""The exit code if there is a fault."""


def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="A trace's folder, even of a running program, or Flight Recorder dumps."
        ),
    ],
    *,
    patience: Annotated[
        float, decimal("Report a rank as hanging once others have waited this long for it.")
    ] = PATIENCE_S,
    as_json: AsJson = False,
) -> int:
    """Find the rank at fault in a run that failed or hangs; exit 1 if there is one."""
    found = _diagnosis(paths, patience)
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(make_console(), _lines(found))
    return FOUND if found.findings else 0


def _diagnosis(paths: Sequence[Path], patience_s: float) -> Diagnosis:
    first = paths[0]
    is_trace = first.is_dir() and any(first.glob("rank-*.jsonl"))
    if len(paths) > 1 or (not is_trace and find_dumps(paths)):
        return diagnose_dumps(paths)
    if not is_trace:
        open_run(first)  # raises the error
    return diagnose_folder(first, patience_s=patience_s)


def _lines(found: Diagnosis) -> list[str]:
    lines = [found.headline]
    for one in found.findings[:1]:
        lines += [f"  {text}" for text in one.evidence]
        if one.advice:
            lines.append(said("common.try", advice=one.advice))
    lines += [said("common.also", sentence=one.sentence) for one in found.findings[1:]]
    lines += [said("common.note", note=note) for note in found.notes]
    return lines
