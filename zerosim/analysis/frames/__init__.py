"""An iteration, step by step, and what every rank holds at each of them: what a replay shows.

    step      the records: steps, messages
    order     the order of steps over all ranks
    find      the steps of an iteration, from the event graph
    holdings  what ranks hold, as sets of shards, and what may happen to them
    rules     what each stage does to them, step by step
    frames    the steps played on the holdings

Imports numpy, zerosim's L0, record and graph; never torch.
"""

from zerosim.analysis.frames.find import steps
from zerosim.analysis.frames.frames import Broken, Frames, play
from zerosim.analysis.frames.holdings import Holding, Holdings, IllegalFrame, Layout, Piece
from zerosim.analysis.frames.rules import cell_number, pieces_of
from zerosim.analysis.frames.step import Message, Step, Steps

__all__ = [
    "Broken",
    "Frames",
    "Holding",
    "Holdings",
    "IllegalFrame",
    "Layout",
    "Message",
    "Piece",
    "Step",
    "Steps",
    "cell_number",
    "pieces_of",
    "play",
    "steps",
]
