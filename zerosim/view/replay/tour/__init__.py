"""A tour of a run: ten to twelve steps of its replay, in order, with explanations.

Modules:

    stops    the choice of steps: a function of the replay document alone
    stop_sentences    the explanation of each; the texts are `tour.toml`
    numbers  the numbers of a beat
    held     the contents of ranks at a step
    telling  how to fill in a sentence about ranks
"""

from zerosim.view.replay.tour.stops import LEAST, MOST, About, Stop, tour_of

__all__ = ["LEAST", "MOST", "About", "Stop", "tour_of"]
