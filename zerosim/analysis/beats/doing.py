"""The action of a single step."""

from __future__ import annotations

from zerosim.analysis.beats.beat import Doing, Sign
from zerosim.analysis.frames.step import Step
from zerosim.schema.events import Kind, Phase, Purpose

_OF_PURPOSE = {
    Purpose.GATHER_PARAMETERS: Sign.GATHER,
    Purpose.REDUCE_GRADIENTS: Sign.REDUCE,
    Purpose.GRADIENT_NORM: Sign.AGREE,
    Purpose.OVERFLOW_FLAG: Sign.AGREE,
    Purpose.AVERAGE_LOSS: Sign.AGREE,
    Purpose.SYNCHRONIZE: Sign.AGREE,
    Purpose.METADATA: Sign.AGREE,
    Purpose.ACTIVATIONS: Sign.COMBINE,
    Purpose.SEND_ACTIVATIONS: Sign.SEND,
    Purpose.SEND_GRADIENTS: Sign.SEND,
}


def doing_of(step: Step) -> Doing:
    """The action of a step, and its unit."""
    event = step.event
    unit = "" if event is None else event.unit
    if step.kind is Kind.MARK:
        end = Sign.END if step.is_over else Sign.STAND
        return Doing(end if step.phase is Phase.OUTSIDE else Sign.BEGIN, "")
    if step.kind is Kind.COPY:
        return Doing(Sign.COPY, unit)
    if step.kind is Kind.COMPUTE:
        return Doing(Sign.UPDATE if step.phase is Phase.UPDATE else Sign.COMPUTE, unit)
    purpose = None if event is None else event.purpose
    sign = Sign.EXCHANGE if purpose is None else _OF_PURPOSE.get(purpose, Sign.EXCHANGE)
    return Doing(sign, unit)
