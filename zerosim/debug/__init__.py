"""Holding running ranks: who stands before what, who goes next, and where all stop.

    link        the connection to one rank, and the door at which ranks come in
    steps       what ranks do alike: which stands belong together, which beat comes next
    goals       where a step ends
    ranks       the ranks together: who stands, and that nothing else happens
    waiting     for whom a rank waits, and how long
    gathering   stopping ranks that were running
    outcomes    how a step ends
    controller  steps, breakpoints, watches
    replicas    what must be equal on all ranks, and whether it is
    calling     calling ranks that run, to hold them
    sums        whether a reduced gradient is the sum of the ranks' own
    stop_lines  what is said of a stop
    commands    what a person may say, and `replies` what is answered
    steering    one page steers, several watch

It talks to `zerosim.trace.keeper` in each rank.
"""

from zerosim.debug.commands import Commands
from zerosim.debug.controller import Controller
from zerosim.debug.goals import GOALS, Goal
from zerosim.debug.link import Door
from zerosim.debug.outcomes import StepEnd, Why
from zerosim.debug.replies import Reply
from zerosim.debug.steering import Steering

__all__ = ["GOALS", "Commands", "Controller", "Door", "Goal", "Reply", "Steering", "StepEnd", "Why"]
