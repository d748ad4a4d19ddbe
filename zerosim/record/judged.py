"""A puzzle's verdict on a run, stored with its trace: the first illegal step, message contents.

The trace records the size of each message. Only the puzzle's check, which knows the program's
input, can determine the piece of a vector that it carries and the ranks whose parts are summed in
it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "judged.json"
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class CarriedPiece:
    """The contents of a message.

    Attributes:
        rank, event: the send.
        round: counted from 1, see `zerosim.puzzles.messages`.
        piece: index of the piece of the vector; -1 if it is not a piece.
        summed: the ranks whose parts are summed in it; empty without a reduction.
    """

    rank: int
    event: int
    round: int
    piece: int
    summed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A judge's verdict on a run.

    Attributes:
        rank, event: the illegal call; -1 if there is none.
        sentence: the reason.
        messages: the contents of each message; empty if any is unknown.
        num_pieces: number of pieces of the vector.
    """

    rank: int = -1
    event: int = -1
    sentence: str = ""
    messages: tuple[CarriedPiece, ...] = ()
    num_pieces: int = 0


def write_judged(folder: Path, judged: Judged) -> None:
    """Write the verdict into the folder of the trace."""
    (folder / _NAME).write_text(json.dumps(asdict(judged)) + "\n")


def read_judged(folder: Path) -> Judged | None:
    """The verdict in a trace's folder; None if there is none, or if it cannot be read."""
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
        raise TypeError("expected a list of ranks")
    return CarriedPiece(**numbers, summed=tuple(map(int, summed)))
