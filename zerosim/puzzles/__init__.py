"""Puzzles: a student writes a short function, real ranks run it, and its trace is checked.

    puzzle     the declaration of a puzzle: task, promise, hints; read from lessons/puzzles
    promised   the promise of a puzzle, in numbers; sizes writes the needed sizes to a file
    bounds     formulas of a promise, over theory
    wording    the text about a program
    toy        a small model of layers that puzzles train, exact in any order of additions
    stage      a stage of a pipeline of such layers
    rank       the work of each rank: load the program, run it under the tracer, compare
    standstill a thread of each rank that ends deadlocked ranks
    running    starting the ranks, within limits
    messages   the messages between ranks, one by one
    turns      the number of turns of a pipeline
    moments    the step in Replay for an event of a program's run
    verdict    the verdict on a program: reason, scores
    evidence   the input of the judge: the ranks' reports, and their trace
    endings, contents, bounded
               the checks: termination; messages and results; cost
    judge      compares the promise with the trace, in the order of causes
    grading    a folder of submissions

The trace is judged, as for any program: by `record`, `analysis`, `diagnosis` and `theory`.
The names of this module, `promised`, `puzzle` and `wording` work without torch, because pages show
puzzles with them.
"""

from zerosim.puzzles.puzzle import Puzzle, find_puzzle, puzzle_of, puzzles
from zerosim.puzzles.verdict import FailedCheck, PuzzleVerdict, Score

__all__ = [
    "FailedCheck",
    "Puzzle",
    "PuzzleVerdict",
    "Score",
    "find_puzzle",
    "puzzle_of",
    "puzzles",
]
