"""The ranks of a run in one process, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from zerosim.base.errors import UnknownValue
from zerosim.predict.simulate.post import Letters, NotSentYet
from zerosim.schema.rows import rank_file_name


def in_turn(ranks: Sequence[int], folder: Path, do: Callable[[int, Letters], None]) -> None:
    """Let each rank do its part, and start over if it waits for a value that was not sent yet.

    Args:
        folder: folder of the ranks' files.
        do: runs a rank's part, given the values sent so far.

    Raises:
        UnknownValue: they wait for each other.
    """
    letters, waiting = Letters(), list(ranks)
    said: dict[int, int] = {}
    while waiting:
        rank = waiting.pop(0)
        num_letters = len(letters.sent)
        try:
            do(rank, letters)
        except NotSentYet as error:
            (folder / rank_file_name(rank)).unlink(missing_ok=True)
            if error.sender not in waiting or said.get(rank) == num_letters:
                raise UnknownValue(
                    f"rank {rank} waits for a message that rank {error.sender} has not sent yet: a "
                    "dry run executes ranks one after another; try zerosim trace with real ranks"
                ) from None
            said[rank] = num_letters
            waiting.remove(error.sender)
            waiting = [error.sender, *waiting, rank]
