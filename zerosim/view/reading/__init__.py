"""Reading a run: the interface that every reader of a trace uses.

    run = zerosim.load("traces/demo/stage-3")
    run.traffic(by=("phase", "purpose"), rank=0)

Modules:

    run           `Run` and its figures; `load`
    selection     filters by rank, iteration, phase, purpose, operation and unit
    traffic       calls, copies and the wire as tables
    memory        memory of ranks as tables; moments: the points in time
    time          the critical path and the time budget of each rank as tables
    events        single events as a table
    verification  the comparison of a run with theory
    law           a law given by the user, compared with a run; quantity: its syntax
    prediction    a run predicted under changed conditions
    comparison    runs side by side: each is a measured `side`; differences: in words
    profile       a run as a row among implementations; system: a run as a row among the ZeRO family
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
