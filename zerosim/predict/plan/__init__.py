"""A plan: which layout trains a model fastest on a number of GPUs, and what would limit it.

    question        the inputs of a plan, and their validation
    prices          the cost of each unit of a layout on a machine, by the cost model of placement
    schedule        the time of one step on one rank, by cause
    predict         all predictions for a layout: memory, time, and its limiting factor
    search          all layouts that are tried, in order
    strong_scaling  one layout on different numbers of GPUs
    tables          the results as tables
    written         a layout as a DeepSpeed configuration, as PyTorch calls, as a command
    notes           the basis of a prediction, and its omissions

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
