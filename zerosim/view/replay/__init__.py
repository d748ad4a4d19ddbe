"""A replay: one iteration of a trace as a document that the player shows.

words     the sentences of each step: title, what happens, why; their texts are `words.toml`
ledger    each collective's formula and its three ledgers
memory    bytes by role over the iteration
timeline  what each rank did when, and the critical path
subject   one iteration of a trace, read once: steps, ledgers, frames
plain     steps and collectives as JSON values
document  all of it

tour         ten to twelve places of a replay, with what there is to say at each

graphview    the event graph of one iteration as a document of its own
whereabouts  at which step of a replay each of its nodes happens

moments    the moments of a run that runs of any stage have
following  what a run does next, in one line; its texts are `moments.toml`
names      what runs are called beside each other
alignment  two to four runs under one cursor
"""

from zerosim.view.replay.document import MOST_RANKS, replay_document, shown_iterations
from zerosim.view.replay.graphview import graph_document

__all__ = ["MOST_RANKS", "graph_document", "replay_document", "shown_iterations"]
