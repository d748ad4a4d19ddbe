"""An iteration's steps grouped into beats, each of which a lecture would show as one action.

    beat      the records: the action, its units, concurrent actions
    doing     the action of a single step
    part      a beat under construction
    turns     in a pipeline, all ranks compute at once
    fold      the reduction of the number of beats, if there are very many
    cut       the grouping of steps into consecutive beats
    meanwhile concurrent actions during a beat

A beat gathers, computes and frees a unit, reduces its gradient, or updates all units. The order is
that of the steps, which it never changes.
"""

from zerosim.analysis.beats.beat import Beat, Doing, Sign, Turn
from zerosim.analysis.beats.cut import cut
from zerosim.analysis.beats.fold import operator_of

__all__ = ["Beat", "Doing", "Sign", "Turn", "cut", "operator_of"]
