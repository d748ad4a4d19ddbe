"""What a reader of a plan must know: the basis of its times, and their omissions."""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.base.quantities import format_exact
from zerosim.base.tiers import Link
from zerosim.predict.placement.machine import Machine
from zerosim.predict.plan.predict import PredictedLayout
from zerosim.predict.plan.wording import WORDS
from zerosim.theory.operators import Operator
from zerosim.theory.transformer import BLOCK


def notes_on(predicted: PredictedLayout) -> tuple[str, ...]:
    """The notes on one layout, in whole sentences."""
    return tuple(_notes(predicted))


def basis_of(predicted: PredictedLayout) -> str:
    """The software whose speed a prediction assumes, its past errors, and the machine's bound."""
    software = predicted.software
    if software is None:
        return WORDS("basis.ideal" if predicted.question.is_ideal else "basis.own")
    record, said = software.record, ""
    if record is not None:
        said = WORDS(
            "basis.record",
            median=f"{record.median:.1%}",
            runs=_runs(record.runs),
            most=f"{record.most:.0%}",
        )
    bound = f"{predicted.bound_s:,.3f}"
    return WORDS("basis.software", title=software.title, record=said, bound=bound)


def _runs(count: int) -> str:
    return WORDS("basis.one_run") if count == 1 else WORDS("basis.runs", count=count)


def _notes(predicted: PredictedLayout) -> Iterator[str]:
    layout, machine = predicted.layout, predicted.question.machine
    software = predicted.software
    yield from _calibrated(predicted, machine)
    config = layout.config
    for left in getattr(layout.shape, "left_out", ()):
        yield WORDS("notes.left_out", left=left)
    if any(block.experts for block in layout.shape.blocks):
        yield WORDS("notes.experts")
    if config.offloads_optimizer and not predicted.prices.machine.host_update_ns:
        yield WORDS("notes.host")
    if config.quantizes:
        yield WORDS("notes.quantized")
    if not predicted.is_measured and software is not None:
        yield WORDS("notes.beyond", title=software.title)
    elif config.quantizes or config.offloads or layout.cut.experts > 1 or layout.zero_bubble:
        yield WORDS("notes.unmeasured")


def _calibrated(predicted: PredictedLayout, machine: Machine) -> Iterator[str]:
    """The parts of the prediction that lie outside of the fitted data."""
    software = predicted.software
    if software is not None:
        gpu = machine.accelerator or machine.name
        if gpu not in _MEASURED_ON:
            measured = _MEASURED_BY[gpu]
            yield WORDS("notes.elsewhere", title=software.title, measured=measured, gpu=gpu)
        return
    if not machine.fitted and not machine.software:
        yield WORDS("notes.bound", machine=machine.name)
        return
    sizes = [one for one in _operators(predicted) if one.flops]
    points = machine.flops_fraction.points
    largest, most = max(one.flops for one in sizes), points[-1][0]
    if largest > 2 * most:
        gflops = {"largest": f"{largest / 1e9:,.3g}", "most": f"{most / 1e9:,.3g}"}
        yield WORDS("notes.large", **gflops)
    size = machine.ranks_per_node or predicted.question.gpus
    if predicted.question.gpus > size and Link.NETWORK not in machine.links:
        yield WORDS("notes.nodes", gpus=format_exact(predicted.question.gpus))


_MEASURED_ON = ("h100", "a100-80")
_MEASURED_BY = {"h200": "H100", "b200": "H100", "a100-40": "A100-80"}


def _operators(predicted: PredictedLayout) -> tuple[Operator, ...]:
    return predicted.layout.computing.forward(BLOCK)
