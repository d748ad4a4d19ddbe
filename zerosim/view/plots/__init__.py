"""Figures of runs: each is drawn from a table, so the data can be read as well.

    theme             colours and text, those of the pages
    laws              bytes sent by a rank over the number of ranks, with this run marked
    memory_over_time  memory of a rank over time, by role
    witnesses         bytes sent by a rank, by phase and purpose: theory, trace, wire
    timeline          computation, communication and waiting, one lane per rank
    peaks             memory of GPUs at their predicted peaks, below the card's limit
    steptimes         the parts of a step's predicted time
    scaling_curve     predicted layouts over the number of GPUs
    waterfall         from a law to the sent bytes, by cause

`run.plot` calls those of runs with a run's tables.
"""

from zerosim.view.plots.laws import laws
from zerosim.view.plots.memory_over_time import memory
from zerosim.view.plots.peaks import peaks
from zerosim.view.plots.scaling_curve import scaling
from zerosim.view.plots.steptimes import step_times
from zerosim.view.plots.timeline import timeline
from zerosim.view.plots.waterfall import waterfall
from zerosim.view.plots.witnesses import traffic

__all__ = [
    "laws",
    "memory",
    "peaks",
    "scaling",
    "step_times",
    "timeline",
    "traffic",
    "waterfall",
]
