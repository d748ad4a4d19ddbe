"""What a judge said of a run, beside its trace: the first illegal step, and what messages carry.

The trace knows how many bytes a message has. Which piece of a vector they are, and which ranks'
parts are summed in it, is known only to one that knows what the program was given.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "judged.json"
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class CarriedPiece:
    """What a message carries.

    Attributes:
        rank, event: its send.
        round: from 1, see `zerosim.puzzles.messages`.
        piece: of the vector; -1 if it is none.
        summed: the ranks whose parts of it are summed; empty where nothing is added.
    """

    rank: int
    event: int
    round: int
    piece: int
    summed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of a run.

    Attributes:
        rank, event: the call that is illegal; -1 if none is.
        sentence: why.
        messages: what each carries; empty where that is not known of all.
        num_pieces: that the vector is cut into.
    """

    rank: int = -1
    event: int = -1
    sentence: str = ""
    messages: tuple[CarriedPiece, ...] = ()
    num_pieces: int = 0


def write_judged(folder: Path, judged: Judged) -> None:
    """Say it beside a trace."""
    (folder / _NAME).write_text(json.dumps(asdict(judged)) + "\n")


def read_judged(folder: Path) -> Judged | None:
    """What was said of a trace; None if nothing was, or if it cannot be read."""
    try:
        with (folder / _NAME).open(encoding="utf-8") as file:
            plain = json.loads(file.read(_LONGEST))
        return Judged(
            int(plain["rank"]),
            int(plain["event"]),
            str(plain["sentence"]),
            tuple(_carried(one) for one in plain.get("messages", ())),
            int(plain.get("num_pieces", 0)),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _carried(plain: dict[str, object]) -> CarriedPiece:
    numbers = {name: int(str(plain[name])) for name in ("rank", "event", "round", "piece")}
    summed = plain["summed"]
    if not isinstance(summed, list):
        raise TypeError("summed is a list of ranks")
    return CarriedPiece(**numbers, summed=tuple(map(int, summed)))
