"""An iteration, step by step, with the contents of every rank at each: the data of a replay.

Modules:

    step        the records: steps, messages
    order       the order of steps over all ranks
    waiting     the waits during each step
    joined      collectives of several groups that are one step
    find        the steps of an iteration, from the event graph
    layout      the inputs that decide which rank has which shards, in which tier
    programs    the layout of a program, one reader per system: data, layers, stages, deepspeed;
                cuts: its units; seats: the position of each rank among those that share it
    holdings    contents of the ranks' devices, as sets of shards, and the legal operations
    away        contents of their hosts and disks
    ledger      the cells, and their changes
    rules       the effect of each step in each stage
    gathers     its part for gathers; reductions; copying
    frames      the steps applied to the holdings
"""

from zerosim.analysis.frames.cuts import NotShown, ProgramUnits
from zerosim.analysis.frames.find import steps
from zerosim.analysis.frames.frames import Broken, Frames, play
from zerosim.analysis.frames.holdings import Holdings, IllegalFrame, Piece, ShardState
from zerosim.analysis.frames.layout import Band, ShardLayout
from zerosim.analysis.frames.ledger import cell_number
from zerosim.analysis.frames.programs import one_program, program_of
from zerosim.analysis.frames.reductions import pieces_of
from zerosim.analysis.frames.step import Message, Step, Steps, Wait

__all__ = [
    "Band",
    "Broken",
    "Frames",
    "Holdings",
    "IllegalFrame",
    "Message",
    "NotShown",
    "Piece",
    "ProgramUnits",
    "ShardLayout",
    "ShardState",
    "Step",
    "Steps",
    "Wait",
    "cell_number",
    "one_program",
    "pieces_of",
    "play",
    "program_of",
    "steps",
]
