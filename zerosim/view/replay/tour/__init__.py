"""A tour of a run: ten to twelve places of its replay, in order, and what there is to say at each.

stops    which places: a function of the replay document alone
stop_sentences    what is said at each; the texts are `tour.toml`
numbers  the numbers of a beat
held     what the ranks hold at a step
telling  how a sentence about ranks is filled in
"""

from zerosim.view.replay.tour.stops import LEAST, MOST, About, Stop, tour_of

__all__ = ["LEAST", "MOST", "About", "Stop", "tour_of"]
