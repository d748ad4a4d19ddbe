"""A plan: which layout trains a model fastest on so many GPUs, and what would limit it.

    question        what is asked, and whether it can be
    prices          what each unit of a layout costs on a machine, by the cost model of placement
    schedule        one step of one rank in time, by cause
    predict         all that is predicted of a layout: memory, time, what limits it
    search          every layout that is tried, in order
    strong_scaling  one layout at many numbers of GPUs
    tables          all of this as tables
    written         a layout as DeepSpeed's configuration, PyTorch's calls, a command
    notes           what a prediction rests on, and leaves out

Everything here is predicted.
"""

from zerosim.predict.plan.layout_names import name_of
from zerosim.predict.plan.layouts import FREE, Fixed
from zerosim.predict.plan.notes import notes_on
from zerosim.predict.plan.predict import PredictedLayout, predict
from zerosim.predict.plan.prices import Beliefs, Prices
from zerosim.predict.plan.question import PlanQuestion, ask, parse_tokens
from zerosim.predict.plan.search import LayoutSearch, make_plan

__all__ = [
    "FREE",
    "Beliefs",
    "Fixed",
    "LayoutSearch",
    "PlanQuestion",
    "PredictedLayout",
    "Prices",
    "ask",
    "make_plan",
    "name_of",
    "notes_on",
    "parse_tokens",
    "predict",
]
