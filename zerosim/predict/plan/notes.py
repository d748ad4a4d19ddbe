"""What a reader of a plan must know: what its times rest on, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.base.quantities import format_exact
from zerosim.base.tiers import Link
from zerosim.predict.placement.machine import Machine
from zerosim.predict.plan.predict import Predicted
from zerosim.theory.transformer import BLOCK, Operator


def notes_on(predicted: Predicted) -> tuple[str, ...]:
    """Of one layout, in whole sentences."""
    return tuple(_notes(predicted))


def _notes(predicted: Predicted) -> Iterator[str]:
    layout, machine = predicted.layout, predicted.question.machine
    yield from _calibrated(predicted, machine)
    config = layout.config
    for left in getattr(layout.shape, "left_out", ()):
        yield f"The model's configuration says {left}, which nothing here counts."
    if any(block.experts for block in layout.shape.blocks):
        yield "Each expert is taken to get as many tokens as another."
    if config.offloads_optimizer:
        yield (
            "The host's update is timed as the device's: no constant says how fast a host updates, "
            "so it will take longer."
        )
    if config.quantizes:
        yield "Quantized calls are timed as the backend's own of as many bytes."
    if layout.cut.tensor > 1 or layout.pipeline > 1:
        yield (
            "Tensor and pipeline parallel times are formulas that were not held against a dry run "
            "or a measurement."
        )


def _calibrated(predicted: Predicted, machine: Machine) -> Iterator[str]:
    """What of the prediction lies outside of what was fitted."""
    if not machine.fitted:
        yield (
            f"Outside of what was calibrated: no constant of {machine.name} was fitted to a run. "
            "Its times are what data sheets and others' measurements allow, so real steps take "
            "longer; zerosim calibrate fits constants to runs of yours."
        )
        return
    sizes = [one for one in _operators(predicted) if one.flops]
    points = machine.flops_fraction.points
    largest, most = max(one.flops for one in sizes), points[-1][0]
    if largest > 2 * most:
        yield (
            f"Outside of what was calibrated: matrix products of {largest / 1e9:,.3g} GFLOP, "
            f"fitted were those up to {most / 1e9:,.3g} GFLOP."
        )
    size = machine.ranks_per_node or predicted.question.gpus
    if predicted.question.gpus > size and Link.NETWORK not in machine.links:
        yield (
            f"Outside of what was calibrated: {format_exact(predicted.question.gpus)} GPUs on "
            "several nodes; nothing was fitted between nodes."
        )


def _operators(predicted: Predicted) -> tuple[Operator, ...]:
    return predicted.layout.computing.forward(BLOCK)
