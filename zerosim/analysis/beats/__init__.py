"""The unit of watching: an iteration's steps cut into beats, what a class would call one thing.

    beat      the records: what is done, to which units, what goes on meanwhile
    doing     what a single step does
    part      a beat while it is made
    turns     in a pipeline, all ranks compute at once
    fold      fewer of them, where there are very many
    cut       the cut: each step in one beat, beats one after another
    meanwhile what goes on during a beat beside what it is about

A beat is gathering a unit, computing it and freeing it, reducing its gradient, the update of all
units. The order is that of the steps, which it never changes.
"""

from zerosim.analysis.beats.beat import Beat, Doing, Sign, Turn
from zerosim.analysis.beats.cut import cut
from zerosim.analysis.beats.fold import operator_of

__all__ = ["Beat", "Doing", "Sign", "Turn", "cut", "operator_of"]
