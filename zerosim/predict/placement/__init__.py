"""Placement in time: the times of all events if durations were different.

Modules:

    network     the event graph as dependent moments
    messages    the part of it that is inside of collectives
    costs       the protocol of a cost model, and the recorded times
    durations   a network with a model's times
    sharing     resources that several activities need at once
    solve       the time of each moment
    retimed     a trace with other times
    place       combines all of these
    changes     the recorded costs with changes; with schedule and straggler
    disturbed   any costs, on unequal ranks
    machine     the ranks' hardware: constants with their sources, files in machines/
    modelled    costs on a machine
    nccl        NCCL's own model of its collectives
    calibrate   constants from recorded runs; fitting: a line; parameters: the work
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
