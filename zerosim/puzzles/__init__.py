"""Puzzles: a student writes a short function, it runs on real ranks, the trace judges it.

    puzzle     what a puzzle is: its task, what is promised, its hints; read from lessons/puzzles
    promised   what a puzzle promises, in numbers; sizes writes down what they need
    bounds     formulas of what is promised, over theory
    wording    what is said of a program
    toy        a small model of layers that puzzles train, exact in any order of additions
    stage      a stage of a pipeline of such layers
    rank       what each rank does: load the program, run it under the tracer, compare
    standstill a thread of each rank that ends ranks of which none can go on
    running    starting the ranks, within limits
    messages   what ranks sent each other, message by message
    turns      in how many turns a pipeline computes
    moments    where of a program's run something is to be seen in Replay
    verdict    what is said of a program: reason, scores, verdict
    evidence   what there is to judge by: what ranks said, and their trace
    endings, contents, bounded
               the checks: it comes to an end; what it sends and returns; what it takes
    judge      what was promised held against the trace, in the order of what explains what
    grading    a folder of submissions

What is judged is the trace, as of any program: by `record`, `analysis`, `diagnosis` and `theory`.
Names of this module need no torch, nor do `promised`, `puzzle` and `wording`: pages show puzzles
with them.
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
