"""What a judge said of a run, beside its trace: the first step that is illegal, and why."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "judged.json"
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Judged:
    """A step that is not as it should be.

    Attributes:
        rank, event: the call.
        sentence: why.
    """

    rank: int
    event: int
    sentence: str


def write_judged(folder: Path, judged: Judged) -> None:
    """Say it beside a trace."""
    (folder / _NAME).write_text(json.dumps(asdict(judged)) + "\n")


def read_judged(folder: Path) -> Judged | None:
    """What was said of a trace; None if nothing was, or if it cannot be read."""
    try:
        plain = json.loads((folder / _NAME).read_text()[:_LONGEST])
        return Judged(int(plain["rank"]), int(plain["event"]), str(plain["sentence"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
