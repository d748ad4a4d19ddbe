"""Placement in time: what would happen when, if things took another time than they did.

network     the event graph as moments that wait for each other
messages    the part of it that is inside of collectives
costs       the protocol of a cost model, and the recorded times
durations   a network with a model's times
sharing     what several things need at once
solve       when each moment happens
retimed     a trace with other times
place       all of it together
changes     the recorded costs with changes; schedule and straggler are parts of them
disturbed   any costs, on ranks that are not alike
machine     what ranks run on: constants with their sources, files in machines/
modelled    what things cost on a machine
nccl        NCCL's own model of its collectives
calibrate   constants out of recorded runs; fitting: a line; parameters: what there was to do
steps       messages and bytes of other collectives
"""

from zerosim.predict.placement.changes import Changes
from zerosim.predict.placement.costs import Costs, Recorded, Tasks
from zerosim.predict.placement.disturbed import Disturbed
from zerosim.predict.placement.machine import Machine, known_machines, load_machine
from zerosim.predict.placement.modelled import Modelled
from zerosim.predict.placement.place import place
from zerosim.predict.placement.sharing import Needs, Resource

__all__ = [
    "Changes",
    "Costs",
    "Disturbed",
    "Machine",
    "Modelled",
    "Needs",
    "Recorded",
    "Resource",
    "Tasks",
    "known_machines",
    "load_machine",
    "place",
]
