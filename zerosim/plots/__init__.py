"""Figures of runs: each is drawn from a table, so what is seen can be read as well.

    theme      colours and text, those of the pages
    laws       what a rank sends over the number of ranks, and where a run lies
    memory     what a rank holds over time, by role
    traffic    what a rank sends, by phase and purpose: theory, trace, wire
    timeline   computation, communication and waiting, a lane for each rank
    waterfall  from a law to what is sent, by cause

`run.plot` calls them with a run's tables. Imports plotly and zerosim's L0.
"""

from zerosim.plots.laws import laws
from zerosim.plots.memory import memory
from zerosim.plots.timeline import timeline
from zerosim.plots.traffic import traffic
from zerosim.plots.waterfall import waterfall

__all__ = ["laws", "memory", "timeline", "traffic", "waterfall"]
