"""Reading a run: everything that reads a trace comes through here.

run = zerosim.load("traces/demo/stage-3")
run.traffic(by=("phase", "purpose"), rank=0)

run           `Run` and its figures; `load`
selection     which ranks, iterations, phases, purposes, operations and units count
traffic       calls, copies and the wire as tables
memory        what ranks hold as tables; moments: when
time          the critical path and the ranks' budgets as tables
events        single events as a table
verification  whether theory is true of a run
law           a law that a person types, held against a run; quantity: how it is typed
prediction    what would happen if something were different
comparison    runs side by side: each is a `side`, as it was measured; differences: in words
profile       a run as a row among implementations; system: among the family
player        a replay in a notebook
summary       a run on one screen
"""

from zerosim.schema.manifest import Source
from zerosim.view.reading.comparison import Comparison
from zerosim.view.reading.player import Replay
from zerosim.view.reading.prediction import Prediction
from zerosim.view.reading.run import Run, load
from zerosim.view.reading.verification import LawCheck, TrafficVerification, Verification

__all__ = [
    "Comparison",
    "LawCheck",
    "Prediction",
    "Replay",
    "Run",
    "Source",
    "TrafficVerification",
    "Verification",
    "load",
]
