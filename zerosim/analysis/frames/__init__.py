"""An iteration, step by step, and what every rank holds at each of them: what a replay shows.

step        the records: steps, messages
order       the order of steps over all ranks
waiting     who waits during which step
joined      which collectives of several groups are one step
find        the steps of an iteration, from the event graph
layout      what decides who holds what, and in which tier
programs    what it is for a program, one reader for each system: data, layers, stages,
deepspeed; cuts: its units; seats: where each rank stands among those that divide it
holdings    what ranks hold on their devices, as sets of shards, and what may happen to them
away        what they hold on the host and on the disk
ledger      the cells, and which of them changed
rules       what each stage does to them, step by step
gathers     of these, what gathers do; reductions; copying
frames      the steps played on the holdings
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
