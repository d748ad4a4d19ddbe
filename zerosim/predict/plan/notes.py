"""What a reader of a plan must know: what its times rest on, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.base.quantities import format_exact
from zerosim.base.tiers import Link
from zerosim.predict.placement.machine import Machine
from zerosim.predict.plan.predict import PredictedLayout
from zerosim.theory.transformer import BLOCK, Operator


def notes_on(predicted: PredictedLayout) -> tuple[str, ...]:
    """Of one layout, in whole sentences."""
    return tuple(_notes(predicted))


def basis_of(predicted: PredictedLayout) -> str:
    """Whose speed a prediction has, how far that was off, and what the machine could do."""
    software, bound = predicted.software, predicted.bound_s
    could = f"the machine could do it in {bound:,.3f} s (--ideal)"
    if software is None:
        if predicted.question.is_ideal:
            return (
                "predicted of software that wastes nothing: no step is faster, and none is as fast"
            )
        return "predicted by the machine's own constants"
    words = f"predicted by what {software.title} was measured to do"
    record = software.record
    if record is not None:
        words += (
            f", within {record.median:.1%} in the median of {_runs(record.runs)} that it was not "
            f"fitted to, {record.most:.0%} at most"
        )
    return f"{words}; {could}"


def _runs(count: int) -> str:
    return "1 published run" if count == 1 else f"{count} published runs"


def _notes(predicted: PredictedLayout) -> Iterator[str]:
    layout, machine = predicted.layout, predicted.question.machine
    yield from _calibrated(predicted, machine)
    config = layout.config
    for left in getattr(layout.shape, "left_out", ()):
        yield f"The model's configuration says {left}, which nothing here counts."
    if any(block.experts for block in layout.shape.blocks):
        yield "Each expert is taken to get as many tokens as another."
    if config.offloads_optimizer and not predicted.prices.machine.host_update_ns:
        yield (
            "The host's update is timed as the device's: no constant says how fast a host updates, "
            "so it will take longer."
        )
    if config.quantizes:
        yield "Quantized calls are timed as the backend's own of as many bytes."
    if config.quantizes or config.offloads or layout.cut.experts > 1 or layout.zero_bubble:
        yield "No published run with these options is among those that it is held against."


def _calibrated(predicted: PredictedLayout, machine: Machine) -> Iterator[str]:
    """What of the prediction lies outside of what was fitted."""
    software = predicted.software
    if software is not None:
        gpu = machine.accelerator or machine.name
        if gpu not in _MEASURED_ON:
            yield f"{software.title} was measured on {_MEASURED_BY[gpu]}, not on {gpu}."
        return
    if not machine.fitted and not machine.software:
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


_MEASURED_ON = ("h100", "a100-80")
_MEASURED_BY = {"h200": "H100", "b200": "H100", "a100-40": "A100-80"}


def _operators(predicted: PredictedLayout) -> tuple[Operator, ...]:
    return predicted.layout.computing.forward(BLOCK)
