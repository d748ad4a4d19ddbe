"""Time and memory of a trace: pure functions of it, without torch.

Modules:

    path       the critical path over all ranks, its time by cause, slack
    budget     each rank's time by phase; waits between ranks; hidden communication
    exposed    the collectives behind exposed communication
    bandwidth  algorithm and bus bandwidth
    report     all of these for one iteration
    memory     bytes by role over time
"""

from zerosim.analysis.answer import choose_iteration, name_piece, report
from zerosim.analysis.bandwidth import Bandwidth, bandwidths, bus_factor
from zerosim.analysis.budget import Budget, Budgets, Occupancy, RankActivity, budgets, occupancy
from zerosim.analysis.exposed import Exposed, exposed
from zerosim.analysis.path import (
    CriticalPath,
    PathPiece,
    TimeCause,
    binding_edges,
    critical_path,
    slack,
)
from zerosim.analysis.report import GraphReport, PathStep, Slack

__all__ = [
    "Bandwidth",
    "Budget",
    "Budgets",
    "CriticalPath",
    "Exposed",
    "GraphReport",
    "Occupancy",
    "PathPiece",
    "PathStep",
    "RankActivity",
    "Slack",
    "TimeCause",
    "bandwidths",
    "binding_edges",
    "budgets",
    "bus_factor",
    "choose_iteration",
    "critical_path",
    "exposed",
    "name_piece",
    "occupancy",
    "report",
    "slack",
]
