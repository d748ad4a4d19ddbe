"""A replay: one iteration of a trace as the document of the player.

Modules:

    words     the sentences of each step: title, event, reason; the texts are `words.toml`
    ledger    each collective's formula and its three ledgers
    memory    bytes by role over the iteration
    timeline  the activity of each rank over time, and the critical path
    subject   one iteration of a trace, read once: steps, ledgers, frames
    plain     steps and collectives as JSON values
    document  all of it

    tour         ten to twelve steps of a replay, with explanations

    graphview    the event graph of one iteration as a document of its own
    whereabouts  the step of a replay at which each of its nodes happens

    moments    moments of a run that are common to runs of any stage
    following  the next action of a run, in one line; its texts are `moments.toml`
    names      the names of runs side by side
    alignment  two to four runs under one cursor
"""

from zerosim.view.replay.document import MOST_RANKS, replay_document, shown_iterations
from zerosim.view.replay.graphview import graph_document

__all__ = ["MOST_RANKS", "graph_document", "replay_document", "shown_iterations"]
