"""Figures of runs: each is drawn from a table, so what is seen can be read as well.

    theme             colours and text, those of the pages
    laws              what a rank sends over the number of ranks, and where a run lies
    memory_over_time  what a rank holds over time, by role
    witnesses         what a rank sends, by phase and purpose: theory, trace, wire
    timeline          computation, communication and waiting, a lane for each rank
    peaks             what GPUs hold at their predicted peaks, under the card's line
    steptimes         what the predicted time of a step goes to
    scaling_curve     predicted layouts over the number of GPUs
    waterfall         from a law to what is sent, by cause

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
