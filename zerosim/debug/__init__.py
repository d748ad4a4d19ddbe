"""A debugger of running ranks: paused threads, steps, and breakpoints.

    link        the connection to one rank, and the socket at which ranks connect
    steps       equal actions of ranks: matching of paused threads, and the next beat
    goals       the ends of a step
    ranks       all ranks together: which are paused, and whether the others wait
    waiting     the ranks for which a rank waits, and since when
    gathering   pausing running ranks
    outcomes    how a step ends
    controller  steps, breakpoints, watches
    replicas    tensors that must be equal on all ranks, and their comparison
    calling     attaching to running ranks
    sums        whether a reduced gradient is the sum of the ranks' own
    stop_lines  the text of a stop
    commands    the user's commands, and `replies` their output
    steering    one page controls, several watch

It communicates with `zerosim.trace.keeper` in each rank.
"""

from zerosim.debug.commands import Commands
from zerosim.debug.controller import Controller
from zerosim.debug.goals import GOALS, Goal
from zerosim.debug.link import Door
from zerosim.debug.outcomes import StepEnd, Why
from zerosim.debug.replies import Reply
from zerosim.debug.steering import Steering

__all__ = ["GOALS", "Commands", "Controller", "Door", "Goal", "Reply", "Steering", "StepEnd", "Why"]
